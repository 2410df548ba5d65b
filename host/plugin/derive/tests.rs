use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use serde_json::{Value as Json, json};

use super::{Derived, Deriver};
use crate::plugin::registry::STACK;
use crate::schema;

const TABLES: &str = "CREATE TABLE camera (id TEXT PRIMARY KEY, name TEXT NOT NULL, shots INTEGER NOT NULL DEFAULT 0, \
                      seen TIMESTAMP, tags JSON, raw BLOB, created_at TIMESTAMP NOT NULL);";

/// What the types of `a.ts` say, where these are all files.
pub(super) fn derived(files: &[(&str, &str)]) -> Derived {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for (name, text) in files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let tables = Arc::new(schema::parse(TABLES, &[]).unwrap());
    let (name, text) = files[0];
    // With the stack that plugins are loaded on.
    let loader = thread::Builder::new().stack_size(STACK);
    let deriving = |root: &Path| Deriver::new(root.to_owned(), tables).handle(&root.join(name), name, text);
    thread::scope(|scope| loader.spawn_scoped(scope, || deriving(&root)).unwrap().join().unwrap())
}

/// The schema of an input of this type, with these declarations.
pub(super) fn input(ty: &str, declarations: &str) -> Json {
    let text = format!("{declarations}\nexport function handle(input: {ty}) {{}}");
    derived(&[("a.ts", &text)]).input.unwrap().unwrap()
}

fn output(ty: &str, declarations: &str) -> Json {
    let text = format!("{declarations}\nexport function handle(): {ty} {{}}");
    derived(&[("a.ts", &text)]).output.unwrap().unwrap()
}

/// Why an input of this type has no schema.
pub(super) fn refused(ty: &str, declarations: &str) -> String {
    let text = format!("{declarations}\nexport function handle(input: {ty}) {{}}");
    derived(&[("a.ts", &text)]).input.unwrap().unwrap_err().message
}

#[test]
fn keywords_and_literals() {
    for (ty, want) in [
        ("string", json!({ "type": "string" })),
        ("number", json!({ "type": "number" })),
        ("boolean", json!({ "type": "boolean" })),
        ("null", json!({ "type": "null" })),
        ("unknown", json!({})),
        ("any", json!({})),
        ("never", json!(false)),
        ("object", json!({ "type": ["object", "array"] })),
        ("'a'", json!({ "const": "a" })),
        ("`a`", json!({ "const": "a" })),
        ("-1", json!({ "const": -1 })),
        ("1.5", json!({ "const": 1.5 })),
        ("true", json!({ "const": true })),
    ] {
        assert_eq!(input(ty, ""), want, "{ty}");
    }
}

#[test]
fn unions_are_as_short_as_they_can_be() {
    for (ty, want) in [
        ("'a' | 'b'", json!({ "enum": ["a", "b"] })),
        ("'a' | null", json!({ "enum": ["a", null] })),
        ("string | null", json!({ "type": ["string", "null"] })),
        ("string | number | string", json!({ "type": ["string", "number"] })),
        ("(string | null)[]", json!({ "type": "array", "items": { "type": ["string", "null"] } })),
        ("string | unknown", json!({})),
        ("string | never", json!({ "type": "string" })),
        (
            "string | { a: 1 }",
            json!({ "anyOf": [{ "type": "string" }, { "type": "object", "properties": { "a": { "const": 1 } }, "required": ["a"] }] }),
        ),
    ] {
        assert_eq!(input(ty, ""), want, "{ty}");
    }
}

#[test]
fn objects_have_their_members_and_stay_open() {
    let want = json!({ "type": "object", "properties": {
        "a": { "type": "string" }, "b": { "type": "number" }, "c d": { "type": "boolean" }, "e": { "type": "string" }, "7": {},
    }, "required": ["a", "c d", "7"] });
    assert_eq!(
        input("{ a: string; b?: number; readonly 'c d': boolean; e: string | undefined; 7: unknown }", ""),
        want
    );
    assert_eq!(input("{}", ""), json!({ "type": "object" }));
    let indexed = json!({ "type": "object", "properties": { "a": { "type": "number" } }, "required": ["a"], "additionalProperties": { "type": "number" } });
    assert_eq!(input("{ a: number; [key: string]: number }", ""), indexed);
}

#[test]
fn arrays_and_tuples() {
    let strings = json!({ "type": "array", "items": { "type": "string" } });
    for ty in ["string[]", "readonly string[]", "Array<string>", "ReadonlyArray<string>"] {
        assert_eq!(input(ty, ""), strings, "{ty}");
    }
    let pair = json!([{ "type": "string" }, { "type": "number" }]);
    assert_eq!(
        input("[string, number]", ""),
        json!({ "type": "array", "minItems": 2, "maxItems": 2, "prefixItems": pair })
    );
    assert_eq!(
        input("[a: string, b?: number]", ""),
        json!({ "type": "array", "minItems": 1, "maxItems": 2, "prefixItems": pair })
    );
    let rest =
        json!({ "type": "array", "minItems": 1, "items": { "type": "number" }, "prefixItems": [{ "type": "string" }] });
    assert_eq!(input("[string, ...number[]]", ""), rest);
    assert_eq!(input("[first: string, ...rest: number[]]", ""), rest);
}

#[test]
fn interfaces_extend_and_merge() {
    let all = "interface A { a: string } interface B extends A { b: number } interface B { c?: boolean }";
    let want = json!({ "type": "object", "properties": {
        "a": { "type": "string" }, "b": { "type": "number" }, "c": { "type": "boolean" },
    }, "required": ["a", "b"] });
    assert_eq!(input("B", all), want);
    assert_eq!(input("A & { b: number } & { c?: boolean }", all), want);
}

#[test]
fn helper_types_of_the_language() {
    let base = "interface A { a: string; b?: number; c: boolean } type Id<T> = T; type Page<T, K = string> = { items: T[]; next: K | null }";
    let object = |required: Json| json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "number" }, "c": { "type": "boolean" } }, "required": required });
    let mut free = object(json!([]));
    free.as_object_mut().unwrap().remove("required");
    assert_eq!(input("Partial<A>", base), free);
    assert_eq!(input("Required<A>", base), object(json!(["a", "b", "c"])));
    assert_eq!(input("Readonly<Id<A>>", base), object(json!(["a", "c"])));
    let ab = json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "number" } }, "required": ["a"] });
    assert_eq!(input("Pick<A, 'a' | 'b'>", base), ab);
    assert_eq!(input("Omit<A, 'c'>", base), ab);
    assert_eq!(
        input("Record<string, number>", base),
        json!({ "type": "object", "additionalProperties": { "type": "number" } })
    );
    assert_eq!(input("Record<'a' | 'b', 1>", base)["required"], json!(["a", "b"]));
    assert_eq!(input("keyof A", base), json!({ "enum": ["a", "b", "c"] }));
    assert_eq!(input("A['a']", base), json!({ "type": "string" }));
    assert_eq!(input("NonNullable<string | null>", base), json!({ "type": ["string"] }));
    assert_eq!(input("Exclude<'a' | 'b', 'a'>", base), json!({ "const": "b" }));
    assert_eq!(
        input("Exclude<A['a'] | 1 | null, null>", base),
        json!({ "anyOf": [{ "type": "string" }, { "const": 1 }] })
    );
    assert_eq!(input("NonNullable<1[] | null>", base), json!({ "type": "array", "items": { "const": 1 } }));
    let page = json!({ "type": "object", "properties": { "items": { "type": "array", "items": { "type": "number" } }, "next": { "type": ["string", "null"] } }, "required": ["items", "next"] });
    assert_eq!(input("Page<number>", base), page);
}

#[test]
fn enums_and_constants() {
    let all = "enum State { Open = 'open', Shut = 'shut' } const enum N { A, B = 5, C } const KINDS = ['x', 'y'] as const; const ONE = 'one'; const MAP = { p: 1, q: 2 } as const";
    assert_eq!(input("State", all), json!({ "enum": ["open", "shut"] }));
    assert_eq!(input("State.Open", all), json!({ "const": "open" }));
    assert_eq!(input("N", all), json!({ "enum": [0, 5, 6] }));
    assert_eq!(input("(typeof KINDS)[number]", all), json!({ "enum": ["x", "y"] }));
    assert_eq!(input("typeof ONE", all), json!({ "const": "one" }));
    assert_eq!(input("keyof typeof MAP", all), json!({ "enum": ["p", "q"] }));
}

#[test]
fn types_that_hold_themselves_are_references() {
    let want = json!({ "$ref": "#/$defs/Tree", "$defs": { "Tree": { "type": "object", "properties": {
        "name": { "type": "string" }, "parts": { "type": "array", "items": { "$ref": "#/$defs/Tree" } },
    }, "required": ["name", "parts"] } } });
    assert_eq!(input("Tree", "interface Tree { name: string; parts: Tree[] }"), want);
    assert!(refused("Deep<string>", "type Deep<T> = { next: Deep<T[]> }").contains("without an end"));
}

#[test]
fn types_are_followed_through_the_plugin_s_files() {
    let found = derived(&[
        (
            "handlers/a.ts",
            "import type { Order } from '../lib/types'\nimport * as all from '../lib/more.ts'\nexport const handle = async (input: { order: Order; unit: all.Unit }) => 1",
        ),
        (
            "lib/types.ts",
            "import { LIMITS, type Line as L } from './more.js'\nexport type { Renamed as Order }\ninterface Renamed { lines: L[]; limit: keyof typeof LIMITS }",
        ),
        ("lib/more.ts", "export * from './deep'\nexport const LIMITS = { low: 1 } as const\nexport type Unit = 'kg'"),
        ("lib/deep.d.ts", "export interface Line { sku: string }"),
    ]);
    let line = json!({ "type": "object", "properties": { "sku": { "type": "string" } }, "required": ["sku"] });
    let order = json!({ "type": "object", "properties": { "lines": { "type": "array", "items": line }, "limit": { "const": "low" } }, "required": ["lines", "limit"] });
    let want = json!({ "type": "object", "properties": { "order": order, "unit": { "const": "kg" } }, "required": ["order", "unit"] });
    assert_eq!(found.input.unwrap().unwrap(), want);
}

#[test]
fn default_exports_are_followed() {
    let of = |text: &str| {
        let handler = "import type It from './b'\nexport function handle(input: It) {}";
        derived(&[("a.ts", handler), ("b.ts", text)]).input.unwrap().unwrap()
    };
    let want = json!({ "type": "object", "properties": { "a": { "const": 1 } }, "required": ["a"] });
    for text in [
        "export default interface It { a: 1 }",
        "interface B { a: 1 }\nexport default B",
        "type B = { a: 1 }\nexport { type B as default }",
    ] {
        assert_eq!(of(text), want, "{text}");
    }
}

#[test]
fn comments_say_what_types_cannot() {
    let got = input(
        "Crossing",
        "/** A crossing.\n * @additionalProperties false */\ninterface Crossing {\n/** Who crossed.\n * @minLength 1\n * @maxLength 9\n * @pattern ^[a-z@]+ @minimum$ */ name: string\n\
         /** @minimum 0 @maximum 5 @integer */ lane?: number | null\n/** @minItems 1 @uniqueItems */ tags: string[]\n/** @format date-time\n @example 2026-01-02T03:04:05Z */ at: string\n/** @see elsewhere */ x: unknown }",
    );
    let want = json!({ "type": "object", "additionalProperties": false, "description": "A crossing.", "properties": {
        "name": { "type": "string", "minLength": 1, "maxLength": 9, "pattern": "^[a-z@]+ @minimum$", "description": "Who crossed." },
        "lane": { "type": ["integer", "null"], "minimum": 0, "maximum": 5 },
        "tags": { "type": "array", "items": { "type": "string" }, "minItems": 1, "uniqueItems": true },
        "at": { "type": "string", "format": "date-time", "examples": ["2026-01-02T03:04:05Z"] },
        "x": {},
    }, "required": ["name", "tags", "at", "x"] });
    assert_eq!(got, want);
}

#[test]
fn type_that_is_not_imported_is_named_with_the_way_to_it() {
    let why = refused("Row<'camera'>", "");
    assert!(why.contains("import type { Row } from '@oncehost/sdk/plugin'"), "{why}");
    assert!(refused("Crosing", "interface Crossing { a: string }").contains("did you mean \"Crossing\"?"));
}

#[test]
fn wrong_tags_leave_no_half_of_a_schema() {
    for (tag, want) in [
        ("@minLenght 1", "did you mean \"minLength\"?"),
        ("@minLength one", "write `@minLength 1`"),
        ("@minimum 1", "holds of numbers only"),
        ("@pattern", "write `@pattern ^[a-z]+$`"),
        ("@pattern ^a++$", "which is no regular expression of ECMA-262"),
    ] {
        let why = refused(&format!("{{ /** {tag} */ name: string }}"), "");
        assert!(why.contains("`name`") && why.contains(want), "{tag}: {why}");
    }
}

#[test]
fn what_cannot_be_derived_is_said_with_its_place() {
    for (ty, want) in [
        ("{ f: () => void }", "a function"),
        ("{ f(): void }", "a function"),
        ("Date", "@format date-time"),
        ("Map<string, string>", "`Map`"),
        ("bigint", "BigInt("),
        ("Missing", "`Missing` is not declared"),
        ("{ [K in 'a']: string }", "mapped"),
        ("`a${string}`", "@pattern"),
        ("typeof later", "as const"),
        ("string extends string ? 1 : 2", "conditional"),
        ("import('./x').Y", "import the type at the top"),
        ("string | undefined[]", "undefined"),
        ("Row<'kamera'>", "did you mean \"camera\"?"),
        ("HandlerCtx", "nothing that a call carries"),
        ("Zod", "comes from `zod`"),
        ("Lost", "exports no `Lost`"),
    ] {
        let imports = "import type { Row, HandlerCtx } from '@oncehost/sdk/plugin'\nimport type { Zod } from 'zod'\nimport type { Lost } from './b'\n";
        let text = format!("{imports}export function handle(input: {{ deep: {ty} }}) {{}}");
        let why = derived(&[("a.ts", &text), ("b.ts", "export {}")]).input.unwrap().unwrap_err();
        assert!(why.message.contains(want), "{ty}: {}", why.message);
        assert!(why.source[why.offset..].len() < ty.len() + 12, "{ty}: {}", &why.source[why.offset..]);
    }
    let untyped = derived(&[("a.ts", "export function handle(input) {}")]).input.unwrap().unwrap_err();
    assert!(untyped.message.contains("has no type"));
}

#[test]
fn handle_without_a_parameter_takes_anything_in_silence() {
    assert!(derived(&[("a.ts", "export function handle() {}")]).input.is_none());
    assert_eq!(input("undefined", ""), json!({}));
}

#[test]
fn handle_is_found_through_names_and_assertions() {
    let lib = "export const far = (input: { a: string }) => 'ran'";
    for text in [
        "const impl = (input: { a: string }) => 'ran'\nexport const handle = impl",
        "function impl(input: { a: string }) {}\nconst other = (impl as any)\nexport { other as handle }",
        "import { far } from './b'\n/** Ran. */ export const handle = far",
        "export const handle = ((input: { a: string }) => 'ran') satisfies X",
        "export const handle = function (input: { a: string }) {} as any",
    ] {
        let found = derived(&[("a.ts", text), ("b.ts", lib)]);
        assert_eq!(found.input.unwrap().unwrap()["required"], json!(["a"]), "{text}");
        assert_eq!(found.about, if text.contains("Ran.") { "Ran." } else { "" });
    }
}

#[test]
fn handle_that_is_not_seen_as_a_function_is_told_with_the_way_out() {
    for (text, at) in [
        ("export const handle = must((input: { a: string }) => 'ran')", "must("),
        ("const all = { a: (input: string) => 1 }\nexport const handle = all.a", "all.a"),
        ("let impl = (input: string) => 1\nexport let handle = impl", "impl"),
        ("const a = handle\nexport const handle = a", ""),
        ("import impl from 'pkg'\nexport const handle = impl", "impl"),
        ("export const { handle } = all()", "export"),
    ] {
        let why = derived(&[("a.ts", text)]).input.unwrap().unwrap_err();
        assert!(why.message.contains("write `export function handle(input: …) { … }`"), "{text}: {}", why.message);
        assert!(why.source[why.offset..].starts_with(at), "{text}: {}", why.offset);
    }
}

#[test]
fn records_of_tables() {
    let import = "import type { NewRow, Row } from '@oncehost/sdk/plugin'";
    let row = output("Row<'camera'>", import);
    assert_eq!(row["required"], json!(["id", "name", "shots", "seen", "tags", "raw", "createdAt"]));
    assert_eq!(row["properties"]["seen"], json!({ "type": ["string", "null"], "format": "date-time" }));
    assert_eq!(row["properties"]["raw"], json!({ "type": ["string", "null"], "contentEncoding": "base64" }));
    let new = input("NewRow<'camera'>", import);
    assert_eq!(new["required"], json!(["name"]));
    assert!(new["properties"].get("createdAt").is_none());
}

#[test]
fn what_leaves_a_script_is_what_json_makes_of_it() {
    assert_eq!(
        output("Promise<{ a: bigint; b: Date; c?: Uint8Array }>", "")["properties"],
        json!({
            "a": { "type": "string", "pattern": "^-?[0-9]+$" }, "b": { "type": "string", "format": "date-time" },
            "c": { "type": "string", "contentEncoding": "base64" },
        })
    );
    assert_eq!(output("string | undefined", ""), json!({ "type": ["string", "null"] }));
    assert_eq!(output("void", ""), json!({ "type": "null" }));
    assert!(derived(&[("a.ts", "export function handle() { return 1 }")]).output.is_none());
}

#[test]
fn closed_types_stay_closed_around_what_is_added_to_them() {
    let closed = "/** @additionalProperties false */ interface A { a: string }\ninterface B extends A { b: string }\n\
                  type Either = { kind: 1 } | { kind: 2; x: string }\n/** @additionalProperties false */ type C = { c: string } & Either";
    for ty in ["B", "A & { b: string }"] {
        let schema = input(ty, closed);
        assert!(fits(&schema, &json!({ "a": "", "b": "" })), "{ty}: {schema}");
        assert!(!fits(&schema, &json!({ "a": "", "b": "", "c": "" })), "{ty}: {schema}");
    }
    let schema = input("C", closed);
    assert!(fits(&schema, &json!({ "c": "", "kind": 2, "x": "" })), "{schema}");
    assert!(!fits(&schema, &json!({ "c": "", "kind": 1, "x": "" })), "{schema}");
    let tree = "/** @additionalProperties false */ type Open = { a: string; next?: Open } & { b: string }";
    assert!(fits(&input("Open", tree), &json!({ "a": "", "b": "", "next": { "a": "", "b": "" } })));
}

/// Whether a value is of a schema.
pub(super) fn fits(schema: &Json, value: &Json) -> bool {
    jsonschema::validator_for(schema).unwrap().is_valid(value)
}

#[test]
fn generics_that_hold_themselves_are_references() {
    let schema =
        input("{ texts: Tree<string>; counts: Tree<number> }", "interface Tree<T> { value: T; children: Tree<T>[] }");
    let tree = |value: Json| json!({ "value": value, "children": [{ "value": value, "children": [] }] });
    assert!(fits(&schema, &json!({ "texts": tree(json!("a")), "counts": tree(json!(1)) })), "{schema}");
    assert!(!fits(&schema, &json!({ "texts": tree(json!(1)), "counts": tree(json!(1)) })));
}

#[test]
fn member_that_is_only_undefined_may_not_be_there() {
    let schema = input("{ a: string; b?: undefined } | { b: string; a?: never }", "");
    assert!(fits(&schema, &json!({ "a": "" })) && fits(&schema, &json!({ "b": "" })));
    assert!(!fits(&schema, &json!({ "a": "", "b": "" })), "{schema}");
}

#[test]
fn empty_object_type_adds_nothing_to_what_it_is_combined_with() {
    let schema = input("'a' | 'b' | (string & {})", "");
    assert!(fits(&schema, &json!("z")) && !fits(&schema, &json!(1)), "{schema}");
}

#[test]
fn brands_that_no_json_value_has_are_told_of() {
    for ty in ["string & { readonly __brand: 'Id' }", "number & string", "string[] & { length: 2 }"] {
        assert!(refused(ty, "").contains("without a brand"), "{ty}");
    }
    assert!(refused("A", "interface A extends Array<string> { x: 1 }").contains("no JSON value"));
}

#[test]
fn constants_may_say_what_they_satisfy() {
    let kinds = "const KINDS = ['x', 'y'] as const satisfies readonly string[]";
    assert_eq!(input("(typeof KINDS)[number]", kinds), json!({ "enum": ["x", "y"] }));
}

#[test]
fn parameters_in_a_rest_have_no_type_of_their_own() {
    let found = derived(&[("a.ts", "export function handle(...all: [{ a: string }]) {}")]);
    assert!(found.input.unwrap().unwrap_err().message.contains("has no type"));
}

#[test]
fn tags_of_documentation_tools_are_passed_over() {
    for tag in "alpha author beta callback class deprecated defaultValue description enum experimental fires function ignore \
                inheritDoc interface internal kind label license link listens member memberof method module name namespace \
                overload override packageDocumentation param private privateRemarks prop property protected public readonly \
                remarks returns satisfies sealed see since summary template throws todo tutorial type typeParam typedef \
                version virtual"
        .split_whitespace()
    {
        input(&format!("{{ /** @{tag} what */ name: string }}"), "");
    }
}

#[test]
fn examples_may_stand_below_their_tag() {
    let name = |doc: &str| input(&format!("{{ /** {doc} */ name: string }}"), "")["properties"]["name"].clone();
    assert_eq!(name("A name.\n * @example\n * \"Ada\"\n ")["examples"], json!(["Ada"]));
    assert_eq!(name("@example\n * ```ts\n * call('Ada')\n * ```\n "), json!({ "type": "string" }));
}

#[test]
fn types_that_double_end_at_a_number_of_parts() {
    let chain = |first: &str, next: &dyn Fn(usize) -> String| {
        let next = (1..40).map(|at| format!("type T{at} = {};\n", next(at - 1)));
        format!("type Two<T> = [T, T];\ntype T0 = {first};\n{}", next.collect::<String>())
    };
    for (what, all) in [
        ("tuples", chain("string", &|before| format!("[T{before}, T{before}]"))),
        ("generics", chain("string", &|before| format!("Two<T{before}>"))),
        ("records", chain("string", &|before| format!("Record<'a' | 'b', T{before}>"))),
        ("rows", chain("{ a: 1 }", &|before| format!("T{before} & {{ x{before}: T{before} }}"))),
    ] {
        let why = refused("T39", &all);
        assert!(why.contains("more than 10000 parts"), "{what}: {why}");
    }
}

/// Values that fit a type, and values that do not.
#[track_caller]
pub(super) fn tells(ty: &str, declarations: &str, good: &[Json], bad: &[Json]) {
    let schema = input(ty, declarations);
    good.iter().for_each(|value| assert!(fits(&schema, value), "{ty}: {value} does not fit {schema}"));
    bad.iter().for_each(|value| assert!(!fits(&schema, value), "{ty}: {value} fits {schema}"));
}

#[test]
fn helper_types_see_through_what_a_type_is_composed_of() {
    let base = "interface A { a: string } interface B extends A { b?: number; c: boolean } type C = { d: string }
        interface Index extends Record<string, string> { q: string }
        /** @minProperties 1 */ interface Tagged { t: string } interface Sub extends Tagged, B { s: 1 }
        /** @additionalProperties false */ interface Closed extends A { e: number }
        interface Tree { name: string; left: Tree | null }
        type Either = { k: 1; v: string; x?: 1 } | { k: 2; v: number; x: 2 }; interface Empty {}";
    let abc = json!({ "a": "x", "c": true });
    tells("Partial<B>", base, &[json!({}), abc.clone()], &[json!({ "a": 1 }), json!(1)]);
    tells("Required<B>", base, &[json!({ "a": "", "b": 1, "c": true })], &[abc]);
    tells("Pick<B, 'a' | 'b'>", base, &[json!({ "a": "" })], &[json!({ "b": 1 }), json!({ "a": "", "b": "" })]);
    tells("Omit<B, keyof A>", base, &[json!({ "c": true })], &[json!({ "a": "" })]);
    tells("Partial<B & C>", base, &[json!({}), json!({ "d": "" })], &[json!({ "d": 1 }), json!({ "c": 1 })]);
    tells("Partial<Sub>", base, &[json!({ "s": 1 }), json!({ "t": "" })], &[json!({ "s": 2 }), json!({ "t": 1 })]);
    tells("Pick<Sub, 't' | 'a'>", base, &[json!({ "t": "", "a": "" })], &[json!({ "t": "" })]);
    tells("Partial<Index>", base, &[json!({}), json!({ "q": "", "r": "" })], &[json!({ "r": 1 }), json!({ "q": 1 })]);
    tells("Pick<Index, 'q' | 'r'>", base, &[json!({ "q": "", "r": "" })], &[json!({ "q": "" })]);
    tells("Partial<Closed>", base, &[json!({}), json!({ "e": 1 })], &[json!({ "f": 1 })]);
    tells("Omit<Closed, 'e'>", base, &[json!({ "a": "" })], &[json!({ "a": "", "e": 1 })]);
    let leaf = json!({ "name": "", "left": null });
    tells("Partial<Tree>", base, &[json!({}), json!({ "left": leaf })], &[json!({ "left": {} })]);
    tells("Omit<Tree, 'name'>", base, &[json!({ "left": leaf })], &[json!({})]);
    tells("Tree['left']", base, &[json!(null), leaf.clone()], &[json!({})]);
    tells("Partial<Either>", base, &[json!({}), json!({ "k": 1, "v": "" })], &[json!({ "k": 1, "v": 1 })]);
    tells("Required<Either>", base, &[json!({ "k": 1, "v": "", "x": 1 })], &[json!({ "k": 1, "v": "" })]);
    tells("Pick<Either, 'v' | 'x'>", base, &[json!({ "v": 1 }), json!({ "v": "", "x": 2 })], &[json!({ "x": 1 })]);
    tells("keyof Either", base, &[json!("k"), json!("x")], &[json!("y")]);
    tells("Partial<A | null>", base, &[json!(null), json!({})], &[json!({ "a": 1 }), json!("")]);
    tells("Partial<Empty> & A", base, &[json!({ "a": "" })], &[json!({})]);
    tells(
        "Partial<Pick<B, 'a'>> & Omit<B, 'a'>",
        base,
        &[json!({ "c": true })],
        &[json!({}), json!({ "a": 1, "c": true })],
    );
    assert!(refused("Partial<A[]>", base).contains("named members"));
    assert!(refused("Omit<A, string>", base).contains("written out"));
    assert!(refused("Ring", "interface Ring { next?: Partial<Ring> }").contains("within the type itself"));
}
