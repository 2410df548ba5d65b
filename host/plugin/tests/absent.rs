//! Globals of other places, and what is not written here: each says what to do instead.

use super::modules::{gives, run};
use super::{bundle, faults};
use crate::script::ScriptError;

fn thrown(body: &str) -> (String, String) {
    let bundle = bundle(&[("a.ts", &format!("export function handle(): unknown {{\n  {body}\n}}"))]);
    assert_eq!(bundle.faults, [], "{body}");
    match run(bundle.code) {
        Err(ScriptError::Thrown { message, position, .. }) => {
            (message, position.map(|position| position.to_string()).unwrap_or_default())
        }
        other => panic!("{body}: {other:?}"),
    }
}

#[test]
fn absent_global_says_the_way_out_at_its_place() {
    for (body, way_out, column) in [
        ("return new Intl.NumberFormat('de')", "there are no locales here", 14),
        ("return setTimeout(() => {}, 5)", "'sleep' step", 10),
        ("return (eval as any)('1')", "no code is made from strings", 11),
        ("return process.env.HOME", "ctx.settings", 10),
        ("return new AbortController().signal", "run.signal", 14),
        ("return { Buffer }", "use Uint8Array", 12),
        ("return typeof Intl.DateTimeFormat", "there are no locales here", 17),
    ] {
        let (message, place) = thrown(body);
        assert!(message.starts_with("ReferenceError: ") && message.contains(way_out), "{body}: {message}");
        assert_eq!(place, format!("p/a.ts:2:{column}"), "{body}");
    }
}

#[test]
fn absent_global_says_the_way_out_where_it_is_caught() {
    gives(
        &[(
            "a.ts",
            "export function handle() { try { return Intl } catch (e: any) { return [e.name, e instanceof ReferenceError, e.message.split(' (')[0], e.message.includes('format in the client')] } }",
        )],
        r#"["ReferenceError",true,"Intl is not defined",true]"#,
    );
}

#[test]
fn typeof_of_an_absent_global_is_undefined() {
    gives(
        &[(
            "a.ts",
            "export const handle = () => [typeof Intl, typeof (process as any), typeof window === 'undefined' ? 'none' : window.name, 'Intl' in globalThis, (globalThis as any).Intl]",
        )],
        r#"["undefined","undefined","none",false,null]"#,
    );
}

#[test]
fn own_names_that_are_absent_elsewhere_are_ordinary() {
    gives(
        &[
            (
                "a.ts",
                "import { process } from './b'\nexport function handle(module: any) { const Intl = 1, o = { Buffer: 2, window: 3 }; return [Intl, o.Buffer, o.window, process(), module] }",
            ),
            ("b.ts", "export function process() { return 4 }"),
        ],
        "[1,2,3,4,null]",
    );
}

#[test]
fn jsx_says_what_to_write_instead() {
    for (source, place) in [
        ("export function handle(input: { name: string }) {\n  return <p>Hello {input.name}</p>\n}", "2:10"),
        ("export const handle = () => <></>", "1:29"),
        ("const A = () => null\nexport const handle = () => { const x = <A b={1} />; return x }", "2:41"),
    ] {
        let found = faults(&[("a.ts", source)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(&format!("p/a.ts:{place}: JSX is not possible here: ")), "{found:?}");
    }
    // What is wrong besides is told first.
    assert!(faults(&[("a.ts", "const a = <p></p> 1")])[0].contains("syntax error"));
}

#[test]
fn file_of_jsx_that_is_imported_says_so() {
    for specifier in ["./view", "./view.tsx"] {
        let found =
            faults(&[("a.ts", &format!("import {{ v }} from '{specifier}'\nv")), ("view.tsx", "export const v = 1")]);
        assert!(found.len() == 1 && found[0].contains("JSX is not possible here"), "{found:?}");
    }
}
