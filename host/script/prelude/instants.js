// Texts as instants, read as in Node and Chrome; what names no zone is UTC. (The engine knows fewer forms, takes some that
// are none, and has the machine's zone.) Gives the function that reads one, to milliseconds or NaN.
(function () {
  "use strict";
  const Native = Date;
  const { apply } = Reflect;
  // Before it is guarded: the texts are short.
  const { exec } = RegExp.prototype;
  const MOST = 200;
  const FURTHEST = 8.64e15;
  const MINUTE = 60_000;
  const CYCLE = 146_097 * 24 * 60 * MINUTE;
  const within = (number, least, most) => number >= least && number <= most;
  const instantOf = (year, month, day, [hour, minute, second, ms]) =>
    // `UTC` takes small years for those of the last century; 400 years later the calendar is the same.
    within(year, 0, 99)
      ? Native.UTC(year + 400, month - 1, day, hour, minute, second, ms) - CYCLE
      : Native.UTC(year, month - 1, day, hour, minute, second, ms);
  const isTime = ([hour, minute, second, ms]) =>
    (hour <= 23 && minute <= 59 && second <= 59 && ms <= 999) || (hour === 24 && minute + second + ms === 0);
  const thousandths = (digits) => Number(digits.padEnd(3, "0").slice(0, 3));

  // A day, or what `toISOString` gives: the engine reads these as well as anybody.
  const USUAL = /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])(?:T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{3})?Z)?$/;
  const ISO = /^(\d{4}|[+-]\d{6})(?:-(\d\d)(?:-(\d\d))?)?(?:t(\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?(?:z|([+-])(\d\d):?(\d\d))?)?$/i;
  const ofIso = ([, year, month = 1, day = 1, hour = 0, minute = 0, second = 0, fraction = "0", sign, hours = 0, minutes = 0]) => {
    const time = [Number(hour), Number(minute), Number(second), thousandths(fraction)];
    const sound = isTime(time) && within(month, 1, 12) && within(day, 1, 31) && hours <= 23 && minutes <= 59;
    if (!sound || year === "-000000" || (time[0] === 24 && Number(fraction) > 0)) return NaN;
    const away = (Number(hours) * 60 + Number(minutes)) * MINUTE;
    return instantOf(Number(year), Number(month), Number(day), time) - (sign === "-" ? -away : away);
  };

  // What is not of that form is read as V8 does it: numbers, words and signs in nearly any order.
  const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
  const ZONES = { __proto__: null, z: 0, ut: 0, utc: 0, gmt: 0, est: -5, edt: -4, cst: -6, cdt: -5, mst: -7, mdt: -6, pst: -8, pdt: -7 };
  const BEGIN = /^(\d{4})(?!\d)(?:-(?:(0[1-9]|1[0-2])(?!\d)(?:-(?:(0[1-9]|[12]\d|3[01])(?!\d))?)?)?)?/;
  const TOKEN = /(\d+)|(\s+)|((?:(?!\s)[[-\uffff])+)|[^]/g;
  const ofText = (text) => {
    const [head = "", ...dated] = apply(exec, BEGIN, [text]) ?? [];
    const days = dated.filter((part) => part !== undefined).map(Number);
    const tokens = [];
    const rest = text.slice(head.length).toLowerCase();
    TOKEN.lastIndex = 0;
    for (let found = apply(exec, TOKEN, [rest]); found !== null; found = apply(exec, TOKEN, [rest])) {
      const [all, digits, space, word] = found;
      const kind = digits !== undefined ? "number" : space !== undefined ? " " : word !== undefined ? "word" : all;
      const value = digits === undefined ? all : Number(digits.replace(/^0+/, "").slice(0, 9));
      tokens.push({ kind, value, digits });
    }
    let at = 0;
    const next = () => tokens[at]?.kind;
    const skip = (kind) => next() === kind && (at += 1) > 0;
    const times = [];
    let begun = days.length > 0;
    let month, half, sign, hours, minutes;
    const end = (value) => {
      times.push(value);
      while (times.length < 4) times.push(0);
    };
    // Each gives whether the text goes on in a way that is known.
    const number = ({ value }) => {
      begun = true;
      const belongs = value <= (within(times.length, 1, 2) ? 59 : times.length === 3 ? 999 : -1);
      if (skip(":")) {
        const empty = skip(":");
        if (times.length > (empty ? 0 : 3)) return false;
        times.push(value);
        if (empty) times.push(0);
        else skip(".");
      } else if (skip(".") && belongs) {
        times.push(value);
        if (next() !== "number") return false;
        end(thousandths(tokens[at++].digits));
      } else if (hours !== undefined && minutes === undefined && value <= 59) {
        minutes = value;
      } else if (belongs) {
        end(value);
        return [undefined, " ", "+", "-"].includes(next()) || tokens[at].value === "z";
      } else {
        if (days.length === 3) return false;
        days.push(value);
        skip("-");
      }
      return true;
    };
    const word = ({ value }) => {
      const found = MONTHS.indexOf(value.slice(0, 3));
      if ((value === "am" || value === "pm") && times.length > 0) {
        half = value === "am" ? 0 : 12;
      } else if (found >= 0) {
        month = found + 1;
        skip("-");
      } else if (value in ZONES && begun) {
        sign = ZONES[value] < 0 ? "-" : "+";
        hours = Math.abs(ZONES[value]);
        minutes = 0;
      } else {
        // Any other word stands before the numbers, and apart from them.
        return !begun && next() !== "number";
      }
      return true;
    };
    const offset = ({ kind }) => {
      begun = true;
      sign = kind;
      const { value, digits } = next() === "number" ? tokens[at++] : { value: 0, digits: "" };
      const length = next() === ":" ? 0 : digits.length;
      hours = length > 2 ? Math.trunc(value / 100) : value;
      minutes = length > 2 ? value % 100 : length > 0 ? 0 : undefined;
      return next() === ":" || within(length, 1, 4);
    };
    const comment = () => {
      for (let depth = 1; depth > 0 && at < tokens.length; at += 1) {
        if (next() === "(") depth += 1;
        if (next() === ")") depth -= 1;
      }
      return true;
    };
    while (at < tokens.length) {
      const token = tokens[at++];
      const signs = token.kind === "+" || token.kind === "-";
      let known = true;
      if (token.kind === "number") known = number(token);
      else if (token.kind === "word") known = word(token);
      else if (token.kind === "(") known = comment();
      else if (signs && ((hours === 0 && minutes === 0) || times.length > 0)) known = offset(token);
      else if (signs || token.kind === ")") known = !begun;
      if (!known) return NaN;
    }
    if (days.length === 0) return NaN;
    while (days.length < 3) days.push(1);
    while (times.length < 4) times.push(0);
    if (half !== undefined) {
      if (times[0] > 12) return NaN;
      times[0] = (times[0] % 12) + half;
    }
    // Missing parts of a day are 1, in whatever order the others stand.
    const [one, two, three] = days;
    const first = within(one, 1, 31);
    const [year, numbered, day] =
      month === undefined ? (first ? [three, one, two] : [one, two, three]) : first ? [two, month, one] : [one, month, two];
    if (!isTime(times) || !within(numbered, 1, 12) || !within(day, 1, 31)) return NaN;
    const away = ((hours ?? 0) * 60 + (minutes ?? 0)) * MINUTE;
    const full = within(year, 0, 49) ? year + 2000 : within(year, 50, 99) ? year + 1900 : year;
    return instantOf(full, numbered, day, times) - (sign === "-" ? -away : away);
  };
  return (given) => {
    const text = String(given);
    if (text.length > MOST) return NaN;
    if (apply(exec, USUAL, [text]) !== null) return Native.parse(text);
    const iso = apply(exec, ISO, [text]);
    const time = iso === null ? ofText(text) : ofIso(iso);
    return Math.abs(time) <= FURTHEST ? time : NaN;
  };
})
