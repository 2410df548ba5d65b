// What only the scripts of flow steps have: run, fetch, invoke and secret. In any other run they say so.
(function (native, tools) {
  "use strict";
  const { defineProperty, freeze, keys } = Object;
  const { failed, contract, hidden } = tools;

  // The step of the present run; undefined where there is none.
  let step;
  let aborted = false;
  let reason;
  // What was begun outside and has not ended: number → how its promise is settled.
  let open = new Map();

  const only = (name) => {
    if (step === undefined) {
      throw contract(`${name} is not there in a handler, which is one transaction: move it to a flow step`);
    }
  };

  const begin = (what, a, b, c, d) =>
    new Promise((resolve, reject) => {
      if (aborted) return reject(reason);
      const number = native.begin(what, a, b, c, d);
      if (number === undefined) return reject(failed());
      open.set(number, [resolve, reject]);
    });

  const signal = freeze({
    get aborted() {
      return aborted;
    },
    get reason() {
      return reason;
    },
    throwIfAborted() {
      if (aborted) throw reason;
    },
  });

  const run = {};
  for (const name of ["workflowId", "stepId", "idempotencyKey", "scopedKey", "attempt", "signal"]) {
    defineProperty(run, name, {
      enumerable: true,
      get() {
        if (step === undefined) {
          throw contract(`run.${name} is there only in the scripts of flow steps: move it to a flow step`);
        }
        return name === "signal" ? signal : step[name];
      },
    });
  }

  // --- fetch --------------------------------------------------------------------------------------------------
  const OPTIONS = ["method", "headers", "body", "signal", "redirect"];
  class Headers {
    #pairs;
    constructor(pairs) {
      this.#pairs = pairs;
    }
    get(name) {
      const wanted = `${name}`.toLowerCase();
      const found = this.#pairs.filter(([known]) => known === wanted).map(([, value]) => value);
      return found.length === 0 ? null : found.join(", ");
    }
    has(name) {
      return this.get(name) !== null;
    }
    *entries() {
      for (const [name, value] of this.#pairs) yield [name, value];
    }
    [Symbol.iterator]() {
      return this.entries();
    }
  }
  class Response {
    #body;
    constructor(status, url, headers, body) {
      this.ok = status >= 200 && status <= 299;
      this.status = status;
      this.url = url;
      this.headers = headers;
      this.#body = body;
      freeze(this);
    }
    async bytes() {
      return this.#body.slice();
    }
    async arrayBuffer() {
      return this.#body.slice().buffer;
    }
    async text() {
      return new TextDecoder().decode(this.#body);
    }
    async json() {
      return JSON.parse(await this.text());
    }
  }
  const pairsOf = (headers) => {
    if (headers === undefined) return [];
    if (typeof headers !== "object" || headers === null) {
      throw contract("fetch: headers is an object, { 'content-type': 'application/json' }");
    }
    const pairs = typeof headers[Symbol.iterator] === "function" ? [...headers] : keys(headers).map((name) => [name, headers[name]]);
    return pairs.map(([name, value]) => [`${name}`, `${value}`]);
  };
  const outside = {
    async fetch(url, options = {}) {
      const unknown = keys(options).find((name) => !OPTIONS.includes(name));
      if (unknown !== undefined) {
        throw contract(`fetch takes no option '${unknown}': there are ${OPTIONS.join(", ")}; a step's time limit is its timeout`);
      }
      const { method = "GET", headers, body, redirect = "follow" } = options;
      options.signal?.throwIfAborted();
      const [status, at, pairs, bytes] = await begin(0, `${url}`, `${method}`, pairsOf(headers), [body, redirect]);
      return new Response(status, at, new Headers(pairs), bytes);
    },
    async invoke(ctx, plugin, action, input, options) {
      if (typeof ctx !== "object" || ctx === null || typeof plugin !== "string" || typeof action !== "string") {
        throw contract("invoke takes ctx and two names: invoke(ctx, 'orders', 'orders.pay', input, { idempotencyKey })");
      }
      return begin(1, plugin, action, input, options?.idempotencyKey);
    },
  };
  const { fetch, invoke, secret } = {
    fetch(url, options) {
      only("fetch");
      return outside.fetch(url, options);
    },
    invoke(ctx, plugin, action, input, options) {
      only("invoke");
      return outside.invoke(ctx, plugin, action, input, options);
    },
    secret(name) {
      only("secret");
      const value = native.secret(name);
      if (value === undefined) throw failed();
      return value;
    },
  };
  const globals = { fetch, invoke, secret, run };
  for (const name of keys(globals)) hidden(globalThis, name, globals[name]);

  return freeze({
    // What scripts meet and no global leads to.
    met: [Headers.prototype, Response.prototype, signal],
    // A run begins: facts of its step, or undefined.
    enter(facts) {
      step = facts;
      aborted = false;
      reason = undefined;
      open = new Map();
    },
    // Something outside has ended. Gives whether anybody still waits for it.
    settle(number, value, failure) {
      const waits = open.get(number);
      if (waits === undefined) return false;
      open.delete(number);
      if (failure) waits[1](failed());
      else waits[0](value);
      return true;
    },
    // The run is to stop.
    abort(why) {
      if (aborted) return;
      aborted = true;
      reason = new DOMException(why, "AbortError");
      const all = open;
      open = new Map();
      for (const [, reject] of all.values()) reject(reason);
    },
    waits: () => open.size,
  });
})
