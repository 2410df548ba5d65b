//! Types from the plugin to the page: `oncehost types`, what `dev` writes on reload, and what the types check.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value as Json, json};

use crate::support::host::Host;
use crate::support::process::{Folders, Process};

const SHOP: [(&str, &str); 5] = [
    (
        "shop/plugin.json",
        r#"{ "id": "shop", "version": "1.0.0", "permissions": ["data:read", "data:write", "flow:start", "notify:publish"] }"#,
    ),
    (
        "shop/schema.sql",
        "CREATE TABLE item (id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, price INTEGER NOT NULL DEFAULT 0, sold TIMESTAMP, \
         data JSON, photo BLOB, created_at TIMESTAMP NOT NULL, updated_at TIMESTAMP NOT NULL);",
    ),
    (
        "shop/flows/report.json",
        r#"{ "name": "report", "job": { "seed": ["item_id", "day"] }, "steps": [{ "id": "wait", "uses": "sleep", "for": "1s" }] }"#,
    ),
    (
        "shop/handlers/item/add.ts",
        "import type { Item } from '../../lib/item.ts'\nexport const config = { key: 'required' } as const\n\
         /** Adds an item. */\nexport function handle(input: Item): { id: string } {\n\
         notify.publish('item.added', input)\nreturn { id: input.name } }",
    ),
    (
        "shop/lib/item.ts",
        "export interface Item {\n  /** @minLength 1 */\n  name: string\n  kind?: 'new' | 'used'\n  prices: number[]\n}",
    ),
];

fn types(folders: &Folders, args: &[&str]) -> (i32, String, String) {
    let ended = folders.command(&[&["types"], args].concat()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (ended.status.code().unwrap(), text(ended.stdout), text(ended.stderr))
}

fn sdk() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk-ts")
}

/// What the type checker says of a folder with these sources and these paths of packages; nothing where all is well.
fn checked(folder: &Path, package: &str, at: &Path, base: &str) -> String {
    let tsc = sdk().join("node_modules/.bin/tsc");
    assert!(tsc.exists(), "there is no type checker; run: npm ci --prefix sdk-ts");
    let settings = json!({
        "extends": sdk().join(base),
        "compilerOptions": {
            "noEmit": true, "declaration": false, "allowImportingTsExtensions": true, "rootDir": "/", "noUnusedLocals": false,
            "paths": { package: [at] },
        },
        "include": ["**/*.ts"],
    });
    fs::write(folder.join("tsconfig.json"), settings.to_string()).unwrap();
    let ended = Command::new(&tsc).args(["-p", "."]).current_dir(folder).output().unwrap();
    String::from_utf8(ended.stdout).unwrap()
}

#[test]
fn types_of_the_shipped_plugins_are_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let check = |more: &[&str]| {
        let plugins = root.join("plugins");
        let (code, out, err) =
            types(&Folders::empty(), &[&["--plugins", plugins.to_str().unwrap(), "--check"], more].concat());
        assert_eq!(code, 0, "{out}{err}");
    };
    check(&[]);
    // Those of the example page: oncehost types lane-change --client examples/lane-change-web/oncehost.d.ts
    check(&["lane-change", "--client", root.join("examples/lane-change-web/oncehost.d.ts").to_str().unwrap()]);
}

#[test]
fn new_plugin_has_the_types_that_would_be_written() {
    let folders = Folders::empty();
    assert!(folders.command(&["new", "hello"]).output().unwrap().status.success());
    let (code, out, err) = types(&folders, &["--check"]);
    assert_eq!(code, 0, "{out}{err}");
}

#[test]
fn check_writes_nothing_and_fails_while_a_file_is_stale() {
    let folders = Folders::new(SHOP);
    let file = folders.plugins().join("shop/oncehost.d.ts");
    let (code, out, err) = types(&folders, &["--check"]);
    assert_eq!(code, 1);
    assert!(
        out.contains("stale") && out.contains("shop/oncehost.d.ts") && err.contains("run oncehost types"),
        "{out}{err}"
    );
    assert!(!file.exists());
    let (code, out, err) = types(&folders, &[]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.starts_with("written"), "{out}");
    assert_eq!(types(&folders, &["--check"]).0, 0);
    assert!(types(&folders, &[]).1.starts_with("current"));
}

#[test]
fn json_has_the_files_and_the_schemas_of_actions() {
    let folders = Folders::new(SHOP);
    let (code, out, _) = types(&folders, &["--json"]);
    assert_eq!(code, 0);
    let told: Json = serde_json::from_str(&out).unwrap();
    assert_eq!(told["files"][0]["state"], "written");
    let shop = &told["plugins"][0];
    assert_eq!((&shop["topics"], &shop["tables"]), (&json!(["item.added"]), &json!(["item"])));
    assert_eq!(shop["flows"], json!([{ "name": "report", "seed": ["item_id", "day"] }]));
    let input = &shop["actions"][0]["input"];
    assert_eq!(input["properties"]["name"], json!({ "type": "string", "minLength": 1 }));
    assert_eq!(shop["actions"][0]["output"]["required"], json!(["id"]));
}

#[test]
fn file_for_callers_in_a_folder_that_is_missing_is_refused_with_its_name() {
    let folders = Folders::new(SHOP);
    let web = folders.data().with_file_name("web");
    let (code, _, err) = types(&folders, &["--client", web.join("oncehost.d.ts").to_str().unwrap()]);
    assert!(code == 1 && err.contains(&format!("there is no folder {}; make it", web.display())), "{err}");
    assert!(!web.exists());
}

#[test]
fn plugin_that_does_not_load_is_told_of_and_the_others_are_written() {
    let folders = Folders::new(SHOP);
    crate::support::host::write(&folders.plugins().join("bad/plugin.json"), "{");
    let (code, out, err) = types(&folders, &[]);
    assert_eq!(code, 1);
    assert!(out.contains("shop/oncehost.d.ts") && err.contains("bad does not load"), "{out}{err}");
    let client = folders.data().with_file_name("client.d.ts");
    let (code, _, err) = types(&folders, &["--client", client.to_str().unwrap()]);
    assert!(code == 1 && err.contains("client.d.ts is left as it is") && !client.exists(), "{err}");
    let (code, _, err) = types(&folders, &["shpo"]);
    assert_eq!(code, 1);
    assert!(err.contains("there is no plugin \"shpo\"") && err.contains("there is shop"), "{err}");
}

#[test]
fn dev_writes_types_at_start_and_on_each_reload() {
    let folders = Folders::new(SHOP);
    let file = folders.plugins().join("shop/oncehost.d.ts");
    let host = folders.dev();
    let before = fs::read_to_string(&file).unwrap();
    assert!(before.contains("price") && !before.contains("weight"));
    let schema = folders.plugins().join("shop/schema.sql");
    let text = fs::read_to_string(&schema).unwrap().replace("sold TIMESTAMP,", "sold TIMESTAMP, weight REAL,");
    fs::write(&schema, text).unwrap();
    host.wait_for("reloaded shop (schema.sql)", 0);
    assert!(fs::read_to_string(&file).unwrap().contains("weight?: number | null"));
    // What the host writes is no change of the plugin.
    fs::write(&file, "// spoilt").unwrap();
    fs::write(folders.plugins().join("shop/lib/item.ts"), SHOP[4].1.replace("'used'", "'old'")).unwrap();
    host.wait_for("reloaded shop (lib/item.ts)", 0);
    assert!(fs::read_to_string(&file).unwrap().contains("weight"));
}

#[test]
fn types_of_those_that_may_run_a_plugins_actions_follow_its_reload() {
    let till = [
        ("till/plugin.json", r#"{ "id": "till", "version": "1.0.0", "permissions": ["invoke:shop"] }"#),
        ("till/handlers/open.ts", "export function handle() {}"),
    ];
    let folders = Folders::new(SHOP.into_iter().chain(till));
    let host = folders.dev();
    let text = || fs::read_to_string(folders.plugins().join("till/oncehost.d.ts")).unwrap();
    assert!(text().contains("'used'"), "{}", text());
    fs::write(folders.plugins().join("shop/lib/item.ts"), SHOP[4].1.replace("'used'", "'old'")).unwrap();
    host.wait_for("reloaded shop (lib/item.ts)", 0);
    assert!(text().contains("'old'"), "{}", text());
    fs::remove_dir_all(folders.plugins().join("shop")).unwrap();
    host.wait_for("removed shop", 0);
    assert!(!text().contains("'old'"), "{}", text());
}

#[test]
fn dev_keeps_the_callers_types_on_each_reload() {
    let folders = Folders::new(SHOP);
    let file = folders.data().with_file_name("client.d.ts");
    let dev = ["dev", "--apply-schema", "--client", file.to_str().unwrap()];
    let host = Process::start(folders.command(&dev));
    assert!(fs::read_to_string(&file).unwrap().contains("kind?: 'new' | 'used' | undefined"));
    fs::write(folders.plugins().join("shop/lib/item.ts"), SHOP[4].1.replace("'used'", "'old'")).unwrap();
    host.wait_for("reloaded shop (lib/item.ts)", 0);
    assert!(fs::read_to_string(&file).unwrap().contains("kind?: 'new' | 'old' | undefined"));
    // A plugin that never loaded takes nothing out of them.
    crate::support::host::write(&folders.plugins().join("bad/plugin.json"), "{");
    host.wait_for("bad/plugin.json", 0);
    fs::write(&file, "// as it was").unwrap();
    fs::write(folders.plugins().join("shop/handlers/item/more.ts"), "export function handle() {}").unwrap();
    host.wait_for("reloaded shop (handlers/item/more.ts)", 0);
    assert_eq!(fs::read_to_string(&file).unwrap(), "// as it was");
}

#[test]
fn typo_in_a_plugin_is_flagged_by_the_type_checker() {
    let folders = Folders::new(SHOP);
    assert_eq!(types(&folders, &[]).0, 0);
    let shop = folders.plugins().join("shop");
    let typos = "
        import type { HandlerCtx } from '@oncehost/sdk/plugin'
        export function typos(_ctx: HandlerCtx) {
          store.createIfAbsent('item', { name: 'a', photo: new Uint8Array(), data: [1], price: 2n, sold: new Date() }, ['name'])
          // @ts-expect-error a table
          store.get('items', {})
          // @ts-expect-error a column
          store.createIfAbsent('item', { name: 'a', prize: 1 }, ['name'])
          // @ts-expect-error the host's own
          store.createIfAbsent('item', { name: 'a', createdAt: '2026-01-01T00:00:00Z' }, ['name'])
          // @ts-expect-error a column that is not there, to be unique by
          store.createIfAbsent('item', { name: 'a' }, ['nmae'])
          // @ts-expect-error an operator
          store.get('item', { name: { equals: 'a' } })
          // @ts-expect-error a column to order by
          store.list('item', { orderBy: { prize: 'asc' } })
          flow.start('report', 'b', { item_id: 'i', day: 'd' })
          // @ts-expect-error a flow
          flow.start('reprot', 'b', { item_id: 'i', day: 'd' })
          // @ts-expect-error a seed key
          flow.start('report', 'b', { itemId: 'i', day: 'd' })
          // @ts-expect-error a seed key is missing
          flow.start('report', 'b', { item_id: 'i' })
        }";
    fs::write(shop.join("lib/typos.ts"), typos).unwrap();
    let check = || checked(&shop, "@oncehost/sdk/plugin", &sdk().join("plugin.d.ts"), "tsconfig.plugin.json");
    assert_eq!(check(), "");
    // Nothing of that holds without the types.
    fs::remove_file(shop.join("oncehost.d.ts")).unwrap();
    assert!(check().contains("Unused '@ts-expect-error' directive"));
}

/// The code of this language in a page of the documentation.
fn code<'p>(page: &'p str, language: &str) -> Vec<&'p str> {
    let begun = page.split("\n```").filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n'));
    begun.collect()
}

#[test]
fn handlers_in_the_documentation_pass_the_type_checker() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |page: &str| fs::read_to_string(root.join(page)).unwrap();
    let folders = Folders::empty();
    let plugin = folders.plugins().join("camera");
    let put = |name: &str, text: &str| crate::support::host::write(&plugin.join(name), text);
    let writing = read("docs/writing-plugins.md");
    put("plugin.json", code(&writing, "json")[0]);
    let payment = "CREATE TABLE payment (id TEXT PRIMARY KEY, order_id TEXT NOT NULL UNIQUE);";
    put("schema.sql", &format!("{}{payment}", code(&writing, "sql")[0]));
    put("lib/must.ts", &read("plugins/orders/lib/must.ts"));
    let mut found = 0;
    for page in ["docs/writing-plugins.md", "docs/events.md", "docs/flows.md", "sdk-ts/README.md"] {
        let before = found;
        let text = read(page);
        for handler in code(&text, "ts").into_iter().filter(|code| code.contains("function handle(")) {
            put(&format!("events/handler-{found}.ts"), handler);
            found += 1;
        }
        assert!(found > before, "{page} has no handler");
    }
    let (code, out, err) = types(&folders, &[]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert_eq!(checked(&plugin, "@oncehost/sdk/plugin", &sdk().join("plugin.d.ts"), "tsconfig.plugin.json"), "");
}

#[test]
fn typo_on_the_callers_side_is_flagged_by_the_type_checker() {
    let folders = Folders::new(SHOP);
    let list = "export const config = { kind: 'read' } as const\nexport function handle(_: { limit?: number }): { names: string[] } { return { names: [] } }";
    fs::write(folders.plugins().join("shop/handlers/item/list.ts"), list).unwrap();
    let web = folders.data().with_file_name("web");
    fs::create_dir(&web).unwrap();
    fs::write(web.join("package.json"), r#"{ "type": "module" }"#).unwrap();
    let (code, out, err) = types(&folders, &["--client", web.join("oncehost.d.ts").to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let page = "
        import { invoke, keyStore, type Context } from '@oncehost/sdk'
        export async function page(ctx: Context) {
          const key = { idempotencyKey: 'k' }
          const { id } = await invoke(ctx, 'shop', 'item.add', { name: 'a', prices: [1], kind: 'new' }, key)
          const text: string = id
          const { names } = await invoke(ctx, 'shop', 'item.list', {}, { read: true })
          const all: string[] = names
          await keyStore(localStorage).invoke(ctx, 'shop', 'item.add', { name: 'a', prices: [] })
          // @ts-expect-error a plugin
          await invoke(ctx, 'shpo', 'item.add', { name: 'a', prices: [] }, key)
          // @ts-expect-error an action
          await invoke(ctx, 'shop', 'item.ad', { name: 'a', prices: [] }, key)
          // @ts-expect-error a member of the input
          await invoke(ctx, 'shop', 'item.add', { name: 'a', price: [] }, key)
          // @ts-expect-error a value of the input
          await invoke(ctx, 'shop', 'item.add', { name: 'a', prices: [], kind: 'old' }, key)
          // @ts-expect-error a member of the output
          ;(await invoke(ctx, 'shop', 'item.add', { name: 'a', prices: [] }, key)).ids
          // @ts-expect-error the key that the action requires
          await invoke(ctx, 'shop', 'item.add', { name: 'a', prices: [] })
          // @ts-expect-error a write is no read
          await invoke(ctx, 'shop', 'item.add', { name: 'a', prices: [] }, { ...key, read: true })
          // @ts-expect-error a read says so
          await invoke(ctx, 'shop', 'item.list', {})
          return [text, all]
        }";
    fs::write(web.join("page.ts"), page).unwrap();
    assert_eq!(checked(&web, "@oncehost/sdk", &sdk().join("src/index.ts"), "tsconfig.build.json"), "");
}

#[test]
fn printed_types_are_those_that_the_handler_s_are() {
    let handler = "
        type Value = string | number | null | Value[] | { [key: string]: Value }
        interface Tree<T> { value: T; children: Tree<T>[] }
        type Shape = { kind: 'circle'; r: number } | { kind: 'rect'; w: number }
        type Xor = { a: string; b?: undefined } | { b: string; a?: never }
        export interface All {
          value?: Value; tree?: Tree<string>; named?: { name: string } & Shape; lists?: ({ x: number }[] | { y: number })[]
          xor?: Xor; loose?: 'a' | (string & {}); pair?: [string, number?, ...boolean[]]
        }
        export function handle(input: All): All { return input }";
    let folders = Folders::new(SHOP);
    fs::write(folders.plugins().join("shop/handlers/item/all.ts"), handler).unwrap();
    let web = folders.data().with_file_name("web");
    fs::create_dir(&web).unwrap();
    fs::write(web.join("package.json"), r#"{ "type": "module" }"#).unwrap();
    assert_eq!(types(&folders, &["--client", web.join("oncehost.d.ts").to_str().unwrap()]).0, 0);
    fs::write(web.join("all.ts"), handler).unwrap();
    let page = "
        import { invoke, type Context, type Input } from '@oncehost/sdk'
        import type { All } from './all.ts'
        type Is<A, B> = [A] extends [B] ? true : false
        type Printed = Required<Input<'shop', 'item.all'>>
        export const same: { [K in keyof All]-?: Is<NonNullable<All[K]>, NonNullable<Printed[K]>> } =
          { value: true, tree: true, named: true, lists: true, xor: true, loose: true, pair: true }
        export async function page(ctx: Context) {
          const { tree, named } = await invoke(ctx, 'shop', 'item.all', { value: { a: [1, { b: null }] } })
          const deep: string | undefined = tree?.children[0]?.children[0]?.value
          if (named?.kind === 'rect') named.name.padStart(named.w)
          // @ts-expect-error of another form
          if (named?.kind === 'rect') named.r
          // @ts-expect-error both of two that exclude each other
          await invoke(ctx, 'shop', 'item.all', { xor: { a: '1', b: '2' } })
          // @ts-expect-error no name
          await invoke(ctx, 'shop', 'item.all', { named: { kind: 'rect', w: 1 } })
          // @ts-expect-error no such value, deep inside
          await invoke(ctx, 'shop', 'item.all', { value: [{ a: true }] })
          return deep
        }";
    fs::write(web.join("page.ts"), page).unwrap();
    assert_eq!(checked(&web, "@oncehost/sdk", &sdk().join("src/index.ts"), "tsconfig.build.json"), "");
}

#[test]
fn scripts_are_checked_with_the_actions_that_they_may_invoke() {
    let folders = Folders::new(SHOP);
    let script = "
        import type { ScriptCtx } from '@oncehost/sdk/plugin'
        export async function handle(_: unknown, ctx: ScriptCtx) {
          const key = { idempotencyKey: run.idempotencyKey }
          const { id } = await invoke(ctx, 'shop', 'item.add', { name: 'a', prices: [] }, key)
          // @ts-expect-error an action
          await invoke(ctx, 'shop', 'item.ad', { name: 'a', prices: [] }, key)
          // @ts-expect-error a member of the input
          await invoke(ctx, 'shop', 'item.add', { name: 'a', price: [] }, key)
          // @ts-expect-error a plugin that permissions do not name
          await invoke(ctx, 'till', 'till.open', {}, key)
          return id.length
        }";
    let till = folders.plugins().join("till");
    let manifest = r#"{ "id": "till", "version": "1.0.0", "permissions": ["invoke:shop"] }"#;
    crate::support::host::write(&till.join("plugin.json"), manifest);
    crate::support::host::write(&till.join("scripts/add.ts"), script);
    assert_eq!(types(&folders, &[]).0, 0);
    assert_eq!(checked(&till, "@oncehost/sdk/plugin", &sdk().join("plugin.d.ts"), "tsconfig.plugin.json"), "");
}

#[test]
fn input_is_checked_by_the_type_of_its_handler() {
    let host = Host::new(SHOP);
    let good = host.post("shop", "item.add", "k1", r#"{ "name": "a", "prices": [1], "more": true }"#);
    assert_eq!(good.data(), json!({ "id": "a" }));
    for (body, pointer) in [
        (r#"{ "name": "", "prices": [] }"#, "/name"),
        (r#"{ "name": "a", "prices": ["1"] }"#, "/prices/0"),
        (r#"{ "name": "a", "prices": [], "kind": "old" }"#, "/kind"),
        (r#"{ "name": "a" }"#, "/prices"),
    ] {
        let refused = host.post("shop", "item.add", "k2", body);
        assert_eq!((refused.status, refused.error().as_str()), (400, "VALIDATION"), "{body}");
        assert_eq!(refused.json()["fields"][0]["pointer"], pointer, "{body}");
    }
}

#[test]
fn declared_input_wins_over_the_type() {
    let mut files = SHOP.to_vec();
    let handler = "export const config = { input: { type: 'object', required: ['other'] } }\nexport function handle(input: { name: string }) { return 1 }";
    files.push(("shop/handlers/item/declared.ts", handler));
    let host = Host::new(files);
    assert_eq!(host.post("shop", "item.declared", "k", r#"{ "other": 1 }"#).status, 200);
    assert_eq!(host.post("shop", "item.declared", "l", r#"{ "name": "a" }"#).status, 400);
}

#[test]
fn type_that_gives_no_schema_is_told_of_and_then_nothing_is_checked() {
    let folders = Folders::new(SHOP);
    fs::write(folders.plugins().join("shop/lib/item.ts"), "export interface Item {\n  name: string\n  at: Date\n}")
        .unwrap();
    let host = folders.dev();
    let lines = host.wait_for("note:", 1);
    assert!(lines[1].contains("shop/lib/item.ts:3:7: the input of item.add is not checked"), "{lines:#?}");
    assert!(lines[1].contains("JSON has no Date") && lines[1].contains("config.input"), "{lines:#?}");
    assert_eq!(host.post("shop", "item.add", "k", r#"{ "name": 7 }"#).data(), json!({ "id": 7 }));
    let told = host.get("/admin/plugins").json();
    assert_eq!((&told["plugins"][0]["notes"][0]["line"], &told["broken"]), (&json!(3), &json!([])));
    // A file of types only is a part of the plugin, too.
    fs::write(folders.plugins().join("shop/lib/item.ts"), "export interface Item { name: string }").unwrap();
    host.wait_for("reloaded shop (lib/item.ts)", 0);
    assert_eq!(host.post("shop", "item.add", "l", r#"{ "name": 7 }"#).error(), "VALIDATION");
}
