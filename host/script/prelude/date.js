// One instant per run, in UTC, and seeded randomness. Gives the function that sets the instant.
(function (native, parse) {
  "use strict";
  const Native = Date;
  const { prototype } = Native;
  const { apply, construct } = Reflect;
  const { defineProperty } = Object;
  let instant = 0;

  const hidden = (target, name, value) =>
    defineProperty(target, name, { value, writable: true, enumerable: false, configurable: true });
  const argumentsOf = (parts) => {
    if (parts.length === 0) return [instant];
    if (parts.length > 1) return [apply(Native.UTC, undefined, parts)];
    const [value] = parts;
    if (typeof value === "object" && value !== null) {
      try {
        return [apply(prototype.getTime, value, [])];
      } catch {}
    }
    const primitive =
      typeof value === "object" && value !== null && typeof value[Symbol.toPrimitive] !== "function"
        ? value.valueOf() === value ? String(value) : value.valueOf()
        : value;
    return [typeof primitive === "string" ? parse(primitive) : primitive];
  };
  const Fixed = function Date(...parts) {
    if (new.target === undefined) return new Native(instant).toString();
    return construct(Native, argumentsOf(parts), new.target);
  };
  defineProperty(Fixed, "length", { value: 7 });
  defineProperty(Fixed, "prototype", { value: prototype, writable: false });
  hidden(Fixed, "UTC", Native.UTC);
  hidden(Fixed, "now", { now: () => instant }.now);
  hidden(Fixed, "parse", { parse: (text) => parse(text) }.parse);
  hidden(prototype, "constructor", Fixed);
  hidden(globalThis, "Date", Fixed);

  // The engine gives NaN for a field that is no number, and leaves the date as it was.
  const { setTime } = prototype;
  for (const field of ["FullYear", "Month", "Date", "Hours", "Minutes", "Seconds", "Milliseconds"]) {
    const name = `setUTC${field}`;
    const original = prototype[name];
    const setter = {
      [name](...parts) {
        const time = apply(original, this, parts);
        return Number.isNaN(time) ? apply(setTime, this, [NaN]) : time;
      },
    }[name];
    defineProperty(setter, "length", { value: original.length });
    hidden(prototype, name, setter);
  }
  for (const field of ["FullYear", "Month", "Date", "Day", "Hours", "Minutes", "Seconds", "Milliseconds"]) {
    hidden(prototype, `get${field}`, prototype[`getUTC${field}`]);
    if (field !== "Day") hidden(prototype, `set${field}`, prototype[`setUTC${field}`]);
  }
  const { getTime, toUTCString, getUTCFullYear, setUTCFullYear } = prototype;
  hidden(prototype, "getYear", {
    getYear() {
      return apply(getUTCFullYear, this, []) - 1900;
    },
  }.getYear);
  hidden(prototype, "setYear", {
    setYear(year) {
      const whole = Math.trunc(year);
      return apply(setUTCFullYear, this, [whole >= 0 && whole <= 99 ? 1900 + whole : whole]);
    },
  }.setYear);
  const pieces = (date) => {
    const [day, number, month, year, time] = apply(toUTCString, date, []).split(" ");
    return { day: `${day.slice(0, 3)} ${month} ${number} ${year}`, time: `${time} GMT+0000 (Coordinated Universal Time)`, clock: time };
  };
  const two = (number) => String(number).padStart(2, "0");
  const american = (date) => `${date.getUTCMonth() + 1}/${date.getUTCDate()}/${apply(getUTCFullYear, date, [])}`;
  const twelve = (date) => {
    const hour = date.getUTCHours();
    return `${hour % 12 || 12}:${two(date.getUTCMinutes())}:${two(date.getUTCSeconds())} ${hour < 12 ? "AM" : "PM"}`;
  };
  const shown = {
    toString: (date) => `${pieces(date).day} ${pieces(date).time}`,
    toDateString: (date) => pieces(date).day,
    toTimeString: (date) => pieces(date).time,
    toLocaleString: (date) => `${american(date)}, ${twelve(date)}`,
    toLocaleDateString: american,
    toLocaleTimeString: twelve,
  };
  for (const name of Object.keys(shown)) {
    const show = shown[name];
    const method = {
      [name]() {
        return Number.isNaN(apply(getTime, this, [])) ? "Invalid Date" : show(this);
      },
    }[name];
    hidden(prototype, name, method);
  }
  hidden(prototype, "getTimezoneOffset", {
    getTimezoneOffset() {
      return Number.isNaN(apply(getTime, this, [])) ? NaN : 0;
    },
  }.getTimezoneOffset);
  hidden(Math, "random", { random: () => native.random() }.random);

  return (now) => {
    instant = now;
  };
})
