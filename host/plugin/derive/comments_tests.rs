use serde_json::json;

use super::tests::{derived, input, refused};

#[test]
fn comment_in_front_of_a_type_counts_wherever_that_stands() {
    for (ty, declarations, want) in [
        ("Id", "type Id = /** @minLength 9 */ string", json!({ "type": "string", "minLength": 9 })),
        (
            "Id",
            "/** @maxLength 20 */ type Id = /** @minLength 9 */ (string)",
            json!({ "type": "string", "minLength": 9, "maxLength": 20 }),
        ),
        ("/** @minItems 1 */ string[]", "", json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 })),
        (
            "Array</** @minimum 0 */ number>",
            "",
            json!({ "type": "array", "items": { "type": "number", "minimum": 0 } }),
        ),
        (
            "[/** @integer */ number]",
            "",
            json!({ "type": "array", "minItems": 1, "maxItems": 1, "prefixItems": [{ "type": "integer" }] }),
        ),
        (
            "{ /** @maxLength 2 */ a: /** @minLength 1 */ string | undefined }",
            "",
            json!({ "type": "object", "properties": { "a": { "type": "string", "minLength": 1, "maxLength": 2 } } }),
        ),
    ] {
        assert_eq!(input(ty, declarations), want, "{declarations} {ty}");
    }
    let why = refused("Id", "type Id = /** @minLenght 9 */ string");
    assert!(why.starts_with("this type has the tag `@minLenght`") && why.contains("\"minLength\""), "{why}");
    assert!(refused("[...(/** @minItems 1 */ string[])]", "").contains("in front of the tuple"));
}

#[test]
fn comment_in_front_of_the_parameter_counts_for_its_type() {
    let text = "export function handle(/** @minLength 2 */ input: string) {}";
    assert_eq!(derived(&[("a.ts", text)]).input, Some(Ok(json!({ "type": "string", "minLength": 2 }))));
}

#[test]
fn comment_with_tags_that_count_for_nothing_is_refused() {
    for (ty, declarations) in [
        ("A", "interface A { name: string /** @minLength 3 */\n }"),
        ("A", "interface A { /** @minLength 3 */ /** The name. */ name: string }"),
        ("A", "type A = string /** @minLength 3 */"),
        ("A", "type A = { a: /** @minLength 3 */\n string /** @maxLength 3 */ }"),
        ("string /** @minLength 3 */", ""),
    ] {
        let why = refused(ty, declarations);
        assert!(why.contains("count for nothing; write them in front"), "{declarations} {ty}: {why}");
    }
    for fine in
        ["interface A { name: string /** The name. */ }", "type A = { /** @see b */ /** The name. */ name: string }"]
    {
        assert_eq!(input("A", fine)["properties"]["name"]["type"], "string", "{fine}");
    }
}
