//! What is refused, with its place and its way out.

use super::{bundle, faults};

#[track_caller]
fn fault(source: &str, expected: &str) {
    assert_eq!(faults(&[("a.ts", source)]), [expected]);
}

#[test]
fn assignment_to_a_const_is_refused() {
    fault(
        "export function handle() {\n  for (const i = 0; i < 3; i++) {}\n}",
        "p/a.ts:2:28: `i` is a `const` and cannot be assigned to: declare it with `let`",
    );
    fault("const a = 1; [a] = [2]", "p/a.ts:1:15: `a` is a `const` and cannot be assigned to: declare it with `let`");
    fault(
        "const { a } = { a: 1 }; for (a of [2]) {}",
        "p/a.ts:1:30: `a` is a `const` and cannot be assigned to: declare it with `let`",
    );
    assert_eq!(faults(&[("a.ts", "for (const i of [1]) { let i = 2; i++ } const o = { n: 1 }; o.n = 2")]), [""; 0]);
}

#[test]
fn assignment_to_an_import_is_refused() {
    let found = faults(&[("a.ts", "import { x } from './b'\nx = 2"), ("b.ts", "export let x = 1")]);
    let expected =
        "p/a.ts:2:1: `x` is imported and cannot be assigned to: only the module that exports it can change it";
    assert_eq!(found, [expected]);
}

#[test]
fn all_faults_of_all_files_are_told_at_once() {
    let found = faults(&[
        ("a.ts", "import './b'\nimport { y } from './c'\nconst a = y\na = 2\na++"),
        ("b.ts", "const x = ;"),
        ("c.ts", "await 1"),
    ]);
    let starts: Vec<String> = found.iter().map(|it| it.splitn(4, ':').take(3).collect::<Vec<_>>().join(":")).collect();
    assert_eq!(starts, ["p/a.ts:4:1", "p/a.ts:5:1", "p/b.ts:1:11", "p/c.ts:1:1", "p/a.ts:2:10"], "{found:?}");
}

#[test]
fn syntax_error_hides_neither_wrong_imports_nor_what_is_imported() {
    let found = faults(&[
        (
            "a.ts",
            "import { x } from './b'\nimport './none'\nimport type { T } from './types'\nimport { Row } from '@oncehost/sdk/plugin'\n\
             import { Shape } from './shapes'\nexport function handle() { x( }",
        ),
        ("b.ts", "export const x = 1\nx = 2"),
        ("shapes.d.ts", "export interface Shape {}"),
    ]);
    let starts: Vec<String> = found.iter().map(|it| it.splitn(4, ':').take(3).collect::<Vec<_>>().join(":")).collect();
    assert_eq!(starts, ["p/a.ts:6:31", "p/b.ts:2:1", "p/a.ts:2:8"], "{found:?}");
}

#[test]
fn refused_form_hides_no_missing_export() {
    let found = faults(&[
        ("a.ts", "import { fromat } from './b'\nconst a = fromat\na = 2\nexport { parse } from './b'"),
        ("b.ts", "export const format = 1\nformat = 3"),
    ]);
    let starts: Vec<String> = found.iter().map(|it| it.splitn(4, ':').take(3).collect::<Vec<_>>().join(":")).collect();
    assert_eq!(starts, ["p/a.ts:3:1", "p/b.ts:2:1", "p/a.ts:1:10", "p/a.ts:4:10"], "{found:?}");
}

#[test]
fn forms_that_cannot_work_say_what_to_write_instead() {
    for (source, place, way_out) in [
        ("await 1", "1:1", "Move it into `handle`"),
        ("for await (const a of []) {}\nexport {}", "1:1", "Move it into `handle`"),
        ("const x = await import('./b')", "1:11", "Move it into `handle`"),
        ("export const handle = () => import('./b')", "1:29", "at the top of the file"),
        ("export const handle = () => import.meta.url", "1:29", "no place on the disk"),
        ("const a = require('a')", "1:11", "import name from"),
        ("module.exports = {}", "1:1", "export const name"),
        ("exports.a = 1", "1:1", "export const name"),
        ("export = 1", "1:1", "export default"),
        ("import a = require('a')\na", "1:1", "import a from 'a'"),
        ("@d class A {}\nfunction d(x: unknown) {}", "1:1", "call the function yourself"),
        ("class A { accessor x = 1 }", "1:11", "`get` and a `set`"),
    ] {
        let found = faults(&[("a.ts", source)]);
        let hit = found.iter().any(|it| it.starts_with(&format!("p/a.ts:{place}: ")) && it.contains(way_out));
        assert!(hit, "{source}: {found:?}");
    }
}

#[test]
fn await_inside_functions_is_fine() {
    let source =
        "export async function handle() { await 1; for await (const a of []) {} }\nconst f = async () => { await 2 }";
    assert_eq!(faults(&[("a.ts", source)]), [""; 0]);
}

#[test]
fn syntax_errors_have_their_place() {
    let bundle = bundle(&[("a.ts", "const a = 1\n\tconst ä = 'x' y\n")]);
    let shown = bundle.faults[0].to_string();
    let (first, rest) = shown.split_once('\n').unwrap();
    assert!(first.starts_with("p/a.ts:2:"), "{shown}");
    assert!(first.contains("syntax error: "), "{shown}");
    assert_eq!(rest.lines().next().unwrap(), "  2 | \tconst ä = 'x' y");
    assert_eq!(rest.lines().nth(1).unwrap(), "    | \t             ^", "{shown}");
}

#[test]
fn doubled_declarations_are_syntax_errors() {
    let found = faults(&[("a.ts", "let a = 1\nlet a = 2")]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("already been declared"), "{found:?}");
}

#[test]
fn a_missing_file_names_what_is_near() {
    let found = faults(&[
        ("handlers/a.ts", "import { x } from '../lib/mony'\nimport '../../out'\nexport * from './nothing/at/all'\nx"),
        ("lib/money.ts", "export const x = 1"),
    ]);
    assert_eq!(
        found,
        [
            "p/handlers/a.ts:1:19: there is no file for `../lib/mony`, did you mean \"../lib/money\"? \
             (looked for lib/mony.ts, lib/mony.mts, lib/mony.js)",
            "p/handlers/a.ts:2:8: `../../out` leads out of the plugin's folder: only files within it can be imported",
            "p/handlers/a.ts:3:15: there is no file for `./nothing/at/all` \
             (looked for handlers/nothing/at/all.ts, handlers/nothing/at/all.mts, handlers/nothing/at/all.js)",
        ]
    );
}

#[test]
fn endings_may_be_left_out_or_be_those_of_the_output() {
    let found = faults(&[
        (
            "a.ts",
            "import './b'\nimport './b.ts'\nimport './b.js'\nimport './c'\nimport './d.js'\nimport './c/index.ts'",
        ),
        ("b.ts", ""),
        ("c/index.ts", ""),
        ("d.js", ""),
    ]);
    assert_eq!(found, [""; 0]);
}

#[test]
fn a_link_out_of_the_folder_is_refused() {
    let outside = super::Folder::with(&[("secret.ts", "export const x = 1")]);
    let folder = super::Folder::with(&[("a.ts", "import './lib/secret'"), ("lib/b.ts", "")]);
    std::os::unix::fs::symlink(outside.path("secret.ts"), folder.path("lib/secret.ts")).unwrap();
    let found = super::first_lines(&super::bundle_of(&folder, "a.ts"));
    assert!(found[0].contains("outside of the plugin's folder"), "{found:?}");
}

#[test]
fn a_missing_export_names_what_is_near() {
    let found = faults(&[
        ("a.ts", "import { fromat } from './b'\nimport b from './b'\nexport { nothing } from './b'\nfromat, b"),
        ("b.ts", "export const format = 1\nexport const parse = 2"),
    ]);
    assert_eq!(
        found,
        [
            "p/a.ts:1:10: `./b` does not export `fromat`, did you mean \"format\"? (it exports format, parse)",
            "p/a.ts:2:8: `./b` has no default export: write `import { format } from './b'` or `import * as name from './b'`",
            "p/a.ts:3:10: `./b` does not export `nothing` (it exports format, parse)",
        ]
    );
}

#[test]
fn the_sdk_is_for_types_only() {
    let found = faults(&[(
        "a.ts",
        "import { BizError } from '@oncehost/sdk/plugin'\nexport function handle() { throw new BizError('X', 'x') }",
    )]);
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("p/a.ts:1:26: `@oncehost/sdk/plugin` is there for types only"), "{found:?}");
}

#[test]
fn only_what_stands_on_faulty_modules_is_unsound() {
    let bundle = bundle(&[
        ("a.ts", "import './b'\nimport './ok'"),
        ("b.ts", "import './c'"),
        ("c.ts", "import './missing'\nimport './a'"),
        ("ok.ts", ""),
    ]);
    let sound: Vec<_> = bundle.code.modules.iter().map(|it| it.path.as_str()).zip(bundle.sound).collect();
    assert_eq!(sound, [("p/a.ts", false), ("p/b.ts", false), ("p/ok.ts", true), ("p/c.ts", false)]);
}

#[test]
fn a_bad_regular_expression_is_a_syntax_error() {
    let found = faults(&[("a.ts", "const a = /(/")]);
    assert!(found.len() == 1 && found[0].starts_with("p/a.ts:1:"), "{found:?}");
}

#[test]
fn an_export_of_nothing_is_refused() {
    fault("export { nothing }", "p/a.ts:1:10: `nothing` is not declared in this file, so it cannot be exported");
    fault("export { Math as m }", "p/a.ts:1:10: `Math` is not declared in this file, so it cannot be exported");
}

#[test]
fn a_missing_import_names_the_file_that_was_probably_meant() {
    for (written, meant) in
        [("./create", "./create-event"), ("./craete-event", "./create-event"), ("../lib/mony", "../lib/money")]
    {
        let found = faults(&[
            ("handlers/a.ts", &format!("import {{ x }} from '{written}'\nexport const handle = () => x")),
            ("handlers/create-event.ts", "export const x = 1"),
            ("lib/money.ts", "export const x = 1"),
        ]);
        assert!(found[0].contains(&format!("did you mean \"{meant}\"?")), "{found:?}");
    }
}

#[test]
fn fault_at_the_end_of_a_file_is_shown_behind_the_last_that_stands_there() {
    let found = faults(&[("a.ts", "export function handle() {\n  return 1\n\n\n")]);
    assert!(found.len() == 1 && found[0].starts_with("p/a.ts:2:11: syntax error: "), "{found:?}");
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("p/handlers")).unwrap();
    std::fs::write(folder.path().join("p/plugin.json"), r#"{ "id": "p", "version": "1.0.0" }"#).unwrap();
    std::fs::write(folder.path().join("p/handlers/a.ts"), "export function handle() {\n").unwrap();
    let registry = crate::plugin::Registry::load(folder.path(), 0).unwrap();
    let shown = registry.broken["p"][0].to_string();
    assert!(shown.ends_with("\n  1 | export function handle() {\n    |                           ^"), "{shown}");
}
