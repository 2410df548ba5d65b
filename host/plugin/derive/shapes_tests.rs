use serde_json::json;

use super::tests::{derived, input, tells};

#[test]
fn keys_of_an_object_with_members_of_any_name_are_any() {
    let base = "interface Index { known: 1; [key: string]: number } type Either = Index | { a: 1 }";
    let any = json!({ "type": ["string", "number"] });
    for ty in [
        "keyof Index",
        "keyof { [k: string]: 1 }",
        "keyof Record<string, 1>",
        "keyof (Index & { a: 1 })",
        "keyof Either",
    ] {
        assert_eq!(input(ty, base), any, "{ty}");
    }
    tells("Record<keyof Index, 1>", base, &[json!({}), json!({ "x": 1 })], &[json!({ "x": 2 })]);
    assert_eq!(input("keyof A", "/** @additionalProperties false */ interface A { a: 1 }"), json!({ "const": "a" }));
}

#[test]
fn member_of_the_type_of_one_that_may_be_missing_may_be_missing() {
    let base = "interface A { a: string; b?: string; c: string | undefined }
        type B = A['b']; type Id<T> = T; interface Box<T> { value: T }";
    let free =
        ["A['b']", "A['c']", "A['a' | 'b']", "A['b'] | number", "B", "B | null", "Readonly<B>", "Partial<A>['a']"];
    for ty in free {
        tells(&format!("{{ v: {ty} }}"), base, &[json!({}), json!({ "v": "x" })], &[json!({ "v": true })]);
    }
    let always = ["A['a']", "NonNullable<B>", "Required<A>['b']", "Id<string>", "B & string"];
    for ty in always {
        tells(&format!("{{ v: {ty} }}"), base, &[json!({ "v": "x" })], &[json!({}), json!({ "v": true })]);
    }
    tells("{ v: B[] }", base, &[json!({ "v": ["x"] })], &[json!({})]);
    tells("{ v: Box<B> }", base, &[json!({ "v": { "value": "x" } })], &[json!({})]);
    tells(
        "{ v: { b: B }; a: string }",
        base,
        &[json!({ "v": {}, "a": "" })],
        &[json!({ "a": "" }), json!({ "v": {} })],
    );
    tells("Record<'x', B>", base, &[json!({}), json!({ "x": "" })], &[json!({ "x": 1 })]);
    tells("Record<'x', A['a']>", base, &[json!({ "x": "" })], &[json!({})]);
}

#[test]
fn result_of_the_type_of_a_member_that_may_be_missing_may_be_null() {
    let text = "interface A { b?: string } export function handle(): A['b'] { return undefined }";
    assert_eq!(derived(&[("a.ts", text)]).output.unwrap().unwrap(), json!({ "type": ["string", "null"] }));
}
