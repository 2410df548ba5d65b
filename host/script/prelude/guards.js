// Built-ins whose loops in C never look at the clock. Loops over what may be endless are made to run script code at
// each turn (which the engine does interrupt); all others look at the clock after every few calls.
// What a program does by operators has ticks of its own (see ticks.rs of the compiler).
(function (native, room, parts, numbers, patterns) {
  "use strict";
  const { look, turn, longTurn, before } = room;
  const { polled, heavy, expand } = parts;
  const { apply, construct, deleteProperty, get, has, ownKeys, set } = Reflect;
  const { defineProperty, getOwnPropertyDescriptor, getPrototypeOf, hasOwn } = Object;
  const { isArray } = Array;
  const { Proxy } = globalThis;

  const known = new Map();
  const replace = (owner, key, make) => {
    const { value: original } = getOwnPropertyDescriptor(owner, key) ?? {};
    if (typeof original !== "function") return;
    let made = known.get(original);
    if (made === undefined) {
      made = make(original);
      defineProperty(made, "name", { value: original.name });
      defineProperty(made, "length", { value: original.length });
      known.set(original, made);
      known.set(made, made);
    }
    defineProperty(owner, key, { value: made });
  };

  // An object seen through a proxy whose traps are script code: loops over it can be interrupted.
  const polling = {
    get: (target, key) => {
      const value = get(target, key);
      // It may become a number.
      if (typeof value === "string" && value.length > 1_000) look();
      else turn();
      return value;
    },
    has: (target, key) => {
      turn();
      return has(target, key);
    },
    set: (target, key, value) => {
      if (typeof value === "string" && value.length > 1_000) look();
      else turn();
      return set(target, key, value);
    },
    deleteProperty: (target, key) => {
      turn();
      return deleteProperty(target, key);
    },
  };
  const slow = (object) => new Proxy(object, polling);
  // Whether what is made of an array by its methods is an array, too (`Symbol.species`).
  const plain = (array) => getPrototypeOf(array) === list && !hasOwn(array, "constructor");
  const small = (value) => native.isPlainArray(value) && value.length <= 100_000 && plain(value);
  // Whether all of it is converted and compared in no time: neither BigInts nor long texts.
  const light = (items) => {
    for (let i = 0; i < items.length; i += 1) {
      const item = items[i];
      if (typeof item === "bigint" || (typeof item === "string" && item.length > 1_000)) return false;
    }
    return true;
  };
  function* each(items) {
    for (const item of items) {
      turn();
      yield item;
    }
  }

  // --- arrays -------------------------------------------------------------------------------------------------
  const list = Array.prototype;
  const { slice } = list;
  // `easy` says whether what the method does with the items of a small array takes no time.
  const generic = (easy) => (original) => ({
    method(...args) {
      if (small(this) && easy(this, args)) {
        turn();
        before(this.length, 64);
        return apply(original, this, args);
      }
      if (this === undefined || this === null) return apply(original, this, args);
      const seen = slow(Object(this));
      const result = apply(original, seen, args);
      return result === seen ? this : result;
    },
  }).method;
  const moving = generic(() => true);
  for (const name of [
    "toLocaleString", "reverse", "fill", "copyWithin", "slice", "splice", "shift", "unshift", "with", "toSpliced", "toReversed",
  ]) {
    replace(list, name, moving);
  }
  replace(list, "join", generic(light));
  const comparing = generic((items, [sought]) => typeof sought !== "string" || sought.length <= 1_000);
  for (const name of ["lastIndexOf", "indexOf", "includes"]) replace(list, name, comparing);
  for (const name of ["map", "filter"]) {
    replace(list, name, (original) => ({
      method(made, that) {
        turn();
        if (plain(this) || typeof made !== "function" || !isArray(this)) return apply(original, this, [made, that]);
        return apply(original, slow(this), [(item, index) => apply(made, that, [item, index, this])]);
      },
    }).method);
  }
  const byText = (a, b) => {
    const x = `${a}`;
    const y = `${b}`;
    turn();
    return x < y ? -1 : x > y ? 1 : 0;
  };
  for (const name of ["sort", "toSorted"]) {
    replace(list, name, (original) => {
      const safe = moving(original);
      return {
        method(order, ...rest) {
          return apply(safe, this, [order === undefined ? byText : order, ...rest]);
        },
      }.method;
    });
  }
  replace(list, "concat", (original) => {
    const part = (item) => {
      if (small(item) || item === null || (typeof item !== "object" && typeof item !== "function")) return item;
      const spread = item[Symbol.isConcatSpreadable];
      return (spread === undefined ? isArray(item) : spread) ? slow(item) : [item];
    };
    return {
      method(...items) {
        turn();
        let size = 0;
        for (let i = 0; i < items.length; i += 1) {
          items[i] = part(items[i]);
          if (isArray(items[i])) size += native.isPlainArray(items[i]) ? items[i].length : 0;
        }
        before(size, 16);
        if (this === undefined || this === null || small(this)) return apply(original, this, items);
        const object = Object(this);
        const seen = slow(object);
        const made = apply(original, seen, items);
        // What is not spread is an item itself.
        if (made[0] === seen) defineProperty(made, 0, { value: object });
        return made;
      },
    }.method;
  });
  const flatten = (into, from, depth) => {
    const length = Math.min(Math.max(Math.trunc(from.length) || 0, 0), Number.MAX_SAFE_INTEGER);
    for (let i = 0; i < length; i += 1) {
      turn();
      if (!(i in from)) continue;
      const item = from[i];
      if (depth > 0 && isArray(item)) flatten(into, item, depth - 1);
      else defineProperty(into, into.length, { value: item, writable: true, enumerable: true, configurable: true });
    }
    return into;
  };
  const emptyOf = (object) => apply(slice, small(object) ? object : slow(object), [0, 0]);
  replace(list, "flat", () => ({
    method(depth = 1) {
      if (this === undefined || this === null) throw new TypeError("cannot convert undefined or null to object");
      const object = Object(this);
      return flatten(emptyOf(object), object, Math.trunc(Number(depth)) || 0);
    },
  }).method);
  replace(list, "flatMap", () => ({
    method(mapper, that) {
      if (this === undefined || this === null) throw new TypeError("cannot convert undefined or null to object");
      if (typeof mapper !== "function") throw new TypeError("not a function");
      const object = Object(this);
      const into = emptyOf(object);
      const length = Math.min(Math.max(Math.trunc(object.length) || 0, 0), Number.MAX_SAFE_INTEGER);
      for (let i = 0; i < length; i += 1) {
        turn();
        if (i in object) flatten(into, [apply(mapper, that, [object[i], i, object])], 1);
      }
      return into;
    },
  }).method);

  // --- text ---------------------------------------------------------------------------------------------------
  const text = String.prototype;
  const { indexOf, lastIndexOf, slice: cut } = text;
  // What a search may cost in one go, in comparisons of single characters.
  const once = 10_000_000;
  const hard = (whole, part) => whole.length * part.length > once;
  const stepOf = (part) => Math.min(1_000_000, Math.max(1, Math.trunc(once / part.length)));
  const find = (whole, part, from) => {
    if (!hard(whole, part)) return apply(indexOf, whole, [part, from]);
    const step = stepOf(part);
    for (let at = Math.max(from, 0); at + part.length <= whole.length; at += step) {
      look();
      const hit = apply(indexOf, apply(cut, whole, [at, at + step + part.length - 1]), [part]);
      if (hit >= 0) return at + hit;
    }
    return -1;
  };
  const findLast = (whole, part, from) => {
    const step = stepOf(part);
    for (let end = Math.min(from, whole.length - part.length); end >= 0; end -= step) {
      look();
      const start = Math.max(0, end - step + 1);
      const hit = apply(lastIndexOf, apply(cut, whole, [start, end + part.length]), [part]);
      if (hit >= 0) return start + hit;
    }
    return -1;
  };
  const whole = (value) => (typeof value === "string" ? value : `${value}`);
  const integer = (value, missing) => {
    const number = Math.trunc(Number(value));
    return Number.isNaN(number) ? missing : number;
  };
  // `hook`: with a method of that name the argument does the work itself (a RegExp).
  const searching = (hook, easy, difficult) => (original) => ({
    method(part, ...rest) {
      if (this === undefined || this === null) return apply(original, this, [part]);
      const object = (typeof part === "object" || typeof part === "function") && part !== null;
      if (object && hook !== undefined && part[hook] !== undefined && part[hook] !== null) {
        turn();
        return apply(original, this, [part, ...rest]);
      }
      const inside = whole(this);
      const sought = part === undefined && easy ? part : whole(part);
      turn();
      const replacing = hook === Symbol.replace && typeof rest[0] !== "function";
      if (replacing) rest[0] = whole(rest[0]);
      const parts = replacing ? heavy(inside, rest[0]) : hook === Symbol.split && inside.length > 100_000;
      if (sought === undefined || !(parts || hard(inside, sought))) return apply(original, inside, [sought, ...rest]);
      return difficult(inside, sought, ...rest);
    },
  }).method;
  const substitute = (inside, sought, by, hits) => {
    let made = "";
    let from = 0;
    for (const hit of hits) {
      turn();
      made += inside.slice(from, hit);
      made += typeof by === "function" ? whole(by(sought, hit, inside)) : expand(by, sought, hit, inside, [], undefined);
      from = hit + sought.length;
    }
    return made + inside.slice(from);
  };
  const allHits = function* (inside, sought) {
    const step = Math.max(1, sought.length);
    for (let at = find(inside, sought, 0); at >= 0; at = at + step > inside.length ? -1 : find(inside, sought, at + step)) yield at;
  };
  const firstHit = function* (inside, sought) {
    const at = find(inside, sought, 0);
    if (at >= 0) yield at;
  };
  replace(text, "indexOf", searching(undefined, false, (inside, sought, from) => find(inside, sought, integer(from, 0))));
  replace(text, "lastIndexOf", searching(undefined, false, (inside, sought, from) => findLast(inside, sought, integer(from, Infinity))));
  replace(text, "includes", searching(Symbol.match, false, (inside, sought, from) => find(inside, sought, integer(from, 0)) >= 0));
  replace(text, "replace", searching(Symbol.replace, false, (inside, sought, by) => substitute(inside, sought, by, firstHit(inside, sought))));
  replace(text, "replaceAll", searching(Symbol.replace, false, (inside, sought, by) => substitute(inside, sought, by, allHits(inside, sought))));
  replace(text, "split", searching(Symbol.split, true, (inside, sought, limit) => {
    const most = limit === undefined ? 2 ** 32 - 1 : limit >>> 0;
    const parts = [];
    if (sought === "") {
      for (let at = 0; at < inside.length && at < most; at += 1) {
        turn();
        parts.push(inside[at]);
      }
      return parts;
    }
    let from = 0;
    for (const hit of allHits(inside, sought)) {
      if (parts.length >= most) return parts;
      turn();
      parts.push(inside.slice(from, hit));
      from = hit + sought.length;
    }
    if (parts.length < most) parts.push(inside.slice(from));
    return parts;
  }));

  // What these make is as long as they are told.
  for (const name of ["repeat", "padStart", "padEnd"]) {
    replace(text, name, (original) => ({
      method(count, filler) {
        const inside = this === undefined || this === null ? this : whole(this);
        const times = Number(count);
        turn();
        before(name === "repeat" ? times * (inside?.length ?? 0) : times, 1);
        return filler === undefined ? apply(original, inside, [times]) : apply(original, inside, [times, filler]);
      },
    }).method);
  }
  const escaped = (half) => `\\u${half.charCodeAt(0).toString(16)}`;
  replace(JSON, "parse", (original) => ({
    method(source, ...rest) {
      const inside = whole(source);
      turn();
      if (inside.length >= 16_000) {
        // Half of a surrogate pair means the same as an escape.
        const sound = inside.isWellFormed() ? inside : inside.replace(/\p{Surrogate}/gu, escaped);
        const [weight, refused] = native.weighed(sound);
        if (refused !== undefined) throw new RangeError(refused);
        if (inside.length > 50_000) before(weight, 1);
      }
      return apply(original, this, [inside, ...rest]);
    },
  }).method);

  replace(String, "raw", () => ({
    method(template, ...inserted) {
      if (template === undefined || template === null) throw new TypeError("cannot convert undefined or null to object");
      const { raw } = template;
      const length = Math.trunc(raw.length) || 0;
      let made = "";
      for (let i = 0; i < length; i += 1) {
        turn();
        made += `${raw[i]}`;
        if (i + 1 < length && i < inserted.length) made += `${inserted[i]}`;
      }
      return made;
    },
  }).method);

  // --- collections and iterators ------------------------------------------------------------------------------
  const standIn = (name, Native, Made) => {
    for (const key of ownKeys(Native)) {
      const property = getOwnPropertyDescriptor(Native, key);
      if (getOwnPropertyDescriptor(Made, key)?.configurable !== false) defineProperty(Made, key, property);
    }
    defineProperty(Made, "prototype", { value: Native.prototype, writable: false });
    defineProperty(Native.prototype, "constructor", { value: Made });
    defineProperty(globalThis, name, { value: Made });
  };
  for (const [name, adder] of [["Set", "add"], ["WeakSet", "add"], ["Map", "set"], ["WeakMap", "set"]]) {
    const Native = globalThis[name];
    const pairs = adder === "set";
    const Made = {
      [name]: function (items) {
        if (new.target === undefined) throw new TypeError(`constructor ${name} requires 'new'`);
        const made = construct(Native, [], new.target);
        if (items === undefined || items === null) return made;
        const add = made[adder];
        if (typeof add !== "function") throw new TypeError(`${adder} is not a function`);
        for (const item of items) {
          turn();
          if (!pairs) {
            apply(add, made, [item]);
          } else if (item === null || (typeof item !== "object" && typeof item !== "function")) {
            throw new TypeError("not an object");
          } else {
            apply(add, made, [item[0], item[1]]);
          }
        }
        return made;
      },
    }[name];
    standIn(name, Native, Made);
  }
  // What is gone through item by item, in a way that can be interrupted.
  const patient = (items) => {
    if (items === null || (typeof items !== "object" && typeof items !== "function")) {
      return typeof items === "string" && items.length > 10_000 ? each(items) : items;
    }
    if (native.isPlainArray(items)) return small(items) ? items : each(items);
    const own = items[Symbol.iterator];
    return own === undefined || own === null ? slow(items) : each(items);
  };
  numbers({ replace, slow, small, light, patient, standIn });
  patterns({ replace, standIn, whole });
  for (const name of ["union", "intersection", "difference", "symmetricDifference", "isSubsetOf", "isSupersetOf", "isDisjointFrom"]) {
    replace(Set.prototype, name, (original) => ({
      method(other) {
        if (typeof other !== "object" && typeof other !== "function") return apply(original, this, [other]);
        if (other === null) return apply(original, this, [other]);
        const { size, has: holds, keys } = other;
        return apply(original, this, [{
          size,
          has: typeof holds === "function" ? (value) => apply(holds, other, [value]) : holds,
          keys: typeof keys === "function" ? () => polled(apply(keys, other, [])) : keys,
        }]);
      },
    }).method);
  }
  replace(Array, "from", (original) => ({
    method(items, ...rest) {
      turn();
      return apply(original, this, [patient(items), ...rest]);
    },
  }).method);
  replace(Object, "fromEntries", (original) => ({
    method(items) {
      const few = native.isPlainArray(items) && items.length <= 10;
      return apply(original, this, [few || items === undefined || items === null ? items : each(items)]);
    },
  }).method);
  for (const owner of [Object, Map]) {
    replace(owner, "groupBy", (original) => ({
      method(items, name) {
        return apply(original, this, [items === undefined || items === null ? items : each(items), name]);
      },
    }).method);
  }
  replace(Math, "sumPrecise", (original) => ({
    method(items) {
      return apply(original, this, [small(items) || items === undefined || items === null ? items : each(items)]);
    },
  }).method);
  // Shared parts make a text far longer than the value: a replacer is script code, and runs for each part.
  const asItIs = (key, value) => {
    turn();
    return value;
  };
  const onlyNamed = (holder, key, names, order, open) => {
    let value = holder[key];
    if (typeof value === "object" && value !== null && typeof value.toJSON === "function") value = value.toJSON(key);
    if (typeof value !== "object" || value === null) return value;
    if (open.includes(value)) throw new TypeError("circular reference");
    const inside = [...open, value];
    if (isArray(value)) {
      const items = [];
      for (let i = 0; i < value.length; i += 1) {
        turn();
        items.push(onlyNamed(value, String(i), names, order, inside));
      }
      return items;
    }
    if (value instanceof Number || value instanceof String || value instanceof Boolean) return value;
    const made = { __proto__: null };
    for (const name of names) {
      const item = onlyNamed(value, name, names, order, inside);
      // What is called `toJSON` has been asked.
      if (typeof item !== "function") made[name] = item;
    }
    return order === undefined ? made : new Proxy(made, order);
  };
  replace(JSON, "stringify", (original) => ({
    method(value, replacer, space) {
      if (isArray(replacer)) {
        const sought = new Set();
        for (let i = 0; i < replacer.length; i += 1) {
          const name = replacer[i];
          if (typeof name === "string" || typeof name === "number" || name instanceof String || name instanceof Number) {
            sought.add(`${name}`);
          }
        }
        const names = [...sought];
        // Whole numbers come first in an object, wherever they were put.
        const mixed = names.some((name) => name === `${name >>> 0}`);
        if (mixed && names.length > 16_384) {
          throw new RangeError("JSON.stringify takes at most 16384 names here where one is a whole number: pick them by a function");
        }
        const order = mixed ? { ownKeys: (made) => names.filter((name) => hasOwn(made, name)) } : undefined;
        value = onlyNamed({ "": value }, "", names, order, []);
      }
      turn();
      return apply(original, this, [value, typeof replacer === "function" ? replacer : asItIs, space]);
    },
  }).method);

  // --- all others: a look at the clock after every few calls ---------------------------------------------------
  // Bytes that a built-in makes for each character that it is given; two for all others.
  const dear = {
    normalize: 24, toUpperCase: 3, toLowerCase: 3, encodeURI: 9, encodeURIComponent: 9, escape: 6, match: 48,
    matchAll: 48, keys: 64, values: 64, entries: 192, getOwnPropertyNames: 64, ownKeys: 64, getOwnPropertyDescriptors: 256,
    assign: 64, fromHex: 1, fromBase64: 1, toHex: 4, toBase64: 4,
  };
  // These go through all properties of an object.
  const all = new Set(["freeze", "seal", "isFrozen", "isSealed"]);
  const sizeOf = (value) => (typeof value === "string" ? value.length : isArray(value) && native.isPlainArray(value) ? value.length : 0);
  const watched = (original) => {
    const bytes = dear[original.name] ?? 2;
    const spend = hasOwn(dear, original.name) || all.has(original.name) ? longTurn : turn;
    return {
      method(...args) {
        spend();
        const size = typeof this === "string" ? this.length : args.length === 0 ? 0 : sizeOf(args[0]);
        if (size >= 10_000) before(size, bytes);
        return apply(original, this, args);
      },
    }.method;
  };
  const instant = new Set([
    "constructor", "at", "charAt", "charCodeAt", "codePointAt", "valueOf", "next", "return", "throw", "push", "pop", "is",
    "getPrototypeOf", "hasOwn", "isArray", "has", "get", "add", "delete", "apply", "call", "then", "catch", "finally", "now", "random",
  ]);
  const typed = getPrototypeOf(Uint8Array.prototype);
  for (const owner of [
    list, text, typed, Uint8Array.prototype, ArrayBuffer.prototype, Object, Reflect, JSON, RegExp.prototype, RegExp,
    Array, String, Uint8Array, getPrototypeOf(Uint8Array), BigInt.prototype, BigInt, Iterator.prototype, Iterator, Promise,
    Function.prototype, Symbol, Map,
  ]) {
    for (const key of ownKeys(owner)) {
      const original = getOwnPropertyDescriptor(owner, key).value;
      const helper = typeof key === "symbol" && owner !== RegExp.prototype;
      if (typeof original === "function" && !helper && !instant.has(key) && getOwnPropertyDescriptor(original, "prototype") === undefined) {
        replace(owner, key, watched);
      }
    }
  }
  for (const name of ["encodeURI", "encodeURIComponent", "decodeURI", "decodeURIComponent", "escape", "unescape", "parseInt", "parseFloat"]) {
    replace(globalThis, name, watched);
  }
  Number.parseInt = globalThis.parseInt;
  Number.parseFloat = globalThis.parseFloat;
})
