// Visits everything that a script can reach. `visit(path, object, fresh)` is called once for each object;
// `fresh` says that this run made it (it hangs on a root that syntax or a call just made).
// A promise that is rejected with nobody waiting would fail the run.
const quiet = (value) => {
  try { Promise.prototype.then.call(value, () => {}, () => {}); } catch {}
  return value;
};
const reach = (visit, ctx, call) => {
  const seen = new Map();
  const waiting = [];
  const add = (path, value, fresh) => {
    quiet(value);
    if (value === null || (typeof value !== "object" && typeof value !== "function")) return;
    if (seen.has(value) || path.length > 300) return;
    seen.set(value, path);
    waiting.push([path, value, fresh]);
  };
  // The run's own global object; what it inherits from is the realm's.
  add("globalThis", Object.getPrototypeOf(globalThis), false);
  add("<global>", globalThis, true);
  add("ctx", ctx, true);
  const made = {
    arrow: () => () => 1, func: () => function () {}, async: () => async () => 1, gen: () => function* () {},
    asyncGen: () => async function* () {}, klass: () => class {}, sub: () => class extends Error {},
    genObject: () => (function* () {})(), asyncGenObject: () => (async function* () {})(),
    args: () => (function () { return arguments; })(1), regexp: () => /x/g, match: () => /x/d.exec("x"),
    template: () => ((strings) => strings)`a${1}b`, promise: () => (async () => 1)(),
    error: () => { try { null.x; } catch (e) { return e; } },
    syntax: () => { try { new RegExp("("); } catch (e) { return e; } },
    range: () => { try { new Array(-1); } catch (e) { return e; } },
    aggregate: () => new AggregateError([]), ok: () => store.get("t", {}), failed: () => store.get("broken", {}),
    hostError: () => store.get("broken", {}).error, biz: () => new BizError("A", "a"), discard: () => new Discard("d"),
    contract: () => { try { fetch(""); } catch (e) { return e; } },
    arrayIterator: () => [][Symbol.iterator](), stringIterator: () => ""[Symbol.iterator](),
    mapIterator: () => new Map().entries(), setIterator: () => new Set().values(),
    matchAll: () => "x".matchAll(/x/g), helper: () => [].values().map((x) => x),
    wrapped: () => Iterator.from({ next() { return { done: true }; } }), concat: () => Iterator.concat([1]),
    zip: () => Iterator.zip([[1]]), zipKeyed: () => Iterator.zipKeyed({ a: [1] }),
    fromAsync: () => Array.fromAsync([]), resolvers: () => Promise.withResolvers(),
    bound: () => function () {}.bind(null), proxy: () => new Proxy({}, {}), revocable: () => Proxy.revocable({}, {}),
    getter: () => Object.getOwnPropertyDescriptor({ get x() { return 1; } }, "x"),
    thrower: () => Object.getOwnPropertyDescriptor((function () { return arguments; })(), "callee"),
    typed: () => new Uint8Array(1), float: () => new Float64Array(1), buffer: () => new ArrayBuffer(1),
    date: () => new Date(), boxed: () => [Object(1), Object("s"), Object(true), Object(1n), Object(Symbol())],
    grouped: () => Object.groupBy([1], String), mapped: () => Map.groupBy([1], String),
    entries: () => Object.entries({ a: 1 }), raw: () => JSON.rawJSON?.("1"), weak: () => [new WeakMap(), new WeakSet()],
    namespace: () => call.namespace, url: () => new URL("http://a/?b=c"), params: () => new URL("http://a/?b=c").searchParams,
    encoder: () => [new TextEncoder(), new TextDecoder(), new TextEncoder().encode("x")], cloned: () => structuredClone({ a: new Date() }),
  };
  for (const name of Object.keys(made)) {
    try { add(`<${name}>`, made[name](), true); } catch {}
  }
  while (waiting.length > 0) {
    const [path, object, fresh] = waiting.pop();
    let keys;
    try {
      // A generator's prototype belongs to its function.
      add(`${path}.[[Prototype]]`, Object.getPrototypeOf(object), /en(?:Object)?>$/.test(path));
      keys = Reflect.ownKeys(object);
    } catch {
      continue; // a revoked proxy
    }
    visit(path, object, fresh);
    for (const key of keys) {
      const name = `${path}.${String(key)}`;
      const property = Object.getOwnPropertyDescriptor(object, key);
      if (property === undefined) continue;
      add(name, property.value, fresh);
      add(`${name}[get]`, property.get, fresh);
      add(`${name}[set]`, property.set, fresh);
      try { add(`${name}[got]`, object[key], fresh); } catch (e) { add(`${name}[threw]`, e, true); }
    }
    if (typeof object === "function" && !fresh) {
      try { add(`${path}()`, object(), true); } catch (e) { add(`${path}[threw]`, e, true); }
      try { add(`new ${path}`, new object(), true); } catch {}
    }
  }
  return seen;
};
