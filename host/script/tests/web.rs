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
fn instants_are_read_with_small_letters_too() {
    let texts = "['2026-01-01t00:00:00z', '2026-01-01 00:00:00z', '2026-01t00:00z', '2026-01-01t01:00:00+01:00', '2026-01-01t00:00:00', '1 Oct 2026 00:00z', 'sat', '2026-01-01t']";
    let read = once(&format!("() => {texts}.map((text) => new Date(text)).map((date) => (isNaN(date) ? null : date))"));
    let first = r#""2026-01-01T00:00:00.000Z""#;
    assert_eq!(
        read.unwrap(),
        format!(r#"[{first},{first},{first},{first},{first},"2026-10-01T00:00:00.000Z",null,null]"#)
    );
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
