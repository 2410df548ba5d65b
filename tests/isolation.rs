//! Nothing of one invocation is visible to the next but through the store, and nobody sees what belongs to another
//! (spec, G9 and G10).

use crate::support::host::Host;
use crate::support::scenario::{check, files};
use crate::support::shop::SHOP;

const MANIFEST: &str = r#"{ "id": "leak", "version": "1.0.0", "permissions": ["data:read", "data:write"] }"#;

/// Runs `code` as the body of a handler twice, in one host, and gives both results as JSON text.
fn twice(code: &str) -> (String, String) {
    let handler = format!(
        "let kept = 0\nconst seen: unknown[] = []\nexport function handle(input: any, ctx: any) {{\n{code}\n}}"
    );
    let host = Host::new([("leak/plugin.json", MANIFEST), ("leak/handlers/run.ts", handler.as_str())]);
    let body = |answer: crate::support::host::Answer| {
        let json = answer.json();
        if answer.status == 200 { json["data"].to_string() } else { json["detail"].to_string() }
    };
    (body(host.read("leak", "run", "{}")), body(host.read("leak", "run", "{}")))
}

#[test]
fn module_variables_begin_afresh() {
    assert_eq!(twice("kept += 1; seen.push(kept); return [kept, seen.length]"), ("[1,1]".into(), "[1,1]".into()));
}

#[test]
fn what_a_run_changes_outside_itself_is_refused_or_gone() {
    for code in [
        "try { (globalThis as any).x = ((globalThis as any).x ?? 0) + 1 } catch {} return (globalThis as any).x ?? 0",
        "try { (Array.prototype as any).x = 1 } catch {} return ([] as any).x ?? 0",
        "try { (Object.prototype as any).x = 1 } catch {} return ({} as any).x ?? 0",
        "try { (store as any).x = ((store as any).x ?? 0) + 1 } catch {} return (store as any).x ?? 0",
        "try { (store.get as any).x = 1 } catch {} return (store.get as any).x ?? 0",
        "try { (ctx.stableId as any).x = 1 } catch {} return (ctx.stableId as any).x ?? 0",
        "try { (console as any).log = 1 } catch {} return typeof console.log === 'function' ? 0 : 1",
        "try { (Math as any).x = 1 } catch {} return (Math as any).x ?? 0",
        "try { Object.getPrototypeOf(async function () {}).x = 1 } catch {} return Object.getPrototypeOf(async function () {}).x ?? 0",
        "try { Object.getPrototypeOf([][Symbol.iterator]()).x = 1 } catch {} return Object.getPrototypeOf([][Symbol.iterator]()).x ?? 0",
        "try { (BizError as any).x = 1; (BizError.prototype as any).y = 1 } catch {} return ((BizError as any).x ?? 0) + ((BizError.prototype as any).y ?? 0)",
        "try { (/a/ as any).constructor.x = 1 } catch {} return (RegExp as any).x ?? 0; ",
        "'zz'.match(/z/); const before = (RegExp as any).$1 ?? 0; 'ab'.match(/(a)/); return before",
    ] {
        let (first, second) = twice(code);
        assert!(["0", "1"].contains(&first.as_str()), "{code}: {first}");
        let per_run = first == second;
        assert!(per_run, "{code}: first {first}, then {second}");
    }
}

#[test]
fn no_code_comes_from_strings() {
    for code in [
        "return (globalThis as any).eval ? 1 : 0",
        "try { return new (handle as any).constructor('return 1')() } catch { return 0 }",
        "try { return new ((async () => {}) as any).constructor('return 1')() ? 1 : 0 } catch { return 0 }",
        "try { return new ((function* () {}) as any).constructor('yield 1')() ? 1 : 0 } catch { return 0 }",
        "try { return new ((async function* () {}) as any).constructor('yield 1')() ? 1 : 0 } catch { return 0 }",
        "return typeof setTimeout === 'undefined' ? 0 : 1",
    ] {
        assert_eq!(twice(code).0, "0", "{code}");
    }
}

#[test]
fn a_plugin_does_not_see_the_tables_of_another() {
    let mut all = files(SHOP);
    all.push(("leak/plugin.json".to_owned(), MANIFEST.to_owned()));
    for (name, table) in [("peek", "item"), ("host", "_oncehost_keys"), ("master", "sqlite_master")] {
        all.push((
            format!("leak/handlers/{name}.ts"),
            format!("export function handle() {{ const r = store.list('{table}', {{}}); if (!r.ok) throw r.error; return r.data }}"),
        ));
    }
    let host = Host::new(all);
    host.post("shop", "add", "k", r#"{"code":"a"}"#).data();
    for name in ["peek", "host", "master"] {
        let answer = host.read("leak", name, "{}");
        assert_eq!(answer.status, 500, "{name}: {}", answer.body);
        assert!(["SCHEMA", "CONTRACT"].contains(&answer.error().as_str()), "{name}: {}", answer.body);
    }
}

#[test]
fn a_tenant_does_not_see_the_rows_of_another() {
    check(
        &format!(
            "{SHOP}\n//- steps\n> POST shop/add key=k tenant=red {{\"code\":\"a\"}}\n\
             > POST shop/get tenant=red {{\"code\":\"a\"}}\n> POST shop/get tenant=blue {{\"code\":\"a\"}}\n\
             > POST shop/advance key=k tenant=blue {{\"code\":\"a\",\"from\":\"new\",\"to\":\"taken\"}}"
        ),
        r#"
        > POST shop/add key=k tenant=red {"code":"a"}
        200 {"id":"<1>","created":true}
        > POST shop/get tenant=red {"code":"a"}
        200 {"found":"a","key":null}
        > POST shop/get tenant=blue {"code":"a"}
        200 {"found":null,"key":null}
        > POST shop/advance key=k tenant=blue {"code":"a","from":"new","to":"taken"}
        200 {"affected":0}
        "#,
    );
}

#[test]
fn a_read_action_cannot_write() {
    let handler = "export const config = { kind: 'read' }\nexport function handle() { const r = store.update('t', { id: { eq: 'a' } }, { id: 'b' }); if (!r.ok) throw r.error }";
    let host = Host::new([
        ("leak/plugin.json", MANIFEST),
        ("leak/schema.sql", "CREATE TABLE t (id TEXT PRIMARY KEY);"),
        ("leak/handlers/run.ts", handler),
    ]);
    let answer = host.read("leak", "run", "{}");
    assert_eq!((answer.status, answer.error().as_str()), (500, "CONTRACT"));
    assert!(answer.body.contains("kind: 'read'"), "{}", answer.body);
}
