//! Modules, isolation between runs, promises, time and randomness.

use std::sync::Arc;

use super::super::Exports;
use super::*;
use crate::plugin::tests::code_of;

#[test]
fn handler_gets_input_and_ctx_and_gives_json() {
    let mut bench = Bench::new();
    let code = handler("(input, ctx) => ({ sum: input.a + input.b, tenant: ctx.tenantId, id: ctx.stableId('x') })");
    let text = bench.run(&code, r#"{"a":1,"b":2.5}"#).unwrap();
    assert_eq!(text, r#"{"sum":3.5,"tenant":"acme","id":"stable"}"#);
}

#[test]
fn undefined_is_null() {
    assert_eq!(once("() => {}").unwrap(), "null");
}

#[test]
fn ctx_is_frozen_through_and_through() {
    assert_eq!(
        once("(i, ctx) => [Object.isFrozen(ctx), Object.isFrozen(ctx.settings), Object.isFrozen(ctx.settings.a)]")
            .unwrap(),
        "[true,true,true]"
    );
}

#[test]
fn module_variables_do_not_live_on() {
    let mut bench = Bench::new();
    let code = code(&format!("let n = 0; const handle = () => ++n; {}", export("handle")));
    assert_eq!(bench.run(&code, "{}").unwrap(), "1");
    assert_eq!(bench.run(&code, "{}").unwrap(), "1");
}

#[test]
fn imports_are_live_and_cycles_give_what_is_there() {
    let lib = module(
        "p/lib/a.ts",
        &format!(
            "const b = __import(0); let n = 1; const next = () => ++n; const seen = typeof b.handle; {}{}{}",
            export("n"),
            export("next"),
            export("seen")
        ),
        vec![1],
    );
    let main = module(
        "p/main.ts",
        &format!("const a = __import(0); const handle = () => [a.n, a.next(), a.n, a.seen]; {}", export("handle")),
        vec![0],
    );
    let code = Arc::new(Code { plugin: "p".to_owned(), modules: vec![lib, main] });
    assert_eq!(Bench::new().run(&code, "{}").unwrap(), r#"[1,2,2,"undefined"]"#);
}

#[test]
fn a_namespace_cannot_be_changed() {
    let lib = module("p/lib/a.ts", &format!("let n = 1; {}", export("n")), vec![]);
    let main = module(
        "p/main.ts",
        &format!(
            "const a = __import(0); const handle = () => {{ try {{ a.n = 2 }} catch {{}} try {{ a.m = 2 }} catch {{}} return [a.n, a.m, Object.isFrozen(a)] }}; {}",
            export("handle")
        ),
        vec![0],
    );
    let code = Arc::new(Code { plugin: "p".to_owned(), modules: vec![lib, main] });
    assert_eq!(Bench::new().run(&code, "{}").unwrap(), "[1,null,true]");
}

#[test]
fn a_missing_export_says_what_to_write() {
    let outcome = Bench::new().run(&code("const other = 1;"), "{}");
    assert!(contract(outcome).contains("export function handle"));
}

#[test]
fn config_is_read_without_a_call() {
    let code = code(&format!("const config = {{ kind: 'read' }}; {}", export("config")));
    let mut engine = Engine::new(EngineLimits::default()).unwrap();
    let config = Some(serde_json::json!({ "kind": "read" }));
    assert_eq!(engine.exports_of(&code, 0).unwrap(), Exports { handles: false, config });
    assert_eq!(engine.exports_of(&handler("() => 1"), 0).unwrap(), Exports { handles: true, config: None });
}

#[test]
fn async_handlers_are_driven_to_their_end() {
    assert_eq!(once("async () => { await null; return await Promise.resolve(5) }").unwrap(), "5");
    assert_eq!(once("() => ({ then(done) { done('thenable') } })").unwrap(), r#""thenable""#);
}

#[test]
fn a_promise_that_never_settles_is_told() {
    let mut bench = Bench::new();
    assert!(contract(bench.handle("() => new Promise(() => {})")).contains("never settles"));
}

#[test]
fn a_rejection_that_nobody_awaits_fails_the_run() {
    for function in [
        "() => { Promise.reject(new Error('lost')); return 1 }",
        "() => { (async () => { await null; throw new Error('lost') })(); return 1 }",
        "() => { queueMicrotask(() => { throw new Error('lost') }); return 1 }",
        "async () => { const p = (async () => { throw new Error('lost') })(); await null; return 1 }",
    ] {
        let outcome = Bench::new().handle(function);
        let Err(ScriptError::Thrown { message, stack, .. }) = outcome else { panic!("{function}: {outcome:?}") };
        assert!(message.starts_with("a promise was rejected and nobody awaited it"), "{message}");
        assert!(message.ends_with(": Error: lost") && stack.contains("p/handlers/a.ts"), "{message}\n{stack}");
    }
}

#[test]
fn a_rejection_that_is_awaited_late_is_none() {
    for function in [
        "async () => { const p = Promise.reject(new Error('x')); await null; try { await p } catch {} return 1 }",
        "async () => { const all = Array.from({ length: 200 }, async (_, i) => { throw new Error(i) }); await Promise.allSettled(all); return 1 }",
    ] {
        assert_eq!(Bench::new().handle(function).unwrap(), "1", "{function}");
    }
}

#[test]
fn one_lost_rejection_among_many_is_found() {
    let function = "async () => { const all = Array.from({ length: 200 }, async (_, i) => { throw new Error(i) }); \
                    await Promise.allSettled(all.slice(0, 199)); return 1 }";
    let outcome = Bench::new().handle(function);
    assert!(
        matches!(&outcome, Err(ScriptError::Thrown { message, .. }) if message.contains("nobody awaited it")),
        "{outcome:?}"
    );
}

#[test]
fn a_lost_rejection_beside_another_error_is_logged() {
    let mut bench = Bench::new();
    let outcome = bench.handle("() => { Promise.reject(new Error('lost')); throw new Error('first') }");
    assert!(matches!(&outcome, Err(ScriptError::Thrown { message, .. }) if message == "Error: first"), "{outcome:?}");
    let lines = &bench.notes.borrow().lines;
    assert_eq!(lines[0].0, Level::Warn);
    assert!(lines[0].1.contains("Error: lost"), "{}", lines[0].1);
}

#[test]
fn jobs_left_by_the_handler_run_before_the_end() {
    let mut bench = Bench::new();
    bench.handle("() => { (async () => { await 1; store.get('late', {}) })(); return 1 }").unwrap();
    assert_eq!(bench.notes.borrow().calls.len(), 1);
    assert!(!bench.engine.is_spent());
}

#[test]
fn time_stands_still_in_utc() {
    assert_eq!(
        once("() => [Date.now(), new Date(), new Date().getHours(), new Date().getTimezoneOffset(), String(new Date(0)), typeof Date()]")
            .unwrap(),
        r#"[1700000000123,"2023-11-14T22:13:20.123Z",22,0,"Thu Jan 01 1970 00:00:00 GMT+0000 (Coordinated Universal Time)","string"]"#
    );
}

#[test]
fn fields_that_are_no_numbers_make_a_date_invalid() {
    assert_eq!(
        once("() => { const d = new Date(0); const told = d.setUTCMonth(NaN); const e = new Date(0); e.setFullYear(NaN); return [String(told), String(+d), String(+e), new Date(0).setHours(1), d.setUTCMonth.length] }")
            .unwrap(),
        r#"["NaN","NaN","NaN",3600000,2]"#
    );
}

#[test]
fn dates_without_a_zone_are_utc() {
    assert_eq!(
        once("() => [new Date('2024-01-02T03:04:05'), new Date('2024-01-02'), new Date(2024, 0, 2), new Date('2024-01-02T03:04:05+01:00'), new Date('Jan 2, 2024 10:00'), new Date(new Date(5)).getTime(), new Date(NaN).getTime()|0]")
            .unwrap(),
        r#"["2024-01-02T03:04:05.000Z","2024-01-02T00:00:00.000Z","2024-01-02T00:00:00.000Z","2024-01-02T02:04:05.000Z","2024-01-02T10:00:00.000Z",5,0]"#
    );
}

#[test]
fn randomness_follows_the_seed() {
    let mut bench = Bench::new();
    let first = bench.handle("() => [Math.random(), Math.random()]").unwrap();
    assert_eq!(bench.handle("() => [Math.random(), Math.random()]").unwrap(), first);
    assert_eq!(bench.handle("() => Math.random() !== Math.random()").unwrap(), "true");
}

#[test]
fn memory_stays_where_it_is_over_many_runs() {
    let mut bench = Bench::new();
    let code = handler(
        "async (input, ctx) => { class A extends Error {} ; await null; console.log(new A('x')); return [new A('y').message, store.get('t', {})] }",
    );
    for _ in 0..600 {
        bench.run(&code, "{}").unwrap();
    }
    bench.engine.collect();
    let before = bench.engine.memory_used();
    for _ in 0..3000 {
        bench.run(&code, "{}").unwrap();
    }
    bench.engine.collect();
    assert_eq!(bench.engine.memory_used(), before);
}

#[test]
fn run_compiles_only_what_it_imports() {
    let big = format!("const all = [{}];", "() => [1, 'two', { three: 3 }],".repeat(20_000));
    let plain = format!("const handle = () => 1; {}", export("handle"));
    let imported = format!("const handle = () => __import(0) && 2; {}", export("handle"));
    let modules = vec![
        module("p/lib/big.ts", &big, vec![]),
        module("p/handlers/imports.ts", &imported, vec![0]),
        module("p/scripts/plain.ts", &plain, vec![]),
    ];
    let code = Arc::new(Code { plugin: "p".to_owned(), modules });
    let mut bench = Bench::new();
    let before = bench.engine.memory_used();
    let limits = RunLimits { time: Duration::from_secs(30), ..RunLimits::default() };
    let mut enter = |entry| {
        let (facts, host) = (Facts::default(), Fake(Rc::default()));
        let call = Call {
            code: &code,
            entry,
            export: "handle",
            input: "{}",
            ctx: &facts,
            now: 0,
            seed: [0; 32],
            limits: &limits,
            step: None,
        };
        let given = bench.engine.run(&call, Box::new(host)).unwrap();
        (given, bench.engine.memory_used() - before)
    };
    let (given, small) = enter(2);
    assert_eq!(given, "1");
    assert!(small < 100_000, "{small}");
    let (given, large) = enter(1);
    assert_eq!(given, "2");
    assert!(large > 1_000_000, "{large}");
}

#[test]
fn module_that_is_kept_gives_each_run_the_same() {
    let mut bench = Bench::new();
    let source = "const A = 'a'; function twice(it) { let sum = 0; for (let n = 0; n < 2; n++) sum += it; return sum } \
                  export function handle(input) { input.n = twice(input.n ?? 1); return [A, input.n] }";
    let code = Arc::new(code_of(source));
    assert!(code.modules[0].still);
    for _ in 0..3 {
        assert_eq!(bench.run(&code, "{}").unwrap(), r#"["a",2]"#);
    }
    let code = Arc::new(code_of(&source.replace("const A = 'a';", "let A = 'a';").replace("[A,", "[A += 'b',")));
    assert!(!code.modules[0].still);
    for _ in 0..3 {
        assert_eq!(bench.run(&code, "{}").unwrap(), r#"["ab",2]"#);
    }
}

#[test]
fn kept_module_is_stopped_in_each_run() {
    let mut bench = Bench::new();
    bench.limits.time = Duration::from_millis(200);
    let code = Arc::new(code_of("export function handle(input) { for (;;) if (input.end) return 1 }"));
    assert!(code.modules[0].still);
    assert_eq!(bench.run(&code, r#"{"end":true}"#).unwrap(), "1");
    assert!(matches!(bench.run(&code, "{}"), Err(ScriptError::Limit { .. })));
}
