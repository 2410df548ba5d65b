// The pieces of the web platform that authors expect, as far as they make sense within one transaction.
(function (native, room) {
  "use strict";
  const { look, turn, before } = room;
  const { defineProperty, getPrototypeOf, keys } = Object;
  const { apply } = Reflect;
  const hidden = (target, name, value) =>
    defineProperty(target, name, { value, writable: true, enumerable: false, configurable: true });
  const { fromBase64 } = Uint8Array;
  const { toBase64 } = Uint8Array.prototype;
  const fail = (name, message) => {
    throw new DOMException(message, name);
  };

  // --- text and bytes -----------------------------------------------------------------------------------------
  const viewed = (input) => {
    if (input === undefined) return new Uint8Array(0);
    if (ArrayBuffer.isView(input)) return new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
    if (input instanceof ArrayBuffer) return new Uint8Array(input);
    throw new TypeError("expected an ArrayBuffer or a view of one");
  };
  class TextEncoder {
    get encoding() {
      return "utf-8";
    }
    encode(text = "") {
      turn();
      return fromBase64(native.encode(`${text}`.toWellFormed()));
    }
    encodeInto(text, target) {
      if (!(target instanceof Uint8Array)) throw new TypeError("encodeInto writes into a Uint8Array");
      let read = 0;
      let written = 0;
      for (const character of `${text}`) {
        turn();
        const bytes = this.encode(character);
        if (written + bytes.length > target.length) break;
        target.set(bytes, written);
        written += bytes.length;
        read += character.length;
      }
      return { read, written };
    }
  }
  class TextDecoder {
    #fatal;
    #ignoreBOM;
    #left = [];
    // A mark of the byte order stands at the beginning of all that is decoded, not of each piece.
    #begun = false;
    constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
      if (!/^\s*(?:unicode-1-1-utf-8|utf-?8|unicode11utf8|unicode20utf8|x-unicode20utf8)\s*$/i.test(`${label}`)) {
        throw new RangeError(`only utf-8 is decoded here, not ${String(label).slice(0, 40)}`);
      }
      this.#fatal = Boolean(fatal);
      this.#ignoreBOM = Boolean(ignoreBOM);
    }
    get encoding() {
      return "utf-8";
    }
    get fatal() {
      return this.#fatal;
    }
    get ignoreBOM() {
      return this.#ignoreBOM;
    }
    decode(input, { stream = false } = {}) {
      turn();
      let bytes = viewed(input);
      before(bytes.length, 8);
      if (this.#left.length > 0) {
        const all = new Uint8Array(this.#left.length + bytes.length);
        all.set(this.#left);
        all.set(bytes, this.#left.length);
        bytes = all;
      }
      this.#left = [];
      if (stream) {
        // An unfinished character at the end waits for the next piece.
        let start = bytes.length;
        for (let back = 1; back <= 3 && back <= bytes.length; back += 1) {
          const byte = bytes[bytes.length - back];
          if (byte >= 0xc0) {
            if (back < (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2)) start = bytes.length - back;
            break;
          }
          if (byte < 0x80) break;
        }
        this.#left = Array.from(bytes.subarray(start));
        bytes = bytes.subarray(0, start);
      }
      const text = native.decode(apply(toBase64, bytes, []), this.#fatal);
      const marked = !this.#ignoreBOM && !this.#begun && text?.startsWith("\ufeff");
      this.#begun = stream && (this.#begun || text !== "");
      if (text === undefined) throw new TypeError("the bytes are not UTF-8");
      return marked ? text.slice(1) : text;
    }
  }
  const { atob, btoa } = {
    atob(text) {
      const bytes = (() => {
        try {
          return fromBase64(`${text}`.replace(/[\t\n\f\r ]/g, ""));
        } catch {
          return fail("InvalidCharacterError", "atob: the text is not base64");
        }
      })();
      let out = "";
      before(bytes.length, 2);
      for (let at = 0; at < bytes.length; at += 4096) out += String.fromCharCode(...bytes.subarray(at, at + 4096));
      return out;
    },
    btoa(text) {
      text = `${text}`;
      before(text.length, 4);
      const bytes = new Uint8Array(text.length);
      for (let at = 0; at < text.length; at += 1) {
        turn();
        const code = text.charCodeAt(at);
        if (code > 255) fail("InvalidCharacterError", "btoa: encode the text first, with TextEncoder");
        bytes[at] = code;
      }
      return apply(toBase64, bytes, []);
    },
  };

  // --- crypto -------------------------------------------------------------------------------------------------
  const integers = new Set([
    "Uint8Array", "Int8Array", "Uint8ClampedArray", "Uint16Array", "Int16Array", "Uint32Array", "Int32Array",
  ]);
  const tag = Object.getOwnPropertyDescriptor(getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag).get;
  const subtle = {
    async digest(algorithm, data) {
      const name = String(typeof algorithm === "object" && algorithm !== null ? algorithm.name : algorithm);
      const bytes = viewed(data);
      turn();
      if (bytes.length > 4 << 20) fail("QuotaExceededError", "digest takes at most 4 MiB at once");
      let digest;
      const piece = 64 << 10;
      for (let at = 0; at === 0 || at < bytes.length; at += piece) {
        look();
        const last = at + piece >= bytes.length;
        digest = native.digest(name.toUpperCase(), apply(toBase64, bytes.subarray(at, at + piece), []), at === 0, last);
        if (digest === undefined) break;
      }
      if (digest === undefined) fail("NotSupportedError", `digest: SHA-256, SHA-384 and SHA-512 are there, not ${name.slice(0, 40)}`);
      return fromBase64(digest).buffer;
    },
  };
  const crypto = {
    subtle,
    // Seeded as Math.random is: a rerun of the same call draws the same.
    getRandomValues(array) {
      turn();
      let kind;
      try {
        kind = apply(tag, array, []);
      } catch {}
      if (!integers.has(kind)) fail("TypeMismatchError", "getRandomValues fills an array of integers, like Uint8Array");
      if (array.byteLength > 65536) fail("QuotaExceededError", "getRandomValues fills at most 65,536 bytes at once");
      viewed(array).set(fromBase64(native.randomBytes(array.byteLength)));
      return array;
    },
    randomUUID() {
      turn();
      const bytes = fromBase64(native.randomBytes(16));
      bytes[6] = (bytes[6] & 0x0f) | 0x40;
      bytes[8] = (bytes[8] & 0x3f) | 0x80;
      return bytes.toHex().replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
    },
  };

  // --- URL ----------------------------------------------------------------------------------------------------
  const encode = (text) =>
    encodeURIComponent(`${text}`.toWellFormed()).replace(/[!'()~]|%20/g, (c) =>
      c === "%20" ? "+" : `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
    );
  const unescapeText = (text) => {
    const bytes = [];
    const raw = new TextEncoder().encode(text.replaceAll("+", " "));
    for (let at = 0; at < raw.length; at += 1) {
      turn();
      const hex = raw[at] === 0x25 ? String.fromCharCode(raw[at + 1] ?? 0, raw[at + 2] ?? 0) : "";
      if (/^[0-9a-f]{2}$/i.test(hex)) {
        bytes.push(parseInt(hex, 16));
        at += 2;
      } else {
        bytes.push(raw[at]);
      }
    }
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
  };
  let follow, renew;
  class URLSearchParams {
    #pairs = [];
    #changed;
    constructor(init = "") {
      if (typeof init === "object" && init !== null) {
        if (typeof init[Symbol.iterator] === "function") {
          for (const pair of init) {
            const [name, value, ...more] = pair;
            if (value === undefined || more.length > 0) throw new TypeError("each pair is [name, value]");
            this.#pairs.push([`${name}`.toWellFormed(), `${value}`.toWellFormed()]);
          }
        } else {
          for (const name of keys(init)) this.#pairs.push([name.toWellFormed(), `${init[name]}`.toWellFormed()]);
        }
      } else {
        this.#read(`${init}`.replace(/^\?/, ""));
      }
    }
    static {
      follow = (query, changed) => {
        const params = new URLSearchParams(query);
        params.#changed = changed;
        return params;
      };
      renew = (params, query) => {
        params.#pairs = [];
        params.#read(query.replace(/^\?/, ""));
      };
    }
    #read(query) {
      for (const part of query.split("&")) {
        turn();
        if (part === "") continue;
        const at = part.indexOf("=");
        const [name, value] = at < 0 ? [part, ""] : [part.slice(0, at), part.slice(at + 1)];
        this.#pairs.push([unescapeText(name), unescapeText(value)]);
      }
    }
    #tell() {
      this.#changed?.(this.toString());
    }
    get size() {
      return this.#pairs.length;
    }
    append(name, value) {
      this.#pairs.push([`${name}`.toWellFormed(), `${value}`.toWellFormed()]);
      this.#tell();
    }
    delete(name, value) {
      this.#pairs = this.#pairs.filter(([n, v]) => n !== `${name}` || (value !== undefined && v !== `${value}`));
      this.#tell();
    }
    get(name) {
      return this.#pairs.find(([n]) => n === `${name}`)?.[1] ?? null;
    }
    getAll(name) {
      return this.#pairs.filter(([n]) => n === `${name}`).map(([, value]) => value);
    }
    has(name, value) {
      return this.#pairs.some(([n, v]) => n === `${name}` && (value === undefined || v === `${value}`));
    }
    set(name, value) {
      const at = this.#pairs.findIndex(([n]) => n === `${name}`);
      if (at < 0) return this.append(name, value);
      this.#pairs = this.#pairs.filter(([n], index) => n !== `${name}` || index === at);
      this.#pairs[at][1] = `${value}`.toWellFormed();
      this.#tell();
    }
    sort() {
      this.#pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
      this.#tell();
    }
    forEach(visit, that) {
      for (const [name, value] of this.#pairs) apply(visit, that, [value, name, this]);
    }
    *entries() {
      for (const [name, value] of this.#pairs) yield [name, value];
    }
    *keys() {
      for (const [name] of this.#pairs) yield name;
    }
    *values() {
      for (const [, value] of this.#pairs) yield value;
    }
    [Symbol.iterator]() {
      return this.entries();
    }
    toString() {
      return this.#pairs.map(([name, value]) => `${encode(name)}=${encode(value)}`).join("&");
    }
  }
  // Parsing takes the longer the more there is of it, and cannot be interrupted.
  const mostOfUrl = 64 << 10;
  const parsed = (url, base, part, value) => {
    turn();
    const texts = [url, base, value].map((text) => (text === undefined ? text : `${text}`.toWellFormed()));
    if (texts.some((text) => text?.length > mostOfUrl)) throw new TypeError(`a URL is at most ${mostOfUrl} characters long`);
    return native.url(texts[0], texts[1], part, texts[2]);
  };
  class URL {
    #parts;
    #params;
    constructor(url, base) {
      const parts = parsed(url, base, "", "");
      if (parts === undefined) throw new TypeError(`'${String(url).slice(0, 200)}' is not a URL`);
      this.#parts = parts;
    }
    static canParse(url, base) {
      return parsed(url, base, "", "") !== undefined;
    }
    static parse(url, base) {
      try {
        return new URL(url, base);
      } catch {
        return null;
      }
    }
    static {
      const names = ["href", "origin", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash"];
      names.forEach((name, index) => {
        const { get, set } = {
          get() {
            return this.#parts[index];
          },
          set(value) {
            const parts = parsed(this.#parts[0], undefined, name, value);
            if (parts === undefined) {
              if (name === "href") throw new TypeError(`'${String(value).slice(0, 200)}' is not a URL`);
              return;
            }
            this.#parts = parts;
            if (this.#params !== undefined && (name === "search" || name === "href")) renew(this.#params, this.search);
          },
        };
        defineProperty(URL.prototype, name, { get, set: name === "origin" ? undefined : set, enumerable: true, configurable: true });
      });
    }
    get searchParams() {
      this.#params ??= follow(this.search, (query) => {
        this.#parts = parsed(this.#parts[0], undefined, "search", query) ?? this.#parts;
      });
      return this.#params;
    }
    toString() {
      return this.href;
    }
    toJSON() {
      return this.href;
    }
  }

  // --- structuredClone ----------------------------------------------------------------------------------------
  const errors = [Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError];
  const clone = (value, seen) => {
    turn();
    if (typeof value === "function" || typeof value === "symbol") {
      fail("DataCloneError", `a ${typeof value} cannot be cloned`);
    }
    if (typeof value !== "object" || value === null) return value;
    const known = seen.get(value);
    if (known !== undefined) return known;
    const keep = (made) => {
      seen.set(value, made);
      return made;
    };
    if (Array.isArray(value)) {
      const made = keep([]);
      made.length = value.length;
      for (const key of keys(value)) made[key] = clone(value[key], seen);
      return made;
    }
    if (value instanceof Date) return keep(new Date(value.getTime()));
    if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
    if (value instanceof ArrayBuffer) return keep(value.slice(0));
    if (value instanceof DataView) return keep(new DataView(clone(value.buffer, seen), value.byteOffset, value.byteLength));
    if (ArrayBuffer.isView(value)) {
      const Kind = globalThis[apply(tag, value, [])];
      return keep(new Kind(clone(value.buffer, seen), value.byteOffset, value.length));
    }
    if (value instanceof Map) {
      const made = keep(new Map());
      for (const [key, item] of [...value]) made.set(clone(key, seen), clone(item, seen));
      return made;
    }
    if (value instanceof Set) {
      const made = keep(new Set());
      for (const item of [...value]) made.add(clone(item, seen));
      return made;
    }
    if (value instanceof Error) {
      const Kind = errors.find((kind) => kind.name === value.name) ?? Error;
      const made = keep(new Kind(String(value.message)));
      hidden(made, "stack", String(value.stack));
      if ("cause" in value) hidden(made, "cause", clone(value.cause, seen));
      return made;
    }
    for (const Box of [Number, String, Boolean, BigInt]) {
      if (value instanceof Box) return keep(Object(value.valueOf()));
    }
    if (value instanceof Promise || value instanceof WeakMap || value instanceof WeakSet) {
      fail("DataCloneError", "this object cannot be cloned");
    }
    const made = keep({});
    for (const key of keys(value)) {
      defineProperty(made, key, { value: clone(value[key], seen), writable: true, enumerable: true, configurable: true });
    }
    return made;
  };
  const { structuredClone } = {
    structuredClone(value, options) {
      if (options?.transfer?.length > 0) fail("DataCloneError", "nothing is transferred here: there is no other thread");
      return clone(value, new Map());
    },
  };

  const globals = { URL, URLSearchParams, TextEncoder, TextDecoder, structuredClone, atob, btoa, crypto };
  for (const name of keys(globals)) hidden(globalThis, name, globals[name]);
  for (const kind of [URL, URLSearchParams, TextEncoder, TextDecoder]) {
    defineProperty(kind.prototype, Symbol.toStringTag, { value: kind.name, configurable: true });
  }
})
