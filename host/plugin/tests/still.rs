//! What is instantiated once for all runs, and what for each.

use super::bundle;

fn still(files: &[(&str, &str)]) -> Vec<bool> {
    let bundle = bundle(files);
    assert_eq!(super::first_lines(&bundle), Vec::<String>::new());
    bundle.code.modules.iter().map(|module| module.still).collect()
}

#[test]
fn module_of_called_functions_and_plain_constants_is_instantiated_once() {
    for source in [
        "export function handle() {}",
        "export async function handle(input: object) { return helper(input) } function helper(it: object) { return it }",
        "const A = 'a', B = -1; const C = `${A}${B}` + 2n; export function handle() { return [A, B, C] }",
        "export const config = { key: 'required', input: { type: 'object' } } as const; export function handle() {}",
        "function handle() { let n = 0; const list = [n]; return () => { list.push(n++) } } export { handle }",
        "export default function () { return 1 } export function handle() {}",
        "interface A { a: string } type B = A; export function handle(a: A): B { return a }",
    ] {
        assert_eq!(still(&[("a.ts", source)]), [true], "{source}");
    }
    let library = "export const NAME = 'n'; export function must(it: unknown) { return it }";
    let uses = "import { NAME, must } from './b.ts'; export function handle() { return must([NAME]) }";
    assert_eq!(still(&[("a.ts", uses), ("b.ts", library)]), [true, true]);
    let passes_on = "export { must as need } from './c.ts'";
    let uses = "import { need } from './b.ts'; export function handle() { return need(1) }";
    assert_eq!(still(&[("a.ts", uses), ("b.ts", passes_on), ("c.ts", library)]), [true, true, true]);
}

#[test]
fn module_that_a_run_could_change_is_instantiated_for_each() {
    for source in [
        "let n = 0; export function handle() { return n++ }",
        "var n = 0; export function handle() { return n++ }",
        "const seen: string[] = []; export function handle() { seen.push('x'); return seen.length }",
        "const seen = { n: 0 }; export function handle() { return seen.n++ }",
        "const seen = new Map(); export function handle() { return seen.size }",
        "const next = (() => { let n = 0; return () => n++ })(); export function handle() { return next() }",
        "const pattern = /x/g; export function handle() { return pattern.test('x') }",
        "class Kept { static n = 0 } export function handle() { return Kept.n++ }",
        "export function handle() { const it = f as any; it.n = (it.n ?? 0) + 1; return it.n } function f() {}",
        "export function handle() { return (handle as any).n = 1 }",
        "function F(this: any) {} export function handle() { return new (F as any)() }",
        "export function handle() { return g().next() } function* g() { yield 1 }",
        "export let handle = function () {}",
        "export function handle() { return f(g) } function f(it: any) { it.n = 1 } function g() {}",
        "export function handle() { f = () => 2; return f() } function f() { return 1 }",
        "globalThis.x ??= 1; export function handle() {}",
        "export function handle() { (globalThis as any).n = 1 }",
        "enum Kind { A } export function handle() { return Kind.A }",
        "export const config = { n: 0 }; export function handle() { return (config as any).n++ }",
        "if (Date.now() > 0) { console.log('x') } export function handle() {}",
        "const now = Date.now(); export function handle() { return now }",
        // It would stay in the memory that later runs share.
        "const A = 'abcdefghijklmnop', B = A + A + A + A + A + A + A + A + A + A + A + A + A + A + A + A; const C = B + B + B + B + B + B + B + B + B + B + B + B + B + B + B + B; const D = `${C}${C}${C}${C}`; export function handle() { return D }",
        "const N = 2n ** 60000n; export function handle() { return N }",
    ] {
        assert_eq!(still(&[("a.ts", source)]), [false], "{source}");
    }
}

#[test]
fn module_stays_fresh_where_another_could_change_it() {
    let library = "export const NAME = 'n'; export function must(it: unknown) { return it }";
    for uses in [
        "import { must } from './b.ts'; export function handle() { (must as any).n = 1 }",
        "import { must } from './b.ts'; export function handle() { return [must] }",
        "import * as b from './b.ts'; export function handle() { return b.must(1) }",
        "import * as b from './b.ts'; export function handle() { return b }",
    ] {
        assert_eq!(still(&[("a.ts", uses), ("b.ts", library)]), [false, false], "{uses}");
    }
    let uses = "import { config } from './b.ts'; export function handle() { return config }";
    let configured = "export const config = { n: 0 }";
    assert_eq!(still(&[("a.ts", uses), ("b.ts", configured)]), [false, false]);
    let (uses, passes_on) = (
        "import { need } from './b.ts'; export function handle() { return [need] }",
        "export { must as need } from './c.ts'",
    );
    assert_eq!(still(&[("a.ts", uses), ("b.ts", passes_on), ("c.ts", library)]), [false, false, false]);
    for (uses, passes_on) in [
        ("import * as b from './b.ts'; export function handle() { return b.must }", "export * from './c.ts'"),
        (
            "import * as b from './b.ts'; export function handle() { return b.need }",
            "export { must as need } from './c.ts'",
        ),
        (
            "import * as b from './b.ts'; export function handle() { return b }",
            "import { must } from './c.ts'; export { must }",
        ),
        ("import { b } from './b.ts'; export function handle() { return b }", "export * as b from './c.ts'"),
    ] {
        let files = [("a.ts", uses), ("b.ts", passes_on), ("c.ts", library)];
        assert_eq!(still(&files), [false, false, false], "{passes_on}");
    }
    let (one, other) = (
        "import { g } from './b.ts'; export function handle() { return g() } export function f() {}",
        "import { f } from './a.ts'; export function g() { return f() }",
    );
    assert_eq!(still(&[("a.ts", one), ("b.ts", other)]), [false, false]);
    let data = "import it from './b.json'; export function handle() { return it }";
    assert_eq!(still(&[("a.ts", data), ("b.json", "{}")]), [false, false]);
}
