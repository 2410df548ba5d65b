// Regular expressions: what the engine can be stopped in, and texts that are not too long for them (see pattern.rs of
// the compiler, which does the same for those that stand in the source). Evaluated as a part of the guards.
(function (native, room) {
  "use strict";
  const { turn, before } = room;
  const { apply, construct } = Reflect;
  const { defineProperty, getOwnPropertyDescriptor } = Object;
  const { includes, isWellFormed, replaceAll, toWellFormed } = String.prototype;
  const getter = (name) => getOwnPropertyDescriptor(RegExp.prototype, name).get;
  const [sourceOf, ignoresCase, isUnicode, hasSets] = ["source", "ignoreCase", "unicode", "unicodeSets"].map(getter);
  const text = String.prototype;
  // Patterns are compiled without a look at the clock.
  const MOST = 32 << 10;
  // Shorter texts are not too long for any pattern.
  const SHORT = 500;

  return ({ replace, standIn, whole }) => {
    const isPattern = (given) => {
      try {
        apply(sourceOf, given, []);
        return true;
      } catch {
        return false;
      }
    };
    const written = (pattern) => {
      const source = apply(sourceOf, pattern, []);
      if (!apply(includes, source, [native.opens])) return source;
      return apply(replaceAll, apply(replaceAll, source, [native.opens, ""]), [native.closes, ""]);
    };
    const { get: source } = getOwnPropertyDescriptor({
      get source() {
        return written(this);
      },
    }, "source");
    defineProperty(RegExp.prototype, "source", { get: source });

    const stoppable = (source, flags) => {
      if (source.length > MOST) {
        throw new RangeError(`a pattern has at most ${MOST} characters here: look for many words with a Set or a Map`);
      }
      // Without look-arounds, counts, properties and many references there is nothing in a short one.
      const has = (part) => apply(includes, source, [part]);
      if (source.length <= 200 && !has("(?") && !has("{") && (source.length <= 24 || !has("\\"))) return source;
      const formed = apply(isWellFormed, source, []) ? source : apply(toWellFormed, source, []);
      const made = native.stoppable(formed, flags);
      if (made === undefined) return source;
      if (formed !== source) throw new RangeError("a pattern with half of a character and a look-around: write it as \\uXXXX");
      return made;
    };
    // What the engine is to make a pattern of.
    const pattern = (given, flags) => {
      turn();
      const source = given === undefined || typeof given === "symbol" ? given : whole(given);
      return typeof source === "string" ? stoppable(source, flags) : source;
    };
    for (const name of ["match", "matchAll", "search"]) {
      const symbol = Symbol[name];
      replace(text, name, (original) => ({
        method(given) {
          const known = given === undefined || given === null || this === undefined || this === null;
          const how = known ? undefined : given[symbol];
          if (how === undefined || how === null) {
            const made = pattern(given, "");
            turn();
            return apply(original, this, [made]);
          }
          turn();
          if (name === "matchAll" && given[Symbol.match] && !apply(includes, whole(given.flags), ["g"])) {
            throw new TypeError("matchAll takes a pattern with the flag `g`");
          }
          // Called here: asked again, it could be gone, and a text nobody has looked at would be made a pattern.
          return apply(how, given, [this]);
        },
      }).method);
    }

    // How long a text may be for a pattern.
    const reaches = new WeakMap();
    const { delete: forget, get: known, set: keep } = WeakMap.prototype;
    const reachOf = (one) => {
      const before = apply(known, reaches, [one]);
      if (before !== undefined || !isPattern(one)) return before ?? Infinity;
      const flags = (apply(ignoresCase, one, []) ? "i" : "") + (apply(isUnicode, one, []) ? "u" : "") + (apply(hasSets, one, []) ? "v" : "");
      const source = apply(sourceOf, one, []);
      const reach = native.reach(apply(toWellFormed, source, []), flags) ?? Infinity;
      apply(keep, reaches, [one, reach]);
      return reach;
    };
    replace(RegExp.prototype, "exec", (original) => ({
      method(given) {
        turn();
        if (typeof given !== "string" && isPattern(this)) given = whole(given);
        if (typeof given === "string" && given.length >= SHORT) {
          before(given.length, 2);
          const reach = reachOf(this);
          if (given.length > reach) {
            throw new RangeError(
              `a pattern that refers, like \\1, to a group of any length takes at most ${reach} characters of text here: ` +
                "bound the group, (\\w{1,64}), or match pieces of the text",
            );
          }
        }
        return apply(original, this, [given]);
      },
    }).method);
    replace(RegExp.prototype, "compile", (original) => ({
      method(given, flags) {
        if (!isPattern(this)) return apply(original, this, [given, flags]);
        if (isPattern(given)) {
          turn();
        } else {
          flags = flags === undefined ? "" : whole(flags);
          given = pattern(given, flags);
        }
        apply(forget, reaches, [this]);
        return apply(original, this, [given, flags]);
      },
    }).method);

    const NativeRegExp = RegExp;
    const { RegExp: MadeRegExp } = {
      RegExp: function (given, flags) {
        const object = (typeof given === "object" && given !== null) || typeof given === "function";
        if (object && isPattern(given)) {
          if (new.target === undefined && flags === undefined && given.constructor === MadeRegExp) return given;
          // With other flags it may be another pattern.
          if (flags !== undefined) given = written(given);
        } else if (object) {
          // What only says that it is a pattern is read as one.
          const like = given[Symbol.match] ? given : undefined;
          given = whole(like === undefined ? given : like.source);
          if (flags === undefined) flags = like?.flags;
        }
        if (typeof given !== "object") {
          if (flags !== undefined) flags = whole(flags);
          given = pattern(given, flags ?? "");
        }
        return construct(NativeRegExp, [given, flags], new.target ?? MadeRegExp);
      },
    };
    defineProperty(MadeRegExp, "length", { value: 2 });
    standIn("RegExp", NativeRegExp, MadeRegExp);
  };
})
