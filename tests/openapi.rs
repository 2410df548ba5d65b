//! `GET /openapi.json`. Validators of others' making are asked by `tests/openapi/check`; here is what they cannot know.

use serde_json::{Value as Json, json};

use oncehost::auth::token::NewToken;

use crate::support::host::{self, Host};

const PLUGIN: [(&str, &str); 5] = [
    ("shop/plugin.json", r#"{ "id": "shop", "version": "1.0.0", "permissions": ["data:read", "data:write"] }"#),
    (
        "shop/handlers/tree/plant.ts",
        "interface Tree { name: string; size?: number; parts: Tree[] }\n\
         export const config = { key: 'required', transient: ['at'] }\n\
         /** Plants a tree. Then it grows. */\nexport function handle(input: Tree): { id: bigint; note?: string } { return { id: 1n } }",
    ),
    (
        "shop/handlers/tree/list.ts",
        "export const config = { kind: 'read' }\nexport function handle(input: {}) { return [] }",
    ),
    (
        "shop/handlers/tree/grow.ts",
        "export const config = { replay: 'rerun', input: { $ref: '#/$defs/Grow', $defs: { Grow: { type: 'object', properties: { by: { type: 'integer', minimum: 1 } } } } } }\n\
         export function handle(input) { return null }",
    ),
    ("shop/handlers/tree/any.ts", "export function handle() {}"),
];

fn document(host: &Host) -> Json {
    let answer = host::answer(host::ureq_agent().get(format!("{}/openapi.json", host.url)).call().unwrap());
    assert_eq!((answer.status, answer.content_type.as_str()), (200, "application/json"));
    answer.json()
}

fn operation<'d>(document: &'d Json, action: &str) -> &'d Json {
    &document["paths"][format!("/plugins/shop/invoke/{action}")]["post"]
}

/// Every `$ref` in a document.
fn references(value: &Json, found: &mut Vec<String>) {
    if let Some(reference) = value.get("$ref").and_then(Json::as_str) {
        found.push(reference.to_owned());
    }
    match value {
        Json::Array(items) => items.iter().for_each(|item| references(item, found)),
        Json::Object(members) => members.values().for_each(|member| references(member, found)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

#[test]
fn every_reference_of_the_document_leads_somewhere() {
    let document = document(&Host::new(PLUGIN));
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(
        found.iter().any(|reference| reference == "#/components/schemas/shop_tree.plant_input/$defs/Tree"),
        "{found:#?}"
    );
    for reference in found {
        assert!(document.pointer(reference.strip_prefix('#').unwrap()).is_some(), "{reference}");
    }
}

#[test]
fn key_rules_of_each_action_are_told() {
    let document = document(&Host::new(PLUGIN));
    let key = |action: &str| {
        let first = operation(&document, action)["parameters"][0]["$ref"].as_str().unwrap().to_owned();
        document.pointer(first.strip_prefix('#').unwrap()).unwrap()["required"].clone()
    };
    assert_eq!([key("tree.plant"), key("tree.list"), key("tree.grow")], [json!(true), json!(false), json!(false)]);
    let plant = operation(&document, "tree.plant");
    assert_eq!(
        plant["x-oncehost"],
        json!({ "kind": "write", "key": "required", "replay": "response", "transient": ["at"] })
    );
    assert_eq!(plant["summary"], "Plants a tree");
    let text = plant["description"].as_str().unwrap();
    assert!(text.contains("refused without a key") && text.contains("byte for byte") && text.contains("at."), "{text}");
    assert!(operation(&document, "tree.grow")["description"].as_str().unwrap().contains("runs again"));
    let responses = |action: &str| operation(&document, action)["responses"].clone();
    for status in ["409", "410", "422"] {
        assert!(responses("tree.plant").get(status).is_some(), "{status}");
        assert!(responses("tree.list").get(status).is_none(), "{status}");
    }
    assert!(responses("tree.plant")["400"]["description"].as_str().unwrap().contains("KEY_REQUIRED"));
    assert!(!responses("tree.grow")["400"]["description"].as_str().unwrap().contains("KEY_REQUIRED"));
}

#[test]
fn schemas_of_the_document_take_what_the_host_takes() {
    let host = Host::new(PLUGIN);
    let document = document(&host);
    for (action, body, good) in [
        ("tree.plant", json!({ "name": "oak", "parts": [{ "name": "leaf", "parts": [] }], "more": [1] }), true),
        ("tree.plant", json!({ "name": "oak", "parts": [{ "name": 1, "parts": [] }] }), false),
        ("tree.plant", json!({ "name": "oak", "parts": [], "size": 9_007_199_254_740_992_u64 }), false),
        ("tree.plant", json!({ "name": "oak", "parts": [], "more": { "n": -9_007_199_254_740_992_i64 } }), false),
        ("tree.grow", json!({ "by": 1 }), true),
        ("tree.grow", json!({ "by": 0 }), false),
        ("tree.any", json!([null]), true),
        ("tree.any", json!(9_007_199_254_740_992_u64), false),
    ] {
        let schema = operation(&document, action)["requestBody"]["content"]["application/json"]["schema"].clone();
        let mut whole = schema.as_object().unwrap().clone();
        whole.insert("components".to_owned(), document["components"].clone());
        assert_eq!(jsonschema::is_valid(&Json::Object(whole), &body), good, "{action} {body}");
        let answer = host.post("shop", action, &format!("{action} {body}"), &body.to_string());
        assert_eq!(answer.status == 200, good, "{action} {body}: {}", answer.body);
    }
}

#[test]
fn replies_and_refusals_are_as_the_document_says() {
    let host = Host::new(PLUGIN);
    let document = document(&host);
    let fits = |response: &Json, media: &str, body: &Json| {
        let mut whole = response["content"][media]["schema"].as_object().unwrap().clone();
        whole.insert("components".to_owned(), document["components"].clone());
        jsonschema::is_valid(&Json::Object(whole), body)
    };
    let plant = operation(&document, "tree.plant");
    let done = host.post("shop", "tree.plant", "k", r#"{ "name": "oak", "parts": [] }"#);
    assert!(fits(&plant["responses"]["200"], "application/json", &done.json()), "{}", done.body);
    let refused = host.post("shop", "tree.plant", "k", r#"{ "name": "elm", "parts": [] }"#);
    assert!(fits(&plant["responses"]["422"], "application/problem+json", &refused.json()), "{}", refused.body);
    assert!(!fits(&plant["responses"]["200"], "application/json", &refused.json()));
}

#[test]
fn form_of_keys_in_the_document_is_the_one_that_the_host_reads() {
    let document = document(&Host::new(PLUGIN));
    let form = jsonschema::validator_for(&document["components"]["parameters"]["Key"]["schema"]).unwrap();
    let long = "k".repeat(255);
    let longer = "k".repeat(256);
    for (key, good) in [
        ("order-17", true),
        ("a b", true),
        ("%41", true),
        (&long, true),
        (&longer, false),
        ("", false),
        (r#""a""#, true),
        (r#""a \" \\ b""#, true),
        (r#""""#, false),
        (r#""a"#, false),
        (r#""a"b"#, false),
        (r#""a";p=1"#, false),
        (r#"%"caf%c3%a9 %22x%22""#, true),
        (r#"%"%e2%98%83""#, true),
        (r#"%"%C3%A9""#, false),
        (r#"%"%ff""#, false),
        (r#"%"%0a""#, false),
        (r#"%"a"b"#, false),
        ("a\tb", false),
    ] {
        let read = oncehost::idempotency::key::parse(&[key.as_bytes().to_vec()]);
        assert_eq!(read.is_ok(), good, "{key:?}");
        assert_eq!(form.is_valid(&json!(key)), good, "{key:?}");
    }
}

#[test]
fn serve_names_its_credentials_and_shows_the_document_to_nobody_without() {
    let host = Host::with(PLUGIN, |settings| settings.dev = false);
    let ask = |url: String| host::answer(host::ureq_agent().get(url).call().unwrap());
    assert_eq!(ask(format!("{}/openapi.json", host.url)).error(), "UNAUTHENTICATED");
    let open = Host::with(PLUGIN, |settings| {
        settings.dev = false;
        settings.public = vec!["/openapi.json".to_owned()];
    });
    let document = ask(format!("{}/openapi.json", open.url)).json();
    assert_eq!(document["security"], json!([{ "bearer": [] }]));
    let plant = operation(&document, "tree.plant");
    assert!(plant["responses"].get("401").is_some() && plant["responses"].get("429").is_some());
    assert!(!plant["parameters"].to_string().contains("Tenant"));
}

#[test]
fn document_shows_a_caller_what_he_may_call() {
    let more = [
        ("bank/plugin.json", r#"{ "id": "bank", "version": "1.0.0" }"#),
        ("bank/handlers/open.ts", "export function handle() {}"),
    ];
    let host = Host::with(PLUGIN.into_iter().chain(more), |settings| settings.dev = false);
    let sees = |scope: &str| {
        let new = NewToken {
            tenant: "acme".to_owned(),
            subject: "till".to_owned(),
            scopes: vec![scope.to_owned()],
            expires: None,
        };
        let app = &host.app;
        let (secret, _) = app.auth.tokens.create(new, app.clock.as_ref(), app.ids.as_ref()).unwrap();
        let asked = host::ureq_agent().get(format!("{}/openapi.json", host.url));
        let document = host::answer(asked.header("authorization", format!("Bearer {secret}")).call().unwrap()).json();
        let paths = document["paths"].as_object().unwrap().keys();
        let plugins: std::collections::BTreeSet<String> =
            paths.filter_map(|path| path.strip_prefix("/plugins/")?.split('/').next().map(str::to_owned)).collect();
        plugins.into_iter().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(sees("invoke:shop"), "shop");
    assert_eq!(sees("invoke:*"), "bank shop");
    assert_eq!(sees("operator"), "bank shop");
    assert_eq!(sees("events:write"), "");
}
