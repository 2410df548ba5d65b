// Proxies whose handlers give keys: the engine compares each of them with all others without a look at the clock, so that
// a hundred thousand take minutes. So the engine gets a handler of the host's for each, which asks the script's, each time
// and with itself as `this`, as the engine would. A trap that the script's does not have is not there in the host's either:
// the engine then does the usual itself. Evaluated after the guards, whose own proxies need none of this.
(function (native, room) {
  "use strict";
  const { turn } = room;
  const { apply, construct, ownKeys } = Reflect;
  const { defineProperty, freeze } = Object;
  const MOST = 16_384;
  const isObject = (value) => (typeof value === "object" || typeof value === "function") && value !== null;

  const bounded = (keys) => {
    if (!isObject(keys)) return keys;
    const { length } = keys;
    if (length > MOST) throw new RangeError(`an ownKeys trap gives at most ${MOST} keys here: keep them in a Map`);
    if (native.isPlainArray(keys)) return keys;
    const list = [];
    for (let i = 0; i < length; i += 1) {
      turn();
      list.push(keys[i]);
    }
    return list;
  };
  // What the engine calls in place of a trap of the script's handler, if it has one of that name.
  const trapOf = (given, name) => {
    turn();
    const trap = given[name];
    if (trap === undefined || trap === null) return undefined;
    if (typeof trap !== "function") throw new TypeError(`the trap ${name} of a proxy's handler is no function`);
    if (name === "ownKeys") return (target) => bounded(apply(trap, given, [target]));
    return (...args) => apply(trap, given, args);
  };
  class Handler {
    #given;
    constructor(given) {
      this.#given = given;
    }
    static {
      // Each trap has the name of what it stands for in Reflect.
      for (const name of ownKeys(Reflect)) {
        if (typeof Reflect[name] !== "function") continue;
        const get = function () {
          return trapOf(this.#given, name);
        };
        defineProperty(Handler.prototype, name, { get: freeze(get) });
      }
      freeze(Handler.prototype);
    }
  }
  const guarded = (handler) => (isObject(handler) ? new Handler(handler) : handler);

  const Native = Proxy;
  const { revocable } = Native;
  defineProperty(Native, "revocable", {
    value: {
      revocable(target, handler) {
        turn();
        return apply(revocable, Native, [target, guarded(handler)]);
      },
    }.revocable,
  });
  // Only a proxy of it is, as it is itself, a class without a prototype.
  const Made = new Native(Native, {
    construct(_, [target, handler], made) {
      turn();
      return construct(Native, [target, guarded(handler)], made);
    },
  });
  defineProperty(globalThis, "Proxy", { value: Made });
})
