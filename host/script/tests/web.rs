//! The language environment that authors expect.

use super::*;

#[test]
fn pieces_of_the_web_platform_are_there() {
    for (code, gives) in [
        (
            "const u = new URL('../b?x=1&y=a+b#h', 'https://me:pw@example.com:8080/a/c'); return [u.href, u.origin, u.protocol, u.username, u.password, u.host, u.hostname, u.port, u.pathname, u.search, u.hash]",
            r##"["https://me:pw@example.com:8080/b?x=1&y=a+b#h","https://example.com:8080","https:","me","pw","example.com:8080","example.com","8080","/b","?x=1&y=a+b","#h"]"##,
        ),
        (
            "const u = new URL('http://a/'); u.searchParams.append('k', 'v é&'); u.pathname = '/x y'; u.hash = 'z'; return u",
            r##""http://a/x%20y?k=v+%C3%A9%26#z""##,
        ),
        (
            "const u = new URL('http://a/?q=1'); u.search = '?r=2'; return [u.searchParams.get('r'), u.searchParams.get('q')]",
            r#"["2",null]"#,
        ),
        (
            "const u = new URL('http://a/?q=1'), p = u.searchParams; u.search = '?r=2'; p.append('s', '3'); const one = u.href; u.href = 'http://b/?t=4'; p.delete('t'); p.append('v', '5'); u.pathname = '/x'; return [one, u.href, [...p], u.searchParams === p]",
            r#"["http://a/?r=2&s=3","http://b/x?v=5",[["v","5"]],true]"#,
        ),
        ("const u = new URL('http://a/'); u.port = '81x'; u.port = 'x'; return u.port", r#""81""#),
        ("return [URL.canParse('x'), URL.canParse('http://x'), URL.parse('nope')]", "[false,true,null]"),
        (
            "const p = new URLSearchParams('?a=1&b=2&a=%E2%82%AC+3'); p.set('b', 'x=y'); p.sort(); return [p.getAll('a'), p.has('c'), p.size, String(p), [...p]]",
            r#"[["1","€ 3"],false,3,"a=1&a=%E2%82%AC+3&b=x%3Dy",[["a","1"],["a","€ 3"],["b","x=y"]]]"#,
        ),
        ("return String(new URLSearchParams({ a: 1, b: 'c d' }))", r#""a=1&b=c+d""#),
        (
            "return [new TextEncoder().encode('é€😀'), new TextDecoder().decode(new Uint8Array([0xef, 0xbb, 0xbf, 0x61, 0xff]))]",
            "[\"w6nigqzwn5iA\",\"a\u{fffd}\"]",
        ),
        (
            "const d = new TextDecoder(); return d.decode(new Uint8Array([0xe2, 0x82]), { stream: true }) + d.decode(new Uint8Array([0xac]))",
            r#""€""#,
        ),
        (
            "const mark = [0xef, 0xbb, 0xbf], all = (d, ...parts) => parts.map((part, i) => d.decode(new Uint8Array(part), { stream: i + 1 < parts.length })).join('').length, d = new TextDecoder(); return [all(d, mark, mark, [0x61]), all(d, [0xef], [0xbb, 0xbf, 0x61], mark), all(d, mark), all(d, mark), all(new TextDecoder('utf-8', { ignoreBOM: true }), mark, mark)]",
            "[2,2,0,0,2]",
        ),
        (
            "try { new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array([255])) } catch (e) { return e.name }",
            r#""TypeError""#,
        ),
        ("return [btoa('hello\\xff'), atob('aGVsbG//').length]", r#"["aGVsbG//",6]"#),
        (
            "try { btoa('€') } catch (e) { return [e.name, e instanceof DOMException] }",
            r#"["InvalidCharacterError",true]"#,
        ),
        (
            "const a = { d: new Date(5), m: new Map([[1, { x: 1 }]]), s: new Set([1]), b: new Uint8Array([1]), r: /x/g }; a.self = a; const c = structuredClone(a); return [c !== a, c.self === c, c.d.getTime(), c.m.get(1).x, c.s.has(1), c.b, c.r.flags]",
            r#"[true,true,5,1,true,"AQ==","g"]"#,
        ),
        ("try { structuredClone(() => 1) } catch (e) { return e.name }", r#""DataCloneError""#),
        (
            "return crypto.subtle.digest('SHA-256', new TextEncoder().encode('abc')).then((d) => new Uint8Array(d).toHex())",
            r#""ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad""#,
        ),
        (
            "return /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID())",
            "true",
        ),
        ("const a = crypto.getRandomValues(new Uint32Array(4)); return new Set(a).size", "4"),
        ("return crypto.getRandomValues(new Float64Array(1)) && 1", "!"),
    ] {
        let outcome = once(&format!("(input, ctx) => {{ {code} }}"));
        match outcome {
            Ok(text) => assert_eq!(text, gives, "{code}"),
            Err(error) => assert_eq!(gives, "!", "{code}: {error:?}"),
        }
    }
}

#[test]
fn random_identifiers_follow_the_seed() {
    let mut bench = Bench::new();
    let draw = "() => [crypto.randomUUID(), crypto.getRandomValues(new Uint8Array(4)), Math.random()]";
    let first = bench.handle(draw).unwrap();
    assert_eq!(bench.handle(draw).unwrap(), first);
}

#[test]
fn texts_are_read_as_instants_as_in_node() {
    let lines = include_str!("instants.txt").lines().filter(|line| !line.starts_with('#'));
    let (texts, wanted): (Vec<&str>, Vec<&str>) = lines.map(|line| line.rsplit_once(' ').unwrap()).unzip();
    let read = "(text) => { const date = new Date(text); return isNaN(date) ? 'invalid' : date.toISOString() }";
    let read = once(&format!("() => [{}].map({read})", texts.join(","))).unwrap();
    let read: Vec<String> = serde_json::from_str(&read).unwrap();
    let wrong = texts.iter().zip(&read).zip(&wanted).filter(|((_, read), wanted)| read != *wanted);
    assert_eq!(wrong.collect::<Vec<_>>(), []);
    assert!(texts.len() > 200);
}

#[test]
fn what_a_date_is_shown_as_is_read_as_that_date() {
    let body = "let wrong = []; for (let at = -8.64e15; at <= 8.64e15; at += 1.23456789e13) { const date = new Date(at - at % 1000); for (const text of [String(date), date.toUTCString(), date.toISOString()]) if (+new Date(text) !== +date && date.getUTCFullYear() > 99) wrong.push(text) } return wrong";
    assert_eq!(once(&format!("() => {{ {body} }}")).unwrap(), "[]");
}

#[test]
fn dates_are_shown_as_in_the_united_states() {
    let body = "const at = (text) => new Date(text).toLocaleString(); return [at('2026-01-05T00:07:09Z'), at('2026-11-30T13:00:00Z'), new Date(0).toLocaleDateString(), new Date(0).toLocaleTimeString()]";
    let shown = r#"["1/5/2026, 12:07:09 AM","11/30/2026, 1:00:00 PM","1/1/1970","12:00:00 AM"]"#;
    assert_eq!(once(&format!("() => {{ {body} }}")).unwrap(), shown);
}

#[test]
fn years_of_two_digits_are_those_of_utc() {
    let date = "const d = new Date(Date.UTC(2023, 11, 31, 23)); const two = new Date(0); two.setYear(99)";
    let body =
        format!("() => {{ {date}; return [d.getYear(), two.toISOString(), new Date(NaN).getYear()].map(String) }}");
    assert_eq!(once(&body).unwrap(), r#"["123","1999-01-01T00:00:00.000Z","NaN"]"#);
}

/// Runs each body and compares what it gives, or the name of what it throws.
fn each_gives(cases: &[(&str, &str)]) {
    let tries: Vec<String> = cases
        .iter()
        .map(|(body, _)| format!("() => {{ try {{ {body} }} catch (e) {{ return `threw ${{e.name}}` }} }}"))
        .collect();
    let given =
        once(&format!("() => [{}].map((run) => JSON.stringify(run()) ?? 'undefined')", tries.join(","))).unwrap();
    let given: Vec<String> = serde_json::from_str(&given).unwrap();
    let wrong = cases.iter().zip(&given).filter(|((_, wanted), given)| given != wanted);
    assert_eq!(wrong.collect::<Vec<_>>(), []);
}

#[test]
fn values_are_cloned_as_in_node() {
    each_gives(&[
        ("return structuredClone()", r#""threw TypeError""#),
        ("return structuredClone(undefined)", "undefined"),
        ("return structuredClone({ a: [1, , 3], b: undefined, c: -0 })", r#"{"a":[1,null,3],"c":0}"#),
        ("return 1 in structuredClone([1, , 3])", "false"),
        ("return Object.keys(structuredClone(Object.assign([1], { x: 1 })))", r#"["0","x"]"#),
        ("return typeof structuredClone(1n) + structuredClone(1n)", r#""bigint1""#),
        ("return structuredClone({ get a() { return 5 }, [Symbol('s')]: 1, __proto__: { b: 1 } })", r#"{"a":5}"#),
        ("return structuredClone({ get a() { delete this.b; return 1 }, b: 2 })", r#"{"a":1}"#),
        ("return structuredClone({ get a() { throw new RangeError('x') } })", r#""threw RangeError""#),
        (
            r#"const c = structuredClone(JSON.parse('{"__proto__": 1}')); return [Object.keys(c), c instanceof Object]"#,
            r#"[["__proto__"],true]"#,
        ),
        (
            "class A { x = 1; #p = 2; get y() { return 3 } } const c = structuredClone(new A()); return [c, c instanceof A]",
            r#"[{"x":1},false]"#,
        ),
        ("return Object.isFrozen(structuredClone(Object.freeze({ a: 1 })))", "false"),
        ("const a = {}; a.list = [a]; const c = structuredClone(a); return [c.list[0] === c, c !== a]", "[true,true]"),
        (
            "let v = {}; for (let i = 0; i < 20000; i++) v = i % 2 ? { v } : new Map([['v', v]]); let c = structuredClone(v), n = 0; while ((c = c.get ? c.get('v') : c.v)) n += 1; return n",
            "20000",
        ),
        ("const x = {}, c = structuredClone([x, x]); return c[0] === c[1]", "true"),
        (
            "const m = new Map(); m.set(m, new Set([m])); const c = structuredClone(m); return [c.has(c), c.get(c).has(c), c.size]",
            "[true,true,1]",
        ),
        ("class D extends Date { getTime() { return 1 } } return +structuredClone(new D(7))", "7"),
        (
            "return [structuredClone(Object.create(Date.prototype)), structuredClone(Object.create(Map.prototype))]",
            "[{},{}]",
        ),
        (
            "const r = /a(b)/gi; r.lastIndex = 3; const c = structuredClone(r); return [String(c), c.lastIndex]",
            r#"["/a(b)/gi",0]"#,
        ),
        (
            "return [Object(1), Object('s'), Object(true)].map((box) => typeof structuredClone(box) + structuredClone(box))",
            r#"["object1","objects","objecttrue"]"#,
        ),
        (
            "const e = structuredClone(Object.assign(new TypeError('m', { cause: { a: 1 } }), { code: 5 })); return [e instanceof TypeError, e.message, e.cause, e.code, Object.keys(e)]",
            r#"[true,"m",{"a":1},null,[]]"#,
        ),
        (
            "class E extends RangeError { name = 'E' } const e = structuredClone(new E('m')); return [e.name, e instanceof RangeError, e instanceof Error]",
            r#"["Error",false,true]"#,
        ),
        (
            "const b = new ArrayBuffer(8), c = structuredClone({ a: new Uint8Array(b), b: new Uint16Array(b, 2, 2) }); return [c.a.buffer === c.b.buffer, c.b.byteOffset, c.b.length, c.a.buffer === b]",
            "[true,2,2,false]",
        ),
        (
            "const c = structuredClone(new DataView(new ArrayBuffer(8), 1, 3)); return [c.byteOffset, c.byteLength, c.buffer.byteLength]",
            "[1,3,8]",
        ),
        ("return structuredClone(new ArrayBuffer(4, { maxByteLength: 10 })).maxByteLength", "10"),
        ("return structuredClone(() => 1)", r#""threw DataCloneError""#),
        ("return structuredClone({ a: [class {}] })", r#""threw DataCloneError""#),
        ("return structuredClone([Symbol()])", r#""threw DataCloneError""#),
        ("return structuredClone(Object(Symbol()))", r#""threw DataCloneError""#),
        ("return structuredClone(new Proxy({}, {}))", r#""threw DataCloneError""#),
        ("return structuredClone([new Proxy([], {})])", r#""threw DataCloneError""#),
        ("return structuredClone(new WeakMap())", r#""threw DataCloneError""#),
        ("return structuredClone(Promise.resolve())", r#""threw DataCloneError""#),
        ("return structuredClone([].values())", r#""threw DataCloneError""#),
        ("return structuredClone((async function* () {})())", r#""threw DataCloneError""#),
    ]);
}

#[test]
fn a_buffer_is_transferred_by_a_clone_that_succeeds() {
    each_gives(&[
        (
            "const b = Uint8Array.of(1, 2).buffer, c = structuredClone({ u: new Uint8Array(b) }, { transfer: [b] }); return [b.byteLength, b.detached, [...c.u]]",
            "[0,true,[1,2]]",
        ),
        ("const b = new ArrayBuffer(4); structuredClone(1, { transfer: new Set([b]) }); return b.byteLength", "0"),
        (
            "const b = new ArrayBuffer(4); try { structuredClone(() => 1, { transfer: [b] }) } catch {} return b.byteLength",
            "4",
        ),
        (
            "const b = new ArrayBuffer(4); structuredClone(b, { transfer: [b] }); return structuredClone(b)",
            r#""threw DataCloneError""#,
        ),
        ("const b = new ArrayBuffer(4); return structuredClone(1, { transfer: [b, b] })", r#""threw DataCloneError""#),
        ("return structuredClone(1, { transfer: [{}] })", r#""threw DataCloneError""#),
        ("return structuredClone(1, { transfer: [1] })", r#""threw TypeError""#),
        ("return structuredClone(1, { transfer: 5 })", r#""threw TypeError""#),
        ("return structuredClone(1, 5)", r#""threw TypeError""#),
        ("return [structuredClone(1, null), structuredClone(1, {}), structuredClone(1, { transfer: [] })]", "[1,1,1]"),
    ]);
}

#[test]
fn parameters_of_an_address_are_live_while_they_are_gone_through() {
    each_gives(&[
        (
            "const p = new URLSearchParams('a=1&b=2&c=3&d=4'), seen = []; for (const [k] of p) { seen.push(k); p.delete(k) } return [seen, String(p)]",
            r#"[["a","c"],"b=2&d=4"]"#,
        ),
        (
            "const p = new URLSearchParams('a=1'), seen = []; for (const [k] of p) { seen.push(k); if (seen.length < 3) p.append('x', '1') } return seen",
            r#"["a","x","x"]"#,
        ),
        (
            "const p = new URLSearchParams('a=1&b=2&c=3'), seen = []; p.forEach((v, k) => { seen.push(k + v); p.delete('b') }); return seen",
            r#"["a1","c3"]"#,
        ),
        (
            "const p = new URLSearchParams('a=1&b=2&c=3'), keys = p.keys(); keys.next(); p.delete('a'); return [...keys]",
            r#"["c"]"#,
        ),
        (
            "const u = new URL('http://a/?a=1&b=2'); for (const [k] of u.searchParams) u.searchParams.set(k, 'x'); return u.href",
            r#""http://a/?a=x&b=x""#,
        ),
    ]);
}

#[test]
fn parameters_of_an_address_are_made_and_asked_as_in_node() {
    each_gives(&[
        (
            "return String(new URLSearchParams([['a', 1], ['b', undefined], new Set(['c', 'd'])]))",
            r#""a=1&b=undefined&c=d""#,
        ),
        ("return String(new URLSearchParams(new Map([['a', 1]])))", r#""a=1""#),
        ("return new URLSearchParams([['a']])", r#""threw TypeError""#),
        ("return new URLSearchParams(['ab'])", r#""threw TypeError""#),
        ("return new URLSearchParams().append('a')", r#""threw TypeError""#),
        ("return new URLSearchParams().get()", r#""threw TypeError""#),
        ("const p = new URLSearchParams('a=1&a=2&c=3&a=4'); p.set('a', 'x'); return String(p)", r#""a=x&c=3""#),
        (
            "const p = new URLSearchParams('a=1&a=2'); p.delete('a', '1'); return [String(p), p.has('a', '1'), p.has('a', undefined)]",
            r#"["a=2",false,true]"#,
        ),
        (
            "return [...new URLSearchParams('a=%F0%9F%98%80&b=%zz&c=%e9&d=%41+%2B')]",
            "[[\"a\",\"😀\"],[\"b\",\"%zz\"],[\"c\",\"\u{fffd}\"],[\"d\",\"A +\"]]",
        ),
        ("return URLSearchParams.prototype[Symbol.iterator] === URLSearchParams.prototype.entries", "true"),
    ]);
}

#[test]
fn texts_are_decoded_by_the_labels_of_the_web() {
    each_gives(&[
        (
            "return ['utf8', ' UTF-16 ', 'latin1', 'ascii', 'iso-8859-1', 'gbk', 'sjis', 'utf-16be'].map((label) => new TextDecoder(label).encoding)",
            r#"["utf-8","utf-16le","windows-1252","windows-1252","windows-1252","gbk","shift_jis","utf-16be"]"#,
        ),
        ("return new TextDecoder('latin1').decode(Uint8Array.of(0xe9, 0x80))", r#""é€""#),
        ("return new TextDecoder('utf-16le').decode(Uint8Array.of(0xff, 0xfe, 0x3d, 0xd8, 0x00, 0xde))", r#""😀""#),
        (
            "return new TextDecoder('utf-16le', { ignoreBOM: true }).decode(Uint8Array.of(0xff, 0xfe, 0x61, 0)).length",
            "2",
        ),
        ("return new TextDecoder('gbk').decode(Uint8Array.of(0xc4, 0xe3, 0xba, 0xc3))", r#""你好""#),
        (
            "return new TextDecoder('utf-16le', { fatal: true }).decode(Uint8Array.of(0x00, 0xd8))",
            r#""threw TypeError""#,
        ),
        ("return new TextDecoder('x-unknown')", r#""threw RangeError""#),
        ("return new TextDecoder('replacement')", r#""threw RangeError""#),
        ("return new TextDecoder('iso-2022-jp')", r#""threw RangeError""#),
        (
            "const d = new TextDecoder('utf-8', null); return [d.fatal, d.ignoreBOM, d.encoding, d.decode(), d.decode(undefined, null)]",
            r#"[false,false,"utf-8","",""]"#,
        ),
    ]);
    // Longer than what is decoded at once, with a character across each border.
    each_gives(&[
        (
            "const bytes = new TextEncoder().encode('€😀x'.repeat(1e5)); return new TextDecoder('utf-8', { fatal: true }).decode(bytes.subarray(1))",
            r#""threw TypeError""#,
        ),
        (
            "const text = '€😀x'.repeat(1e5); return new TextDecoder('utf-8', { fatal: true }).decode(new TextEncoder().encode(text)) === text",
            "true",
        ),
    ]);
    // Byte after byte comes to the same as all at once, and what is missing at the end is told.
    let pieces = "const bytes = Uint8Array.from(given), d = new TextDecoder(label); let text = ''; for (const byte of bytes) text += d.decode(Uint8Array.of(byte), { stream: true }); text += d.decode(); return text === new TextDecoder(label).decode(bytes)";
    let cases = "[['utf-8', [0xef, 0xbb, 0xbf, 0xf0, 0x9f, 0x98, 0x80, 0xe2, 0x82]], ['utf-8', [0xf0, 0x9f, 0x41, 0xff]], ['utf-16le', [0xff, 0xfe, 0x3d, 0xd8, 0x00, 0xde, 0x3d]], ['gb18030', [0x81, 0x30, 0x81, 0x30, 0xc4, 0xe3, 0xc4]], ['shift_jis', [0x82, 0xa0, 0x41, 0x82]], ['latin1', [0xe9, 0x80]]]";
    each_gives(&[(
        &format!("return {cases}.map(([label, given]) => {{ {pieces} }})"),
        "[true,true,true,true,true,true]",
    )]);
}

#[test]
fn the_web_s_older_hash_is_there() {
    let digest =
        "crypto.subtle.digest('sha-1', new TextEncoder().encode('abc')).then((d) => new Uint8Array(d).toHex())";
    assert_eq!(once(&format!("() => {digest}")).unwrap(), r#""a9993e364706816aba3e25717850c26c9cd0d89d""#);
    let told = once("() => crypto.subtle.sign('HMAC').catch((e) => e.message)").unwrap();
    assert!(told.contains("crypto.subtle.sign is not here, only digest"), "{told}");
}

#[test]
fn functions_are_shown_without_their_code() {
    each_gives(&[
        (
            "return [function foo(a) { return a }, (a) => a, class A {}, async () => 1, function* g() {}, { async *h() {} }.h, { get() {} }.get].map((f) => String(f).replace(/\\s+/g, ' '))",
            r#"["function foo() { [plugin code] }","function () { [plugin code] }","class A { [plugin code] }","async function () { [plugin code] }","function* g() { [plugin code] }","async function* h() { [plugin code] }","function get() { [plugin code] }"]"#,
        ),
        (
            "return [Map, Array.prototype.map, structuredClone, URL, handle.bind(null), new Proxy(handle, {})].map((f) => `${f}`.includes('[native code]'))",
            "[true,true,true,true,true,true]",
        ),
        ("return Function.prototype.toString.call({})", r#""threw TypeError""#),
    ]);
}

#[test]
fn parts_of_an_address_are_set_as_in_node() {
    let lines = || include_str!("addresses.txt").lines().filter(|line| !line.starts_with('#'));
    let set = "([from, part, to]) => { const url = new URL(from); if (part !== '') url[part] = to; return url.href }";
    let list: Vec<&str> = lines().collect();
    let set = once(&format!("() => [{}].map({set})", list.join(","))).unwrap();
    let set: Vec<String> = serde_json::from_str(&set).unwrap();
    let wanted = list.iter().map(|line| serde_json::from_str::<Vec<String>>(line).unwrap().remove(3));
    let wrong = list.iter().zip(&set).zip(wanted).filter(|((_, set), wanted)| *set != wanted);
    assert_eq!(wrong.collect::<Vec<_>>(), []);
    assert!(set.len() > 200);
}
