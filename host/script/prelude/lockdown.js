// Closes the realm: no code from strings, nothing that one run could change and the next one see.
// Evaluated once per engine: before the guards, so that its own work is not guarded; gives the function to call last.
(function () {
  "use strict";
  const { defineProperty, getOwnPropertyDescriptor, getPrototypeOf, hasOwn, setPrototypeOf, freeze } = Object;
  const { apply, ownKeys } = Reflect;
  return (hooks) => {
    const remove = (target, name) => {
      if (!delete target[name]) throw new Error(`cannot remove ${String(name)}`);
    };

    // Whatever a newer engine adds stays out until somebody has looked at it.
    const kept = new Set([
      "Object", "Function", "Error", "EvalError", "RangeError", "ReferenceError", "SyntaxError", "TypeError", "URIError",
      "InternalError", "AggregateError", "SuppressedError", "Array", "Iterator", "Number", "Boolean", "String", "Symbol",
      "BigInt", "Math", "Reflect", "Proxy", "Map", "Set", "WeakMap", "WeakSet", "Promise", "RegExp", "JSON", "Date",
      "ArrayBuffer", "Uint8Array", "Int8Array", "Uint8ClampedArray", "Uint16Array", "Int16Array", "Uint32Array",
      "Int32Array", "Float16Array", "Float32Array", "Float64Array", "DataView",
      "DisposableStack", "AsyncDisposableStack", "DOMException",
      "parseInt", "parseFloat", "isNaN", "isFinite", "decodeURI", "decodeURIComponent", "encodeURI",
      "encodeURIComponent", "escape", "unescape", "Infinity", "NaN", "undefined", "globalThis",
      "store", "flow", "notify", "console", "BizError", "Discard", "fetch", "invoke", "secret", "run", "queueMicrotask",
      "URL", "URLSearchParams", "TextEncoder", "TextDecoder", "structuredClone", "atob", "btoa", "crypto",
    ]);
    for (const name of ownKeys(globalThis)) {
      if (typeof name === "string" && !kept.has(name)) remove(globalThis, name);
    }

    // A text that goes into JSON as it is: nothing that the host writes knows of it.
    remove(JSON, "rawJSON");
    remove(JSON, "isRawJSON");

    // Context-wide state behind accessors, and a way to the functions on the stack.
    remove(Error, "prepareStackTrace");
    remove(Error, "stackTraceLimit");
    const { captureStackTrace } = {
      captureStackTrace(target) {
        const { stack } = new Error();
        defineProperty(target, "stack", { value: stack, writable: true, enumerable: false, configurable: true });
      },
    };
    defineProperty(Error, "captureStackTrace", { value: captureStackTrace, writable: true, configurable: true });
    defineProperty(Error, "stackTraceLimit", { get: () => 10, set: () => {}, configurable: true });

    const generator = function* () {};
    const asyncGenerator = async function* () {};
    const asyncFunction = async function () {};
    const functionPrototypes = [Function.prototype, asyncFunction, generator, asyncGenerator].map((f, i) =>
      i === 0 ? f : getPrototypeOf(f),
    );
    const closed = (name, parent, prototype) => {
      const made = {
        [name]: function () {
          throw new TypeError("no code is made from strings here: write the function in the plugin's source");
        },
      }[name];
      defineProperty(made, "prototype", { value: prototype, writable: false });
      if (parent !== null) setPrototypeOf(made, parent);
      defineProperty(prototype, "constructor", { value: made, writable: true, enumerable: false, configurable: true });
      return made;
    };
    const ClosedFunction = closed("Function", null, Function.prototype);
    defineProperty(globalThis, "Function", { value: ClosedFunction });
    closed("AsyncFunction", ClosedFunction, functionPrototypes[1]);
    closed("GeneratorFunction", ClosedFunction, functionPrototypes[2]);
    closed("AsyncGeneratorFunction", ClosedFunction, functionPrototypes[3]);

    // No function is read: the compiler's additions are the host's, and so is the code of built-ins. Libraries look whether one
    // is built in, a class, asynchronous, or a generator.
    const found = new Set();
    const { toString } = Function.prototype;
    const { exec } = RegExp.prototype;
    const { endsWith, slice } = String.prototype;
    const KINDS = /^(?:(class)\b|(async )?(?:function ?)?(\*)?)/;
    const shown = {
      toString() {
        const text = apply(toString, this, []);
        // No code can end so.
        if (apply(endsWith, text, ["[native code]\n}"])) return text;
        const own = !found.has(this);
        const [, kind, asynchronous = "", star = ""] = apply(exec, KINDS, [own ? apply(slice, text, [0, 40]) : ""]);
        const name = getOwnPropertyDescriptor(this, "name")?.value;
        const head = `${kind ?? `${asynchronous}function${star}`} ${typeof name === "string" ? name : ""}`;
        return `${head}${kind === undefined ? "()" : ""} {\n    [${own ? "plugin" : "native"} code]\n}`;
      },
    };
    defineProperty(Function.prototype, "toString", { value: shown.toString, writable: true, configurable: true });

    // A frozen prototype's data property cannot be shadowed by assignment (`this.name = …`, `wrapper.bind = …`): in
    // its place comes an accessor whose setter makes an own property.
    const yielding = (owner, name, { value, enumerable }) => {
      const { get, set } = {
        get() {
          return value;
        },
        set(next) {
          if (this === owner || (typeof this !== "object" && typeof this !== "function") || this === null) {
            throw new TypeError(`cannot assign to '${String(name)}' of a built-in`);
          }
          const own = getOwnPropertyDescriptor(this, name);
          if (own === undefined) {
            defineProperty(this, name, { value: next, writable: true, enumerable: true, configurable: true });
          } else {
            defineProperty(this, name, { value: next });
          }
        },
      };
      defineProperty(owner, name, { get, set, enumerable, configurable: true });
      visit(get);
      visit(set);
      visit(value);
    };
    const isFixed = (property) => property !== undefined && "value" in property && property.configurable;
    const shadowable = (owner, name) => {
      const property = getOwnPropertyDescriptor(owner, name);
      if (isFixed(property)) yielding(owner, name, property);
    };

    // Everything reachable: globals, what syntax alone makes, and the prototypes of iterators and helpers.
    const waiting = [];
    const visit = (value) => {
      if (value !== null && (typeof value === "object" || typeof value === "function") && !found.has(value)) {
        found.add(value);
        waiting.push(value);
      }
    };
    const walk = () => {
      while (waiting.length > 0) {
        const object = waiting.pop();
        visit(getPrototypeOf(object));
        for (const key of ownKeys(object)) {
          const property = getOwnPropertyDescriptor(object, key);
          visit(property.value);
          visit(property.get);
          visit(property.set);
        }
      }
    };
    const probe = (make) => {
      try {
        visit(getPrototypeOf(make()));
      } catch {}
    };
    visit(globalThis);
    visit(hooks);
    for (const prototype of functionPrototypes) visit(prototype);
    const plainIterator = { next: () => ({ done: true }) };
    for (const make of [
      () => generator(), () => asyncGenerator(), () => generator.prototype, () => asyncGenerator.prototype,
      () => [][Symbol.iterator](), () => ""[Symbol.iterator](), () => new Map()[Symbol.iterator](),
      () => new Set()[Symbol.iterator](), () => "".matchAll(/x/g), () => Iterator.from(plainIterator),
      () => [].values().map((x) => x), () => Iterator.concat([]), () => Iterator.zip([[]]),
      () => Iterator.zipKeyed({}), () => new Proxy({}, {}), () => Proxy.revocable({}, {}).revoke,
      () => (function () { return arguments; })(), () => new (class {})(), () => class {}, () => /x/,
      () => Promise.resolve(), () => new ArrayBuffer(0), () => Array.fromAsync([]),
    ]) {
      probe(make);
    }
    walk();

    // What objects inherit from it, and classes from the one that they extend (`Mine.from = …`, `Object.create(Math)`). A
    // getter costs a call of it some 20 ns. What Rust alone uses is no one's to inherit from, and of globals see below.
    const spared = new Set([globalThis, hooks, ...hooks, ...hooks.flatMap((hook) => [hook.tools, hook.met])]);
    for (const object of found) {
      const isClass = typeof object === "function" && object !== Function.prototype;
      if (spared.has(object) || (isClass && !hasOwn(object, "prototype"))) continue;
      for (const key of ownKeys(object)) {
        if (!isClass || typeof getOwnPropertyDescriptor(object, key).value === "function") shadowable(object, key);
      }
    }
    // And with globals (`globalThis.crypto = globalThis.crypto ?? …`), for what a run's modules see as `globalThis`.
    const [{ world }] = hooks;
    for (const name of ownKeys(globalThis)) {
      const property = getOwnPropertyDescriptor(globalThis, name);
      if (isFixed(property)) yielding(world, name, property);
    }
    walk();
    for (const object of found) freeze(object);
  };
})
