use serde_json::json;

use super::tests::{derived, fits, input, refused, tells};

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

#[test]
fn comment_in_front_of_a_union_is_its_first_alternative_s() {
    let numbers = "type N = /** @maximum 10 */ number | /** @minimum 100 */ number";
    let want = json!({ "anyOf": [{ "type": "number", "maximum": 10 }, { "type": "number", "minimum": 100 }] });
    assert_eq!(input("N", numbers), want);
    let texts = "type X = /** @pattern ^[a-z]+$ */ string | /** @pattern ^[0-9]+$ */ string";
    tells("X", texts, &[json!("ab"), json!("12")], &[json!("A"), json!("a1")]);
    let digits = "type Digits = /** @pattern ^[0-9]+$ */ string";
    tells("{ x: /** @maxLength 2 */ string | Digits }", digits, &[json!({ "x": "123" })], &[json!({ "x": "abc" })]);
    // Of both, where it stands in front of something else.
    for ty in ["/** @maxLength 2 */ (string | Digits)", "/** @maxLength 2 */ | string | Digits"] {
        tells(ty, digits, &[json!("12"), json!("ab")], &[json!("123"), json!("abc")]);
    }
    tells("/** @minItems 1 */ string[] | null", "", &[json!(null), json!([""])], &[json!([])]);
    assert!(refused("{ a: /** @minLength 1 */ undefined | string }", "").contains("undefined"));
    assert!(refused("/** @minLength 1 */ null | string", "").contains("holds of strings only"));
}

#[test]
fn tags_of_a_type_and_of_where_it_is_used_hold_both() {
    let name = "type Name = /** @minLength 3 @maxLength 5 @pattern ^a */ string";
    let narrow = "{ /** @minLength 1 @maxLength 4\n * @pattern z$ */ a: Name }";
    let bad = ["az", "a123z", "zzz", "aaa"].map(|text| json!({ "a": text }));
    tells(narrow, name, &[json!({ "a": "a1z" }), json!({ "a": "a12z" })], &bad);
    let step = "type Step = /** @multipleOf 2 @minimum 2 */ number";
    let bad = [2, 3, 4, 20].map(|step| json!({ "a": step }));
    tells("{ /** @multipleOf 3 @maximum 12 @minimum 1 @integer false */ a: Step }", step, &[json!({ "a": 6 })], &bad);
    tells("/** @minItems 1 */ [string, string]", "", &[json!(["", ""])], &[json!([""])]);
    let all = "/** @uniqueItems */ type All = number[]";
    tells("{ /** @uniqueItems false */ a: All }", all, &[json!({ "a": [1, 2] })], &[json!({ "a": [1, 1] })]);
    let open = "/** @additionalProperties {\"minLength\": 2} */ interface Open { a: 1; [key: string]: string | 1 }
        /** @additionalProperties false */ interface Shut { a: 1 }";
    tells("Open", open, &[json!({ "a": 1, "b": "xy" })], &[json!({ "a": 1, "b": "x" }), json!({ "a": 1, "b": true })]);
    tells("{ /** @additionalProperties true */ s: Shut }", open, &[], &[json!({ "s": { "a": 1, "b": 1 } })]);
    assert!(!fits(&input("{ /** Never. */ a?: never }", ""), &json!({ "a": 1 })));
}

#[test]
fn known_tag_in_the_value_of_another_is_refused() {
    for doc in [
        "@pattern ^[a-z@]+$ @maxLength 3",
        "@pattern ^[a-z@]+$\t@maxLength 3",
        "@format date\t@minLength 3",
        "@example Ada @minLength 3",
        "@pattern @maxLength 3",
    ] {
        let why = refused(&format!("{{ /**\n * {doc} */ name: string }}"), "");
        assert!(why.starts_with("`name` has the tag") && why.contains("write one tag a line"), "{doc}: {why}");
    }
    tells("{ /** @pattern ^[a-z]+ @home$ */ a: string }", "", &[json!({ "a": "at @home" })], &[json!({ "a": "at" })]);
}
