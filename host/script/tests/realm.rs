//! The realm is closed: what one run does to it, the next one does not see, and no string becomes code.

use super::*;

const REACH: &str = include_str!("reach.js");

fn walking(function: &str) -> Arc<Code> {
    code(&format!(
        "{REACH} const handle = (input, ctx) => {{ const f = {function}; return f(ctx) }}; {}",
        export("handle")
    ))
}

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.limits.result = 16 << 20;
    bench.limits.time = Duration::from_secs(20);
    bench
}

#[test]
fn everything_reachable_is_frozen_or_of_this_run() {
    let text = bench()
        .run(
            &walking(
                "(ctx) => { const open = []; let n = 0; reach((path, object, fresh) => { n += 1; if (!fresh && !Object.isFrozen(object)) open.push(path) }, ctx, {}); return { n, open } }",
            ),
            "{}",
        )
        .unwrap();
    let told: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(told["open"], serde_json::json!([]));
    assert!(told["n"].as_u64().unwrap() > 1000, "{}", told["n"]);
}

/// Every reachable object with its members, as text.
const PICTURE: &str = "(ctx) => { const lines = []; reach((path, object) => { lines.push(path + ' ' + Object.isFrozen(object) + ' ' + Reflect.ownKeys(object).map((key) => { const p = Object.getOwnPropertyDescriptor(object, key); return String(key) + ':' + (p === undefined ? '' : typeof p.value === 'object' || typeof p.value === 'function' ? typeof p.value : String(p.value)) }).join()) }, ctx, {}); return lines.join('\\n').replaceAll(/\\d+:\\d+/g, '') }";

#[test]
fn vandalism_of_one_run_is_not_seen_by_the_next() {
    let mut bench = bench();
    let picture = walking(PICTURE);
    let before = bench.run(&picture, "{}").unwrap();
    let vandal = walking(
        "(ctx) => { const all = []; reach((path, object) => all.push(object), ctx, {}); for (const object of all) { \
         const tries = [() => { object.left = 1 }, () => { Object.defineProperty(object, 'behind', { value: 1 }) }, \
         () => Object.setPrototypeOf(object, {}), () => { object[Symbol.iterator] = 1 }, () => { object.constructor = 1 }, () => { object.toString = () => 'x' }, \
         () => { object.__proto__ = {} }, () => { Object.assign(object, { a: 1 }) }, () => { object[0] = 1 }, () => { object.length = 5 }, \
         () => object.__defineGetter__('x', () => 1), () => { object.lastIndex = 5 }, () => object.push(1), () => object.set('a', 1), () => object.add(1), \
         ...Reflect.ownKeys(object).flatMap((key) => [() => { object[key] = 1 }, () => { delete object[key] }, () => Object.defineProperty(object, key, { value: 1 })])]; \
         for (const attempt of tries) { try { attempt() } catch {} } } return all.length }",
    );
    bench.run(&vandal, "{}").unwrap();
    let after = bench.run(&picture, "{}").unwrap();
    assert!(before == after, "the realm was changed");
}

#[test]
fn no_string_becomes_code() {
    let text = bench()
        .run(
            &walking(
                "(ctx) => { const ways = []; const is = (x) => Array.isArray(x) && x[0] === 4 && x[1] === 2; \
                 const gives = (f) => { try { return is(f) || (typeof f === 'function' && is(quiet(f()))) } catch { return false } }; \
                 reach((path, object) => { if (typeof object !== 'function') return; \
                 for (const args of [['return [4, +2]'], ['a', 'return [4, +2]'], ['[4, +2]'], ['(function () { return [4, +2] })']]) { \
                 for (const make of [() => object(...args), () => new object(...args), () => Reflect.construct(object, args, Object)]) { \
                 try { if (gives(quiet(make()))) ways.push(path) } catch {} } } }, ctx, {}); return ways }",
            ),
            "{}",
        )
        .unwrap();
    assert_eq!(text, "[]");
}

#[test]
fn nothing_is_imported_while_running() {
    for name in ["p/handlers/a.ts", "data:text/javascript,export default 1", "std", "os"] {
        let outcome = once(&format!("async () => typeof (await import('{name}'))"));
        assert!(matches!(outcome, Err(ScriptError::Thrown { .. })), "{name}: {outcome:?}");
    }
}

#[test]
fn constructors_of_functions_are_closed() {
    for function in [
        "Function",
        "(() => {}).constructor",
        "(async () => {}).constructor",
        "(function* () {}).constructor",
        "(async function* () {}).constructor",
        "Object.getPrototypeOf(async () => {}).constructor",
        "Object.getPrototypeOf((async () => {}).constructor)",
        "Reflect.get(Function.prototype, 'constructor')",
        "class extends Function {}",
    ] {
        for form in
            ["new F('return 1')", "F('return 1')", "Reflect.construct(F, ['return 1'])", "F.call(null, 'return 1')"]
        {
            let outcome = once(&format!("() => {{ const F = {function}; return typeof {form} }}"));
            assert!(matches!(outcome, Err(ScriptError::Thrown { .. })), "{function} {form}: {outcome:?}");
        }
    }
    assert_eq!(once("() => typeof eval").unwrap(), r#""undefined""#);
}

#[test]
fn globals_hold_nothing_for_the_next_run() {
    let mut bench = Bench::new();
    for leave in [
        "globalThis.x = 1",
        "globalThis.store = 1",
        "globalThis.__proto__.x = 1",
        "Object.getPrototypeOf(globalThis).x = 1",
        "Object.setPrototypeOf(globalThis, { x: 1 })",
        "Function.prototype.bind = 1",
        "store.x = 1",
        "store.get.x = 1",
        "notify.publish = 1",
        "Array.prototype.x = 1",
        "[].push.x = 1",
        "Object.prototype.toString.x = 1",
        "(async () => {}).__proto__.x = 1",
        "Object.getPrototypeOf(store.get('t', {})).x = 1",
        "console.log.x = 1",
        "BizError.x = 1",
        "Error.stackTraceLimit = 0",
        "Error.prepareStackTrace = () => 1",
        "Symbol.x = 1",
        "Math.random = () => 4",
        "ctx.stableId.x = 1",
        "Date.now = () => 1",
        "Array.from = () => 1",
        "Promise.all = () => 1",
        "store.get = () => 1",
        "globalThis.Map = 1",
        "Reflect.set(Array, 'of', () => 1, Array)",
        "Reflect.set(Object.getPrototypeOf(globalThis), 'Map', 1)",
        "Object.getPrototypeOf(globalThis).Map = 1",
    ] {
        let _ = bench.handle(&format!("(input, ctx) => {{ {leave} }}"));
    }
    let seen = bench.handle(
        "(input, ctx) => [globalThis.x, store.x, store.get.x, typeof notify.publish, [].x, [].push.x, ({}).toString.x, (async () => {}).x, Reflect.ownKeys(Object.getPrototypeOf(store.get('t', {}))).includes('x'), console.log.x, BizError.x, new Error('e').stack.length > 0, Error.prepareStackTrace, Symbol.x, Math.random() === 4, ctx.stableId.x, Date.now() === 1].map(String).join()",
    );
    assert_eq!(
        bench.handle("() => [Array.from([2]), Array.of(3), typeof Promise.all([]), typeof store.get('t', {}), typeof globalThis.Map]").unwrap(),
        r#"[[2],[3],"object","object","function"]"#
    );
    assert_eq!(
        seen.unwrap(),
        r#"",,,function,,,,,false,,,true,,,false,,false""#.replace(",,", ",undefined,").replace(",,", ",undefined,").replacen("\",", "\"undefined,", 1)
    );
}

#[test]
fn ordinary_code_still_works() {
    for (code, gives) in [
        (
            "class A extends Error { constructor(m) { super(m); this.name = 'A' } } const a = new A('m'); return [a.name, String(a), a.constructor === A]",
            r#"["A","A: m",true]"#,
        ),
        ("const e = new TypeError('x'); e.name = 'Mine'; e.message = 'y'; return String(e)", r#""Mine: y""#),
        (
            "const o = {}; o.toString = () => 'mine'; o.constructor = 5; o.hasOwnProperty = 1; o.valueOf = 2; return [`${o}`, o.constructor, Object.keys(o)]",
            r#"["mine",5,["toString","constructor","hasOwnProperty","valueOf"]]"#,
        ),
        (
            "function F() {} F.prototype.toString = function () { return 'F' }; F.prototype.constructor = F; return String(new F())",
            r#""F""#,
        ),
        (
            "function G() {} G.prototype = Object.create(Array.prototype); G.prototype.constructor = G; return new G().constructor === G",
            "true",
        ),
        ("const f = () => 1; f.toString = () => 'f'; return String(f)", r#""f""#),
        (
            "const f = () => 1; f.bind = 1; f.call = 2; f.apply = 3; return [f.bind, f.call, f.apply, (() => 4).bind(0)()]",
            "[1,2,3,4]",
        ),
        (
            "const a = [1]; a.push = (x) => x; a.map = 1; class P extends Promise {} ; const p = Object.create(Map.prototype); p.get = (k) => k; return [a.push(7), a.map, a.length, p.get(5), [3].push(4)]",
            "[7,1,1,5,2]",
        ),
        (
            "const g = Object.create(Iterator.prototype); g[Symbol.iterator] = function () { return this }; g.next = () => ({ done: true }); return [...g]",
            "[]",
        ),
        (
            "const f = 'x'; globalThis.kept ??= 5; globalThis.Array2 = Array; return [globalThis.kept, globalThis.globalThis === globalThis, globalThis.Array2 === Array, 'store' in globalThis]",
            "[5,true,true,true]",
        ),
        ("const d = new Date(0); d.toString = () => 'd'; return String(d)", r#""d""#),
        (
            "class D extends Date { day() { return this.getUTCDate() } } return [new D(0).day(), new D(0) instanceof Date, D.now() === Date.now()]",
            "[1,true,true]",
        ),
        ("class M extends Map { get(k) { return super.get(k) ?? 0 } } return new M().get(1)", "0"),
        (
            "class L extends Array { sum() { return this.reduce((a, b) => a + b, 0) } } const l = L.from([1, 2]); return [l.sum(), l.map((x) => x * 2) instanceof L, l.length]",
            "[3,true,2]",
        ),
        (
            "return [(() => {}) instanceof Function, typeof Function, Function.prototype.call.call(function () { return this }, 5) === 5]",
            r#"[true,"function",true]"#,
        ),
        (
            "Error.captureStackTrace?.({}); const e = {}; Error.captureStackTrace(e, () => 1); return typeof e.stack",
            r#""string""#,
        ),
        ("'use strict'; let s = Symbol('x'); const o = { [s]: 1 }; return [o[s], s.description]", r#"[1,"x"]"#),
        ("return JSON.stringify({ a: [1, { b: 2 }], toJSON: undefined })", r#""{\"a\":[1,{\"b\":2}]}""#),
        ("const p = new Proxy({}, { get: (t, k) => k }); return p.hello", r#""hello""#),
        ("return [...'añ😀'].length + Array.from({ length: 3 }, (_, i) => i).length", "6"),
        (
            "const r = /(?<y>\\d{4})-(?<m>\\d\\d)/.exec('on 2024-05'); return { ...r.groups }",
            r#"{"y":"2024","m":"05"}"#,
        ),
        ("const { a = 5, ...rest } = { b: 1, c: 2 }; return [a, rest]", r#"[5,{"b":1,"c":2}]"#),
        ("const o = Object.create({ x: 1 }); o.x = 2; return o.x", "2"),
        ("var self = { message: 'm', name: 'n' }; return Object.assign(new Error('e'), self).name", r#""n""#),
    ] {
        assert_eq!(once(&format!("(input, ctx) => {{ {code} }}")).unwrap(), gives, "{code}");
    }
}

#[test]
fn what_is_inherited_from_the_realm_can_be_covered_by_assignment() {
    for (code, gives) in [
        (
            "class A extends Array {} A.from = () => 7; class P extends Promise {} P.all = 9; class D extends Date {} D.now = () => 5; class M extends Map {} M.groupBy = 6; class E extends TypeError {} E.captureStackTrace = 4; class U extends Uint8Array {} U.of = 3; return [A.from(), P.all, D.now(), M.groupBy, E.captureStackTrace, U.of, Array.from([1]), Array.isArray([]), typeof Promise.all, Date.now() > 9, typeof Map.groupBy, Array.of === A.of]",
            r#"[7,9,5,6,4,3,[1],true,"function",true,"function",true]"#,
        ),
        (
            "const mine = Object.create(console), seen = []; mine.log = (line) => seen.push(line); mine.log('a'); mine.info('b'); const s = Object.create(store); s.get = () => 'mine'; return [seen, s.get(), store.get('t', { x: 1 }).data]",
            r#"[["a"],"mine",{"x":1}]"#,
        ),
        (
            "const own = globalThis.URL; globalThis.URL = globalThis.URL ?? 1; globalThis.atob = () => 'mine'; return [globalThis.URL === own, globalThis.atob(), atob('YQ=='), Object.keys(globalThis).sort(), globalThis.btoa === btoa]",
            r#"[true,"mine","a",["URL","atob"],true]"#,
        ),
        (
            "const k = Symbol.iterator, nine = function* () { yield 9 }, a = [1], o = Object.create(Array.prototype), b = []; a[k] = o[k] = nine; class L extends Array {} L.prototype[k] = nine; Object.assign(b, { [k]: nine }); return [[...a], [...o], [...new L(3)], [...b], Reflect.set([], k, nine), [...[7]]]",
            "[[9],[9],[9],[9],true,[7]]",
        ),
        (
            "const m = Object.create(Math), j = Object.create(JSON), r = Object.create(Reflect), c = Object.create(crypto); m.max = 1; j.parse = 2; r.get = 3; c.randomUUID = 4; class A extends Array {} A.isArray = 5; class O extends Object {} O.keys = 6; class N extends Number {} N.isInteger = 7; class S extends String {} S.raw = 8; return [m.max, m.min(3, 1), j.parse, r.get, c.randomUUID, A.isArray, O.keys, N.isInteger, S.raw, Math.max(1, 2), Array.isArray([]), Object.keys({ a: 1 })]",
            r#"[1,1,2,3,4,5,6,7,8,2,true,["a"]]"#,
        ),
        (
            "const it = [1, 2].values(), g = (function* () { yield 1 })(); const next = it.next; it.next = () => ({ value: next.call(it).value + 1 }); g.next = () => ({ done: true }); return [it.next(), [...g], [...[3].values()]]",
            r#"[{"value":2},[],[3]]"#,
        ),
    ] {
        assert_eq!(once(&format!("(input, ctx) => {{ {code} }}")).unwrap(), gives, "{code}");
    }
}

#[test]
fn what_the_realm_has_cannot_be_assigned_to() {
    for target in [
        "Array.prototype[Symbol.iterator]",
        "Math.max",
        "JSON.parse",
        "Reflect.get",
        "crypto.randomUUID",
        "Object.keys",
        "Array.isArray",
        "Object.getPrototypeOf([].values()).next",
        "Object.getPrototypeOf(function* () {}.prototype).next",
        "Proxy.revocable",
        "globalThis.Symbol.prototype.valueOf",
    ] {
        let text =
            once(&format!("() => {{ try {{ {target} = 1; return 'assigned' }} catch (e) {{ return e.name }} }}"));
        assert_eq!(text.unwrap(), r#""TypeError""#, "{target}");
    }
}

/// Nobody holds the namespace of a module that is kept from run to run; were there a way to it, it would lead nowhere.
#[test]
fn namespace_of_a_kept_module_is_frozen() {
    let kept = Module { whole: false, still: true, ..module("p/lib.ts", "__exports.f = () => 1;", vec![]) };
    let vandal = module(
        "p/a.ts",
        &format!(
            "const m = __import(0); const handle = () => {{ const seen = [m.f(), m.g]; for (const change of [() => {{ m.f = () => 2 }}, \
             () => {{ m.g = 3 }}, () => Object.defineProperty(m, 'f', {{ value: () => 4 }}), () => {{ delete m.f }}]) try {{ change() }} catch {{}} \
             return [...seen, m.f(), m.g] }}; {}",
            export("handle")
        ),
        vec![0],
    );
    let code = Arc::new(Code { plugin: "p".to_owned(), modules: vec![kept, vandal] });
    let mut bench = Bench::new();
    for _ in 0..2 {
        assert_eq!(bench.run(&code, "{}").unwrap(), "[1,null,1,null]");
    }
}

#[test]
fn handler_of_a_proxy_holds_nothing_for_the_next_run() {
    let mut bench = Bench::new();
    let parts = "const h = { ownKeys: Reflect.ownKeys }, p = new Proxy({}, h), r = Proxy.revocable({}, Object.freeze({ ownKeys: \
                 Reflect.ownKeys })); new Proxy({}, Reflect); \
                 const all = [h.ownKeys, Proxy, Proxy.revocable, Reflect, r.revoke.constructor];";
    let vandal = format!(
        "() => {{ {parts} for (const one of all) {{ try {{ one.x = 1 }} catch {{}} try {{ Object.setPrototypeOf(one, {{ x: 1 }}) }} catch {{}} }} }}"
    );
    bench.handle(&vandal).unwrap();
    let seen = bench.handle(&format!("() => {{ {parts} return all.map((one) => one.x) }}")).unwrap();
    assert_eq!(seen, "[null,null,null,null,null]");
}

#[test]
fn clocks_weak_references_and_shared_memory_are_not_there() {
    assert_eq!(
        once("() => ['WeakRef', 'FinalizationRegistry', 'performance', 'SharedArrayBuffer', 'Atomics', 'setTimeout', 'eval', 'gc', 'print', 'Intl'].filter((name) => name in globalThis)").unwrap(),
        "[]"
    );
}
