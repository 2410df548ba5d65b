// Proxies whose handlers give keys: the engine compares each of them with all others without a look at the clock, so that
// a hundred thousand take minutes. Evaluated after the guards, whose own proxies need none of this.
(function (native, room) {
  "use strict";
  const { turn } = room;
  const { apply, construct, get } = Reflect;
  const { create, defineProperty, freeze, getOwnPropertyDescriptor, getPrototypeOf, isExtensible } = Object;
  const MOST = 16_384;
  const isObject = (value) => (typeof value === "object" || typeof value === "function") && value !== null;

  // For each trap the function that bounds what it gives.
  const bounds = new WeakMap();
  const bounded = (trap) => {
    if (typeof trap !== "function") return trap;
    let made = bounds.get(trap);
    if (made === undefined) {
      made = {
        ownKeys(target) {
          turn();
          const keys = apply(trap, this, [target]);
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
        },
      }.ownKeys;
      // Scripts can get hold of it, and of a trap that all runs share (`Reflect.ownKeys`) there is one for all of them.
      freeze(made);
      bounds.set(trap, made);
      bounds.set(made, made);
    }
    return made;
  };

  // What a handler's trap is, where it has one of its own: a handler may get another one later.
  const traps = new WeakMap();
  const { get: read, set: write } = getOwnPropertyDescriptor({
    get ownKeys() {
      const own = traps.get(this);
      const above = getPrototypeOf(this);
      return bounded(own === undefined ? above !== null ? get(above, "ownKeys", above) : undefined : own.trap);
    },
    set ownKeys(trap) {
      traps.set(this, { trap });
    },
  }, "ownKeys");
  freeze(read);
  freeze(write);
  const heirs = new WeakMap();
  // Gives what stands for the handler: itself with that accessor, or what inherits from one that cannot be changed.
  const guarded = (handler) => {
    if (!isObject(handler)) return handler;
    const isProxy = native.isProxy(handler);
    const own = isProxy ? undefined : getOwnPropertyDescriptor(handler, "ownKeys");
    if (own?.get === read && !own.configurable) return handler;
    if (!isProxy && (own === undefined ? isExtensible(handler) : own.configurable && "value" in own)) {
      if (own !== undefined) traps.set(handler, { trap: own.value });
      defineProperty(handler, "ownKeys", { get: read, set: write, enumerable: own?.enumerable ?? false, configurable: false });
      return handler;
    }
    let heir = heirs.get(handler);
    if (heir === undefined) {
      heir = create(handler, { ownKeys: { get: () => bounded(handler.ownKeys) } });
      if (!isProxy) freeze(heir);
      heirs.set(handler, heir);
    }
    return heir;
  };

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
