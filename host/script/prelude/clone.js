// structuredClone: what it copies, and what it refuses, as in browsers and Node.
(function (native, room) {
  "use strict";
  const { turn, before } = room;
  const { apply } = Reflect;
  const { defineProperty, getOwnPropertyDescriptor, getPrototypeOf, hasOwn, keys } = Object;
  const { isArray } = Array;
  const { isView } = ArrayBuffer;
  const hidden = (target, name, value) =>
    defineProperty(target, name, { value, writable: true, enumerable: false, configurable: true });
  const put = (target, key, value) =>
    defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
  const getter = (prototype, name) => getOwnPropertyDescriptor(prototype, name).get;
  const refuse = (what) => {
    throw new DOMException(`${what} could not be cloned`, "DataCloneError");
  };

  const Typed = getPrototypeOf(Uint8Array.prototype);
  const tag = getter(Typed, Symbol.toStringTag);
  const [typedBuffer, typedOffset, typedLength] = ["buffer", "byteOffset", "length"].map((name) => getter(Typed, name));
  const [viewBuffer, viewOffset, viewLength] = ["buffer", "byteOffset", "byteLength"].map((name) => getter(DataView.prototype, name));
  const [bytes, most, resizable, detached] = ["byteLength", "maxByteLength", "resizable", "detached"].map((name) =>
    getter(ArrayBuffer.prototype, name),
  );
  const { slice, transfer } = ArrayBuffer.prototype;
  const [nameOf, messageOf] = ["name", "message"].map((name) => getter(DOMException.prototype, name));
  const { isError } = Error;
  const text = (object) => String(object[Symbol.toStringTag]).slice(0, 100);
  const { getTime } = Date.prototype;
  const { entries, set: setEntry } = Map.prototype;
  const { add: addItem, values } = Set.prototype;
  const sourceOf = getter(RegExp.prototype, "source");

  const cloneBuffer = (buffer) => {
    if (apply(detached, buffer, [])) refuse("an ArrayBuffer that was transferred");
    const size = apply(bytes, buffer, []);
    before(size, 1);
    if (!apply(resizable, buffer, [])) return apply(slice, buffer, [0]);
    const made = new ArrayBuffer(size, { maxByteLength: apply(most, buffer, []) });
    new Uint8Array(made).set(new Uint8Array(buffer, 0, size));
    return made;
  };
  const natives = [EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError];
  const cloneError = (error) => {
    const named = error.name;
    const Kind = natives.find(({ name }) => name === named) ?? Error;
    const message = getOwnPropertyDescriptor(error, "message");
    const made = message !== undefined && "value" in message ? new Kind(`${message.value}`) : new Kind();
    hidden(made, "stack", `${error.stack}`);
    return made;
  };
  const all = (iterator) => {
    const items = [];
    for (const item of iterator) {
      turn();
      items.push(item);
    }
    return items;
  };

  // A class, what takes its objects only, how one is made again, and how what it holds is put into that.
  const kinds = [
    [Date, getTime, (date) => new Date(apply(getTime, date, []))],
    [Map, entries, () => new Map(), (map, made, copy) => {
      for (const [key, value] of all(apply(entries, map, []))) apply(setEntry, made, [copy(key), copy(value)]);
    }],
    [Set, values, () => new Set(), (set, made, copy) => {
      for (const item of all(apply(values, set, []))) apply(addItem, made, [copy(item)]);
    }],
    [ArrayBuffer, bytes, cloneBuffer],
    [DataView, viewBuffer, (view, copy) =>
      new DataView(copy(apply(viewBuffer, view, [])), apply(viewOffset, view, []), apply(viewLength, view, []))],
    [RegExp, sourceOf, (pattern) => new RegExp(pattern)],
    [DOMException, nameOf, (error) => new DOMException(apply(messageOf, error, []), apply(nameOf, error, []))],
    [Error, { probe() { if (!isError(this)) throw new TypeError("no error"); } }.probe, cloneError, (error, made, copy) => {
      if (hasOwn(error, "cause")) hidden(made, "cause", copy(error.cause));
    }],
  ];
  for (const Box of [Number, String, Boolean, BigInt]) {
    const { valueOf } = Box.prototype;
    kinds.push([Box, valueOf, (box) => Object(apply(valueOf, box, []))]);
  }
  const kindOf = (object) => {
    for (let i = 0; i < kinds.length; i += 1) {
      if (object instanceof kinds[i][0]) {
        try {
          apply(kinds[i][1], object, []);
          return kinds[i];
        } catch {}
      }
    }
  };
  const { isPrototypeOf } = Object.prototype;
  const AsyncIterator = getPrototypeOf(getPrototypeOf((async function* () {}).prototype));
  const refused = [Promise, WeakMap, WeakSet, Symbol, Iterator].map(({ prototype }) => prototype).concat(AsyncIterator);

  const fill = (object, made, copy) => {
    for (const key of keys(object)) {
      if (hasOwn(object, key)) put(made, key, copy(object[key]));
    }
  };
  // What it is made of is put in later, so that no value is too deep.
  const begun = (object, copy) => {
    if (native.isProxy(object)) refuse("a Proxy");
    if (isArray(object)) {
      const made = [];
      made.length = object.length;
      // A longer one has holes.
      if (object.length < 10_000_000) before(object.length, 64);
      return [made, fill];
    }
    if (getPrototypeOf(object) === Object.prototype) return [{}, fill];
    if (isView(object)) {
      const name = apply(tag, object, []);
      if (name !== undefined) {
        const buffer = copy(apply(typedBuffer, object, []));
        return [new globalThis[name](buffer, apply(typedOffset, object, []), apply(typedLength, object, []))];
      }
    }
    const kind = kindOf(object);
    if (kind !== undefined) return [kind[2](object, copy), kind[3]];
    if (refused.some((prototype) => apply(isPrototypeOf, prototype, [object]))) refuse(`this ${text(object)}`);
    return [{}, fill];
  };
  const cloned = (value) => {
    const seen = new Map();
    const open = [];
    const copy = (value) => {
      turn();
      if (typeof value === "function") refuse(`the function '${String(value.name).slice(0, 100)}'`);
      if (typeof value === "symbol") refuse(String(value));
      if (typeof value !== "object" || value === null) return value;
      const known = seen.get(value);
      if (known !== undefined) return known;
      const [made, filled] = begun(value, copy);
      seen.set(value, made);
      if (filled !== undefined) open.push([value, made, filled]);
      return made;
    };
    const made = copy(value);
    for (let i = 0; i < open.length; i += 1) {
      const [object, into, filled] = open[i];
      filled(object, into, copy);
    }
    return made;
  };

  const transferred = (options) => {
    if (options === undefined || options === null) return [];
    if (typeof options !== "object") throw new TypeError("structuredClone takes options as an object: { transfer: [buffer] }");
    const { transfer: given } = options;
    if (given === undefined) return [];
    if (given === null || typeof given !== "object") throw new TypeError("structuredClone: transfer is an array of ArrayBuffers");
    const buffers = new Set();
    for (const buffer of given) {
      turn();
      if (typeof buffer !== "object") throw new TypeError("structuredClone: transfer holds ArrayBuffers");
      let gone = true;
      try {
        gone = apply(detached, buffer, []);
      } catch {
        refuse("what is to be transferred is no ArrayBuffer, and");
      }
      if (gone || buffers.has(buffer)) refuse("an ArrayBuffer that was transferred before");
      buffers.add(buffer);
    }
    return [...buffers];
  };
  const { structuredClone } = {
    structuredClone(value, options) {
      if (arguments.length === 0) throw new TypeError("structuredClone takes what is to be cloned");
      const buffers = transferred(options);
      const made = cloned(value);
      // There is no other thread: what is transferred was copied, and is taken away from the original.
      for (let i = 0; i < buffers.length; i += 1) apply(transfer, buffers[i], [0]);
      return made;
    },
  };
  hidden(globalThis, "structuredClone", structuredClone);
})
