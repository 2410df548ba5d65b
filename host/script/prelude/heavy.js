// Built-ins whose cost does not show in what they are given: chains of iterators, texts made of replacements, and huge
// BigInts. They are done piece by piece, with a look at clock and heap between, or through functions that the engine
// checks the stack for. Evaluated before the guards, which use some of it.
(function (native, room) {
  "use strict";
  const { look, turn, before } = room;
  const { apply, ownKeys } = Reflect;
  const { defineProperty, getOwnPropertyDescriptor } = Object;
  const { indexOf, slice, padStart, trim } = String.prototype;

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

  // --- huge BigInts -------------------------------------------------------------------------------------------
  const Big = BigInt;
  const PIECE = 500;
  const huge = 1n << 20_000n;
  const decimal = /^[+-]?[0-9]+$/;
  const { test } = RegExp.prototype;
  const { valueOf, toString } = Big.prototype;
  const parse = (text) => {
    const signed = text[0] === "-" || text[0] === "+" ? 1 : 0;
    const unit = 10n ** Big(PIECE);
    let made = 0n;
    for (let at = signed; at < text.length; at += PIECE) {
      look();
      const piece = apply(slice, text, [at, at + PIECE]);
      made = made * (piece.length === PIECE ? unit : 10n ** Big(piece.length)) + Big(piece);
    }
    return text[0] === "-" ? -made : made;
  };
  const digits = (value, base) => {
    const unit = Big(base) ** Big(PIECE);
    let left = value < 0n ? -value : value;
    let made = "";
    while (left >= unit) {
      look();
      const more = left / unit;
      made = apply(padStart, apply(toString, left - more * unit, [base]), [PIECE, "0"]) + made;
      left = more;
    }
    return (value < 0n ? "-" : "") + apply(toString, left, [base]) + made;
  };
  for (const name of ["toString", "toLocaleString"]) {
    swap(Big.prototype, name, (original) => ({
      method(radix) {
        const value = apply(valueOf, this, []);
        const base = name !== "toString" || radix === undefined ? 10 : Math.trunc(Number(radix));
        const easy = (value < huge && value > -huge) || !(base >= 2 && base <= 36) || (base & (base - 1)) === 0;
        return easy ? apply(original, value, [base]) : digits(value, base);
      },
    }).method);
  }
  const { BigInt: Made } = {
    BigInt(value) {
      turn();
      if (typeof value !== "string" || value.length <= 5_000) return Big(value);
      const text = apply(trim, value, []);
      return apply(test, decimal, [text]) ? parse(text) : Big(text);
    },
  };
  for (const key of ownKeys(Big)) defineProperty(Made, key, getOwnPropertyDescriptor(Big, key));
  defineProperty(Big.prototype, "constructor", { value: Made });
  defineProperty(globalThis, "BigInt", { value: Made });
  return { polled, heavy, expand };
})
