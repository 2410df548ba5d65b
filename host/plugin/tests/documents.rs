//! `plugin.json`, flows and `config`, and the JSON Schemas that say the same.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use crate::backoff::Retry;
use crate::plugin::flow::{self, Known};
use crate::plugin::manifest::{self, Manifest};
use crate::plugin::read::{Findings, Reader};
use crate::plugin::{Action, Fault, KeyRule, Kind, Replay, action, locate};

fn messages(findings: Findings) -> Vec<String> {
    findings.into_inner().into_iter().map(|finding| finding.message).collect()
}

fn manifest(value: &Json) -> (Manifest, Vec<String>) {
    let findings = Findings::default();
    let events = BTreeSet::from(["video-uploaded", "clip.cut"]);
    let manifest = manifest::read(&Reader::root(value, "plugin.json", &findings), &events);
    (manifest, messages(findings))
}

/// A manifest with one more member.
fn with(name: &str, value: Json) -> Json {
    let mut manifest = json!({ "id": "shop", "version": "1.0.0", "permissions": ["events:video.uploaded"] });
    manifest[name] = value;
    manifest
}

fn flow(value: &Json) -> Vec<String> {
    let findings = Findings::default();
    let known =
        Known { scripts: BTreeSet::from(["push-result"]), actions: BTreeSet::from(["lane-change.mark-pushed"]) };
    flow::read(&Reader::root(value, "flow", &findings), &known);
    messages(findings)
}

fn config(value: &Json) -> (Action, Vec<String>) {
    let findings = Findings::default();
    let (kind, key, replay) = (Kind::Write, KeyRule::Optional, Replay::Response);
    let mut action = Action {
        name: "a".to_owned(),
        entry: 0,
        kind,
        key,
        replay,
        transient: Vec::new(),
        input: None,
        output: None,
        about: String::new(),
    };
    action::read(&Reader::root(value, "config", &findings), &mut action);
    (action, messages(findings))
}

#[track_caller]
fn complains(cases: Vec<(Json, &'static str)>, read: impl Fn(&Json) -> Vec<String>) {
    for (value, expected) in cases {
        let found = read(&value);
        assert!(found.iter().any(|it| it.starts_with(expected)), "{value}: {found:?}");
    }
}

fn full_manifest() -> Json {
    json!({
        "$schema": "../plugin.schema.json",
        "id": "shop",
        "version": "1.0.0-rc.1",
        "permissions": [
            "data:read", "data:write", "flow:start", "notify:publish", "events:video.uploaded", "invoke:orders",
            "http:api.example.com", "http:127.0.0.1:9099", "http:[::1]:80"
        ],
        "limits": { "handler": "500ms", "read": "2s", "script": "1m", "memory": "32MiB", "stack": 262_144, "result": "64KiB",
            "hostCalls": 100, "logLines": 10, "logLine": "1KiB", "payload": "2KiB", "depth": 20 },
        "sharedTables": ["region"],
        "settings": { "push_url": { "description": "where to", "default": "http://x" }, "token": { "secret": true } },
        "subscriptions": [{ "type": "video.uploaded", "handler": "events/video-uploaded", "filter": { "subject": "a" },
            "retry": { "maxAttempts": 3, "initial": "2s", "factor": 1.5, "max": "1m" }, "orderBy": "subject", "concurrency": 4 }],
        "schedules": [{ "name": "nightly", "cron": "*/5 3-4 1,15 * 7", "timezone": "UTC", "tenants": ["acme"],
            "handler": "events/clip/cut", "missed": "skip" }]
    })
}

#[test]
fn a_full_manifest_is_read_whole() {
    let (read, found) = manifest(&full_manifest());
    assert_eq!(found, [""; 0]);
    assert_eq!(read.id.as_deref(), Some("shop"));
    let may = &read.permissions;
    assert!(may.data_read && may.data_write && may.flow_start && may.notify_publish);
    assert_eq!(
        (may.events.as_slice(), may.invoke.as_slice()),
        (&["video.uploaded".to_owned()][..], &["orders".to_owned()][..])
    );
    assert_eq!(may.http, ["api.example.com", "127.0.0.1:9099", "[::1]:80"]);
    let limits = &read.limits;
    assert_eq!((limits.handler_ms, limits.read_ms, limits.script_ms), (Some(500), Some(2_000), Some(60_000)));
    assert_eq!(
        (limits.memory_bytes, limits.stack_bytes, limits.result_bytes),
        (Some(32 << 20), Some(262_144), Some(64 << 10))
    );
    assert_eq!((limits.host_calls, limits.log_lines, limits.depth), (Some(100), Some(10), Some(20)));
    assert_eq!((limits.log_line_bytes, limits.payload_bytes), (Some(1024), Some(2048)));
    assert_eq!(read.shared_tables, ["region"]);
    assert_eq!(
        (read.settings, read.secrets),
        (json!({ "push_url": "http://x" }), BTreeSet::from(["token".to_owned()]))
    );
    let subscription = &read.subscriptions[0];
    assert_eq!(
        (subscription.handler.as_str(), subscription.by_subject, subscription.concurrency),
        ("video-uploaded", true, Some(4))
    );
    assert_eq!(subscription.retry, Retry { max_attempts: 3, initial_ms: 2_000, factor: 1.5, max_ms: 60_000 });
    let schedule = &read.schedules[0];
    assert_eq!((schedule.handler.as_str(), schedule.catch_up), ("clip.cut", false));
}

fn wrong_manifests() -> Vec<(Json, &'static str)> {
    vec![
        (json!({ "version": "1.0.0" }), "`id` is missing: write \"id\": \"my-plugin\""),
        (json!([]), "`plugin.json` must be an object, it is an array"),
        (with("id", json!("Shop")), "`id` must be lower-case letters"),
        (with("id", json!("host")), "`id` must not be \"host\""),
        (with("id", json!("a234567890123456789012345678901234567890x")), "`id` must be lower-case letters"),
        (with("version", json!(1)), "`version` must be a string, it is a number"),
        (with("version", json!("1.0")), "`version` must be a version such as \"1.2.3\", it is \"1.0\""),
        (with("permisions", json!([])), "unknown field `permisions` in `plugin.json`, did you mean \"permissions\"?"),
        (
            with("permissions", json!(["data:raed"])),
            "`permissions[0]` \"data:raed\" is no permission, did you mean \"data:read\"?",
        ),
        (with("permissions", json!(["data:read", "data:read"])), "`permissions[1]` \"data:read\" is there twice"),
        (with("permissions", json!(["http:https://x.test/"])), "`permissions[0]` names a host, not an address"),
        (with("permissions", json!(["http:*.x.test"])), "`permissions[0]` cannot hold `*`"),
        (with("permissions", json!(["http:x.test:99999"])), "`permissions[0]` has no port from 1 to 65535"),
        (with("permissions", json!(["http:"])), "`permissions[0]` needs a host"),
        (with("permissions", json!(["events:"])), "`permissions[0]` needs the type of an event"),
        (with("permissions", json!(["invoke:Big"])), "`permissions[0]` needs the id of a plugin"),
        (with("limits", json!({ "handlr": "1s" })), "unknown field `handlr` in `limits`, did you mean \"handler\"?"),
        (with("limits", json!({ "handler": 5 })), "`limits.handler` must be a length of time"),
        (with("limits", json!({ "handler": "5 sec" })), "`limits.handler` is wrong: \"5 sec\" is no length of time"),
        (with("limits", json!({ "handler": "0s" })), "`limits.handler` must be more than 0"),
        (with("limits", json!({ "memory": "lots" })), "`limits.memory` must be a number of bytes"),
        (with("limits", json!({ "memory": "1B" })), "`limits.memory` must be from \"4MiB\" to"),
        (with("limits", json!({ "stack": "8MiB" })), "`limits.stack` must be from \"64KiB\" to \"4MiB\""),
        (with("limits", json!({ "hostCalls": 0 })), "`limits.hostCalls` must be a whole number from 1"),
        (with("sharedTables", json!(["Region"])), "`sharedTables[0]` must be the name of a table"),
        (
            with("settings", json!({ "t": { "secret": true, "default": "x" } })),
            "`settings.t.default` cannot be given for a secret",
        ),
        (with("settings", json!({ "a-b": {} })), "`settings.a-b` is no name for a setting"),
    ]
}

#[test]
fn each_wrong_member_of_a_manifest_says_what_is_right() {
    complains(wrong_manifests(), |value| manifest(value).1);
}

/// A schedule with this cron.
fn at(cron: &str) -> Json {
    let it = json!({ "name": "n", "cron": cron, "timezone": "UTC", "tenants": ["a"], "handler": "events/clip/cut" });
    with("schedules", json!([it]))
}

fn wrong_lists() -> Vec<(Json, &'static str)> {
    vec![
        (
            with("subscriptions", json!([{ "type": "x", "handler": "events/video-uploaded" }])),
            "`subscriptions[0].type` needs the permission \"events:x\"",
        ),
        (
            with("subscriptions", json!([{ "type": "video.uploaded", "handler": "events/video-uploadd" }])),
            "`subscriptions[0].handler` is \"events/video-uploadd\", but there is no file events/video-uploadd.ts, did you mean \"events/video-uploaded\"?",
        ),
        (
            with(
                "subscriptions",
                json!([{ "type": "video.uploaded", "handler": "events/clip/cut", "retry": { "initial": "1h", "max": "1s" } }]),
            ),
            "`subscriptions[0].retry.max` must not be less than `initial`",
        ),
        (
            at("61 * * * *"),
            "`schedules[0].cron` is \"61 * * * *\", where the minute \"61\" does not fit: write numbers from 0 to 59",
        ),
        (at("0 3 * *"), "`schedules[0].cron` must have five fields"),
        (at("0 0 30 2 *"), "`schedules[0].cron` cannot be used: \"0 0 30 2 *\" never ticks"),
        (
            with(
                "schedules",
                json!([{ "name": "n", "cron": "0 3 * * *", "timezone": "Mars/Base", "tenants": ["a"], "handler": "events/clip/cut" }]),
            ),
            "`schedules[0].timezone` must be the name of a time zone",
        ),
        (
            with(
                "schedules",
                json!([{ "name": "n", "cron": "0 3 * * *", "tenants": ["a"], "handler": "events/clip/cut" }]),
            ),
            "`schedules[0].timezone` is missing",
        ),
        (
            with(
                "schedules",
                json!([{ "name": "n", "cron": "0 3 * * *", "timezone": "UTC", "tenants": [], "handler": "events/clip/cut" }]),
            ),
            "`schedules[0].tenants` must name a tenant",
        ),
    ]
}

#[test]
fn each_wrong_subscription_and_schedule_says_what_is_right() {
    complains(wrong_lists(), |value| manifest(value).1);
}

#[test]
fn places_in_json_are_those_of_the_member() {
    let text = "{\n  \"id\": \"shop\",\n  \"version\": \"1\",\n  \"limits\": { \"handler\": \"x\", \"reed\": 1 },\n  \"limits\": { \"handler\": \"1\" }\n}";
    let mut faults: Vec<Fault> = Vec::new();
    let value = locate::parse("f", text, &mut faults).unwrap();
    let findings = Findings::default();
    manifest::read(&Reader::root(&value, "plugin.json", &findings), &BTreeSet::new());
    faults.extend(locate::in_json("f", text, findings.into_inner()));
    let places: Vec<_> = faults.iter().map(|it| (it.line.unwrap(), it.column.unwrap())).collect();
    assert_eq!(places, [(5, 3), (3, 14), (5, 26)], "{faults:?}");
    assert!(faults[0].message.contains("twice"));
}

#[test]
fn broken_json_has_its_place() {
    let mut faults = Vec::new();
    assert_eq!(locate::parse("f", "{\n  \"id\": \"a\",\n}", &mut faults), None);
    assert_eq!(
        faults[0].to_string(),
        "f:3:1: not JSON: trailing comma, take the comma before it out\n  3 | }\n    | ^"
    );
}

fn steps(steps: Json) -> Json {
    json!({ "name": "f", "job": { "seed": ["event_id", "note"] }, "steps": steps })
}

fn script(id: &str) -> Json {
    json!({ "id": id, "uses": "script", "inputs": { "script": { "const": "push-result" } } })
}

fn with_input(input: Json) -> Json {
    let mut step = script("b");
    step["inputs"]["x"] = input;
    steps(json!([script("a"), step, script("c")]))
}

fn full_flow() -> Json {
    let mut last = script("last");
    last["after"] = json!(["wait", "mark"]);
    last["when"] = json!({ "from": "steps.push.accepted", "eq": true });
    last["retry"] = json!({ "maxAttempts": 5, "initial": "1s", "factor": 2, "max": "1m" });
    last["timeout"] = json!("30s");
    last["inputs"]["a"] = json!({ "from": "steps.wait.data" });
    steps(json!([
        { "id": "push", "uses": "script", "inputs": { "script": { "const": "push-result" }, "eventId": { "from": "trigger.eventId" },
            "raw": { "from": "trigger.event_id.deep" }, "key": { "from": "run.scopedKey" }, "n": { "const": { "from": 1 } } } },
        { "id": "nap", "uses": "sleep", "for": "1h" },
        { "id": "until", "uses": "sleep", "until": { "from": "trigger.note" } },
        { "id": "mark", "uses": "action", "after": "push", "inputs": { "action": { "const": "lane-change.mark-pushed" }, "r": { "from": "steps.push" } } },
        { "id": "wait", "uses": "waitForEvent", "after": [], "type": "video.uploaded", "match": { "subject": { "from": "trigger.eventId" } }, "timeout": "2d" },
        last
    ]))
}

#[test]
fn a_full_flow_is_read_without_fault() {
    assert_eq!(flow(&full_flow()), [""; 0]);
    assert_eq!(flow(&json!({ "name": "f", "steps": [script("a")] })), [""; 0], "a flow without job takes no seed");
}

fn wrong_flows() -> Vec<(Json, &'static str)> {
    vec![
        (json!({ "steps": [script("a")] }), "`name` is missing"),
        (json!({ "name": "F/x", "steps": [script("a")] }), "`name` must be lower-case letters"),
        (json!({ "name": "f", "steps": [] }), "`steps` must have a step at least"),
        (steps(json!(vec![script("a"); 1001])), "`steps` has 1001 steps, and a flow has 1000 at most"),
        (
            json!({ "name": "f", "jobs": {}, "steps": [script("a")] }),
            "unknown field `jobs` in `flow`, did you mean \"job\"?",
        ),
        (
            json!({ "name": "f", "job": { "seed": ["event_id", "eventId"] }, "steps": [script("a")] }),
            "`job.seed[1]` is \"eventId\", and \"event_id\" is there too: both would be `trigger.eventId`",
        ),
        (
            json!({ "name": "f", "job": { "seed": ["a", "a"] }, "steps": [script("a")] }),
            "`job.seed[1]` \"a\" is there twice",
        ),
        (steps(json!([{ "uses": "script" }])), "`steps[0].id` is missing"),
        (steps(json!([script("A b")])), "`steps[0].id` must be lower-case letters"),
        (steps(json!([script("a"), script("a")])), "`steps[1]` has the id \"a\", which another step has"),
        (steps(json!([{ "id": "a", "uses": "scirpt" }])), "`steps[0].uses` must be \"script\" or"),
        (steps(json!([{ "id": "a", "uses": "script" }])), "`steps[0]` does not say which script it runs"),
        (
            steps(json!([{ "id": "a", "uses": "script", "inputs": { "script": { "const": "push-reslt" } } }])),
            "`steps[0].inputs.script.const` names the script \"push-reslt\", which is not there (looked in scripts/push-reslt.ts), did you mean \"push-result\"?",
        ),
        (
            steps(json!([{ "id": "a", "uses": "action", "inputs": { "action": { "const": "mark" } } }])),
            "`steps[0].inputs.action.const` names the action \"mark\", which is not there",
        ),
        (
            steps(json!([{ "id": "a", "uses": "script", "inputs": { "script": { "from": "trigger.note" } } }])),
            "`steps[0].inputs.script` must be a constant",
        ),
        (steps(json!([{ "id": "a", "uses": "sleep" }])), "`steps[0]` does not say how long it sleeps"),
        (steps(json!([{ "id": "a", "uses": "sleep", "for": "1 hour" }])), "`steps[0].for` is wrong"),
        (steps(json!([{ "id": "a", "uses": "sleep", "until": "tomorrow" }])), "`steps[0].until` must be an instant"),
        (
            steps(json!([{ "id": "a", "uses": "sleep", "for": "1h", "retry": {} }])),
            "unknown field `retry` in `steps[0]`",
        ),
        (steps(json!([{ "id": "a", "uses": "waitForEvent" }])), "`steps[0]` does not say which event it waits for"),
    ]
}

#[test]
fn each_wrong_member_of_a_flow_says_what_is_right() {
    complains(wrong_flows(), flow);
}

fn wrong_inputs() -> Vec<(Json, &'static str)> {
    vec![
        (
            with_input(json!("plain")),
            "`steps[1].inputs.x` must be { \"const\": … } or { \"from\": \"…\" }, it is a string",
        ),
        (with_input(json!({ "const": 1, "from": "trigger.note" })), "`steps[1].inputs.x` has both"),
        (with_input(json!({})), "`steps[1].inputs.x` must have `const` or `from`"),
        (
            with_input(json!({ "from": "trigger.evntId" })),
            "`steps[1].inputs.x.from` is \"trigger.evntId\", but `job.seed` has no key \"evntId\", did you mean \"event_id\"?",
        ),
        (
            with_input(json!({ "from": "run.key" })),
            "`steps[1].inputs.x.from` is \"run.key\", which is not there (there are run.idempotencyKey",
        ),
        (
            with_input(json!({ "from": "steps.c.x" })),
            "`steps[1].inputs.x.from` is \"steps.c.x\", but the step \"c\" does not end before",
        ),
        (
            steps(json!([{ "id": "nap", "uses": "sleep", "for": "1h" },
                { "id": "a", "uses": "sleep", "until": { "from": "steps.nap.at" } }])),
            "`steps[1].until.from` is \"steps.nap.at\", but the step \"nap\" sleeps",
        ),
        (
            with_input(json!({ "from": "steps.b.x" })),
            "`steps[1].inputs.x.from` is \"steps.b.x\", but the step \"b\" does not end before",
        ),
        (
            with_input(json!({ "from": "steps.d.x" })),
            "`steps[1].inputs.x.from` is \"steps.d.x\", but there is no step \"d\"",
        ),
        (with_input(json!({ "from": "event.x" })), "`steps[1].inputs.x.from` is \"event.x\": it must begin with"),
        (with_input(json!({ "from": "trigger..x" })), "`steps[1].inputs.x.from` is \"trigger..x\": there is nothing"),
    ]
}

#[test]
fn each_wrong_input_of_a_step_says_what_is_right() {
    complains(wrong_inputs(), flow);
}

#[test]
fn steps_that_wait_for_one_another_are_refused() {
    let waiting = |first: &str, second: &str, third: Json| {
        let mut all = ["a", "b", "c"].map(script);
        all[0]["after"] = json!([first]);
        all[1]["after"] = json!(second);
        all[2]["after"] = third;
        flow(&steps(json!(all)))
    };
    assert_eq!(waiting("b", "c", json!([])), [""; 0]);
    let found = waiting("b", "c", json!("a"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("`steps[0]` waits for itself: the steps a, b, c wait for one another"), "{found:?}");
    assert_eq!(waiting("none", "c", json!([])), ["`steps[0].after[0]` names the step \"none\", which is not there"]);
}

#[test]
fn config_is_read_whole() {
    let value = json!({ "kind": "write", "key": "required", "replay": "rerun", "transient": ["at"], "input": { "type": "object" } });
    let (action, found) = config(&value);
    assert_eq!(found, [""; 0]);
    assert_eq!((action.kind, action.key, action.replay), (Kind::Write, KeyRule::Required, Replay::Rerun));
    assert_eq!(action.transient, ["at"]);
    assert!(!action.input.unwrap().validator.is_valid(&json!(1)));
}

fn wrong_configs() -> Vec<(Json, &'static str)> {
    vec![
        (json!(1), "`config` must be an object, it is a number"),
        (json!({ "kye": "required" }), "unknown field `kye` in `config`, did you mean \"key\"?"),
        (json!({ "kind": "raed" }), "`kind` must be \"write\" or \"read\", it is \"raed\", did you mean \"read\"?"),
        (json!({ "key": true }), "`key` must be a string, it is a boolean"),
        (json!({ "kind": "read", "replay": "rerun" }), "`replay` is \"rerun\", which a read action has no use for"),
        (json!({ "transient": "at" }), "`transient` must be an array, it is a string"),
        (
            json!({ "transient": ["sentAt"], "input": { "properties": { "sent_at": {} }, "additionalProperties": false } }),
            "`transient[0]` names \"sentAt\", which `input` does not allow, did you mean \"sent_at\"?",
        ),
        (json!({ "input": "object" }), "`input` must be a JSON Schema"),
        (
            json!({ "input": { "properties": { "a": { "type": "strng" } } } }),
            "`input.properties.a.type` is no type of JSON Schema, did you mean \"string\"?",
        ),
        (
            json!({ "input": { "$ref": "https://x.test/schema.json" } }),
            "`input.$ref` is \"https://x.test/schema.json\": only places within the schema",
        ),
        (
            json!({ "input": { "items": { "$ref": "#/$defs/x" } } }),
            "`input.items.$ref` is \"#/$defs/x\", and the schema has nothing at /$defs/x",
        ),
        (json!({ "input": { "minLength": "x" } }), "`input.minLength` is no valid JSON Schema"),
    ]
}

#[test]
fn each_wrong_member_of_config_says_what_is_right() {
    complains(wrong_configs(), |value| config(value).1);
}

#[test]
fn places_in_config_are_those_of_the_member() {
    let source =
        "const other = 1\nexport const config = {\n  kind: 'raed',\n  input: { type: 'x' },\n} satisfies Config\n";
    let findings = Findings::default();
    let value = json!({ "kind": "raed", "input": { "type": "x" } });
    let mut action = config(&json!({})).0;
    action::read(&Reader::root(&value, "config", &findings), &mut action);
    let faults = locate::in_config("f", source, findings.into_inner());
    let places: Vec<_> = faults.iter().map(|it| (it.line, it.column)).collect();
    assert_eq!(places, [(Some(3), Some(9)), (Some(4), Some(18))], "{faults:?}");
}

/// The cases that a JSON Schema takes, since they are wrong only beside the rest of the plugin.
fn taken_by(schema: &str, cases: Vec<(Json, &'static str)>) -> Vec<&'static str> {
    let schema: Json = serde_json::from_str(schema).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    cases.into_iter().filter(|(value, _)| schema.is_valid(value)).map(|(_, expected)| expected).collect()
}

const FOR_MANIFESTS: &str = include_str!("../../../schema/plugin.schema.json");
const FOR_FLOWS: &str = include_str!("../../../schema/flow.schema.json");
#[test]
fn the_schemas_for_editors_take_what_the_host_takes() {
    assert_eq!(
        taken_by(FOR_MANIFESTS, vec![(full_manifest(), "full"), (with("settings", json!({})), "small")]),
        ["full", "small"]
    );
    let small = json!({ "name": "f", "steps": [script("a")] });
    assert_eq!(taken_by(FOR_FLOWS, vec![(full_flow(), "full"), (small, "small")]), ["full", "small"]);
}

#[test]
fn the_schemas_for_editors_refuse_what_the_host_refuses() {
    let (mut manifests, mut flows) = (wrong_manifests(), wrong_flows());
    manifests.extend(wrong_lists());
    flows.extend(wrong_inputs());
    let only_beside_the_rest = |message: &&str| {
        [
            "needs the permission",
            "there is no file",
            "less than `initial`",
            "no port from",
            "five fields",
            "does not fit",
            "never ticks",
            "time zone",
        ]
        .iter()
        .chain(&[
            "is there too",
            "another step",
            "which is not there",
            "no key",
            "does not end before",
            "\" sleeps",
            "no step",
            "an instant",
            "must be from \"",
        ])
        .any(|part| message.contains(part))
    };
    let taken: Vec<_> = [taken_by(FOR_MANIFESTS, manifests), taken_by(FOR_FLOWS, flows)].concat();
    assert!(taken.iter().all(only_beside_the_rest), "{taken:#?}");
}
