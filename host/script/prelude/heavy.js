// Built-ins whose cost does not show in what they are given: chains of iterators, texts made of replacements, marks in a
// row, and huge BigInts. They are done piece by piece, with a look at clock and heap between, or through functions that
// the engine checks the stack for. Evaluated before the guards, which use some of it.
(function (native, room) {
  "use strict";
  const { look, turn, before, isHuge } = room;
  const { apply, ownKeys } = Reflect;
  const { defineProperty, getOwnPropertyDescriptor } = Object;
  const { indexOf, slice } = String.prototype;

  const swap = (owner, key, make) => {
    const { value: original } = getOwnPropertyDescriptor(owner, key) ?? {};
    if (typeof original !== "function") return;
    const made = make(original);
    defineProperty(made, "name", { value: original.name });
    defineProperty(made, "length", { value: original.length });
    defineProperty(owner, key, { value: made });
  };
  const isObject = (value) => (typeof value === "object" || typeof value === "function") && value !== null;
  const whole = (value) => (typeof value === "string" ? value : `${value}`);

  // --- iterators ----------------------------------------------------------------------------------------------
  // The engine goes from one built-in iterator to the next without a look at the stack; not so through a function of
  // ours.
  const polled = (iterator) => {
    const { next } = iterator;
    return {
      __proto__: Iterator.prototype,
      next: () => {
        turn();
        return apply(next, iterator, []);
      },
      return: (value) => iterator.return?.(value) ?? { done: true, value },
    };
  };
  const inner = (value) => {
    if (!isObject(value)) return value;
    const own = value[Symbol.iterator];
    const iterator = own === undefined || own === null ? value : apply(own, value, []);
    return isObject(iterator) ? polled(iterator) : iterator;
  };
  for (const name of ["map", "filter", "take", "drop", "flatMap"]) {
    swap(Iterator.prototype, name, (original) => ({
      method(given) {
        if (!isObject(this)) return apply(original, this, [given]);
        const flat = name === "flatMap" && typeof given === "function";
        const how = flat ? (value, count) => inner(apply(given, undefined, [value, count])) : given;
        return apply(original, polled(this), [how]);
      },
    }).method);
  }

  // --- replacements -------------------------------------------------------------------------------------------
  // Whether what comes of a replacement may be huge: a text in which the matches are few costs nothing more.
  const heavy = (inside, form) => {
    const most = inside.length * form.length;
    return most > 10_000_000 || (most * inside.length > 100_000_000 && apply(indexOf, form, ["$"]) >= 0);
  };
  const isDigit = (sign) => sign >= "0" && sign <= "9";
  // What `form` means for one match.
  const expand = (form, match, at, inside, groups, named) => {
    before(form.length, 1);
    let made = "";
    let from = 0;
    for (;;) {
      turn();
      const dollar = apply(indexOf, form, ["$", from]);
      if (dollar < 0 || dollar + 1 >= form.length) return from === 0 ? form : made + apply(slice, form, [from]);
      made += apply(slice, form, [from, dollar]);
      const sign = form[dollar + 1];
      from = dollar + 2;
      if (sign === "$") made += "$";
      else if (sign === "&") made += match;
      else if (sign === "`" || sign === "'") {
        before(inside.length, 1);
        made += apply(slice, inside, sign === "`" ? [0, at] : [at + match.length]);
      } else if (isDigit(sign)) {
        let number = Number(sign);
        const both = from < form.length && isDigit(form[from]) ? number * 10 + Number(form[from]) : 0;
        if (both >= 1 && both <= groups.length) {
          number = both;
          from += 1;
        }
        made += number >= 1 && number <= groups.length ? groups[number - 1] ?? "" : `$${sign}`;
      } else if (sign === "<" && named !== undefined && apply(indexOf, form, [">", from]) >= 0) {
        const end = apply(indexOf, form, [">", from]);
        made += named[apply(slice, form, [from, end])] ?? "";
        from = end + 1;
      } else made += `$${sign}`;
    }
  };
  swap(RegExp.prototype, Symbol.replace, (original) => ({
    method(text, by) {
      if (typeof by === "function" || !isObject(this)) return apply(original, this, [text, by]);
      const inside = whole(text);
      const form = whole(by);
      if (!heavy(inside, form)) return apply(original, this, [inside, form]);
      const each = (match, ...rest) => {
        const named = isObject(rest[rest.length - 1]) ? rest.pop() : undefined;
        rest.pop();
        const at = rest.pop();
        return expand(form, match, at, inside, rest, named);
      };
      return apply(original, this, [inside, each]);
    },
  }).method);

  // --- BigInts ------------------------------------------------------------------------------------------------
  const Big = BigInt;
  // Longer than any text of a BigInt that is small enough.
  const MOST_DIGITS = 70_000;
  const big = (value) => {
    turn();
    const made = typeof value === "string" && value.length > MOST_DIGITS ? undefined : Big(value);
    if (made === undefined || isHuge(made)) throw new RangeError("a BigInt has at most 65,536 bits here");
    return made;
  };
  const { BigInt: Made } = { BigInt: (value) => big(value) };
  for (const key of ownKeys(Big)) defineProperty(Made, key, getOwnPropertyDescriptor(Big, key));
  for (const name of ["asIntN", "asUintN"]) {
    swap(Made, name, (original) => ({ method: (bits, value) => big(original(bits, typeof value === "string" ? big(value) : value)) }).method);
  }
  defineProperty(Big.prototype, "constructor", { value: Made });
  defineProperty(globalThis, "BigInt", { value: Made });

  // --- texts in normal form -----------------------------------------------------------------------------------
  // The engine sorts marks in a row in a time that grows with the square of their number.
  const { normalize } = String.prototype;
  const { exec } = RegExp.prototype;
  const PIECE = 1_000;
  // What never belongs to a character in front of it: a text can be cut there.
  const begins = /[^\p{M}\u1160-\u11ff\uff9e-\uffdc\u{16d67}]/gu;
  const normal = (text, form) => {
    let made = "";
    for (let at = 0; at < text.length; ) {
      look();
      begins.lastIndex = at + PIECE;
      const next = at + PIECE < text.length ? apply(exec, begins, [text]) : null;
      const end = next === null ? text.length : next.index;
      if (end > at + 2 * PIECE) throw new RangeError(`a text with more than ${PIECE} marks in a row has no normal form here`);
      made += apply(normalize, apply(slice, text, [at, end]), form);
      at = end;
    }
    return made;
  };
  swap(String.prototype, "normalize", (original) => ({
    method(form) {
      if (this === undefined || this === null) return apply(original, this, [form]);
      const inside = whole(this);
      return inside.length <= PIECE ? apply(original, inside, [form]) : normal(inside, [form]);
    },
  }).method);
  swap(String.prototype, "localeCompare", (original) => ({
    method(that, ...rest) {
      if (this === undefined || this === null) return apply(original, this, [that]);
      let [one, other] = [whole(this), whole(that)];
      if (one.length <= PIECE && other.length <= PIECE) return apply(original, one, [other, ...rest]);
      [one, other] = [normal(one, []), normal(other, [])];
      let at = 0;
      const piece = (text) => apply(slice, text, [at, at + PIECE]);
      for (; at < one.length && piece(one) === piece(other); at += PIECE) look();
      return apply(original, piece(one), [piece(other), ...rest]);
    },
  }).method);

  return { polled, heavy, expand };
})
