use serde_json::json;

use super::print::{Printer, Way, comment, key, quoted};

fn printed(schema: &serde_json::Value) -> String {
    Printer::default().print(schema, "p", Way::Out, 0)
}

#[test]
fn schemas_are_printed_as_the_types_they_are() {
    for (schema, want) in [
        (json!({}), "unknown"),
        (json!(true), "unknown"),
        (json!(false), "never"),
        (json!({ "type": "integer" }), "number"),
        (json!({ "type": ["string", "null"] }), "string | null"),
        (json!({ "type": ["integer", "number"] }), "number"),
        (json!({ "const": "a'b" }), "\"a'b\""),
        (json!({ "type": "string", "enum": ["a", "b", null, 1] }), "'a' | 'b' | null | 1"),
        (json!({ "type": "array" }), "unknown[]"),
        (json!({ "type": "array", "items": { "type": ["string", "null"] } }), "(string | null)[]"),
        (json!({ "type": "array", "items": { "type": "array", "items": { "type": "string" } } }), "string[][]"),
        (
            json!({ "type": "array", "prefixItems": [{ "type": "string" }, { "type": "number" }], "minItems": 1, "maxItems": 2 }),
            "[string, number?]",
        ),
        (json!({ "type": "array", "prefixItems": [{ "type": "string" }], "minItems": 1 }), "[string, ...unknown[]]"),
        (json!({ "type": "object" }), "Record<string, unknown>"),
        (json!({ "type": "object", "additionalProperties": false }), "Record<string, never>"),
        (json!({ "type": "object", "additionalProperties": { "type": "number" } }), "Record<string, number>"),
        (
            json!({ "properties": { "a": {}, "b c": { "type": "string" } }, "required": ["b c"] }),
            "{ a?: unknown; 'b c': string }",
        ),
        (
            json!({ "anyOf": [{ "type": "string" }, { "type": "object", "properties": { "a": { "const": 1 } } }] }),
            "string | { a?: 1 }",
        ),
        (json!({ "allOf": [{ "anyOf": [{ "type": "string" }] }, {}] }), "string & unknown"),
        (
            json!({ "allOf": [{ "properties": { "a": {} } }, { "anyOf": [{ "type": "array", "items": { "properties": { "b": {} } } }, { "properties": { "c": {} } }] }] }),
            "{ a?: unknown } & ({ b?: unknown }[] | { c?: unknown })",
        ),
        (
            json!({ "type": "array", "items": { "anyOf": [{ "type": "array", "items": { "properties": { "b": {} } } }, { "properties": { "c": {} } }] } }),
            "({ b?: unknown }[] | { c?: unknown })[]",
        ),
        (json!({ "type": "array", "items": { "enum": ["a|b'\\\""] } }), "\"a|b'\\\\\\\"\"[]"),
        (json!({ "type": "string", "pattern": "^a", "not": { "const": "b" } }), "string"),
        (json!({ "$ref": "https://example.com/other" }), "unknown"),
        (
            json!({ "properties": { "a": { "$ref": "#/properties/b" }, "b": { "type": "string" } } }),
            "{ a?: string; b?: string }",
        ),
    ] {
        assert_eq!(printed(&schema), want, "{schema}");
    }
}

#[test]
fn what_callers_leave_out_may_be_undefined() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": {} } });
    assert_eq!(Printer::default().print(&schema, "p", Way::In, 0), "{ a?: string | undefined; b?: unknown }");
}

#[test]
fn types_that_hold_themselves_get_names() {
    let tree = json!({ "type": "object", "properties": { "parts": { "type": "array", "items": { "$ref": "#/$defs/Tree" } } } });
    let schema = json!({ "$ref": "#/$defs/Tree", "$defs": { "Tree": tree } });
    let mut printer = Printer::default();
    assert_eq!(printer.print(&schema, "orders_orders.get", Way::Out, 0), "orders_orders_get_Tree_Out");
    assert_eq!(printer.named["orders_orders_get_Tree_Out"], "{ parts?: orders_orders_get_Tree_Out[] }");
    let circle = json!({ "anyOf": [{ "$ref": "#" }] });
    assert!(printed(&circle).contains("unknown"));
}

#[test]
fn records_of_what_they_are_a_part_of_are_no_circle() {
    let json = json!({ "$ref": "#/$defs/Json", "$defs": { "Json": { "anyOf": [
        { "type": "string" }, { "type": "object", "additionalProperties": { "$ref": "#/$defs/Json" } },
    ] } } });
    let mut printer = Printer::default();
    assert_eq!(printer.print(&json, "p", Way::Out, 0), "p_Json_Out");
    assert_eq!(printer.named["p_Json_Out"], "string | { [name: string]: p_Json_Out }");
}

#[test]
fn types_of_two_actions_never_share_a_name() {
    let tree = |of: &str| json!({ "$ref": "#/$defs/T", "$defs": { "T": { "properties": { "t": { "$ref": "#/$defs/T" }, "v": { "type": of } } } } });
    let mut printer = Printer::default();
    let names = [("a.b", "string"), ("a-b", "number")].map(|(prefix, of)| printer.print(&tree(of), prefix, Way::In, 0));
    assert!(printer.named[&names[0]].contains("string") && printer.named[&names[1]].contains("number"), "{names:?}");
}

#[test]
fn nothing_that_an_author_writes_ends_a_comment_or_a_text() {
    assert_eq!(comment("a */ b\n c", 2), "/** a *\u{200b}/ b c */\n  ");
    assert_eq!([key("a_1$"), key("1a"), key("a-b"), key("")], ["a_1$", "'1a'", "'a-b'", "''"]);
    assert_eq!([quoted("a\nb"), quoted("\\")], ["\"a\\nb\"", "\"\\\\\""]);
}
