use serde_json::json;

use super::Derived;
use super::tests::{derived, fits};

fn of(text: &str) -> Derived {
    derived(&[("a.ts", text)])
}

#[test]
fn overloads_take_what_any_of_them_does() {
    for head in ["export function handle", "export async function handle", "function handle"] {
        let text = format!(
            "interface A {{ a: string }}
            {head}(input: A): string;
            {head}(input: /** @minLength 2 */ string | {{ b: number }}): string;
            {head}(input: any): any {{ return '' }}
            {}",
            if head.starts_with("export") { "" } else { "export { handle };" }
        );
        let schema = of(&text).input.unwrap().unwrap();
        for good in [json!({ "a": "" }), json!({ "b": 1 }), json!("ab")] {
            assert!(fits(&schema, &good), "{head}: {good} does not fit {schema}");
        }
        for bad in [json!({}), json!({ "b": "" }), json!("a"), json!(1)] {
            assert!(!fits(&schema, &bad), "{head}: {bad} fits {schema}");
        }
    }
}

#[test]
fn overloads_give_what_any_of_them_does() {
    let text = "export function handle(input: 1): Promise<string>;
        export function handle(input: 2): number | undefined;
        export function handle(input: any): any {}";
    assert_eq!(of(text).output.unwrap().unwrap(), json!({ "type": ["string", "number", "null"] }));
}

#[test]
fn overload_without_a_parameter_takes_anything() {
    for overloads in ["(): string; export function handle(input: 1)", "(input: 1): string; export function handle()"] {
        let text = format!("export function handle{overloads}: string; export function handle(input?: any) {{}}");
        assert!(of(&text).input.is_none(), "{overloads}");
    }
}

#[test]
fn overload_whose_type_gives_no_schema_is_told() {
    let text = "export function handle(input: 1): string; export function handle(input: Date): string;
        export function handle(input: any): any {}";
    assert!(of(text).input.unwrap().unwrap_err().message.contains("JSON has no Date"));
    let text = "export function handle(input: 1): string; export function handle(input): string;
        export function handle(input: any): any {}";
    assert!(of(text).input.unwrap().unwrap_err().message.contains("has no type"));
}

#[test]
fn first_overload_with_a_comment_says_what_it_is_about() {
    let text = "export function handle(input: 1): string;
        /** Adds. */ export function handle(input: 2): string;
        /** Inside. */ export function handle(input: any): any {}";
    assert_eq!(of(text).about, "Adds.");
}
