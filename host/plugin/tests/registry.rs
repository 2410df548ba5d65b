//! Whole folders of plugins.

use std::path::Path;

use super::Folder;
use crate::plugin::{Fault, KeyRule, Kind, Registry};

const MANIFEST: &str = r#"{ "id": "shop", "version": "1.0.0" }"#;
const HANDLER: &str = "export function handle() { return 1 }";

fn load(files: &[(&str, &str)]) -> Registry {
    Registry::load(&Folder::with(files).path(""), 0).unwrap()
}

fn shown(faults: &[Fault]) -> Vec<String> {
    faults.iter().map(|fault| fault.to_string().lines().next().unwrap().to_owned()).collect()
}

/// The faults of the one plugin `shop` with these files.
fn faults(files: &[(&str, &str)]) -> Vec<String> {
    let mut all: Vec<(String, &str)> = files.iter().map(|(path, text)| (format!("shop/{path}"), *text)).collect();
    if !files.iter().any(|(path, _)| *path == "plugin.json") {
        all.push(("shop/plugin.json".to_owned(), MANIFEST));
    }
    let all: Vec<(&str, &str)> = all.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    load(&all).broken.get("shop").map(|faults| shown(faults)).unwrap_or_default()
}

#[test]
fn the_shipped_plugins_load() {
    let registry = Registry::load(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/plugins")), 0).unwrap();
    assert!(registry.broken.is_empty(), "{:#?}", registry.broken);
    let lane_change = &registry.plugins["lane-change"];
    assert!(lane_change.actions.contains_key("lane-change.create-event"));
    assert_eq!(lane_change.flows["lane-change-postprocess"].seed, ["event_id", "video_file_id"]);
    assert!(lane_change.scripts.contains_key("push-result"));
    assert_eq!(lane_change.permissions.http, ["127.0.0.1"]);
}

#[test]
fn actions_are_named_by_their_path() {
    let registry = load(&[
        ("shop/plugin.json", MANIFEST),
        ("shop/handlers/orders/create.ts", HANDLER),
        ("shop/handlers/ping.ts", HANDLER),
        ("shop/handlers/ping.d.ts", ""),
        ("shop/handlers/.ping.ts.swp", ""),
        ("shop/handlers/ping.ts~", ""),
        ("shop/handlers/README.md", ""),
        ("shop/events/clip/uploaded.ts", HANDLER),
        ("shop/scripts/push.ts", HANDLER),
        ("shop/lib/unused.ts", "not even TypeScript ("),
        ("not-a-plugin/readme.md", ""),
        (".hidden/plugin.json", "{"),
        ("node_modules/plugin.json", "{"),
    ]);
    assert!(registry.broken.is_empty(), "{:?}", registry.broken);
    let shop = &registry.plugins["shop"];
    assert_eq!(shop.actions.keys().collect::<Vec<_>>(), ["orders.create", "ping"]);
    assert_eq!(shop.events.keys().collect::<Vec<_>>(), ["clip.uploaded"]);
    assert_eq!(shop.scripts.keys().collect::<Vec<_>>(), ["push"]);
    let entry = shop.actions["orders.create"].entry;
    assert_eq!(shop.code.modules[entry].path, "shop/handlers/orders/create.ts");
}

#[test]
fn bad_names_are_refused_with_the_right_one() {
    let found = faults(&[
        ("handlers/createEvent.ts", HANDLER),
        ("handlers/Big_Orders/create.ts", HANDLER),
        ("handlers/old.js", HANDLER),
    ]);
    assert_eq!(
        found,
        [
            "shop/handlers/Big_Orders: has a name that is not of lower-case letters, digits and `-`: rename it to `big-orders`",
            "shop/handlers/createEvent.ts: has a name that is not of lower-case letters, digits and `-`: rename it to `create-event.ts`",
            "shop/handlers/old.js: must end with `.ts` to be found: rename it to `old.ts`",
        ]
    );
}

#[test]
fn a_file_without_handle_is_refused() {
    let found = faults(&[
        ("handlers/a.ts", "export function handler() {}"),
        ("handlers/b.ts", "export default function handle() {}"),
        ("handlers/c.ts", "export { run as handle } from '../lib/c'"),
        ("lib/c.ts", "export const run = () => 1"),
        ("events/d.ts", "export type handle = 1"),
        ("scripts/e.ts", ""),
    ]);
    assert_eq!(
        found,
        [
            "shop/handlers/a.ts: exports no `handle`, did you mean \"handler\"?: write `export function handle(input, ctx) { … }`",
            "shop/handlers/b.ts: exports no `handle`: write `export function handle(input, ctx) { … }`",
            "shop/events/d.ts: exports no `handle`: write `export function handle(input, ctx) { … }`",
            "shop/scripts/e.ts: exports no `handle`: write `export function handle(input, ctx) { … }`",
        ]
    );
}

#[test]
fn a_broken_plugin_does_not_hinder_the_others() {
    let registry = load(&[
        ("a/plugin.json", r#"{ "id": "a", "version": "1.0.0" }"#),
        ("a/handlers/x.ts", "export function handle() { for (const i = 0; i < 2; i++) {} }"),
        ("b/plugin.json", r#"{ "id": "b", "version": "1.0.0" }"#),
        ("b/handlers/x.ts", HANDLER),
        ("c/plugin.json", "{"),
    ]);
    assert_eq!(registry.plugins.keys().collect::<Vec<_>>(), ["b"]);
    assert_eq!(registry.broken.keys().collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!(
        registry.broken["a"][0].to_string(),
        "a/handlers/x.ts:1:53: `i` is a `const` and cannot be assigned to: declare it with `let`\n  \
         1 | export function handle() { for (const i = 0; i < 2; i++) {} }\n    \
         |                                                     ^"
    );
    assert_eq!(registry.broken["c"][0].line, Some(1));
}

#[test]
fn all_faults_of_a_plugin_are_told_at_once() {
    let found = faults(&[
        ("plugin.json", "{\n  \"id\": \"shop\",\n  \"verison\": \"1.0.0\"\n}"),
        ("handlers/a.ts", "export const = 1"),
        ("handlers/b.ts", "import { x } from './none'\nexport const handle = () => x"),
        ("handlers/C.ts", HANDLER),
        ("flows/f.json", "{ \"name\": \"f\", \"steps\": [{ \"id\": \"s\", \"uses\": \"scirpt\" }] }"),
    ]);
    let starts: Vec<&str> = found.iter().map(|it| it.split_once(": ").unwrap().0).collect();
    assert_eq!(
        starts,
        [
            "shop/handlers/C.ts",
            "shop/plugin.json:1:1",
            "shop/plugin.json:3:3",
            "shop/handlers/a.ts:1:14",
            "shop/handlers/b.ts:1:19",
            "shop/flows/f.json:1:47",
        ],
        "{found:#?}"
    );
}

#[test]
fn fault_of_one_stage_hides_none_of_another() {
    let found = faults(&[
        (
            "handlers/Add_Note.ts",
            "import { x } from './none'\nexport const config = { kind: 'raed', input: { type: 'x', required: 1 } }\nconst a = 1\na = x",
        ),
        (
            "handlers/b.ts",
            "import './Add_Note'\nexport const config = { kye: 'required' }\nexport function handler() {}",
        ),
        ("handlers/c.ts", "export const config = { replay: 1 }\nthrow new Error('no')"),
        (
            "flows/f.json",
            "{ \"name\": \"f\", \"steps\": [\n{ \"id\": \"S\", \"uses\": \"scirpt\" },\n\
             { \"id\": \"s\", \"uses\": \"sleep\", \"for\": \"1\" },\n{ \"id\": \"s\", \"uses\": \"sleep\" } ] }",
        ),
        ("schema.sql", "CREATE TABLE a (id VARCHAR PRIMARY KEY);\nCREATE INDEX ON b (x);"),
    ]);
    for wanted in [
        "handlers/Add_Note.ts: has a name",
        "handlers/Add_Note.ts: exports no `handle`",
        "handlers/Add_Note.ts:1:19: there is no file",
        "handlers/Add_Note.ts:2:31: `kind` must be",
        "handlers/Add_Note.ts:2:54: `input.type` is no type",
        "handlers/Add_Note.ts:2:69: `input.required` is no valid",
        "handlers/Add_Note.ts:4:1: `a` is a `const`",
        "handlers/b.ts: exports no `handle`, did you mean \"handler\"?",
        "handlers/b.ts:2:25: unknown field `kye`",
        "handlers/c.ts: exports no `handle`",
        "handlers/c.ts:1:33: `replay` must be",
        "handlers/c.ts:2:11: throws when it is loaded: Error: no",
        "flows/f.json:2:9: `steps[0].id` must be",
        "flows/f.json:2:22: `steps[0].uses` must be",
        "flows/f.json:3:38: `steps[1].for` is wrong",
        "flows/f.json:4:1: `steps[2]` has the id \"s\"",
        "flows/f.json:4:1: `steps[2]` does not say how long",
        "schema.sql:1: ",
        "schema.sql:2: ",
    ] {
        assert!(found.iter().any(|it| it.starts_with(&format!("shop/{wanted}"))), "{wanted}: {found:#?}");
    }
    assert_eq!(found.len(), 19, "{found:#?}");
}

#[test]
fn id_of_another_plugin_shows_beside_other_faults() {
    let bad = ("b/handlers/a.ts", "export const a = 1");
    let registry = load(&[("a/plugin.json", MANIFEST), ("b/plugin.json", MANIFEST), bad]);
    assert_eq!(registry.plugins["shop"].folder(), "a", "one that never served keeps nobody out");
    let told = shown(&registry.broken["b"]);
    assert!(told[0].contains("exports no `handle`") && told[1].contains("is that of a/plugin.json too"), "{told:?}");
    assert!(!registry.broken.contains_key("a"));
}

#[test]
fn one_id_in_two_folders_loads_neither() {
    let registry = load(&[("a/plugin.json", MANIFEST), ("b/plugin.json", MANIFEST)]);
    assert!(registry.plugins.is_empty());
    assert_eq!(
        shown(&registry.broken["a"]),
        [
            "a/plugin.json: the id \"shop\" is that of b/plugin.json too, and one id has one set of data: give each plugin its own, or take one folder away"
        ]
    );
    assert_eq!(registry.broken.len(), 2);
}

#[test]
fn the_hash_follows_the_content_that_was_read() {
    let folder = Folder::with(&[
        ("shop/plugin.json", MANIFEST),
        ("shop/handlers/a.ts", "import '../lib/b'\nexport const handle = () => 1"),
        ("shop/lib/b.ts", ""),
        ("shop/README.md", ""),
    ]);
    let hash = || Registry::load(&folder.path(""), 0).unwrap().plugins["shop"].hash.clone();
    let first = hash();
    assert_eq!(first.len(), 64);
    folder.write("shop/README.md", "changed");
    assert_eq!(hash(), first);
    for (path, text) in [("lib/b.ts", "export {}"), ("schema.sql", "-- a"), ("handlers/c.ts", HANDLER)] {
        let before = hash();
        folder.write(&format!("shop/{path}"), text);
        assert_ne!(hash(), before, "{path}");
    }
}

#[test]
fn a_folder_that_is_not_there_is_an_error() {
    let folder = Folder::with(&[]);
    assert!(Registry::load(&folder.path("none"), 0).is_err());
    assert!(Registry::load(&folder.path(""), 0).unwrap().plugins.is_empty());
}

#[test]
fn config_is_evaluated_as_the_code_that_it_is() {
    let registry = load(&[
        ("shop/plugin.json", MANIFEST),
        ("shop/lib/common.ts", "export const base = { key: 'required', transient: ['at'] }"),
        (
            "shop/handlers/a.ts",
            "import { base } from '../lib/common'\nexport const config = { ...base, kind: 'write', input: { type: 'object', required: ['id'] } }\n\
             export function handle() {}",
        ),
        ("shop/handlers/b.ts", "export { config, handle } from './a'"),
        ("shop/handlers/c.ts", HANDLER),
    ]);
    assert!(registry.broken.is_empty(), "{:?}", registry.broken);
    let actions = &registry.plugins["shop"].actions;
    for name in ["a", "b"] {
        let action = &actions[name];
        assert_eq!((action.key, action.transient.as_slice()), (KeyRule::Required, &["at".to_owned()][..]));
        assert!(!action.input.as_ref().unwrap().validator.is_valid(&serde_json::json!({})));
    }
    assert_eq!((actions["c"].kind, actions["c"].key), (Kind::Write, KeyRule::Optional));
}

#[test]
fn faults_of_config_have_their_place_in_the_source() {
    let found = faults(&[
        (
            "handlers/a.ts",
            "export const config = {\n  kye: 'required',\n  replay: 'again',\n} satisfies ActionConfig\nexport function handle() {}",
        ),
        ("handlers/b.ts", "export const config = Object.assign({ kind: 'raed' })\nexport function handle() {}"),
    ]);
    assert_eq!(
        found,
        [
            "shop/handlers/a.ts:2:3: unknown field `kye` in `config`, did you mean \"key\"? (known are kind, key, replay, transient, input)",
            "shop/handlers/a.ts:3:11: `replay` must be \"response\" or \"rerun\", it is \"again\"",
            "shop/handlers/b.ts:1:23: `kind` must be \"write\" or \"read\", it is \"raed\", did you mean \"read\"?",
        ]
    );
}

#[test]
fn code_that_fails_when_it_is_loaded_is_a_fault_at_its_place() {
    let registry = load(&[
        ("shop/plugin.json", MANIFEST),
        (
            "shop/lib/broken.ts",
            "export const rates: Record<string, number> = undefined as any\n\nexport const eur = rates.eur",
        ),
        ("shop/handlers/a.ts", "import { eur } from '../lib/broken'\nexport const handle = () => eur"),
        ("shop/handlers/b.ts", "while (true) {}\nexport const handle = () => 1"),
        ("shop/handlers/c.ts", "export { handle } from './a'"),
        ("shop/handlers/d.ts", "export const config = { input: () => 1 }\nexport const handle = () => 1"),
        ("other/plugin.json", r#"{ "id": "other", "version": "1.0.0" }"#),
        ("other/handlers/a.ts", "export const config = { key: 'required' }\nexport const handle = () => 1"),
    ]);
    let found = shown(&registry.broken["shop"]);
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(found[0].starts_with("shop/lib/broken.ts:3:20: throws when it is loaded: TypeError"), "{found:#?}");
    assert_eq!(registry.broken["shop"][0].snippet.as_deref(), Some("export const eur = rates.eur"));
    assert!(found[1].starts_with("shop/handlers/b.ts"), "{found:#?}");
    assert!(found[1].contains("does not come to an end when it is loaded"), "{found:#?}");
    assert_eq!(found[2], "shop/handlers/d.ts:1:23: config.input is a function, which has no JSON form");
    assert_eq!(registry.plugins["other"].actions["a"].key, KeyRule::Required, "a spent engine is replaced");
}

#[test]
fn source_that_is_nested_without_end_is_a_fault_and_no_crash() {
    let nested = |open: &str, close: &str, times: usize| {
        format!("export const handle = {}1{}", open.repeat(times), close.repeat(times))
    };
    let (deep, deeper) = (nested("[", "]", 4_900), nested("(", ")", 100_000));
    let (chain, long) = (nested("a=>", "", 20_000), format!("// {}", "x".repeat(4 << 20)));
    let found = faults(&[
        ("handlers/a.ts", &deep),
        ("handlers/b.ts", &deeper),
        ("handlers/c.ts", &chain),
        ("handlers/d.ts", &long),
    ]);
    let about = |file: &str| found.iter().find(|it| it.starts_with(&format!("shop/handlers/{file}.ts"))).cloned();
    assert!(about("b").unwrap().contains("more than 5000 brackets"), "{found:?}");
    assert!(about("d").unwrap().contains("the most is 4194304"), "{found:?}");
    assert!(about("a").unwrap().contains("limits.stack"), "within our limits, but not the engine's: {found:?}");
    assert!(about("c").unwrap().contains("more than 500 functions"), "{found:?}");
}

#[test]
fn faults_of_the_schema_have_their_line() {
    let found = faults(&[
        ("schema.sql", "CREATE TABLE a (id TEXT PRIMARY KEY);\n\nCREATE TABLE b (id VARCHAR PRIMARY KEY);\n"),
        ("plugin.json", r#"{ "id": "shop", "version": "1.0.0", "sharedTables": ["none"] }"#),
    ]);
    assert!(found.iter().any(|it| it.starts_with("shop/schema.sql:3: ")), "{found:?}");
    let found = faults(&[("plugin.json", r#"{ "id": "shop", "version": "1.0.0", "sharedTables": ["none"] }"#)]);
    assert!(
        found.len() == 1 && found[0].starts_with("shop/plugin.json:1:54: `sharedTables[0]` names \"none\""),
        "{found:?}"
    );
}

#[test]
fn a_handle_that_is_no_function_or_a_generator_is_refused() {
    let said = "exports a `handle` that is no function, or a generator, of which nothing runs until somebody asks it: write \
                `export function handle(input, ctx) { … }`, or `export async function …`";
    let files = [
        ("handlers/a.ts", "export const handle = 5"),
        ("handlers/b.ts", "export function* handle() {}"),
        ("handlers/c.ts", "export async function* handle() {}"),
        ("events/b.ts", "export let handle"),
    ];
    let all: Vec<String> = files.iter().map(|(name, _)| format!("shop/{name}: {said}")).collect();
    assert_eq!(faults(&files), all);
}

#[test]
fn a_module_that_the_engine_cannot_compile_is_told_once_and_at_that_module() {
    let deep = format!("export const deep = {}{}", "[".repeat(4_500), "]".repeat(4_500));
    let handler = "import { deep } from '../lib/deep'\nexport function handle() { return deep }";
    let found = faults(&[("lib/deep.ts", &deep), ("handlers/a.ts", handler), ("handlers/b.ts", handler)]);
    assert!(found.len() == 1 && found[0].starts_with("shop/lib/deep.ts:1:1: "), "{found:?}");
}

#[test]
fn a_folder_that_is_meant_as_a_plugin_is_not_passed_over() {
    let registry = load(&[("shop/handlers/a.ts", HANDLER), ("notes/readme.md", ""), ("other/schema.sql", "")]);
    assert_eq!(registry.broken.keys().collect::<Vec<_>>(), ["other", "shop"]);
    let told = shown(&registry.broken["shop"]).join("\n");
    assert!(told.starts_with("shop/plugin.json: is missing: put it back, or write one, { \"id\": \"shop\""), "{told}");
}

#[test]
fn of_two_folders_with_one_id_the_one_of_that_name_serves() {
    let registry = load(&[("shop/plugin.json", MANIFEST), ("shop-old/plugin.json", MANIFEST)]);
    assert_eq!(registry.plugins["shop"].folder(), "shop");
    for (folder, other) in [("shop", "shop-old/plugin.json"), ("shop-old", "shop/plugin.json")] {
        let told = shown(&registry.broken[folder]).join("\n");
        assert!(told.contains(&format!("is that of {other} too")), "{told}");
    }
}
