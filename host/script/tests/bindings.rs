//! What goes to the host and comes back.

use super::*;

#[test]
fn a_call_gives_a_result_at_once() {
    assert_eq!(
        once("() => store.createIfAbsent('t', { a: 1n, b: 'é' }, ['a'])").unwrap(),
        r#"{"ok":true,"data":{"record":{"a":"1","b":"é"},"created":true}}"#
    );
}

#[test]
fn a_failure_is_an_error_with_code_and_details() {
    assert_eq!(
        once("() => { const r = store.get('broken', {}); return [r.ok, r.error instanceof Error, r.error.code, r.error.message, r.error.retryable, r.error.details] }").unwrap(),
        r#"[false,true,"DUPLICATE","taken already",false,{"index":"u"}]"#
    );
}

#[test]
fn a_failure_thrown_on_keeps_its_code() {
    let outcome = once(
        "() => { const r = store.get('broken', {}); if (!r.ok) { try { throw r.error } catch (e) { e.message = 'lies'; throw e } } }",
    );
    let Err(ScriptError::Host(failure)) = outcome else { panic!("{outcome:?}") };
    assert_eq!((failure.code, failure.detail.as_str()), (Name::Duplicate, "taken already"));
}

#[test]
fn reading_data_on_the_result_itself_is_told() {
    for name in ["created", "record", "affected", "already", "records", "count", "workflowId", "eventId"] {
        let told = contract(once(&format!("() => store.get('t', {{}}).{name}")));
        assert!(told.contains(&format!("result.data.{name}")), "{told}");
    }
}

#[test]
fn arguments_keep_their_kinds() {
    let mut bench = Bench::new();
    bench
        .handle("() => void store.update('t', { a: undefined, b: null, c: -0, d: 1.5, e: 2 ** 53, f: 9007199254740993n, g: new Uint8Array([0, 200, 255]), h: new Date(5), i: [true, NaN], ['__proto__']: 1 })")
        .unwrap();
    let notes = bench.notes.borrow();
    let Value::Object(members) = &notes.calls[0].1[1] else { panic!("not an object") };
    let values: Vec<_> = members.iter().map(|(_, value)| value.clone()).collect();
    assert_eq!(
        values[..8],
        [
            Value::Undefined,
            Value::Null,
            Value::Int(0),
            Value::Real(1.5),
            Value::Real(9_007_199_254_740_992.0),
            Value::BigInt(9_007_199_254_740_993),
            Value::Blob(vec![0, 200, 255]),
            Value::Date(5)
        ]
    );
    assert!(matches!(&values[8], Value::Array(items) if matches!(items[1], Value::Real(nan) if nan.is_nan())));
    assert_eq!(members[9], ("__proto__".to_owned(), Value::Int(1)));
}

#[test]
fn a_bigint_beyond_64_bits_keeps_all_its_digits() {
    let mut bench = Bench::new();
    bench.handle("() => void notify.publish('t', { n: [2n ** 64n, -(2n ** 63n) - 1n] })").unwrap();
    let notes = bench.notes.borrow();
    let huge = |digits: &str| Value::Huge(digits.to_owned());
    let items = Value::Array(vec![huge("18446744073709551616"), huge("-9223372036854775809")]);
    assert_eq!(notes.calls[0].1[1], Value::Object(vec![("n".to_owned(), items)]));
}

#[test]
fn what_cannot_leave_is_refused_with_the_way_to_it() {
    for (value, told) in [
        ("{ items: [0, 1, 2, { x: () => 1 }] }", "record.items[3].x is a function"),
        ("{ s: Symbol() }", "record.s is a symbol"),
        ("{ 'a b': new Map() }", "record[\"a b\"] is a Map"),
        ("{ s: new Set() }", "record.s is a Set"),
        ("{ c: new (class Foo {}) }", "record.c is an instance of a class"),
        ("{ n: 2n ** 65536n }", "record.n is a BigInt of more than 65,536 bits"),
        ("{ t: '\\ud800' }", "record.t holds a lone surrogate"),
        ("{ '\\ud800': 1 }", "record holds a lone surrogate"),
        ("{ d: new Date(NaN) }", "record.d is an invalid Date"),
        ("{ e: new Error('x') }", "record.e is an Error"),
        ("{ f: new Float64Array(2) }", "record.f is a Float64Array"),
        ("{ p: Promise.resolve(1) }", "record.p is a Promise"),
        ("(() => { const a = { b: {} }; a.b.c = a; return a })()", "record.b.c refers back"),
        ("(() => { let a = 1; for (let i = 0; i < 200; i++) a = { a }; return a })()", "nested deeper than 128"),
    ] {
        let text = once(&format!(
            "() => {{ const r = store.createIfAbsent('t', {value}, []); return r.ok ? 'fine' : r.error.message }}"
        ))
        .unwrap();
        assert!(text.contains(&told.replace('"', "\\\"")), "{value}: {text}");
    }
}

#[test]
fn what_the_host_gives_is_made_without_loss() {
    let mut bench = Bench::new();
    assert_eq!(
        bench.handle("() => { const { data } = store.get('t', { a: 2n ** 63n - 1n, b: 1.5, c: 'x', d: new Uint8Array([1, 255]), ['__proto__']: 5 }); return [typeof data.a, data.a, data.d instanceof Uint8Array, data.d, Object.keys(data), Object.getPrototypeOf(data) === Object.prototype] }").unwrap(),
        r#"["bigint","9223372036854775807",true,"Af8=",["a","b","c","d","__proto__"],true]"#
    );
}

#[test]
fn console_has_the_methods_that_authors_expect() {
    for (code, lines) in [
        (
            "console.group('a'); console.log('b\\nc'); console.groupEnd(); console.groupEnd(); console.log('d')",
            vec!["a", "  b\n  c", "d"],
        ),
        (
            "console.count(); console.count('x'); console.count(); console.countReset(); console.count()",
            vec!["default: 1", "x: 1", "default: 2", "default: 1"],
        ),
        (
            "console.table([{ id: 1, name: 'long one' }, { id: 22 }])",
            vec!["(index)  id  name\n0        1   \"long one\"\n1        22"],
        ),
        (
            "console.table({ a: 5 }); console.table('x'); console.table([{ a: 1, b: 2 }], ['b'])",
            vec!["(index)  value\na        5", "x", "(index)  b\n0        2"],
        ),
        (
            "console.dir({ a: [1] }); console.assert(true); console.assert(1 > 2, 'no')",
            vec!["{ a: [1] }", "assertion failed no"],
        ),
        ("console.timeEnd('t')", vec!["there is no stopwatch 't': console.time('t') starts one"]),
    ] {
        let mut bench = Bench::new();
        bench.handle(&format!("() => {{ {code} }}")).unwrap();
        let said: Vec<_> = bench.notes.borrow().lines.iter().map(|(_, line)| line.clone()).collect();
        assert_eq!(said, lines, "{code}");
    }
}

#[test]
fn stopwatches_and_counts_of_one_run_are_not_seen_by_the_next() {
    let mut bench = Bench::new();
    bench.handle("() => { console.time('t'); console.group(); console.count(); console.timeLog('t', 5) }").unwrap();
    bench.handle("() => { console.timeEnd('t'); console.count() }").unwrap();
    let said: Vec<_> = bench.notes.borrow().lines.iter().map(|(_, line)| line.clone()).collect();
    assert!(said[1].starts_with("  t: ") && said[1].ends_with(" ms 5"), "{said:?}");
    assert_eq!(said[2..], ["there is no stopwatch 't': console.time('t') starts one", "default: 1"]);
}

#[test]
fn console_trace_says_where_it_was_called() {
    let mut bench = Bench::new();
    bench.handle("() => { const inner = () => console.trace('here'); inner() }").unwrap();
    let (level, line) = bench.notes.borrow().lines[0].clone();
    assert!(level == Level::Debug && line.starts_with("trace: here") && line.contains("at inner"), "{line}");
}

#[test]
fn console_writes_lines_with_levels() {
    let mut bench = Bench::new();
    bench.handle("() => { console.log('a', 1, { b: [2n, null] }); console.error(new TypeError('bad')) }").unwrap();
    let lines = &bench.notes.borrow().lines;
    assert_eq!(lines[0], (Level::Info, "a 1 { b: [2n, null] }".to_owned()));
    assert_eq!(lines[1].0, Level::Error);
    assert!(lines[1].1.starts_with("TypeError: bad\n"), "{}", lines[1].1);
}

#[test]
fn too_many_lines_and_too_long_ones_are_cut_and_said() {
    let mut bench = Bench::new();
    bench.limits.log_lines = 2;
    bench.limits.log_line = 10;
    bench.handle("() => { for (let i = 0; i < 9; i++) console.log('x'.repeat(100)) }").unwrap();
    let lines = &bench.notes.borrow().lines;
    assert_eq!(lines.len(), 3);
    assert!(lines[0].1.starts_with("xxxxxxxxxx… (cut at 10 bytes"), "{}", lines[0].1);
    assert!(lines[2].1.contains("limits.logLines"));
}

#[test]
fn flow_step_functions_say_where_they_belong() {
    for call in ["fetch('http://x')", "invoke({}, 'p', 'a', {})", "secret('s')", "run.workflowId"] {
        assert!(contract(once(&format!("() => {call}"))).contains("move it to a flow step"));
    }
}
