//! The factories keep what ECMAScript says about modules.

use std::sync::Arc;

use super::{bundle, faults};
use crate::codec::Value;
use crate::failure::Failure;
use crate::plugin::Code;
use crate::script::{Binding, Call, Engine, EngineLimits, Facts, Host, Level, RunLimits, ScriptError};

struct Nobody;

impl Host for Nobody {
    fn call(&mut self, binding: Binding, _args: Vec<Value>) -> Result<Value, Failure> {
        Err(Failure::contract(format!("{binding:?} is not there")))
    }

    fn log(&mut self, _level: Level, _line: String) {}
}

/// Runs `handle()` of the first module and gives its result as JSON text.
pub(super) fn run(code: Code) -> Result<String, ScriptError> {
    run_with(code, &RunLimits::default())
}

pub(super) fn run_with(code: Code, limits: &RunLimits) -> Result<String, ScriptError> {
    let code = Arc::new(code);
    let call = Call {
        code: &code,
        entry: 0,
        export: "handle",
        input: "null",
        ctx: &Facts::default(),
        now: 0,
        seed: [0; 32],
        limits,
        step: None,
    };
    Engine::new(EngineLimits::default()).unwrap().run(&call, Box::new(Nobody))
}

#[track_caller]
pub(super) fn gives(files: &[(&str, &str)], expected: &str) {
    let bundle = bundle(files);
    assert_eq!(bundle.faults.iter().map(ToString::to_string).collect::<Vec<_>>(), Vec::<String>::new());
    let all: Vec<String> = bundle.code.modules.iter().map(|module| module.js.clone()).collect();
    assert_eq!(run(bundle.code), Ok(expected.to_owned()), "{}", all.join("\n----\n"));
}

#[track_caller]
fn throws(files: &[(&str, &str)], expected: &str) {
    let bundle = bundle(files);
    assert_eq!(bundle.faults, []);
    let error = run(bundle.code).unwrap_err();
    assert!(matches!(&error, ScriptError::Thrown { message, .. } if message.contains(expected)), "{error:?}");
}

#[test]
fn every_way_to_import_and_export_reaches_the_same_binding() {
    gives(
        &[
            (
                "a.ts",
                "import d, { x, y as z, 'odd name' as odd } from './b'\nimport * as ns from './b'\nimport d2, * as ns2 from './b'\n\
                 export function handle() { return [d, x, z, odd, ns.x, ns.default, d2, ns2 === ns, Object.keys(ns)] }",
            ),
            ("b.ts", "const w = 4\nexport const x = 1, y = 2\nexport default 3\nexport { w as 'odd name' }"),
        ],
        r#"[3,1,2,4,1,3,3,true,["default","odd name","x","y"]]"#,
    );
}

#[test]
fn re_exports_pass_bindings_on() {
    gives(
        &[
            (
                "a.ts",
                "import * as b from './b'\nexport const handle = () => [Object.keys(b), b.one, b.two, b.space.default, b.d, b.again]",
            ),
            (
                "b.ts",
                "import { one as uno } from './c'\nexport * from './c'\nexport * as space from './c'\nexport { default as d } from './c'\nexport { uno as again }",
            ),
            ("c.ts", "export const one = 1\nexport const two = 2\nexport default 'c'"),
        ],
        r#"[["again","d","one","space","two"],1,2,"c","c",1]"#,
    );
}

#[test]
fn imports_are_live() {
    gives(
        &[
            (
                "a.ts",
                "import { n, add } from './b'\nexport function handle() { const before = n; add(); return [before, n, { n }] }",
            ),
            ("b.ts", "export let n = 1\nexport function add() { n++ }"),
        ],
        r#"[1,2,{"n":2}]"#,
    );
}

#[test]
fn an_unused_config_is_one_object_to_whoever_imports_it() {
    gives(
        &[
            (
                "a.ts",
                "import { config } from './b'\nimport * as ns from './b'\n\
                 config.input.more = [-1, true, null]\n\
                 export const handle = () => [ns.config === config, config, Object.keys(ns)]",
            ),
            (
                "b.ts",
                "import { LONGEST } from './c'\nexport const handle = () => 1\n\
                 export const config = { kind: 'read', input: { maxLength: LONGEST, text: 'a\\nb' } as any } satisfies object\n\
                 export let __config = 5",
            ),
            ("c.ts", "export const LONGEST = 7"),
        ],
        r#"[true,{"kind":"read","input":{"maxLength":7,"text":"a\nb","more":[-1,true,null]}},["__config","config","handle"]]"#,
    );
}

#[test]
fn a_config_that_is_more_than_plain_is_evaluated_in_its_place() {
    gives(
        &[
            ("a.ts", "import { config, seen } from './b'\nexport const handle = () => [config, seen]"),
            (
                "b.ts",
                "let n = 1\nconst next = () => n++\nexport const config = { n: next() }\n\
                 export const seen = [next(), { ...config }]",
            ),
        ],
        r#"[{"n":1},[2,{"n":1}]]"#,
    );
}

#[test]
fn a_name_that_is_assigned_later_is_seen_as_it_is_then() {
    gives(
        &[
            (
                "a.ts",
                "import { f, g, set, n, o } from './b'\nexport const handle = () => [f(), n, o, set(), f(), n, o, g()]",
            ),
            (
                "b.ts",
                "export let n = 1, o = 1\nexport function f() { return 'old' }\nexport function g() { return 'same' }\n\
                 export const set = () => { n++; ({ o } = { o: 9 }); (f as any) = () => 'new'; return 'set' }",
            ),
        ],
        r#"["old",1,1,"set","new",2,9,"same"]"#,
    );
}

#[test]
fn modules_are_evaluated_once_in_the_order_of_their_imports() {
    gives(
        &[
            (
                "a.ts",
                "import './b'\nimport { log } from './log'\nimport './c'\nimport './b'\nlog.push('a')\nexport const handle = () => log",
            ),
            ("b.ts", "import { log } from './log'\nlog.push('b')"),
            ("c.ts", "import { log } from './log'\nimport './b'\nlog.push('c')"),
            ("log.ts", "export const log: string[] = []"),
        ],
        r#"["b","c","a"]"#,
    );
}

#[test]
fn an_import_below_the_code_is_still_evaluated_first() {
    gives(
        &[
            ("a.ts", "const seen = early\nexport const handle = () => seen\nimport { early } from './b'"),
            ("b.ts", "export const early = 1"),
        ],
        "1",
    );
}

#[test]
fn in_a_cycle_functions_are_there_before_their_module_ran() {
    gives(
        &[
            (
                "a.ts",
                "import { early } from './b'\nexport function f() { return 'f' }\nexport const handle = () => early",
            ),
            ("b.ts", "import { f } from './a'\nexport const early = f()"),
        ],
        r#""f""#,
    );
    gives(
        &[
            (
                "a.ts",
                "import { early } from './b'\nexport default function () { return 'f' }\nexport const handle = () => early",
            ),
            ("b.ts", "import f from './a'\nexport const early = f()"),
        ],
        r#""f""#,
    );
}

#[test]
fn in_a_cycle_a_const_is_dead_until_its_module_ran() {
    throws(
        &[
            ("a.ts", "import { early } from './b'\nexport const c = 1\nexport const handle = () => early"),
            ("b.ts", "import { c } from './a'\nexport const early = c"),
        ],
        "is not initialized",
    );
}

#[test]
fn what_is_called_sees_no_namespace_as_this() {
    gives(
        &[
            (
                "a.ts",
                "import { f } from './b'\nimport * as b from './b'\nexport const handle = () => [f(), f``, f?.(), b.f()].map((it) => it === undefined)",
            ),
            ("b.ts", "export function f(this: unknown, ..._: unknown[]) { return this }"),
        ],
        "[true,true,true,false]",
    );
}

#[test]
fn names_are_told_apart_by_scope() {
    gives(
        &[
            (
                "a.ts",
                "import { x, C } from './b'\nclass D extends C { x = x }\nexport function handle() { const o = { x, y: x }; { const x = 5; o.y += x }\n\
                 return [o, new D().x, new C() instanceof C, typeof x, ((x: number) => x)(7), `${x}`] }",
            ),
            ("b.ts", "export const x = 1\nexport class C {}"),
        ],
        r#"[{"x":1,"y":6},1,true,"number",7,"1"]"#,
    );
}

#[test]
fn a_namespace_cannot_be_written_to() {
    throws(
        &[
            ("a.ts", "import * as b from './b'\nexport function handle() { (b as any).x = 2 }"),
            ("b.ts", "export const x = 1"),
        ],
        "no setter for property",
    );
}

#[test]
fn star_exports_that_disagree_export_nothing() {
    let files = [
        ("a.ts", "import * as b from './b'\nexport const handle = () => Object.keys(b)"),
        ("b.ts", "export * from './c'\nexport * from './d'\nexport const own = 1"),
        ("c.ts", "export const x = 1, same = 1, own = 2\nexport { shared } from './e'"),
        ("d.ts", "export const x = 2\nexport { shared } from './e'"),
        ("e.ts", "export const shared = 1"),
    ];
    gives(&files, r#"["own","same","shared"]"#);
    let mut named = files;
    named[0].1 = "import { x } from './b'\nexport const handle = () => x";
    assert_eq!(
        faults(&named),
        [
            "p/a.ts:1:10: `./b` exports `x` twice, through two `export *` that mean different things: export it by name there"
        ]
    );
}

#[test]
fn star_exports_in_a_cycle_end() {
    gives(
        &[
            (
                "a.ts",
                "export * from './b'\nexport const x = 1\nexport const handle = () => y()\nimport { y } from './b'",
            ),
            ("b.ts", "export * from './a'\nimport { x } from './a'\nexport const y = () => x + 1"),
        ],
        "2",
    );
}

#[test]
fn types_vanish() {
    gives(
        &[
            (
                "a.ts",
                "import type { T } from './gone'\nimport { type U, v } from './b'\nimport { Only } from './also-gone'\nimport type { HandlerCtx } from '@oncehost/sdk/plugin'\n\
                 import { ActionConfig } from '@oncehost/sdk/plugin'\nexport { Shape } from './b'\nexport type { U }\n\
                 export const config = {} satisfies ActionConfig\nconst o: Only | undefined = undefined\n\
                 export function handle(a: T, ctx: HandlerCtx): U { return <U>(v! as unknown) }",
            ),
            ("b.ts", "export type U = number\nexport interface Shape { a: 1 }\nexport const v = 3"),
        ],
        "3",
    );
}

#[test]
fn enums_namespaces_and_parameter_properties_are_lowered() {
    gives(
        &[
            (
                "a.ts",
                "import { Colour, Space, Point, Flag } from './b'\nexport const handle = () => [Colour.Red, Colour[1], Space.depth, new Point(1, 2).sum(), Flag.On]",
            ),
            (
                "b.ts",
                "export enum Colour { Red, Green }\nexport const enum Flag { On = 'on' }\nexport namespace Space { export const depth = 3 }\n\
                 export class Point { constructor(private readonly x: number, public y = 0) {} sum() { return this.x + this.y } }",
            ),
        ],
        r#"[0,"Green",3,3,"on"]"#,
    );
}

#[test]
fn recent_syntax_runs() {
    gives(
        &[(
            "a.ts",
            "class A { static #n = 1; static { A.#n ??= 2 } static has = (o: object) => #n in o; get n() { return A.#n } }\n\
             export function handle() { const ended: string[] = []; { using r = { [Symbol.dispose]() { ended.push('r') } } } \
             return [new A().n, A.has(A), ended, [3, 1, 2].toSorted(), 1_000, /(?<y>\\d+)/v.exec('a12')?.groups?.y] }",
        )],
        r#"[1,true,["r"],[1,2,3],1000,"12"]"#,
    );
}

#[test]
fn names_of_the_factory_stay_out_of_the_way() {
    gives(
        &[
            (
                "a.ts",
                "import { x } from './b'\nconst __m0 = 1, __import = 2, __exports = 3, __define = 4, __default = 5\nexport default 6\n\
                 export const handle = () => [x, __m0, __import, __exports, __define, __default]",
            ),
            ("b.ts", "export function Object() { return 'mine' }\nexport const x = Object()"),
        ],
        r#"["mine",1,2,3,4,5]"#,
    );
}

#[test]
fn json_is_imported_as_its_value() {
    gives(
        &[
            ("a.ts", "import rates from './rates.json'\nexport const handle = () => rates"),
            ("rates.json", r#"{"eur":[1,"a\u2028"],"__proto__":{"x":1}}"#),
        ],
        "{\"eur\":[1,\"a\u{2028}\"],\"__proto__\":{\"x\":1}}",
    );
}

#[test]
fn the_global_object_is_there_under_its_names() {
    gives(
        &[
            (
                "a.ts",
                "import { same } from 'pkg'\nexport const handle = () => [globalThis.Math === Math, same, typeof self]",
            ),
            ("node_modules/pkg/package.json", r#"{"name":"pkg","type":"module","main":"i.js"}"#),
            ("node_modules/pkg/i.js", "export const same = self.Math === Math"),
        ],
        r#"[true,true,"undefined"]"#,
    );
}

#[test]
fn modules_are_strict_and_have_no_this() {
    gives(
        &[(
            "a.js",
            "const top = this, given = arguments.length\nexport function handle() { return [top === undefined, given === 0, (function () { return this === undefined })()] }",
        )],
        "[true,true,true]",
    );
}

#[test]
fn a_stack_leads_back_to_the_typescript_line() {
    let files = [
        (
            "a.ts",
            "import { price } from './lib/money'\n\ninterface Long {\n  a: string\n}\n\nexport function handle() {\n  return price({ ä: '€€' } as any)\n}",
        ),
        (
            "lib/money.ts",
            "type Money = {\n  cents: number\n}\n\nexport function price(it: { money: Money }): number {\n  const factor: number = 2\n  return factor * it.money.cents\n}",
        ),
    ];
    let bundle = bundle(&files);
    assert_eq!(bundle.faults, []);
    let Err(ScriptError::Thrown { stack, position, .. }) = run(bundle.code) else { panic!("it threw nothing") };
    assert_eq!(position.unwrap().to_string(), "p/lib/money.ts:7:19");
    let places: Vec<&str> = stack.lines().filter_map(|line| Some(&line[line.find("p/")?..])).collect();
    assert_eq!(places, ["p/lib/money.ts:7:19)", "p/a.ts:8:10)"], "{stack}");
}

#[test]
fn the_line_of_a_position_is_that_of_the_source() {
    let bundle = bundle(&[("a.ts", "type T = 1\n\n\nexport const handle = (): T => 1")]);
    let line = bundle.code.modules[0].js.lines().position(|line| line.contains("handle = ")).unwrap() + 1;
    let position = bundle.code.position("p/a.ts", u32::try_from(line).unwrap(), 1).unwrap();
    assert_eq!(position.to_string(), "p/a.ts:4:8");
    assert_eq!(bundle.code.source_line(&position), Some("export const handle = (): T => 1"));
}

#[test]
fn places_in_what_the_loader_wrote_have_no_position() {
    let bundle = bundle(&[("a.ts", "export const handle = () => 1")]);
    assert_eq!(bundle.code.position("p/a.ts", 1, 5), None);
    assert_eq!(bundle.code.position("p/unknown.ts", 2, 1), None);
}

#[test]
fn a_value_without_a_name_is_called_default_where_it_is_the_default() {
    gives(
        &[
            (
                "a.ts",
                "import b from './b'\nimport C from './c'\nimport d from './d'\nimport e from './e'\nimport f from './f'\n\
                 export const handle = () => [b.name, b(), C.name, new C().n, C.s, d.name, e.name, f.name]",
            ),
            ("b.ts", "export default () => 1"),
            ("c.ts", "export default class { static s = this.name; n = 2 }"),
            ("d.ts", "export default (function () {})"),
            ("e.ts", "export default function own() {}"),
            ("f.ts", "export default class Own {}"),
        ],
        r#"["default",1,"default",2,"default","default","own","Own"]"#,
    );
}
