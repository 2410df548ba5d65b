//! Results as JSON text.

use super::*;

#[test]
fn values_take_their_json_form() {
    for (value, text) in [
        ("1", "1"),
        ("-0", "0"),
        ("1e21", "1e+21"),
        ("0.1 + 0.2", "0.30000000000000004"),
        ("1e-7", "1e-7"),
        ("2 ** 53", "9007199254740992"),
        ("'a\"\\\\\\n\\u0001\u{2028}é😀'", "\"a\\\"\\\\\\n\\u0001\u{2028}é😀\""),
        ("10n ** 30n", "\"1000000000000000000000000000000\""),
        ("(2n ** 65535n).toString().length", "19729"),
        ("[2n ** 65535n].toString() === String(2n ** 65535n)", "true"),
        ("new Uint8Array([1, 2, 255])", "\"AQL/\""),
        ("new Date(1)", "\"1970-01-01T00:00:00.001Z\""),
        ("{ a: undefined, b: [undefined, , null] }", "{\"b\":[null,null,null]}"),
        ("{ toJSON(key) { return { key } } }", "{\"key\":\"\"}"),
        ("[{ toJSON(key) { return key } }]", "[\"0\"]"),
        ("{ m: { toJSON(key) { return this === undefined ? 0 : key } } }", "{\"m\":\"m\"}"),
        ("new (class { x = 1; get y() { return 2 } })", "{\"x\":1}"),
        ("[new Number(5), new String('s'), new Boolean(false)]", "[5,\"s\",false]"),
        ("{ ['__proto__']: 1, 1: 2 }", "{\"1\":2,\"__proto__\":1}"),
        ("Object.create(null)", "{}"),
        ("(() => { const a = [1]; return [a, a] })()", "[[1],[1]]"),
        ("[function* () { yield 1 }().next()]", "[{\"value\":1,\"done\":false}]"),
    ] {
        assert_eq!(once(&format!("() => ({value})")).unwrap(), text, "{value}");
    }
}

#[test]
fn what_has_no_json_form_is_contract_with_the_path() {
    for (value, told) in [
        ("() => 1", "the result is a function"),
        ("{ a: [Symbol()] }", "the result.a[0] is a symbol"),
        ("{ a: new Map() }", "the result.a is a Map"),
        ("{ a: (function* () { yield 1 })() }", "the result.a is an iterator"),
        ("{ a: (async function* () { yield 1 })() }", "the result.a is an iterator"),
        ("{ a: [1].values() }", "the result.a is an iterator"),
        ("{ a: NaN }", "the result.a is NaN"),
        ("[-Infinity]", "the result[0] is Infinity"),
        ("(() => { const a = {}; a.a = a; return a })()", "the result.a refers back"),
        ("'\\udc00'", "lone surrogate"),
        ("new Error('x')", "is an Error (x), which has no JSON form"),
        ("new Error()", "is an Error, which"),
        ("new Error('é'.repeat(300))", "éé…), which"),
        ("({ error: Object.assign(new Error('x'), { message: {} }) })", "is an Error, which"),
        ("{ toJSON() { return () => 1 } }", "is a function"),
        ("{ d: new Date(NaN) }", "invalid Date"),
        ("/x/", "is a RegExp"),
        ("[2n ** 65536n]", "the result[0] is a BigInt of more than 65,536 bits"),
        ("new ArrayBuffer(8)", "is an ArrayBuffer"),
    ] {
        let text = contract(once(&format!("() => ({value})")));
        assert!(text.contains(told), "{value}: {text}");
    }
}

#[test]
fn what_the_scripts_own_code_throws_while_it_is_written_is_thrown() {
    for value in ["{ toJSON() { throw new Error('mine') } }", "{ get a() { throw new Error('mine') } }"] {
        let outcome = once(&format!("() => ({value})"));
        assert!(
            matches!(&outcome, Err(ScriptError::Thrown { message, .. }) if message == "Error: mine"),
            "{outcome:?}"
        );
    }
}

#[test]
fn size_and_depth_have_an_end() {
    for (value, told) in [
        ("'x'.repeat(50e6)", "limits.result"),
        ("Array.from({ length: 400000 }, () => 'abc')", "limits.result"),
        ("new Array(2 ** 32 - 1)", "limits.result"),
        ("new Uint8Array(40e6)", "limits.result"),
        ("(() => { let a = 1; for (let i = 0; i < 1000; i++) a = [a]; return a })()", "128 levels"),
    ] {
        let outcome = once(&format!("() => {value}"));
        assert!(
            matches!(&outcome, Err(ScriptError::Limit { what, .. }) if what.contains(told)),
            "{value}: {outcome:?}"
        );
    }
}

#[test]
fn bytes_whose_buffer_is_gone_are_contract_with_the_path() {
    for (make, path) in [
        (
            "(() => { const a = new Uint8Array(4); a.buffer.transfer(); return { x: [a] } })()",
            "the result.x[0] is a Uint8Array",
        ),
        (
            "(() => { const b = new ArrayBuffer(8, { maxByteLength: 8 }); const a = new Uint8Array(b, 4, 4); b.resize(2); return a })()",
            "the result is a Uint8Array",
        ),
    ] {
        let told = contract(once(&format!("() => {make}")));
        assert!(told.starts_with(path) && told.contains("bytes.slice()"), "{told}");
    }
    let told =
        contract(once("() => { const a = new Uint8Array(4); a.buffer.transfer(); throw store.get('t', { a }).error }"));
    assert!(told.starts_with("where.a is a Uint8Array without"), "{told}");
}
