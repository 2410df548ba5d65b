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
  const known = new WeakMap();
  const guarded = (handler) => {
    if (!isObject(handler)) return handler;
    let made = known.get(handler);
    if (made !== undefined) return made;
    const own = native.isProxy(handler) ? undefined : getOwnPropertyDescriptor(handler, "ownKeys");
    if (!native.isProxy(handler) && (own === undefined ? isExtensible(handler) : own.configurable && "value" in own)) {
      if (own !== undefined) traps.set(handler, { trap: own.value });
      defineProperty(handler, "ownKeys", { get: read, set: write, enumerable: own?.enumerable ?? false, configurable: false });
      made = handler;
    } else {
      // What cannot be changed is inherited from.
      made = create(handler, { ownKeys: { get: () => bounded(handler.ownKeys) } });
      if (!native.isProxy(handler)) freeze(made);
    }
    known.set(handler, made);
    return made;
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
