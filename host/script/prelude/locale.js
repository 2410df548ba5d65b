// Methods that take a locale. There is no Intl: a locale or options, which the engine would ignore, are refused, and a
// number without them is written as in `en-US`, as it is nearly everywhere else.
(function () {
  "use strict";
  const { apply } = Reflect;
  const { defineProperty, getPrototypeOf } = Object;
  const swap = (owner, name, make) => {
    const original = owner[name];
    const made = make(original);
    defineProperty(made, "name", { value: name });
    defineProperty(made, "length", { value: original.length });
    defineProperty(owner, name, { value: made, writable: true, enumerable: false, configurable: true });
  };
  // `at` is the place of the locale among the arguments; options come after it.
  const refuse = (owner, name, at, instead) => {
    swap(owner, name, (original) => ({
      method(...args) {
        if (args[at] !== undefined || args[at + 1] !== undefined) {
          throw new TypeError(`${name} takes no locale and no options here, since there is no Intl: ${instead}`);
        }
        return apply(original, this, args);
      },
    }).method);
  };
  refuse(String.prototype, "localeCompare", 1, "without them it compares by code points; for another order compare keys of your own");
  const format = "format in the client, or with a library";
  for (const name of ["toLocaleString", "toLocaleDateString", "toLocaleTimeString"]) refuse(Date.prototype, name, 0, format);
  for (const owner of [Array.prototype, getPrototypeOf(Uint8Array.prototype)]) refuse(owner, "toLocaleString", 0, format);
  for (const name of ["toLocaleUpperCase", "toLocaleLowerCase"]) {
    swap(String.prototype, name, (original) => ({
      method(locale) {
        // Elsewhere all languages but these map as Unicode does.
        if (locale !== undefined && /^(?:az|el|lt|tr)\b/i.test(String(locale))) {
          throw new TypeError(`${name} knows no rules of '${String(locale).slice(0, 20)}' here, since there is no Intl`);
        }
        return apply(original, this, []);
      },
    }).method);
  }

  const english = /^en(?:-US)?$/i;
  const grouped = (digits) => {
    let made = digits.slice(-3);
    for (let at = digits.length - 3; at > 0; at -= 3) made = `${digits.slice(Math.max(0, at - 3), at)},${made}`;
    return made;
  };
  const written = (value) => {
    if (typeof value === "bigint") return (value < 0n ? "-" : "") + grouped(String(value < 0n ? -value : value));
    if (Number.isNaN(value)) return "NaN";
    const sign = value < 0 || Object.is(value, -0) ? "-" : "";
    const size = Math.abs(value);
    if (size === Infinity) return `${sign}∞`;
    const [whole, fraction = ""] = size < 1e21 ? size.toFixed(3).split(".") : [String(BigInt(size))];
    const digits = fraction.replace(/0+$/, "");
    return sign + grouped(whole) + (digits === "" ? "" : `.${digits}`);
  };
  for (const owner of [Number.prototype, BigInt.prototype]) {
    swap(owner, "toLocaleString", () => ({
      method(locale, options) {
        if ((locale !== undefined && !english.test(String(locale))) || options !== undefined) {
          throw new TypeError(`toLocaleString takes no locale but 'en-US' and no options here, since there is no Intl: ${format}`);
        }
        return written(apply(owner.valueOf, this, []));
      },
    }).method);
  }
})
