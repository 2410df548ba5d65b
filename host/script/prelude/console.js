// What goes into the log: `console`, and pictures of whatever a script made, for log lines and for what was thrown.
(function (native, room) {
  "use strict";
  const { turn } = room;
  const { keys, getPrototypeOf } = Object;

  // A bounded picture of any value, for log lines and for what was thrown. May run code of the script.
  const picture = (value, depth, room) => {
    switch (typeof value) {
      case "string":
        return depth === 0 ? value.slice(0, room) : JSON.stringify(value.slice(0, 200)) + (value.length > 200 ? "…" : "");
      case "bigint":
        return value < 1n << 256n && value > -(1n << 256n) ? `${value}n` : "a huge BigInt";
      case "symbol":
        return String(value).slice(0, 200);
      case "function":
        return "[function]";
      case "object":
        if (value === null) return "null";
        return pictureOfObject(value, depth, room);
      default:
        return String(value);
    }
  };
  const pictureOfObject = (value, depth, room) => {
    try {
      if (value instanceof Error) return pictureOfError(value);
      if (value instanceof Date) return Number.isNaN(+value) ? "an invalid Date" : value.toISOString();
      if (ArrayBuffer.isView(value)) return `[${value.constructor.name} of ${value.byteLength} bytes]`;
      if (depth >= 4) return Array.isArray(value) ? "[…]" : "{…}";
      const list = Array.isArray(value);
      const source =
        value instanceof Map ? Array.from(value.entries()) : value instanceof Set ? Array.from(value.values()) : value;
      let text = "";
      let count = 0;
      for (const key of keys(source)) {
        if (count === 100 || text.length > room) {
          text += ", …";
          break;
        }
        count += 1;
        const part = picture(source[key], depth + 1, room - text.length);
        text += (text === "" ? "" : ", ") + (list || source !== value ? part : `${key}: ${part}`);
      }
      return list || source !== value ? `[${text}]` : text === "" ? "{}" : `{ ${text} }`;
    } catch {
      return "[an object that cannot be read]";
    }
  };
  const text = (read) => {
    try {
      const value = read();
      return typeof value === "string" ? value : value === undefined ? "" : String(value);
    } catch {
      return "";
    }
  };
  const isError = (value) => {
    try {
      return value instanceof Error;
    } catch {
      return false;
    }
  };
  const sayingOf = (error) => {
    const name = text(() => error.name).slice(0, 200);
    const message = text(() => error.message).slice(0, 4000);
    return message === "" ? name || "Error" : name === "" ? message : `${name}: ${message}`;
  };
  const read = (value, name) => {
    try {
      return value[name];
    } catch {}
  };
  // With its causes, and the errors that it stands for.
  const pictureOfError = (error) => {
    const short = (value) => (isError(value) ? sayingOf(value).slice(0, 500) : picture(value, 1, 200));
    const met = [error];
    const parts = [];
    for (let cause = read(error, "cause"); cause !== undefined && !met.includes(cause) && met.length < 6; cause = read(cause, "cause")) {
      met.push(cause);
      parts.push(`caused by ${short(cause)}`);
      if (!isError(cause)) break;
    }
    const errors = read(error, "errors");
    if (Array.isArray(errors)) {
      for (let i = 0; i < errors.length && i < 5; i += 1) parts.push(short(read(errors, i)));
    }
    return parts.length === 0 ? sayingOf(error) : `${sayingOf(error)} (${parts.join("; ")})`;
  };
  const stackOf = (error) => (isError(error) ? text(() => error.stack).slice(0, 8000) : "");

  // The names of an error's classes, whose constructors stand above the place that made it.
  const classesOf = (error) => {
    const names = [];
    try {
      for (let level = getPrototypeOf(error); level !== null && names.length < 20; level = getPrototypeOf(level)) {
        const made = Object.getOwnPropertyDescriptor(level, "constructor")?.value;
        const name = typeof made === "function" ? Object.getOwnPropertyDescriptor(made, "name")?.value : undefined;
        if (typeof name === "string" && name.length < 200) names.push(name);
      }
    } catch {}
    return names;
  };

  // Of the run under way: how far lines are indented, what was counted, and when stopwatches were started.
  let indent = "";
  let counts;
  let watches;
  const write = (level, parts) => {
    turn();
    let line = indent;
    const room = native.room() + 1;
    for (const part of parts) {
      if (line.length > room) break;
      let shown = picture(part, 0, room);
      if (isError(part)) shown += `\n${stackOf(part)}`;
      line += (line === indent ? "" : " ") + shown;
    }
    native.log(level, (indent === "" ? line : line.replaceAll("\n", `\n${indent}`)).toWellFormed());
  };
  const label = (given) => (given === undefined ? "default" : picture(given, 0, 200));
  const stopwatch = (given, rest, over) => {
    const name = label(given);
    const began = watches.get(name);
    if (began === undefined) return write(2, [`there is no stopwatch '${name}': console.time('${name}') starts one`]);
    if (over) watches.delete(name);
    write(1, [`${name}: ${(native.elapsed() - began).toFixed(3)} ms`, ...rest]);
  };
  // Rows and columns of what `console.table` was given; undefined where it is nothing of that kind.
  const rowsOf = (data, wanted) => {
    if (typeof data !== "object" || data === null) return undefined;
    const rows = [];
    const columns = new Set(["(index)"]);
    for (const index of keys(data).slice(0, 100)) {
      turn();
      const cells = new Map([["(index)", index]]);
      const item = data[index];
      const flat = typeof item !== "object" || item === null;
      for (const name of flat ? ["value"] : (Array.isArray(wanted) ? wanted.map(String) : keys(item)).slice(0, 20)) {
        columns.add(name);
        cells.set(name, picture(flat ? item : item[name], 1, 200));
      }
      rows.push(cells);
    }
    return [[...columns].slice(0, 21), rows];
  };
  const tableOf = (data, wanted) => {
    const found = rowsOf(data, wanted);
    if (found === undefined) return data;
    const [columns, rows] = found;
    const lines = [columns, ...rows.map((cells) => columns.map((name) => cells.get(name) ?? ""))];
    const widths = columns.map((_, at) => Math.max(...lines.map((line) => line[at].length)));
    return lines.map((line) => line.map((cell, at) => cell.padEnd(widths[at])).join("  ").trimEnd()).join("\n");
  };
  const group = (...parts) => {
    if (parts.length > 0) write(1, parts);
    if (indent.length < 40) indent += "  ";
  };
  const console = {
    debug(...parts) {
      write(0, parts);
    },
    log(...parts) {
      write(1, parts);
    },
    info(...parts) {
      write(1, parts);
    },
    warn(...parts) {
      write(2, parts);
    },
    error(...parts) {
      write(3, parts);
    },
    // With the place that it is called from.
    trace(...parts) {
      const stack = text(() => new Error().stack).split("\n").slice(1).join("\n");
      write(0, [parts.length === 0 ? `trace\n${stack}` : "trace:", ...parts, ...(parts.length === 0 ? [] : [`\n${stack}`])]);
    },
    assert(condition, ...parts) {
      if (!condition) write(3, ["assertion failed", ...parts]);
    },
    dir(value) {
      write(1, [value]);
    },
    table(data, columns) {
      write(1, [tableOf(data, columns)]);
    },
    group,
    groupCollapsed: group,
    groupEnd() {
      indent = indent.slice(2);
    },
    count(name) {
      const count = (counts.get(label(name)) ?? 0) + 1;
      counts.set(label(name), count);
      write(1, [`${label(name)}: ${count}`]);
    },
    countReset(name) {
      counts.delete(label(name));
    },
    // The script's own clock stands still; this one is seen by nobody but the reader of the log.
    time(name) {
      if (watches.size < 1_000) watches.set(label(name), native.elapsed());
    },
    timeLog(name, ...rest) {
      stopwatch(name, rest, false);
    },
    timeEnd(name, ...rest) {
      stopwatch(name, rest, true);
    },
  };
  const begin = () => {
    indent = "";
    counts = new Map();
    watches = new Map();
  };
  begin();
  return { picture, stackOf, isError, classesOf, text, console, begin };
})
