//! `GET /openapi.json`: the actions as they are loaded now, in OpenAPI 3.1, with the rules of keys and the errors.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode, Uri};
use serde_json::{Map, Value as Json, json};

use super::door::{self, RequestId};
use super::problem;
use super::{Door, Shared, reply};
use crate::auth::Caller;
use crate::auth::scope::OPERATOR;
use crate::failure::Code;
use crate::plugin::{Action, KeyRule, Kind, Plugin, Registry, Replay};

/// The largest integer that a body may hold: 2^53−1.
const SAFE: i64 = (1 << 53) - 1;

/// The reference to [`any_value`].
const JSON: &str = "#/components/schemas/Json";

/// What a key looks like in the header: bare, as a String, or as a Display String of RFC 9651. Keys beyond ASCII may
/// also be sent bare as UTF-8, which is more than most clients can do, and so not promised here.
const KEY_FORM: &str = concat!(
    r#"^(?:(?!"|%")[!-~](?:[ -~]{0,253}[!-~])?"#,
    r#"|"(?:[ !#-\[\]-~]|\\["\\]){1,255}""#,
    r#"|%"(?:[ !#$&-~]|%2[25]|%c[3-9a-f]%[89ab][0-9a-f]|%d[0-9a-f]%[89ab][0-9a-f]|%e[1-9a-c](?:%[89ab][0-9a-f]){2}){1,85}")$"#
);

/// Whoever may call anything sees what he may call, and an operator sees all.
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Extension(id): Extension<RequestId>,
    uri: Uri,
    headers: HeaderMap,
) -> Response<Body> {
    let caller =
        if door::is_public(&shared, &uri) { Ok(Caller::default()) } else { door::known(&shared, &headers).await };
    match caller {
        Ok(caller) => {
            let sees = |id: &str| caller.need(OPERATOR).is_ok() || caller.need(&format!("invoke:{id}")).is_ok();
            reply::json(StatusCode::OK, &document(&shared.app.registry(), shared.door, sees))
        }
        Err(failure) => shared.problem(failure, &id),
    }
}

/// The document, with those plugins that the reader `sees`. `door` says whether callers need credentials.
pub fn document(registry: &Registry, door: Door, sees: impl Fn(&str) -> bool) -> Json {
    let plugins: Vec<&Plugin> =
        registry.plugins.values().map(AsRef::as_ref).filter(|plugin| sees(&plugin.id)).collect();
    let mut paths = own_paths(door);
    let mut schemas = Map::new();
    schemas.insert("Problem".to_owned(), problem_schema());
    schemas.insert("Json".to_owned(), any_value());
    for plugin in &plugins {
        for action in plugin.actions.values() {
            let path = format!("/plugins/{}/invoke/{}", plugin.id, action.name);
            paths.insert(path, json!({ "post": operation(plugin, action, door, &mut schemas) }));
        }
    }
    let tags: Vec<Json> = plugins
        .iter()
        .map(|plugin| json!({ "name": plugin.id, "description": format!("The plugin {} {}", plugin.id, plugin.version) }))
        .collect();
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "oncehost",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Actions of plugins. Every write is safe to repeat: send one Idempotency-Key for each intent, \
                the same one on each try.",
        },
        "tags": tags,
        "paths": paths,
        "components": { "schemas": schemas, "parameters": parameters(), "headers": headers() },
    });
    if door == Door::Serve {
        document["components"]["securitySchemes"] = json!({ "bearer": { "type": "http", "scheme": "bearer" } });
        document["security"] = json!([{ "bearer": [] }]);
    }
    document
}

/// The paths that are the host's own.
fn own_paths(door: Door) -> Map<String, Json> {
    let plain = |id: &str, summary: &str, media: &str, open: bool| {
        let body = if media == "application/json" { json!({ "type": "object" }) } else { json!({ "type": "string" }) };
        let mut get = json!({
            "operationId": id, "summary": summary,
            "responses": { "200": { "description": "Here it is.", "content": { media: { "schema": body } } } },
        });
        let all = [(&["UNAUTHENTICATED"][..], "401"), (&["FORBIDDEN"][..], "403")];
        if open {
            get["security"] = json!([]);
        } else if door == Door::Serve {
            all.iter().for_each(|(names, status)| get["responses"][*status] = refusal(names));
        } else {
            get["responses"]["403"] = refusal(&["FORBIDDEN"]);
        }
        json!({ "get": get })
    };
    let mut ready = plain("readyz", "Whether calls can be served, and why not", "application/json", true);
    ready["get"]["responses"]["503"] = ready["get"]["responses"]["200"].clone();
    Map::from_iter([
        ("/healthz".to_owned(), plain("healthz", "The process is alive", "application/json", true)),
        ("/readyz".to_owned(), ready),
        (
            "/metrics".to_owned(),
            plain("metrics", "Counters in the form of Prometheus", "text/plain; version=0.0.4; charset=utf-8", false),
        ),
        ("/openapi.json".to_owned(), plain("openapi", "This document", "application/json", false)),
    ])
}

fn operation(plugin: &Plugin, action: &Action, door: Door, schemas: &mut Map<String, Json>) -> Json {
    let write = action.kind == Kind::Write;
    let required = action.key == KeyRule::Required;
    let key = if required { "KeyRequired" } else { "Key" };
    let mut parameters = vec![json!({ "$ref": format!("#/components/parameters/{key}") })];
    parameters.push(json!({ "$ref": "#/components/parameters/RequestId" }));
    if door != Door::Serve {
        parameters.push(json!({ "$ref": "#/components/parameters/Tenant" }));
    }
    let input = action.input.as_ref().map_or_else(
        || json!({ "$ref": JSON }),
        |input| component(schemas, &format!("{}_{}_input", plugin.id, action.name), &input.source, Way::In),
    );
    let output = action.output.as_ref().map_or_else(
        || json!({}),
        |output| component(schemas, &format!("{}_{}_output", plugin.id, action.name), output, Way::Out),
    );
    let mut operation = json!({
        "operationId": format!("{}/{}", plugin.id, action.name),
        "tags": [plugin.id],
        "description": format!("{}{}", about(action), rules(action)),
        "parameters": parameters,
        "requestBody": { "required": true, "content": { "application/json": { "schema": input } } },
        "responses": responses(write, required, door, &output),
        "x-oncehost": {
            "kind": if write { "write" } else { "read" },
            "key": if required { "required" } else { "optional" },
            "replay": if action.replay == Replay::Rerun { "rerun" } else { "response" },
            "transient": action.transient,
        },
    });
    if !action.about.is_empty() {
        operation["summary"] = json!(action.about.split(". ").next().unwrap_or_default().trim_end_matches('.'));
    }
    operation
}

fn about(action: &Action) -> String {
    if action.about.is_empty() { String::new() } else { format!("{}\n\n", action.about) }
}

/// The rules of the action's key, in words.
fn rules(action: &Action) -> String {
    let mut text = match (action.kind, action.key) {
        (Kind::Read, KeyRule::Optional) => {
            "Reads only: may be sent again at any time, with or without a key.".to_owned()
        }
        (Kind::Read, KeyRule::Required) => {
            "Reads only: may be sent again at any time; wants a key all the same.".to_owned()
        }
        (Kind::Write, KeyRule::Required) => "Writes, and is refused without a key.".to_owned(),
        (Kind::Write, KeyRule::Optional) => "Writes; without a key it runs each time that it is sent.".to_owned(),
    };
    match (action.kind, action.replay) {
        (Kind::Read, _) => {}
        (Kind::Write, Replay::Response) => {
            text.push_str(" The same key and input gets the recorded reply, byte for byte.")
        }
        (Kind::Write, Replay::Rerun) => {
            text.push_str(" The same key and input runs again, and answers that the work is done.")
        }
    }
    if !action.transient.is_empty() {
        text.push_str(&format!(" These fields may differ between tries of one key: {}.", action.transient.join(", ")));
    }
    text
}

fn responses(write: bool, required: bool, door: Door, output: &Json) -> Json {
    let reference = |name: &str| json!({ "$ref": format!("#/components/headers/{name}") });
    let mut headers = json!({ "X-Request-Id": reference("RequestId") });
    if write {
        headers["Idempotent-Replayed"] = reference("Replayed");
        headers["Idempotency-Expires"] = reference("Expires");
    }
    let done = json!({
        "type": "object", "required": ["code", "data"],
        "properties": { "code": { "const": 0 }, "data": output },
    });
    let mut all = json!({
        "200": { "description": "Done.", "headers": headers, "content": { "application/json": { "schema": done } } },
        "404": refusal(&["NOT_FOUND"]),
        "413": refusal(&["TOO_LARGE"]),
        "415": refusal(&["MEDIA_TYPE"]),
        "500": refusal(&["CONTRACT", "SCRIPT", "LIMIT", "SCHEMA"]),
        "503": refusal(&["OVERLOADED", "UNAVAILABLE"]),
        "4XX": refusal(&[]),
    });
    let mut bad = vec!["VALIDATION", "KEY_INVALID"];
    if required {
        bad.push("KEY_REQUIRED");
    }
    all["400"] = refusal(&bad);
    all["403"] = refusal(&["FORBIDDEN"]);
    if write {
        all["409"] = refusal(&["KEY_IN_PROGRESS", "DUPLICATE", "CONSTRAINT"]);
        all["410"] = refusal(&["KEY_EXPIRED"]);
        all["422"] = refusal(&["KEY_REUSED"]);
    }
    if door == Door::Serve {
        all["401"] = refusal(&["UNAUTHENTICATED"]);
        all["429"] = refusal(&["RATE_LIMITED"]);
    }
    all
}

/// A response that refuses, with these names of the contract; without names it is the plugin's own.
fn refusal(names: &[&str]) -> Json {
    let titles =
        names.iter().filter_map(|name| Code::from_name(name).map(|code| format!("{name}: {}", problem::title(code))));
    let text = titles.collect::<Vec<_>>().join(". ");
    let text =
        if text.is_empty() { "The plugin refuses, under a name of its own (code 1000)".to_owned() } else { text };
    let mut response = json!({
        "description": format!("{text}."),
        "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
    });
    if names.iter().any(|name| Code::from_name(name).is_some_and(Code::retryable)) {
        response["headers"] = json!({ "Retry-After": { "$ref": "#/components/headers/RetryAfter" } });
    }
    response
}

/// Which way a value goes. What comes in is I-JSON, however little its schema says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    In,
    Out,
}

/// Puts a schema among the components, and gives the reference to it.
fn component(schemas: &mut Map<String, Json>, name: &str, schema: &Json, way: Way) -> Json {
    let at = format!("#/components/schemas/{name}");
    let mut schema = schema.clone();
    rebase(&mut schema, &at, way);
    schemas.insert(name.to_owned(), schema);
    json!({ "$ref": at })
}

/// Makes a schema one that stands inside of the document: its references begin at its own place, and for what comes
/// in it says what holds of every body.
fn rebase(schema: &mut Json, at: &str, way: Way) {
    if way == Way::In && (*schema == json!(true) || *schema == json!({})) {
        *schema = json!({ "$ref": JSON });
        return;
    }
    let Some(members) = schema.as_object_mut() else { return };
    // Who names a schema says that references inside of it begin there.
    if members.contains_key("$id") {
        return;
    }
    for (keyword, value) in members.iter_mut() {
        match keyword.as_str() {
            "$ref" => {
                let inside = value.as_str().and_then(|reference| reference.strip_prefix('#'));
                if let Some(inside) = inside {
                    *value = json!(format!("{at}{inside}"));
                }
            }
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                value.as_object_mut().into_iter().flatten().for_each(|(_, inner)| rebase(inner, at, way));
            }
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
                value.as_array_mut().into_iter().flatten().for_each(|inner| rebase(inner, at, way));
            }
            "items"
            | "additionalProperties"
            | "contains"
            | "then"
            | "else"
            | "propertyNames"
            | "unevaluatedProperties"
            | "unevaluatedItems" => rebase(value, at, way),
            // What is only asked for is not said, so nothing may be added to it.
            "not" | "if" => rebase(value, at, Way::Out),
            _ => {}
        }
    }
    if way == Way::In {
        bound(members);
    }
}

/// Says of numbers, members and items what I-JSON does.
fn bound(members: &mut Map<String, Json>) {
    let kinds = match members.get("type") {
        Some(Json::Array(kinds)) => kinds.clone(),
        Some(kind) => vec![kind.clone()],
        None => Vec::new(),
    };
    let has = |kind: &str| kinds.iter().any(|it| it == kind);
    let mut add = |keyword: &str, unless: &str, value: Json| {
        if !members.contains_key(keyword) && !members.contains_key(unless) {
            members.insert(keyword.to_owned(), value);
        }
    };
    if has("integer") || has("number") {
        add("minimum", "exclusiveMinimum", json!(-SAFE));
        add("maximum", "exclusiveMaximum", json!(SAFE));
    }
    if has("object") {
        add("additionalProperties", "unevaluatedProperties", json!({ "$ref": JSON }));
    }
    if has("array") {
        add("items", "unevaluatedItems", json!({ "$ref": JSON }));
    }
}

/// Any value that a body may hold.
fn any_value() -> Json {
    let any = json!({ "$ref": JSON });
    json!({
        "description": "I-JSON (RFC 7493): integers beyond ±(2^53−1) are sent as strings.",
        "anyOf": [
            { "type": ["string", "boolean", "null"] },
            { "type": "number", "minimum": -SAFE, "maximum": SAFE },
            { "type": "array", "items": any },
            { "type": "object", "additionalProperties": any },
        ],
    })
}

fn parameters() -> Json {
    let key = |required: bool| {
        json!({
            "name": "Idempotency-Key", "in": "header", "required": required,
            "description": "The name of this one intent, made before the first try and kept on every other: 1 to 255 bytes \
                of UTF-8 without control characters. Bare, as a String (\"…\"), or as a Display String (%\"…\", RFC 9651); \
                the same text is the same key.",
            "schema": { "type": "string", "pattern": KEY_FORM },
            "example": "order-17",
        })
    };
    json!({
        "Key": key(false),
        "KeyRequired": key(true),
        "RequestId": {
            "name": "X-Request-Id", "in": "header", "required": false, "schema": { "type": "string" },
            "description": "Taken over where it is 1 to 128 visible ASCII characters; otherwise one is made.",
        },
        "Tenant": {
            "name": "X-Tenant-Id", "in": "header", "required": false,
            "description": "Whose data this is about; without it that of the tenant dev. Only where no credentials are asked for.",
            "schema": { "type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$" },
        },
    })
}

fn headers() -> Json {
    json!({
        "RequestId": { "description": "By this the host's log knows the call.", "schema": { "type": "string" } },
        "Replayed": {
            "description": "There when this was done before, and this is the reply recorded then.",
            "schema": { "const": "true" },
        },
        "Expires": { "description": "Until when the reply is kept under the key.", "schema": { "type": "string" } },
        "RetryAfter": { "description": "Seconds to wait before the next try.", "schema": { "type": "string", "pattern": "^[0-9]+$" } },
    })
}

fn problem_schema() -> Json {
    let names: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
    json!({
        "type": "object",
        "description": "RFC 9457. Nothing was written; the same key may be tried again.",
        "required": ["type", "title", "status", "detail", "code", "error", "retryable", "requestId"],
        "properties": {
            "type": { "type": "string", "pattern": "^urn:oncehost:error:" },
            "title": { "type": "string" },
            "status": { "type": "integer", "minimum": 400, "maximum": 599 },
            "detail": { "type": "string", "description": "What is wrong here, and what would be right." },
            "code": { "type": "integer", "description": "1000 for the plugin's own refusals." },
            "error": { "type": "string", "description": format!("The plugin's own name, or one of {}.", names.join(", ")) },
            "retryable": { "type": "boolean", "description": "Whether the very same call may succeed later." },
            "requestId": { "type": "string" },
            "fields": { "type": "array", "items": {
                "type": "object", "required": ["pointer", "message"],
                "properties": { "pointer": { "type": "string" }, "message": { "type": "string" } },
            } },
            "details": {},
            "position": { "type": "object" },
        },
    })
}
