// Regular expressions: what the engine can be stopped in, and texts that are not too long for them (see pattern.rs of
// the compiler, which does the same for those that stand in the source). Evaluated as a part of the guards.
(function (native, room) {
  "use strict";
  const { turn, before } = room;
  const { apply, construct } = Reflect;
  const { defineProperty, getOwnPropertyDescriptor } = Object;
  const { includes, isWellFormed, replaceAll, toWellFormed } = String.prototype;
  const getter = (name) => getOwnPropertyDescriptor(RegExp.prototype, name).get;
  const flags = [
    ["d", "hasIndices"], ["g", "global"], ["i", "ignoreCase"], ["m", "multiline"], ["s", "dotAll"], ["u", "unicode"],
    ["v", "unicodeSets"], ["y", "sticky"],
  ].map(([flag, name]) => [flag, getter(name)]);
  const [sourceOf, isGlobal, isSticky] = ["source", "global", "sticky"].map(getter);
  const text = String.prototype;
  // Patterns are compiled without a look at the clock.
  const MOST = 32 << 10;
  // Shorter texts are not too long for any pattern.
  const SHORT = 500;
  // Going through a longer text takes longer than making another pattern.
  const LONG = 10_000;

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

    const halved = () => {
      throw new RangeError("a pattern with half of a character, and a look-around or a \\1: write the half as \\uXXXX");
    };
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
      if (formed !== source) halved();
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

    // How a pattern is looked for in a long text. Its twin is the same pattern in another form: one that can be stopped
    // in it, or one that is tried where it could be found and nowhere else.
    const NativeRegExp = RegExp;
    const manners = new WeakMap();
    const { delete: forget, get: known, set: keep } = WeakMap.prototype;
    const flagsOf = (one) => {
      let all = "";
      for (let i = 0; i < flags.length; i += 1) if (apply(flags[i][1], one, [])) all += flags[i][0];
      return all;
    };
    const mannerOf = (one) => {
      const found = apply(known, manners, [one]);
      if (found !== undefined || !isPattern(one)) return found;
      const [reach, anchored] = native.manner(apply(toWellFormed, apply(sourceOf, one, []), []), flagsOf(one));
      const manner = { reach, anchored: anchored && !apply(isSticky, one, []), met: false, near: undefined, far: undefined };
      apply(keep, manners, [one, manner]);
      return manner;
    };
    const made = (one, anchored, counted) => {
      const all = flagsOf(one);
      const source = apply(sourceOf, one, []);
      if (counted && !apply(isWellFormed, source, [])) halved();
      return new NativeRegExp(counted ? native.counted(source, all) : source, anchored ? `${all}y` : all);
    };
    const twinOf = (one, length) => {
      const manner = mannerOf(one);
      if (manner === undefined) return undefined;
      const { reach, anchored, met } = manner;
      if (length > reach) {
        const most = reach * native.turns;
        if (length <= most) return (manner.far ??= made(one, anchored, true));
        throw new RangeError(
          `a pattern that refers, like \\1, to a group of any length takes at most ${most} characters of text here: ` +
            "bound the group, (\\w{1,64}), or match pieces of the text",
        );
      }
      // One that is used once is not worth a twin.
      manner.met = true;
      return anchored && (met || length > LONG) ? (manner.near ??= made(one, true, false)) : undefined;
    };
    replace(RegExp.prototype, "exec", (original) => ({
      method(given) {
        turn();
        if (typeof given !== "string" && isPattern(this)) given = whole(given);
        if (typeof given !== "string" || given.length < SHORT) return apply(original, this, [given]);
        before(given.length, 2);
        const twin = twinOf(this, given.length);
        if (twin === undefined) return apply(original, this, [given]);
        // Read, and made a number, as often as the original does it.
        const from = +this.lastIndex;
        const moves = apply(isGlobal, this, []) || apply(isSticky, this, []);
        twin.lastIndex = moves ? from : 0;
        const found = apply(original, twin, [given]);
        if (moves) this.lastIndex = twin.lastIndex;
        return found;
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
        apply(forget, manners, [this]);
        return apply(original, this, [given, flags]);
      },
    }).method);

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
