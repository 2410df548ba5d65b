//! What the compiler puts in so that a run can be stopped, and where it says that it was.

use std::time::Duration;

use super::modules::{gives, run_with};
use super::*;
use crate::script::{RunLimits, ScriptError};

fn short() -> RunLimits {
    RunLimits { time: Duration::from_millis(100), ..RunLimits::default() }
}

/// Runs `handle` with this body, on line 3; gives where a limit or an error ended it.
fn position(body: &str) -> String {
    let source = format!(
        "const far = 1\nexport function handle(input: any) {{\n{body}\n}}\nfunction Foo() {{ throw new Error('x') }}\nclass Bad extends Error {{ constructor() {{\nsuper('bad') }} }}\nclass Worse extends Bad {{ }}\nfunction bad() {{\nthrow new Worse() }}"
    );
    let ended = || {
        let bundle = bundle(&[("a.ts", &source)]);
        assert_eq!(bundle.faults, []);
        match run_with(bundle.code, &short()) {
            Err(ScriptError::Limit { position, .. } | ScriptError::Thrown { position, .. }) => {
                position.map_or_else(|| "nowhere".to_owned(), |position| position.to_string())
            }
            other => panic!("{other:?}"),
        }
    };
    // On a busy machine all its time may go by before it has begun.
    (0..20).map(|_| ended()).find(|place| place != BEGINS).unwrap_or_else(|| BEGINS.to_owned())
}

/// Where `handle` begins.
const BEGINS: &str = "p/a.ts:2:36";

#[test]
fn a_loop_that_is_ended_is_named_by_its_own_place() {
    assert_eq!(position("  while (true) {}"), "p/a.ts:3:3");
    assert_eq!(position("  const a = 1; console.log(a)\n  while (true) ;"), "p/a.ts:4:3");
    // Where the clock strikes: in the round, at the call, or between two.
    for in_round in ["if (far) continue", "Math.abs(far)"] {
        let place = position(&format!("  for (;;) {{\n    {in_round}\n  }}"));
        assert!(place == "p/a.ts:3:3" || place.starts_with("p/a.ts:4:"), "{in_round}: {place}");
    }
    assert_eq!(position("  do {} while (true)"), "p/a.ts:3:3");
    assert_eq!(position("  if (far)\n    for (;;);"), "p/a.ts:4:5");
    let in_either = position("  Math.abs(far)\n  outer: for (;;) { for (;;) { continue outer } }");
    assert!(in_either.starts_with("p/a.ts:4:"), "{in_either}");
}

#[test]
fn an_error_is_placed_where_it_was_thrown() {
    assert_eq!(position("  Foo()"), "p/a.ts:5:28");
    assert_eq!(position("  bad()"), "p/a.ts:10:11");
    assert_eq!(position("  throw new Bad()"), "p/a.ts:3:13");
}

#[test]
fn huge_operands_end_soon_after_the_deadline() {
    for body in [
        "const x = (1n << 500000n) - 1n; let y; for (;;) { y = x * x }",
        "const x = (1n << 500000n) - 1n; let y = x; for (;;) { y *= x; y = x }",
        "const x = (1n << 1000000n) - 1n, d = (1n << 500000n) - 1n; let y; for (;;) { y = x % d }",
        "const x = (1n << 1000000n) - 1n, d = (1n << 500000n) - 1n; let y; for (;;) y = x / d",
        "const x = 3n; let y; for (;;) { y = x ** 300000n }",
        "const x = (1n << 500000n) - 1n; const f = () => x * x; for (;;) f()",
        "const x = (1n << 500000n) - 1n; const f = (n) => { x * x; f(n + 1) }; for (;;) try { f(0) } catch {}",
        "const x = new Uint8Array(1e6); let y; for (;;) { y = [...x] }",
        "const x = 'x'.repeat(6e4), f = (...a) => a; let y; for (;;) { y = f(...x) }",
        "const x = Object.fromEntries(Array.from({ length: 1e4 }, (_, i) => [`k${i}`, i])); let y; for (;;) { y = { ...x } }",
        "const x = (1n << 500000n) - 1n; Array.from({ length: 1e6 }, () => x * x)",
    ] {
        let bundle = bundle(&[("a.ts", &format!("export function handle() {{ {body} }}"))]);
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || send.send(run_with(bundle.code, &short())));
        // Uncounted, each of them would go on for a minute or an hour.
        let ended = receive.recv_timeout(Duration::from_secs(15)).unwrap_or_else(|_| panic!("still running: {body}"));
        assert!(matches!(ended, Err(ScriptError::Limit { .. })), "{body}: {ended:?}");
    }
}

#[test]
fn what_takes_long_in_a_row_ends_soon_after_the_deadline() {
    let digits = "const t: any = '1'.repeat(2e7), a: any = new Float64Array(1); let x: any = 1";
    // Made within the limit on a quick machine, and not on a slow one: some thousand looks along it take no 40 s on either.
    let chain = "let o: any = {}; for (let i = 0; i < 2e4; i++) o = Object.create(o)";
    let text = "const t = 'x'.repeat(2e7), u: any = 'x'.repeat(2e7 - 1) + 'y'";
    let big = "const b: any = 1n << 65535n; let x: any = 'x', o: any = { [b]: 1 }";
    let many = "let o: any = {}, r: any; for (let i = 0; i < 5e4; i++) o['k' + i] = i";
    for (before, begin, each, end) in [
        (big, "return [{ ", "[b]: 1, ", "}]"),
        (big, "class A { ", "[b]() {} ", "}"),
        (big, "class A { ", "static [b] = 1; ", "}"),
        (big, "const { ", "[b]: {}, ", "} = o"),
        (big, "({ ", "[b]: x, ", "} = o)"),
        (big, "", "o[b] = 1; ", ""),
        (big, "", "o[b] ||= 1; ", ""),
        (big, "return [", "o[b], ", "]"),
        (big, "return [", "o?.[b], ", "]"),
        (digits, "x = 'x'; return [", "x?.charAt(t), ", "]"),
        (many, "", "[{ ...r }] = [o]; ", ""),
        (many, "", "({ a: { ...r } } = { a: o }); ", ""),
        (digits, "return [", "+t, ", "]"),
        (digits, "return [", "~t, ", "]"),
        (digits, "return [", "t - 1, ", "]"),
        (digits, "return [", "5 > t, ", "]"),
        (digits, "return [", "t == 5, ", "]"),
        (digits, "", "a[0] = t; ", ""),
        (digits, "", "x = t; x++; ", ""),
        ("const u: any = '0'.repeat(2e7)", "const l: any = []; ", "l.length = u; ", ""),
        (digits, "", "x = 1; x -= t; ", ""),
        (digits, "[", "a[0], ", "] = new Array(9999).fill(t)"),
        (digits, "return [", "'x'.charAt(t), ", "]"),
        (digits, "return [", "Math.floor(t), ", "]"),
        ("const t: any = '9'.repeat(3e5)", "return [", "1n < t, ", "]"),
        ("const t: any = '9'.repeat(3e5)", "return [", "t != 1n, ", "]"),
        (chain, "return [", "o.x, ", "]"),
        (chain, "return [", "o.x?.(), ", "]"),
        (chain, "return [", "'x' in o, ", "]"),
        (text, "switch (u) { ", "case t: ", "}"),
        (
            "const o: any = {}; for (let i = 0; i < 5e4; i++) o['k' + i] = i",
            "",
            "try { throw o } catch ({ a, ...r }) {} ",
            "",
        ),
    ] {
        let body = format!("{before}; {begin}{}{end}", each.repeat(9999));
        let bundle = bundle(&[("a.ts", &format!("export function handle(): any {{ {body} }}"))]);
        assert_eq!(bundle.faults, [], "{each}");
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || send.send(run_with(bundle.code, &short())));
        // Uncounted, each of them would go on for the better part of a minute, and some for an hour. Counted they take less
        // than a second, where the machine has one for them.
        let ended = receive.recv_timeout(Duration::from_secs(40)).unwrap_or_else(|_| panic!("still running: {each}"));
        assert!(
            matches!(&ended, Err(ScriptError::Limit { what, .. }) if what.contains("limits.handler")),
            "{each}: {ended:?}"
        );
    }
}

#[test]
fn counted_operators_give_what_the_language_says() {
    gives(
        &[(
            "a.ts",
            "const __left = 1, __tick = 2\nconst area = (w: any, h: any) => w * h\nexport function handle() {\n  let a: any = 7, b: any = 2, none: any = null\n  const o = { n: 3, get twice() { return this.n * a } }\n  o.n *= b; a **= b\n  const f = (x = a / b) => ({ x: x % b })\n  const [c = b * b] = []\n  for (const i of [1, 2]) b = b * i, a = a - i * b\n  outer: for (const i of [1, 2]) { for (;;) { if (i) continue outer } }\n  do a--; while (a * b > 100)\n  return [area(3n, 4n), o.n, o.twice, a, b, f(), c, -(a ** b), `${a * b}`, 2 + a * b, (a * b).toString(), a * b ? 1 : 0, typeof (a * b), __left, __tick, 2 * a, none?.f(...none).y.z, Math.max(...[1, 2], ...[3]), { ...o, ...{ n: 1 } }.n]\n}",
        )],
        r#"["12",6,150,25,4,{"x":2.25},4,-390625,"100",102,"100",1,"number",1,2,50,null,3,1]"#,
    );
}

#[test]
fn literals_that_take_the_engine_long_are_refused() {
    for (literal, said) in [
        (format!("{}n", "9".repeat(20_001)), "a BigInt of more than 20000 characters"),
        (format!("/{}/", "a|".repeat(17_000)), "a pattern of more than 32768 characters"),
    ] {
        let bundle = bundle(&[("a.ts", &format!("export const x = {literal}\nexport function handle() {{}}"))]);
        assert!(bundle.faults.iter().any(|fault| fault.message.contains(said)), "{:?}", bundle.faults);
    }
}

#[test]
fn a_bigint_that_an_operator_makes_has_a_most() {
    for body in [
        "let x: any = 3n; for (;;) x *= x",
        "let x: any = 3n, n: any = 5n; for (;;) { try { x = x ** n } catch {} }",
        "const o: any = { x: 1n }, n: any = 9999n; for (;;) o.x <<= n",
        "let x: any = 1n, n: any = -65537n; return x >> n",
        "const f = (a: any, b: any) => a * b; let x = 3n; for (;;) x = f(x, x)",
    ] {
        let bundle = bundle(&[("a.ts", &format!("export function handle() {{ {body} }}"))]);
        let ended = run_with(bundle.code, &RunLimits::default());
        let said = matches!(&ended, Err(ScriptError::Limit { what, .. }) if what.contains("65,536 bits"));
        assert!(said, "{body}: {ended:?}");
    }
    gives(
        &[(
            "a.ts",
            "export function handle() { let x: any = 2n, n: any = 32767n; return [x ** n === 1n << n, (x ** n * x ** n).toString(16).length, 7 * 6 << 1, x << 3n, -8n >> 1n, 1e308 * 10 > 0] }",
        )],
        r#"[true,16384,84,"16","-4",true]"#,
    );
}

#[test]
fn what_arrays_are_gone_through_by_can_be_assigned() {
    gives(
        &[(
            "a.ts",
            "class L extends Array {}\nexport function handle() {\n  const a: any = [1, 2], b: any = {}, s: any = new Set([1])\n  const given = (a[Symbol.iterator] = function* () { yield 9 })\n  b[Symbol.iterator] = s[Symbol.iterator] = (L.prototype as any)[Symbol.iterator] = given\n  const names = [Array.prototype, Object.freeze([1])].map((it: any) => { try { it[Symbol.iterator] = given } catch (e: any) { return e.name } })\n  return [[...a], [...b], [...s], [...new L()], [...[7]], names]\n}",
        )],
        r#"[[9],[9],[9],[9],[7],["TypeError","TypeError"]]"#,
    );
}

#[test]
fn names_of_the_host_are_hidden_however_they_are_written() {
    let source = "import { f } from './l.ts'\nexport const answer = 1\nexport function handle() { let n = 0; while (n++ < 3) f()\n\
                  return [typeof __l\\u0065ft, typeof __t\\u{69}ck, typeof __imp\\u006frt, typeof __exp\\u{00006F}rts, typeof \\u005f\\u005fm0] }";
    let files = [("a.ts", source), ("l.ts", "export function f() {}")];
    gives(&files, r#"["undefined","undefined","undefined","undefined","undefined"]"#);
}

#[test]
fn an_iterator_of_a_base_class_is_set_as_it_is_written() {
    let source = "class A { } class B extends A { constructor() { super(); super[Symbol.iterator] = function* () { yield 7 } } }\n\
                  export function handle() { return [...new B() as any] }";
    gives(&[("a.ts", source)], "[7]");
}

#[test]
fn a_text_is_spread_into_an_object_by_its_characters() {
    gives(
        &[(
            "a.ts",
            "export function handle() { const t: any = 'ab', none: any = null, o: any = { f: () => t, get g() { n += 1; return t } }; let n = 0; return [{ ...'ab' as any }, { ...t, b: 1 }, { ...(t && 'c' as any) }, { ...(none ? 1 : t) }, { ...(none ?? t) }, { ...('' && t) }, { ...none }, { ...undefined }, { ...5 as any }, { ...[1] }, { ...o.f() }, { ...(n++, t) }, { ...o.g }, n, { ...new String('x') }, { ...{ a: 1 } }, { ...'\u{1f600}' as any } [1].length] }",
        )],
        r#"[{"0":"a","1":"b"},{"0":"a","1":"b","b":1},{"0":"c"},{"0":"a","1":"b"},{"0":"a","1":"b"},{},{},{},{},{"0":1},{"0":"a","1":"b"},{"0":"a","1":"b"},{"0":"a","1":"b"},2,{"0":"x"},{"a":1},1]"#,
    );
}

#[test]
fn all_of_an_object_is_taken_beside_a_look() {
    for (looks, body) in [
        (1, "const { ...r } = o"),
        (1, "const { f = () => [o], ...r } = o"),
        (1, "({ ...r } = o)"),
        (1, "[{ ...r }] = [o]"),
        (1, "[[{ ...r }], f = () => [o]] = [[o]]"),
        (1, "for (const { ...r } of all);"),
        (1, "for (const { ...r } of all.map((x: any) => [x]));"),
        (1, "for (const { ...r } of all) { f = () => all }"),
        (1, "for (const { ...r } of all) { for (const x of all) f(x) }"),
        (1, "for ({ ...r } of all) f = () => all"),
        (1, "for ([{ ...r }] of all);"),
        (1, "for (;;) [{ ...r }] = [o]"),
        (1, "for (const { ...r } = f(() => [o]);;);"),
        (1, "const [{ ...r }, c = class { static { for (const x of all) f(x) } }] = all"),
        (2, "const [{ ...r }, c = ({ ...f } = o)] = all"),
        (1, "f = ({ ...r }, g = () => [o]) => { for (const x of all) g(x) }"),
        (1, "f = ({ ...r }, g = () => [o]) => [g]"),
        (1, "f = function ({ ...r }, g = function () { f() }) {}"),
        (1, "try { f() } catch ({ ...r }) { f(() => [r]) }"),
        (0, "const { a } = o; [{ r }] = [o]; for ({ r } of all) f(() => all)"),
    ] {
        let source = format!("export function handle(o: any, all: any, f: any, r: any) {{ {{ {body} }} }}");
        let bundle = bundle(&[("a.ts", &source)]);
        assert_eq!(bundle.faults, [], "{body}");
        let js = &bundle.code.modules[0].js;
        let (all, ticks) = ("__left = __tick()", "|| (__left = __tick())");
        assert_eq!(js.matches(all).count() - js.matches(ticks).count(), looks, "{body}:\n{js}");
    }
}

#[test]
fn counted_parts_of_patterns_give_what_the_language_says() {
    let long = "x".repeat(2000);
    let keys = format!("[k]: 1, '{long}': undefined, 1n: undefined, ").repeat(40);
    let members = "o?.[k], none?.[k], o?.m(k), none?.m(k), ".repeat(20);
    gives(
        &[(
            "a.ts",
            &format!(
                "export function handle() {{\n const k: any = 'k', o: any = {{ k: 1, m(this: any, x: any) {{ return this[x] }} }}, none: any = null, q: any = {{ k: 1 }}\n \
                 const made = {{ {keys} last: 2 }}\n class A {{ {} [k]() {{ return 'of class' }} }}\n const {{ {} [k]: v, ...rest }} = o\n \
                 let a: any, b: any, c: any\n [{{ ...a }}, [b = 5]] = [o, []]; for ({{ k: c, ...q.r }} of [o]) ;\n {}\n \
                 const said = [{members}]\n {} return [made, new A().k(), v, Object.keys(rest), a.k, b, c, Object.keys(q.r), said.length, said.slice(-4), (o?.m)(k)]\n}}",
                "[k]() { return 1 } ".repeat(40),
                "[k]: {}, ".repeat(40),
                "q[k] = 1; q[k] += 1; ".repeat(30),
                "delete q?.[k]; ".repeat(40),
            ),
        )],
        r#"[{"k":1,"last":2},"of class",1,["m"],1,5,1,["m"],80,[1,null,1,null],1]"#,
    );
}

#[test]
fn what_a_new_object_gives_is_made_by_the_arguments_of_its_own() {
    gives(
        &[(
            "a.ts",
            "class X { C: any = class { v: any; constructor(a: any) { this.v = [this.constructor === Object, a] } }; #p = this.C; tag(this: any, t: any) { return class { v = ['tag'] } }; f() { return this.C }; private() { return new (new X().#p)(9) } }\n\
             class Y { constructor(a: any) { return function (this: any, b: any) { this.v = [a, b] } } }\n\
             export function handle() {\n const z: any = Y, o: any = { X, z }, k: any = 'C'\n \
             class E extends new X().C { constructor() { super('e') } }\n \
             return [new (new z(1))(2), new (new o.z(1))(2), new (new X().C)(3), new (new X()[k])(4), new (new X().tag``)(), new (new X().f())(5), new (new X()?.C)(6), new X().private(), new (new (new z(7) as any)(8).constructor)(), new E(), new (new z(1)), new new X().C].map((it: any) => it.v)\n}",
        )],
        r#"[[1,2],[1,2],[false,3],[false,4],["tag"],[false,5],[false,6],[false,9],[7,null],[false,"e"],[1,null],[false,null]]"#,
    );
}

#[test]
fn functions_do_not_show_what_was_put_in() {
    let body = "class A { m(x: any) { for (;;) return [...x] } async q() { await 1 } *g() { yield 1 } } const o = { async *h(x: any) { yield x * 2 } }; return [handle, A, A.prototype.m, A.prototype.q, A.prototype.g, o.h, (x: any) => x + 1].map((f) => String(f).replace(/\\s+/g, ' '))";
    gives(
        &[("a.ts", &format!("export function handle() {{ {body} }}"))],
        r#"["function handle() { [plugin code] }","class A { [plugin code] }","function m() { [plugin code] }","async function q() { [plugin code] }","function* g() { [plugin code] }","async function* h() { [plugin code] }","function () { [plugin code] }"]"#,
    );
}
