// Typed arrays, and what else makes numbers of what it is given: the engine converts one item after the other, sorts, and
// writes texts without a look at the clock. Evaluated as a part of the guards.
(function (native, room) {
  "use strict";
  const { look, turn, longTurn, before } = room;
  const { apply, construct, ownKeys } = Reflect;
  const { defineProperty, getOwnPropertyDescriptor, getPrototypeOf } = Object;
  return ({ replace, slow, small, light, patient, standIn }) => {
    const Typed = getPrototypeOf(Uint8Array);
    const typed = Typed.prototype;
    const tag = getOwnPropertyDescriptor(typed, Symbol.toStringTag).get;
    const lengthOf = getOwnPropertyDescriptor(typed, "length").get;
    const { join, set, sort, subarray } = typed;
    const { toLocaleString } = Array.prototype;

    // --- what they are made of --------------------------------------------------------------------------------
    const pause = (item) => {
      if (typeof item === "bigint" || (typeof item === "string" && item.length > 1_000)) look();
      else turn();
    };
    // The engine takes all items first, and then makes numbers of them.
    function* numbers(items) {
      for (const item of items) {
        pause(item);
        yield +item;
      }
    }
    const countable = (items) => {
      if (items === null || (typeof items !== "object" && typeof items !== "function")) return items;
      if (small(items) && light(items)) return items;
      const own = items[Symbol.iterator];
      return own === undefined || own === null ? slow(items) : numbers(items);
    };
    const { isView } = ArrayBuffer;
    const { byteLength } = Object.getOwnPropertyDescriptors(ArrayBuffer.prototype);
    const raw = (value) => {
      if (isView(value)) return true;
      try {
        apply(byteLength.get, value, []);
        return true;
      } catch {
        return false;
      }
    };
    // One block, as big as is asked for; the heap is looked at again soon after.
    for (const name of [
      "ArrayBuffer", "Uint8Array", "Int8Array", "Uint8ClampedArray", "Uint16Array", "Int16Array", "Uint32Array", "Int32Array",
      "Float16Array", "Float32Array", "Float64Array",
    ]) {
      const Native = globalThis[name];
      const { BYTES_PER_ELEMENT = 1 } = Native;
      const Made = {
        [name]: function (...args) {
          if (new.target === undefined) throw new TypeError(`constructor ${name} requires 'new'`);
          turn();
          const [wanted] = args;
          // More than the engine's most is an error of its own.
          if (typeof wanted === "number" && wanted < 2 ** 31) before(wanted, BYTES_PER_ELEMENT);
          else if (typeof wanted === "object" && name !== "ArrayBuffer" && !raw(wanted)) args[0] = countable(wanted);
          return construct(Native, args, new.target);
        },
      }[name];
      defineProperty(Made, "length", { value: Native.length });
      Object.setPrototypeOf(Made, getPrototypeOf(Native));
      standIn(name, Native, Made);
    }
    replace(Typed, "from", (original) => ({
      method(items, ...rest) {
        turn();
        return apply(original, this, [rest[0] === undefined ? countable(items) : patient(items), ...rest]);
      },
    }).method);
    replace(Typed, "of", (original) => ({
      method(...items) {
        turn();
        return apply(original, this, light(items) ? items : [...numbers(items)]);
      },
    }).method);
    replace(typed, "set", (original) => ({
      method(items, ...rest) {
        turn();
        const object = typeof items === "object" && items !== null && !isView(items) && !(small(items) && light(items));
        return apply(original, this, [object ? slow(items) : items, ...rest]);
      },
    }).method);

    // Where one comes of an array (`Symbol.species`, `Array.of`), or takes properties.
    replace(Array, "of", (original) => ({
      method(...items) {
        turn();
        if (this === Array || typeof this !== "function" || light(items)) return apply(original, this, items);
        const made = new this(items.length);
        for (let i = 0; i < items.length; i += 1) {
          pause(items[i]);
          defineProperty(made, i, { value: items[i], writable: true, enumerable: true, configurable: true });
        }
        made.length = items.length;
        return made;
      },
    }).method);
    const { assign } = Object;
    replace(Object, "assign", (original) => ({
      method(target, ...sources) {
        longTurn();
        if (sources.length <= 1 && !isView(target)) return apply(original, this, [target, ...sources]);
        const made = apply(original, this, [target]);
        for (let i = 0; i < sources.length; i += 1) {
          // Each may be large.
          if (i > 1) look();
          if (!isView(made)) {
            apply(original, this, [made, sources[i]]);
            continue;
          }
          const from = assign({}, sources[i]);
          for (const key of ownKeys(from)) {
            pause(from[key]);
            made[key] = from[key];
          }
        }
        return made;
      },
    }).method);
    replace(Object, "defineProperties", (original) => ({
      method(target, properties) {
        longTurn();
        if (!isView(target)) return apply(original, this, [target, properties]);
        const from = assign({}, properties);
        for (const key of ownKeys(from)) {
          look();
          defineProperty(target, key, from[key]);
        }
        return target;
      },
    }).method);
    for (const name of ["BigInt64", "BigUint64", "Float16", "Float32", "Float64", "Int8", "Int16", "Int32", "Uint8", "Uint16", "Uint32"]) {
      replace(DataView.prototype, `set${name}`, (original) => ({
        method(at, value, little) {
          if (typeof value === "string") {
            look();
            if (name.startsWith("Big")) value = BigInt(value);
          }
          return apply(original, this, [at, value, little]);
        },
      }).method);
    }

    // --- what is done with all of one -------------------------------------------------------------------------
    const PART = 100_000;
    // The order of `sort`: -0 before 0, and NaN last.
    const precedes = (a, b) => (a === b ? Object.is(a, -0) || !Object.is(b, -0) : a < b || Number.isNaN(b));
    const merge = (from, into, start, middle, end) => {
      let left = start;
      let right = middle;
      for (let at = start; at < end; at += 1) {
        turn();
        into[at] = right >= end || (left < middle && precedes(from[left], from[right])) ? from[left++] : from[right++];
      }
    };
    for (const name of ["sort", "toSorted"]) {
      replace(typed, name, (original) => ({
        method(order) {
          turn();
          const kind = apply(tag, this, []);
          const length = kind === undefined ? 0 : apply(lengthOf, this, []);
          if (order !== undefined || length <= PART) return apply(original, this, [order]);
          const mine = name === "sort" ? this : new globalThis[kind](this);
          // Long ones are sorted in parts, which are then joined.
          let from = new globalThis[kind](this);
          let into = mine;
          for (let at = 0; at < length; at += PART) {
            look();
            apply(sort, apply(subarray, from, [at, at + PART]), []);
          }
          for (let width = PART; width < length; width *= 2) {
            for (let at = 0; at < length; at += 2 * width) {
              merge(from, into, at, Math.min(at + width, length), Math.min(at + 2 * width, length));
            }
            [from, into] = [into, from];
          }
          if (from !== mine) apply(set, mine, [from]);
          return mine;
        },
      }).method);
    }
    replace(typed, "join", (original) => ({
      method(separator) {
        const length = apply(lengthOf, this, []);
        if (length <= PART) return apply(original, this, [separator]);
        const between = separator === undefined ? "," : `${separator}`;
        let joined = "";
        for (let at = 0; at < length; at += 10_000) {
          look();
          joined += (at === 0 ? "" : between) + apply(join, this.subarray(at, at + 10_000), [between]);
        }
        return joined;
      },
    }).method);
    replace(typed, "toLocaleString", (original) => ({
      method(...args) {
        turn();
        return apply(apply(lengthOf, this, []) > PART ? toLocaleString : original, this, args);
      },
    }).method);

    // --- what takes any number of arguments -------------------------------------------------------------------
    const converting = (convert) => (original) => ({
      method(...args) {
        if (args.length > 100 && !light(args)) {
          for (let i = 0; i < args.length; i += 1) {
            pause(args[i]);
            args[i] = convert(args[i]);
          }
        }
        turn();
        return apply(original, this, args);
      },
    }).method;
    const toNumbers = converting((item) => +item);
    for (const name of ["max", "min", "hypot"]) {
      replace(Math, name, (original) => {
        const all = toNumbers(original);
        return {
          method(a, b) {
            return arguments.length === 2 ? original(a, b) : apply(all, this, arguments);
          },
        }.method;
      });
    }
    replace(String, "fromCharCode", toNumbers);
    replace(String, "fromCodePoint", toNumbers);
    replace(String.prototype, "concat", converting((item) => (typeof item === "string" ? item : `${item}`)));
  };
})
