//! What scripts throw, and what becomes of it.

use super::*;
use crate::config::{LEAST_MEMORY, LEAST_STACK, MOST_STACK};

fn thrown(function: &str) -> String {
    match once(function) {
        Err(ScriptError::Thrown { message, .. }) => message,
        other => panic!("{function}: {other:?}"),
    }
}

fn limit(bench: &mut Bench, function: &str) -> String {
    match bench.handle(function) {
        Err(ScriptError::Limit { what, .. }) => {
            assert!(bench.engine.is_spent(), "{function}");
            what
        }
        other => panic!("{function}: {other:?}"),
    }
}

#[test]
fn biz_errors_carry_name_status_and_details() {
    let outcome =
        once("() => { throw new BizError('REGION_CLOSED', 'closed', { status: 409, details: { at: new Date(0) } }) }");
    assert_eq!(
        outcome,
        Err(ScriptError::Business {
            name: "REGION_CLOSED".to_owned(),
            message: "closed".to_owned(),
            status: 409,
            details: serde_json::json!({ "at": "1970-01-01T00:00:00.000Z" }),
        })
    );
}

#[test]
fn biz_errors_of_a_wrong_form_are_contract() {
    for (arguments, told) in [
        ("'lower', 'x'", "capitals"),
        ("'CONTRACT', 'x'", "host's own"),
        ("'A', 5", "message"),
        ("'A', 'x', { status: 500 }", "400 to 499"),
        ("'A', 'x', 5", "third argument"),
    ] {
        let text = contract(once(&format!("() => {{ throw new BizError({arguments}) }}")));
        assert!(text.contains(told), "{text}");
    }
}

#[test]
fn discard_says_why() {
    assert_eq!(
        once("async () => { throw new Discard('no such video') }"),
        Err(ScriptError::Discard { why: "no such video".to_owned() })
    );
}

#[test]
fn anything_can_be_thrown() {
    for (value, told) in [
        ("Object.freeze(new TypeError('frozen'))", "TypeError: frozen"),
        ("(() => { const a = new Error('a'); a.cause = a; return a })()", "Error: a"),
        ("Object.defineProperty(new Error('x'), 'stack', { get() { throw 1 } })", "Error: x"),
        ("Object.assign(new Error('x'), { name: { toString() { throw 1 } } })", "x"),
    ] {
        assert_eq!(thrown(&format!("() => {{ throw {value} }}")), told, "{value}");
        assert_eq!(thrown(&format!("async () => {{ throw {value} }}")), told, "{value}");
    }
}

#[test]
fn what_is_no_error_is_named_and_says_to_throw_one() {
    for (value, told) in [
        ("undefined", "undefined"),
        ("null", "null"),
        ("'text'", "the text \"text\""),
        ("''", "the text \"\""),
        ("5", "5"),
        ("5n", "5n"),
        ("Symbol('s')", "Symbol(s)"),
        ("{ code: 1 }", "{ code: 1 }"),
        ("{ get message() { throw 1 } }", "[an object that cannot be read]"),
        ("new Proxy({}, { ownKeys() { throw 1 } })", "[an object that cannot be read]"),
        ("new Proxy({}, { getPrototypeOf() { throw 1 } })", "[an object that cannot be read]"),
        ("() => 1", "[function]"),
    ] {
        for handler in [format!("() => {{ throw {value} }}"), format!("async () => {{ throw {value} }}")] {
            let message = thrown(&handler);
            assert!(message.starts_with(&format!("{told} was thrown, ")), "{value}: {message}");
            assert!(message.contains("throw new Error('what went wrong'), or a BizError"), "{value}: {message}");
        }
    }
}

#[test]
fn what_is_locked_says_why_with_the_way_out() {
    for code in [
        "Array.prototype.mine = 1",
        "Array.prototype.map = 1",
        "Object.prototype.toString = 1",
        "Math.random = () => 4",
        "console.log = () => {}",
        "store.seen = 1",
        "store.get = 1",
        "ctx.now = ''",
        "ctx.settings.a = 1",
        "delete Array.prototype.map",
        "Object.defineProperty(Array.prototype, 'map', { value: 1 })",
        "Object.setPrototypeOf(Map.prototype, {})",
    ] {
        let message = thrown(&format!("(input, ctx) => {{ {code} }}"));
        assert!(message.contains("nothing may outlive an invocation"), "{code}: {message}");
        assert!(message.contains("in the store what must last"), "{code}: {message}");
    }
}

#[test]
fn a_huge_message_is_bounded() {
    assert!(thrown("() => { throw new Error('x'.repeat(20e6)) }").len() < 5000);
    assert!(thrown("() => { throw 'x'.repeat(20e6) }").len() < 5000);
}

#[test]
fn causes_of_an_error_are_told_with_it() {
    for (code, told) in [
        (
            "throw new Error('a', { cause: new TypeError('b', { cause: 'c' }) })",
            r#"Error: a (caused by TypeError: b; caused by "c")"#,
        ),
        (
            "const a = new Error('a'), b = new Error('b', { cause: a }); a.cause = b; throw a",
            "Error: a (caused by Error: b)",
        ),
        (
            "throw new Error('a', { cause: { get x() { throw 1 } } })",
            "Error: a (caused by [an object that cannot be read])",
        ),
        ("throw Object.defineProperty(new Error('a'), 'cause', { get() { throw 1 } })", "Error: a"),
        ("throw new AggregateError([new Error('one'), 'two'], 'all')", r#"AggregateError: all (Error: one; "two")"#),
        ("return Promise.any([Promise.reject(new Error('x'))])", "AggregateError (Error: x)"),
    ] {
        assert_eq!(thrown(&format!("() => {{ {code} }}")), told, "{code}");
    }
    let far = thrown(
        "() => { let e = 1; const m = 'x'.repeat(2000); for (let i = 0; i < 1e4; i++) e = new Error(m, { cause: e }); throw e }",
    );
    assert!(far.len() < 6_000, "{} bytes", far.len());
}

#[test]
fn function_constructor_says_the_way_out() {
    assert!(thrown("() => new Function('return 1')").contains("no code is made from strings"));
}

#[test]
fn a_loop_ends_at_the_deadline_and_cannot_catch_it() {
    for function in [
        "() => { for (;;) {} }",
        "() => { try { for (;;) {} } catch { return 1 } finally { for (;;) {} } }",
        "async () => { try { for (;;) {} } catch { return 1 } }",
        "async () => { for (;;) await null }",
        "() => { (async () => { for (;;) await null })(); return 1 }",
        "() => { const f = () => Promise.resolve().then(f); f(); return 1 }",
        "() => { for (;;) { try { for (;;) {} } catch {} } }",
        "() => [1].map(() => { for (;;) {} })",
        "() => /(a*)*b/.test('a'.repeat(40))",
        "() => ({ toJSON() { for (;;) {} } })",
        "() => ({ get x() { for (;;) {} } })",
        "() => { throw { get message() { for (;;) {} } } }",
        "() => { throw Object.defineProperty(new Error('x'), 'stack', { get() { for (;;) {} } }) }",
        "() => { store.get('t', { get x() { for (;;) {} } }) }",
    ] {
        let mut bench = Bench::new();
        bench.limits.time = Duration::from_millis(40);
        let what = limit(&mut bench, function);
        assert!(what.contains("limits.handler"), "{function}: {what}");
    }
}

#[test]
fn memory_has_an_end() {
    for function in [
        "() => { const a = []; for (;;) a.push(new Array(1000).fill(0)) }",
        "() => { let a; for (;;) a = { a } }",
        "() => { let s = 'x'; for (;;) s += s }",
        "() => new ArrayBuffer(1e9)",
        "() => { const m = new Map(); for (let i = 0; ; i++) m.set(i, { i }) }",
        "async () => { let a; for (;;) { a = { a }; await a.b } }",
    ] {
        let mut bench = Bench::with(EngineLimits { memory: 16 << 20, ..EngineLimits::default() });
        bench.limits.time = Duration::from_secs(20);
        let what = limit(&mut bench, function);
        assert!(what.contains("16 MiB"), "{function}: {what}");
    }
}

#[test]
fn throwing_null_is_not_running_out_of_memory() {
    assert!(thrown("() => { throw null }").starts_with("null was thrown"));
    assert!(thrown("() => { new Array(100).fill({}); throw null }").starts_with("null was thrown"));
}

#[test]
fn recursion_has_an_end() {
    let mut bench = Bench::new();
    let what = limit(&mut bench, "() => { const f = () => f() + 1; return f() }");
    assert!(what.contains("limits.stack"), "{what}");
}

#[test]
fn the_most_and_the_least_limits_end_a_recursion_on_the_threads_of_scripts() {
    for (memory, stack) in [(64 << 20, MOST_STACK), (LEAST_MEMORY, LEAST_STACK)] {
        let run = move || {
            let mut bench = Bench::with(EngineLimits { memory, stack });
            bench.limits.time = Duration::from_secs(30);
            assert_eq!(bench.handle("() => [1, 2].map((x) => x + 1)").unwrap(), "[2,3]");
            let what = limit(&mut bench, "() => { const f = () => f() + 1; return f() }");
            assert!(what.contains("limits."), "{what}");
        };
        let thread = std::thread::Builder::new().stack_size(crate::script::THREAD_STACK);
        thread.spawn(run).unwrap().join().unwrap();
    }
}

#[test]
fn a_heap_too_small_for_the_realm_is_refused_and_no_endless_loop() {
    let Err(ScriptError::Limit { what, .. }) = Engine::new(EngineLimits { memory: 1, ..EngineLimits::default() })
    else {
        panic!("it started")
    };
    assert!(what.contains("limits.memory"), "{what}");
}

#[test]
fn a_huge_message_is_not_told_as_a_run_that_took_too_long() {
    for function in
        ["() => { throw new Error('x'.repeat(50_000_000)) }", "() => { throw new Error('é→'.repeat(25_000_000)) }"]
    {
        let mut bench = Bench::new();
        bench.limits.time = Duration::from_secs(30);
        let outcome = bench.handle(function);
        let wrong = matches!(&outcome, Err(ScriptError::Limit { what, .. }) if what.contains("limits.handler"));
        assert!(outcome.is_err() && !wrong, "{outcome:?}");
    }
}

#[test]
fn host_calls_have_an_end_that_cannot_be_caught() {
    let mut bench = Bench::new();
    bench.limits.host_calls = 5;
    let what = limit(&mut bench, "() => { for (;;) { try { store.get('t', {}) } catch {} } }");
    assert!(what.contains("more than 5 calls"), "{what}");
    assert_eq!(bench.notes.borrow().calls.len(), 5);
}

#[test]
fn engines_that_were_stopped_are_dropped_without_harm() {
    for _ in 0..100 {
        let mut bench = Bench::with(EngineLimits { memory: 4 << 20, ..EngineLimits::default() });
        bench.limits.time = Duration::from_millis(1);
        for function in ["() => { let a; for (;;) a = { a } }", "async () => { for (;;) await { a: [] } }"] {
            assert!(bench.handle(function).is_err());
        }
    }
}

struct Panics;

impl Host for Panics {
    fn call(&mut self, _: Binding, _: Vec<Value>) -> Result<Value, Failure> {
        panic!("the host is broken")
    }

    fn log(&mut self, _: Level, _: String) {}
}

#[test]
fn a_panic_of_the_host_passes_through_and_the_engine_is_spent() {
    let mut engine = Engine::new(EngineLimits::default()).unwrap();
    let code = handler("() => { try { store.get('t', {}) } catch { return 1 } }");
    let limits = RunLimits::default();
    let call = Call {
        code: &code,
        entry: 0,
        export: "handle",
        input: "{}",
        ctx: &Facts::default(),
        now: 0,
        seed: [0; 32],
        limits: &limits,
        step: None,
    };
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| engine.run(&call, Box::new(Panics))));
    assert!(ended.is_err());
    assert!(engine.is_spent());
}
