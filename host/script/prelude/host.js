// What scripts see of the host: bindings, errors, ctx. Evaluated once per engine, frozen by lockdown.js.
// `native` is the door to Rust; it is never handed to a script.
(function (native, room, log) {
  "use strict";
  const { look, turn, isHuge, bounded } = room;
  const { defineProperty, freeze, keys, getPrototypeOf } = Object;
  const hidden = (target, name, value) =>
    defineProperty(target, name, { value, writable: true, enumerable: false, configurable: true });

  let hostFailure, bizFacts, discardFacts;

  // An error of the host's. Its place in Rust's list of failures is what counts when it is thrown on.
  class HostError extends Error {
    #failure;
    constructor(failure, code, message, retryable, details) {
      super(message);
      this.#failure = failure;
      this.code = code;
      this.retryable = retryable;
      this.details = details;
    }
    static {
      hostFailure = (error) => (typeof error === "object" && error !== null && #failure in error ? error.#failure : -1);
    }
  }
  hidden(HostError.prototype, "name", "HostError");
  // Nobody but the host makes these.
  hidden(HostError.prototype, "constructor", Error);

  const failed = () => {
    const [failure, code, message, retryable, details] = native.failed();
    return new HostError(failure, code, message, retryable, details);
  };
  const contract = (message) => {
    native.contract(message);
    return failed();
  };

  class BizError extends Error {
    #name;
    #message;
    #status;
    #details;
    constructor(name, message, options) {
      if (typeof name !== "string" || name.length > 64 || !/^[A-Z][A-Z0-9_]*$/.test(name)) {
        throw contract("BizError: the name must be capitals, digits and _, at most 64, like 'REGION_CLOSED'");
      }
      if (native.reserved(name)) {
        throw contract(`BizError: ${name} is one of the host's own error names; choose another, like 'ORDER_${name}'`);
      }
      if (typeof message !== "string") {
        throw contract("BizError: the message must be a string: new BizError('REGION_CLOSED', 'the region is closed')");
      }
      if (options !== undefined && (typeof options !== "object" || options === null)) {
        throw contract("BizError: the third argument is an object: { status: 409, details: { … } }");
      }
      const { status = 400, details } = options ?? {};
      if (!Number.isInteger(status) || status < 400 || status > 499) {
        throw contract("BizError: status must be a whole number from 400 to 499");
      }
      super(message);
      this.#name = name;
      this.#message = message.toWellFormed();
      this.#status = status;
      this.#details = details;
      hidden(this, "name", name);
      this.code = name;
      this.status = status;
      this.details = details;
    }
    static {
      bizFacts = (error) =>
        typeof error === "object" && error !== null && #name in error
          ? [error.#name, error.#message, error.#status, error.#details]
          : undefined;
    }
  }

  class Discard extends Error {
    #why;
    constructor(why) {
      if (typeof why !== "string") throw contract("Discard: say why: new Discard('no such video')");
      super(why);
      this.#why = why.toWellFormed();
      hidden(this, "name", "Discard");
    }
    static {
      discardFacts = (error) => (typeof error === "object" && error !== null && #why in error ? error.#why : undefined);
    }
  }

  // Both kinds of Result share a prototype on which a forgotten `.data` is caught.
  const resultPrototype = {};
  for (const name of ["created", "record", "affected", "already", "records", "count", "workflowId", "eventId"]) {
    defineProperty(resultPrototype, name, {
      get() {
        throw contract(
          `a Result has no '${name}': check result.ok, then read result.data.${name} (on failure there is result.error)`,
        );
      },
    });
  }
  class Ok {
    constructor(data) {
      this.ok = true;
      this.data = data;
    }
  }
  class Failed {
    constructor(error) {
      this.ok = false;
      this.error = error;
    }
  }
  const resultConstructor = getPrototypeOf({}).constructor;
  for (const kind of [Ok, Failed]) {
    hidden(kind.prototype, "constructor", resultConstructor);
    Object.setPrototypeOf(kind.prototype, resultPrototype);
  }

  const call = (binding, a, b, c) => {
    turn();
    const data = native.call(binding, a, b, c);
    return data === undefined ? new Failed(failed()) : new Ok(data);
  };
  const store = {
    createIfAbsent(table, record, uniqueBy) {
      return call(0, table, record, uniqueBy);
    },
    update(table, where, patch) {
      return call(1, table, where, patch);
    },
    delete(table, where) {
      return call(2, table, where);
    },
    get(table, where) {
      return call(3, table, where);
    },
    list(table, options) {
      return call(4, table, options);
    },
    count(table, where) {
      return call(5, table, where);
    },
  };
  const flow = {
    start(name, bizId, seed) {
      return call(6, name, bizId, seed);
    },
    get(workflowId) {
      return call(7, workflowId);
    },
    cancel(workflowId, reason) {
      return call(8, workflowId, reason);
    },
  };
  const notify = {
    publish(topic, payload, options) {
      return call(9, topic, payload, options);
    },
  };
  const { stableId } = {
    stableId(scope) {
      const id = native.call(10, scope, undefined, undefined);
      if (id === undefined) throw failed();
      return id;
    },
  };

  const { picture, stackOf, isError, classesOf, text, console, begin: beginLog } = log;

  const deepFreeze = (value) => {
    if (typeof value === "object" && value !== null) {
      for (const key of keys(value)) deepFreeze(value[key]);
      freeze(value);
    }
    return value;
  };

  const globals = {
    store,
    flow,
    notify,
    console,
    BizError,
    Discard,
    queueMicrotask(task) {
      if (typeof task !== "function") throw new TypeError("queueMicrotask takes a function");
      Promise.resolve().then(() => void task());
    },
  };
  for (const name of keys(globals)) hidden(globalThis, name, globals[name]);

  const { getTime } = Date.prototype;
  const byteLength = Object.getOwnPropertyDescriptor(getPrototypeOf(Uint8Array.prototype), "byteLength").get;
  const tag = Object.getOwnPropertyDescriptor(getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag).get;
  const { toBase64 } = Uint8Array.prototype;
  const { apply } = Reflect;
  const brands = [
    [Map.prototype, Object.getOwnPropertyDescriptor(Map.prototype, "size").get, "a Map: turn it into an array or an object"],
    [Set.prototype, Object.getOwnPropertyDescriptor(Set.prototype, "size").get, "a Set: turn it into an array"],
    [ArrayBuffer.prototype, Object.getOwnPropertyDescriptor(ArrayBuffer.prototype, "byteLength").get, "an ArrayBuffer: wrap it in a Uint8Array"],
    [DataView.prototype, Object.getOwnPropertyDescriptor(DataView.prototype, "byteLength").get, "a DataView: use a Uint8Array"],
    [RegExp.prototype, Object.getOwnPropertyDescriptor(RegExp.prototype, "flags").get, "a RegExp: use its source"],
    [Promise.prototype, undefined, "a Promise: await it first"],
    [WeakMap.prototype, undefined, "a WeakMap"],
    [WeakSet.prototype, undefined, "a WeakSet"],
  ];
  // What they give does nothing until somebody asks it.
  const generators = [getPrototypeOf(function* () {}), getPrototypeOf(async function* () {})];
  const iterators = [Iterator.prototype, getPrototypeOf(generators[1].prototype)];
  const kindOfArray = (value) => {
    try {
      return apply(tag, value, []);
    } catch {}
  };
  const bytesOf = (value) => {
    if (apply(byteLength, value, []) > native.most()) return ["refused", "too big"];
    try {
      return ["bytes", apply(toBase64, value, [])];
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      return ["refused", "a Uint8Array without its buffer, which was transferred or made smaller: take a copy, bytes.slice(), before that"];
    }
  };
  const boxes = [Number.prototype.valueOf, String.prototype.valueOf, Boolean.prototype.valueOf, BigInt.prototype.valueOf];

  // Garbage that only a full collection frees: when it is gone, the heap went over the collector's threshold.
  const { WeakRef } = globalThis;
  let garbage;
  const litter = () => {
    const ring = {};
    ring.ring = ring;
    garbage = new WeakRef(ring);
  };
  litter();

  const edge = 1n << 63n;

  // What the compiler's ticks call. What `...` goes through item by item passes here, since the engine does not look at
  // the clock meanwhile, and so do the BigInts that operators make.
  function* slowly(items) {
    for (const item of items) {
      turn();
      yield item;
    }
  }
  const { isArray } = Array;
  const characters = (text) => {
    const made = {};
    for (let i = 0; i < text.length; i += 1) {
      turn();
      made[i] = text[i];
    }
    return made;
  };
  const { tick } = {
    tick(items) {
      if (arguments.length === 0) return look();
      // A global that is not there.
      if (arguments.length === 2) throw new ReferenceError(items);
      // An `import(…)` in a package.
      if (arguments.length === 3) return Promise.reject(new TypeError(items));
      // `{ ...text }`, of which the engine copies nothing.
      if (arguments.length === 4) return characters(items);
      if (typeof items === "bigint") return bounded(items);
      turn();
      if (typeof items === "string" ? items.length < 10_000 : !isArray(items) || !native.isPlainArray(items)) return items;
      return items.length < 10_000 ? items : slowly(items);
    },
  };

  // What the `globalThis` of each run inherits from: lockdown has it give the realm's globals, and let them be covered.
  const world = Object.create(globalThis);

  // What Rust calls.
  return freeze({
    world,
    objectPrototype: Object.prototype,
    tools: { failed, contract, hidden },
    // What scripts meet and no global leads to: here so that lockdown finds it.
    met: [HostError.prototype, Ok.prototype, Failed.prototype, stableId],
    fits: (big) => big >= -edge && big < edge,
    decimal: (big) => (isHuge(big) ? undefined : String(big)),
    collected() {
      const gone = garbage.deref() === undefined;
      if (gone) litter();
      return gone;
    },
    // The loader of a plugin's modules: called once per plugin, gives a function that begins a run: it gives the exports
    // of a module. `whole[index]` says that somebody holds the module's namespace object, `global[index]` that it uses
    // `globalThis`, and `still[index]` that no run can change anything of it.
    linker(factories, imports, whole, global, still) {
      const kept = [];
      // What has the ticks of kept modules begin anew.
      const rewind = [];
      return (entry) => {
        for (let i = 0; i < rewind.length; i += 1) rewind[i]();
        if (kept[entry] !== undefined) return kept[entry];
        const spaces = [];
        let ownGlobal;
        const load = (index) => {
          let space = spaces[index] ?? kept[index];
          if (space !== undefined) return space;
          space = { __proto__: null };
          spaces[index] = space;
          if (global[index] && ownGlobal === undefined) {
            // What the run's modules see as `globalThis`: libraries keep things there, and the realm's own is frozen.
            ownGlobal = Object.create(world);
            hidden(ownGlobal, "globalThis", ownGlobal);
          }
          if (whole[index]) defineProperty(space, Symbol.toStringTag, { value: "Module" });
          const slots = imports[index];
          const again = factories[index](
            slots.length === 0 ? undefined : (slot) => load(slots[slot]), space, ownGlobal, tick,
          );
          // Nobody holds the namespace of a module that is kept: that it is frozen as well is for what nobody thought of.
          if (whole[index] || still[index]) freeze(space);
          if (still[index]) {
            kept[index] = space;
            if (again !== undefined) rewind.push(again);
          }
          return space;
        };
        return load(entry);
      };
    },
    // Instantiates the modules and calls the export. A missing export is told by a string.
    start(begin, entry, name, input, facts) {
      beginLog();
      const space = begin(entry);
      const handler = space[name];
      if (typeof handler !== "function") {
        throw contract(
          `the module exports no function '${name}': write 'export function ${name}(input, ctx) { … }'`,
        );
      }
      const ctx = {
        tenantId: facts[0],
        user: deepFreeze(facts[6] ?? null),
        pluginId: facts[1],
        action: facts[2],
        invocationId: facts[3],
        settings: deepFreeze(facts[7] ?? {}),
        now: facts[4],
        stableId,
      };
      if (facts[5] !== undefined) ctx.idempotencyKey = facts[5];
      const result = handler(input, freeze(ctx));
      // A value with `then` counts as a promise, as it does for `await`.
      return typeof result === "object" && result !== null && typeof result.then === "function"
        ? Promise.resolve(result)
        : result;
    },
    exportsOf(begin, entry) {
      const { handle, config } = begin(entry);
      return [typeof handle === "function" && !generators.includes(getPrototypeOf(handle)), config];
    },
    // What an object that is neither plain nor an array is: [kind, payload].
    classify(value) {
      if (Array.isArray(value)) return ["array", ""]; // a proxy of one
      if (value instanceof Date) {
        try {
          return ["date", apply(getTime, value, [])];
        } catch {}
      }
      const name = kindOfArray(value);
      if (name === "Uint8Array") return bytesOf(value);
      if (name !== undefined) return ["refused", `a ${name}: use a Uint8Array or an array of numbers`];
      for (const [prototype, probe, what] of brands) {
        if (probe === undefined) {
          if (value instanceof prototype.constructor) return ["refused", what];
          continue;
        }
        if (value === prototype) continue;
        try {
          apply(probe, value, []);
          if (probe !== brands[4][1] || value instanceof RegExp) return ["refused", what];
        } catch {}
      }
      for (const unbox of boxes) {
        try {
          return ["boxed", apply(unbox, value, [])];
        } catch {}
      }
      if (value instanceof Error) return ["error", ""];
      for (let it = getPrototypeOf(value); it !== null; it = getPrototypeOf(it)) {
        turn();
        if (iterators.includes(it)) return ["refused", "an iterator: turn it into an array, [...it]"];
      }
      return ["instance", ""];
    },
    hostFailure,
    bizFacts,
    discardFacts,
    describe: (value) =>
      isError(value)
        ? [picture(value, 0, 4000).toWellFormed(), stackOf(value).toWellFormed(), classesOf(value).join("\n")]
        : [picture(value, 0, 4000).toWellFormed(), typeof value === "string" ? undefined : "", undefined],
  });
})
