// Names every built-in function by an expression, and gives the hostile values to call it with.
const functions = () => {
  const seen = new Set();
  const found = [];
  const waiting = [];
  const roots = {
    "(function* () {})()": (function* () {})(), "(async function* () {})()": (async function* () {})(),
    "[][Symbol.iterator]()": [][Symbol.iterator](), "''[Symbol.iterator]()": ""[Symbol.iterator](),
    "new Map().entries()": new Map().entries(), "new Set().values()": new Set().values(), "'x'.matchAll(/x/g)": "x".matchAll(/x/g),
    "[].values().map((x) => x)": [].values().map((x) => x), "Iterator.from({ next() {} })": Iterator.from({ next() {} }),
    "Iterator.concat([1])": Iterator.concat([1]), "(async () => {})": async () => {},
  };
  for (const name of Object.keys(roots)) waiting.push([name, roots[name]]);
  const add = (name, value) => {
    if (value === null || (typeof value !== "object" && typeof value !== "function") || seen.has(value)) return;
    seen.add(value);
    waiting.push([name, value]);
    if (typeof value === "function") found.push(name);
  };
  // The realm's globals lie behind what covers them, and members of theirs behind accessors.
  const world = Object.getPrototypeOf(globalThis);
  const realm = Object.getPrototypeOf(world);
  for (const key of Reflect.ownKeys(realm)) if (typeof key === "string") add(key, realm[key]);
  add("Object.getPrototypeOf(globalThis)", world);
  while (waiting.length > 0) {
    const [name, value] = waiting.shift();
    add(`Object.getPrototypeOf(${name})`, Object.getPrototypeOf(value));
    for (const key of Reflect.ownKeys(value)) {
      const part = typeof key === "symbol" ? `[${key.description}]` : /^[a-zA-Z_$][\w$]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
      const property = Object.getOwnPropertyDescriptor(value, key);
      const at = typeof key === "symbol" ? key.description : JSON.stringify(key);
      add(name + part, property.value);
      add(`Object.getOwnPropertyDescriptor(${name}, ${at}).get`, property.get);
      add(`Object.getOwnPropertyDescriptor(${name}, ${at}).set`, property.set);
      try { add(name + part, value[key]); } catch {}
    }
  }
  return found;
};
const values = [
  "'a'.repeat(2e5)", "'ab'.repeat(1e5) + 'é日'", "'['.repeat(1e5)", "new Array(2 ** 32 - 1)", "new Array(3e5).fill(1)", "new Array(2e3).fill('a'.repeat(1e5))",
  "({ length: 2 ** 53 - 1 })", "({ length: 2 ** 33, 0: 1 })", "({ get length() { return 2 ** 40 } })",
  "new Proxy([], { get: (t, k) => (k === 'length' ? 2 ** 53 - 1 : t[k]), has: () => true })",
  "new Uint8Array(2e7)", "new Float64Array(2e6)", "new DataView(new ArrayBuffer(1e7))", "new ArrayBuffer(1e7)",
  "7n ** 23000n", "-(2n ** 65535n)", "2 ** 31 - 1", "2 ** 53 - 1", "Infinity", "-1", "1e9",
  "new Map(Array.from({ length: 2e4 }, (_, i) => [i, i]))", "new Set(Array.from({ length: 2e4 }, (_, i) => i))",
  "({ size: Infinity, has: () => true, keys: () => ({ next: () => ({ done: false, value: 1 }) }) })",
  "/(a*)*$/g", "/(?:)/g", "/a{1,1000}b/y", "new Array(2 ** 32 - 1).values()", "(function* () { for (;;) yield 'a' })()",
  "({ next() { return { done: false, value: 1 } }, [Symbol.iterator]() { return this } })", "() => 1", "(a, b) => 0",
  "new Date()", "undefined", "''", "0", "{ let a = []; for (let i = 0; i < 40; i++) a = [a, a]; return a }",
  "{ let a = []; for (let i = 0; i < 2000; i++) a = [a]; return a }", "Object.fromEntries(Array.from({ length: 2e4 }, (_, i) => ['k' + i, i]))",
  "'a'.repeat(1e5) + 'b'", "new Error('x'.repeat(1e6))", "Promise.resolve()", "'9'.repeat(2e5)", "'%41'.repeat(1e5)",
];
