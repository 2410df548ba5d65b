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
  // Bytes that are decoded at once.
  const PIECE = 256 << 10;
  class TextDecoder {
    #encoding;
    #fatal;
    #ignoreBOM;
    // Bytes of a character that is not complete, from one piece to the next.
    #left = new Uint8Array(0);
    // A mark of the byte order stands at the beginning of all that is decoded, not of each piece.
    #begun = false;
    constructor(label = "utf-8", options) {
      const { fatal = false, ignoreBOM = false } = options ?? {};
      this.#encoding = label === "utf-8" ? label : native.encoding(`${label}`.toWellFormed().slice(0, 100));
      if (this.#encoding === undefined) {
        throw new RangeError(
          `there is no encoding '${String(label).slice(0, 40)}': those of the web are, like utf-8, utf-16le, latin1 and gbk`,
        );
      }
      this.#fatal = Boolean(fatal);
      this.#ignoreBOM = Boolean(ignoreBOM);
    }
    get encoding() {
      return this.#encoding;
    }
    get fatal() {
      return this.#fatal;
    }
    get ignoreBOM() {
      return this.#ignoreBOM;
    }
    decode(input, options) {
      turn();
      const { stream = false } = options ?? {};
      let bytes = viewed(input);
      before(bytes.length, 8);
      if (this.#left.length > 0) {
        const all = new Uint8Array(this.#left.length + bytes.length);
        all.set(this.#left);
        all.set(bytes, this.#left.length);
        bytes = all;
      }
      const begun = this.#begun;
      this.#left = new Uint8Array(0);
      this.#begun = false;
      let text = "";
      let at = 0;
      for (let end = 0; end < bytes.length || end === 0; ) {
        look();
        end = Math.min(at + PIECE, bytes.length);
        const bare = !this.#ignoreBOM && !begun && at === 0;
        const more = Boolean(stream) || end < bytes.length;
        const piece = native.decode(apply(toBase64, bytes.subarray(at, end), []), this.#encoding, this.#fatal, bare, more);
        if (piece === undefined) throw new TypeError(`the bytes are not of the encoding ${this.#encoding}`);
        text += piece[0];
        at = end - piece[1];
        if (end === 0) break;
      }
      if (stream) {
        this.#left = bytes.slice(at);
        this.#begun = begun || at > 0;
      }
      return text;
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
      if (digest === undefined) fail("NotSupportedError", `digest: SHA-1, SHA-256, SHA-384 and SHA-512 are there, not ${name.slice(0, 40)}`);
      return fromBase64(digest).buffer;
    },
  };
  const keyed = [
    "decrypt", "deriveBits", "deriveKey", "encrypt", "exportKey", "generateKey", "importKey", "sign", "unwrapKey", "verify", "wrapKey",
  ];
  for (const name of keyed) {
    const refused = {
      async [name]() {
        fail("NotSupportedError", `crypto.subtle.${name} is not here, only digest: sign with a package of plain JavaScript, such as @noble/hashes`);
      },
    };
    subtle[name] = refused[name];
  }
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
    if (!text.includes("%")) return text.replaceAll("+", " ").toWellFormed();
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
  const given = (all, wanted, name, what) => {
    if (all.length < wanted) throw new TypeError(`${name} takes ${what}`);
  };
  // The first is always there; of the others `undefined` stays.
  const texts = (first, ...rest) => {
    const textOf = (value) => `${value}`.toWellFormed();
    return [textOf(first), ...rest.map((value) => (value === undefined ? value : textOf(value)))];
  };
  let follow, renew;
  class URLSearchParams {
    #pairs = [];
    #changed;
    constructor(init = "") {
      if ((typeof init !== "object" && typeof init !== "function") || init === null) {
        this.#read(`${init}`.replace(/^\?/, ""));
      } else if (init[Symbol.iterator] === undefined || init[Symbol.iterator] === null) {
        for (const name of keys(init)) this.#add(name, init[name]);
      } else {
        for (const pair of init) {
          const parts = typeof pair === "object" && pair !== null ? [...pair] : [];
          if (parts.length !== 2) throw new TypeError("URLSearchParams takes pairs, [name, value]");
          this.#add(parts[0], parts[1]);
        }
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
    #add(name, value) {
      turn();
      this.#pairs.push([`${name}`.toWellFormed(), `${value}`.toWellFormed()]);
    }
    get size() {
      return this.#pairs.length;
    }
    append(name, value) {
      given(arguments, 2, "append", "a name and a value");
      this.#add(name, value);
      this.#tell();
    }
    delete(name, value) {
      given(arguments, 1, "delete", "a name");
      [name, value] = texts(name, value);
      this.#pairs = this.#pairs.filter(([n, v]) => n !== name || (value !== undefined && v !== value));
      this.#tell();
    }
    get(name) {
      given(arguments, 1, "get", "a name");
      [name] = texts(name);
      return this.#pairs.find(([n]) => n === name)?.[1] ?? null;
    }
    getAll(name) {
      given(arguments, 1, "getAll", "a name");
      [name] = texts(name);
      return this.#pairs.filter(([n]) => n === name).map(([, value]) => value);
    }
    has(name, value) {
      given(arguments, 1, "has", "a name");
      [name, value] = texts(name, value);
      return this.#pairs.some(([n, v]) => n === name && (value === undefined || v === value));
    }
    set(name, value) {
      given(arguments, 2, "set", "a name and a value");
      [name] = texts(name);
      value = `${value}`.toWellFormed();
      const at = this.#pairs.findIndex(([n]) => n === name);
      if (at < 0) {
        this.#add(name, value);
      } else {
        this.#pairs = this.#pairs.filter(([n], index) => n !== name || index === at);
        this.#pairs[at] = [name, value];
      }
      this.#tell();
    }
    sort() {
      this.#pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
      this.#tell();
    }
    forEach(visit, that) {
      if (typeof visit !== "function") throw new TypeError("forEach takes a function");
      for (let i = 0; i < this.#pairs.length; i += 1) {
        const [name, value] = this.#pairs[i];
        apply(visit, that, [value, name, this]);
      }
    }
    // They go through what is there when they come to it, as those of a Map do.
    *entries() {
      for (let i = 0; i < this.#pairs.length; i += 1) yield [...this.#pairs[i]];
    }
    *keys() {
      for (let i = 0; i < this.#pairs.length; i += 1) yield this.#pairs[i][0];
    }
    *values() {
      for (let i = 0; i < this.#pairs.length; i += 1) yield this.#pairs[i][1];
    }
    toString() {
      return this.#pairs.map(([name, value]) => `${encode(name)}=${encode(value)}`).join("&");
    }
  }
  hidden(URLSearchParams.prototype, Symbol.iterator, URLSearchParams.prototype.entries);
  // Parsing takes the longer the more there is of it, and cannot be interrupted.
  const mostOfUrl = 64 << 10;
  const parsed = (url, base, part, value) => {
    turn();
    const all = texts(url, base, value);
    if (all.some((text) => text?.length > mostOfUrl)) throw new TypeError(`a URL is at most ${mostOfUrl} characters long`);
    return native.url(all[0], all[1], part, all[2]);
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
            const parts = parsed(this.#parts[0], undefined, name, `${value}`);
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

  const globals = { URL, URLSearchParams, TextEncoder, TextDecoder, atob, btoa, crypto };
  for (const name of keys(globals)) hidden(globalThis, name, globals[name]);
  for (const kind of [URL, URLSearchParams, TextEncoder, TextDecoder]) {
    defineProperty(kind.prototype, Symbol.toStringTag, { value: kind.name, configurable: true });
  }
})
