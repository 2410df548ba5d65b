//! The gate: keys, records, replays (spec §2, §5).

use serde_json::json;

use crate::support::host::{Call, Host, START};
use crate::support::scenario::{check, files};
use crate::support::shop::{SHOP, host as shop};

#[track_caller]
fn check_shop(steps: &str, expected: &str) {
    check(&format!("{SHOP}\n//- steps\n{steps}"), expected);
}

#[test]
fn second_call_with_same_key_replays_response() {
    let host = shop();
    let first = host.post("shop", "add", "k1", r#"{"code":"a"}"#);
    let second = host.post("shop", "add", "k1", r#"{ "code" : "a" }"#);
    assert_eq!(first.data()["created"], true);
    assert!(!first.replayed && second.replayed);
    assert_eq!(first.body, second.body);
    assert_eq!(first.expires, second.expires);
    assert_eq!(first.expires.as_deref(), Some("Thu, 08 Jan 2026 00:00:00 GMT"));
    assert_eq!(host.count("shop", "item"), 1);
    assert_eq!(host.count("shop", "_oncehost_events"), 1);
}

#[test]
fn same_facts_under_another_key_find_the_row_that_is_there() {
    check_shop(
        r#"
        > POST shop/add key=k1 {"code":"a"}
        > POST shop/add key=k2 {"code":"a"}
        > rows shop
        "#,
        r#"
        > POST shop/add key=k1 {"code":"a"}
        200 {"id":"<1>","created":true}
        > POST shop/add key=k2 {"code":"a"}
        200 {"id":"<1>","created":false}
        > rows shop
        events 1, keys 2, workflows 0, item 1, loose 0
        "#,
    );
}

#[test]
fn rerun_runs_again_and_answers_created_false_itself() {
    check_shop(
        r#"
        > POST shop/add-again key=k1 {"code":"a","at":1}
        > POST shop/add-again key=k1 {"code":"a","at":2}
        > POST shop/add-again key=k1 {"code":"b","at":2}
        > rows shop
        "#,
        r#"
        > POST shop/add-again key=k1 {"code":"a","at":1}
        200 {"id":"<1>","created":true}
        > POST shop/add-again key=k1 {"code":"a","at":2}
        200 {"id":"<1>","created":false}
        > POST shop/add-again key=k1 {"code":"b","at":2}
        422 KEY_REUSED: this Idempotency-Key was used for another request (these fields differ: code); use a new key for a new intent
        > rows shop
        events 1, keys 1, workflows 0, item 1, loose 0
        "#,
    );
}

#[test]
fn same_key_with_other_input_adds_no_row_anywhere() {
    check_shop(
        r#"
        > POST shop/add key=k1 {"code":"a","note":"x"}
        > POST shop/add key=k1 {"code":"b","note":"x"}
        > POST shop/add key=k1 {"note":"x"}
        > rows shop
        "#,
        r#"
        > POST shop/add key=k1 {"code":"a","note":"x"}
        200 {"id":"<1>","created":true}
        > POST shop/add key=k1 {"code":"b","note":"x"}
        422 KEY_REUSED: this Idempotency-Key was used for another request (these fields differ: code); use a new key for a new intent
        > POST shop/add key=k1 {"note":"x"}
        422 KEY_REUSED: this Idempotency-Key was used for another request (fields are left out); use a new key for a new intent
        > rows shop
        events 1, keys 1, workflows 0, item 1, loose 0
        "#,
    );
}

#[test]
fn equal_json_in_another_spelling_is_the_same_input() {
    let host = shop();
    let first = host.post("shop", "add", "k1", r#"{"code":"a","n":1,"m":2}"#);
    let second = host.post("shop", "add", "k1", "{\"m\":2.0,\"n\":1e0,\n\"code\":\"\\u0061\"}");
    assert!(second.replayed);
    assert_eq!(first.body, second.body);
}

#[test]
fn bodies_that_are_not_i_json_are_refused_before_anything_else() {
    let host = shop();
    let bodies: [&[u8]; 6] = [
        b"{\"n\":9007199254740993}",
        b"{\"a\":1,\"a\":2}",
        b"{\"a\":\"\\ud800\"}",
        b"{\"a\":\"\xff\"}",
        b"{\"a\":",
        b"",
    ];
    for body in bodies {
        let answer = host.call("nowhere", "nothing", &Call { key: Some(""), tenant: None, body });
        assert_eq!((answer.status, answer.error().as_str()), (400, "VALIDATION"), "{}", answer.body);
        assert_eq!(answer.content_type, "application/problem+json");
    }
}

#[test]
fn tenants_and_actions_do_not_share_keys() {
    check_shop(
        r#"
        > POST shop/add key=k1 tenant=red {"code":"a"}
        > POST shop/add key=k1 tenant=blue {"code":"a"}
        > POST shop/add key=k1 tenant=red {"code":"a"}
        > POST shop/add key=k1 tenant=blue {"code":"a"}
        > POST shop/fail-late key=k1 tenant=red {"code":"z","fail":false}
        > rows shop
        "#,
        r#"
        > POST shop/add key=k1 tenant=red {"code":"a"}
        200 {"id":"<1>","created":true}
        > POST shop/add key=k1 tenant=blue {"code":"a"}
        200 {"id":"<2>","created":true}
        > POST shop/add key=k1 tenant=red {"code":"a"}
        200 (replayed) {"id":"<1>","created":true}
        > POST shop/add key=k1 tenant=blue {"code":"a"}
        200 (replayed) {"id":"<2>","created":true}
        > POST shop/fail-late key=k1 tenant=red {"code":"z","fail":false}
        200 true
        > rows shop
        events 4, keys 3, workflows 1, item 3, loose 0
        "#,
    );
}

#[test]
fn handler_that_throws_leaves_nothing_and_its_key_works_with_other_input() {
    check_shop(
        r#"
        > POST shop/fail-late key=k1 {"code":"a","fail":true}
        > rows shop
        > POST shop/fail-late key=k1 {"code":"b","fail":false}
        > POST shop/refuse key=k2 {"code":"c"}
        > rows shop
        "#,
        r#"
        > POST shop/fail-late key=k1 {"code":"a","fail":true}
        500 SCRIPT: Error: after the writes (shop/handlers/fail-late.ts:8:29)
        > rows shop
        events 0, keys 0, workflows 0, item 0, loose 0
        > POST shop/fail-late key=k1 {"code":"b","fail":false}
        200 true
        > POST shop/refuse key=k2 {"code":"c"}
        409 CLOSED: the shop is closed
        > rows shop
        events 2, keys 1, workflows 1, item 1, loose 0
        "#,
    );
}

#[test]
fn expired_reply_is_a_mark_and_an_expired_mark_is_forgotten() {
    check_shop(
        r#"
        > POST shop/quiet key=k1 {"code":"a"}
        > advance 167h
        > POST shop/quiet key=k1 {"code":"a"}
        > advance 1h
        > POST shop/quiet key=k1 {"code":"a"}
        > clear
        > POST shop/quiet key=k1 {"code":"a"}
        > POST shop/quiet key=k1 {"code":"b"}
        > sql shop SELECT key, reply, fields FROM _oncehost_keys
        > advance 83d
        > POST shop/quiet key=k1 {"code":"b"}
        > POST shop/quiet key=k1 {"code":"b"}
        > advance 90d
        > clear
        > rows shop
        "#,
        r#"
        > POST shop/quiet key=k1 {"code":"a"}
        200 {"id":"<1>","created":true}
        > advance 167h
        > POST shop/quiet key=k1 {"code":"a"}
        200 (replayed) {"id":"<1>","created":true}
        > advance 1h
        > POST shop/quiet key=k1 {"code":"a"}
        410 KEY_EXPIRED: this was done before under this Idempotency-Key, but its reply is no longer kept; read the data to see its result; under a new key it would be done again
        > clear
        1 replies, 0 marks
        > POST shop/quiet key=k1 {"code":"a"}
        410 KEY_EXPIRED: this was done before under this Idempotency-Key, but its reply is no longer kept; read the data to see its result; under a new key it would be done again
        > POST shop/quiet key=k1 {"code":"b"}
        422 KEY_REUSED: this Idempotency-Key was used for another request (the input or the caller is another); use a new key for a new intent
        > sql shop SELECT key, reply, fields FROM _oncehost_keys
        ["k1",null,null]
        > advance 83d
        > POST shop/quiet key=k1 {"code":"b"}
        200 {"id":"<2>","created":true}
        > POST shop/quiet key=k1 {"code":"b"}
        200 (replayed) {"id":"<2>","created":true}
        > advance 90d
        > clear
        0 replies, 1 marks
        > rows shop
        events 0, keys 0, workflows 0, item 2, loose 0
        "#,
    );
}

#[test]
fn clearing_walks_in_batches_over_thousands_of_records() {
    let host = shop();
    host.post("shop", "add", "first", r#"{"code":"a"}"#);
    host.database("shop")
        .execute_batch(&format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2300) \
             INSERT INTO _oncehost_keys (tenant, operation, key, request_hash, reply, committed_at) \
             SELECT 'dev', 'shop/add', 'old' || i, x'00', '1', {START} + i FROM n"
        ))
        .unwrap();
    host.clock.advance(7 * 24 * 3_600_000 + 1_000);
    assert_eq!(host.block_on(host.app.clear_expired()).unwrap(), (1_001, 0));
    host.clock.advance(83 * 24 * 3_600_000);
    assert_eq!(host.block_on(host.app.clear_expired()).unwrap(), (1_300, 1_001));
}

#[test]
fn checks_come_in_the_order_of_the_contract() {
    let host = shop();
    let call = |plugin, action, key, body: &[u8]| host.call(plugin, action, &Call { key, tenant: None, body }).error();
    assert_eq!(call("nowhere", "add", Some(""), b"{}"), "NOT_FOUND");
    assert_eq!(call("shop", "nothing-such", Some(""), b"{}"), "NOT_FOUND");
    assert_eq!(call("shop", "must-have-key", Some(""), b"{}"), "KEY_INVALID");
    assert_eq!(call("shop", "must-have-key", None, b"{}"), "KEY_REQUIRED");
    assert_eq!(call("shop", "must-have-key", Some("k"), b"{}"), "VALIDATION");
    host.post("shop", "must-have-key", "k", r#"{"code":"a"}"#).data();
    assert_eq!(call("shop", "must-have-key", Some("k"), b"{}"), "KEY_REUSED");
}

#[test]
fn validation_names_each_faulty_field() {
    let host = shop();
    let answer = host.post("shop", "must-have-key", "k", r#"{"code":["a secret"]}"#);
    assert_eq!(answer.status, 400);
    let fields = answer.json()["fields"].clone();
    assert_eq!(fields[0]["pointer"], "/code", "{fields}");
    assert!(!answer.body.contains("secret"), "values do not come back: {}", answer.body);
}

#[test]
fn read_action_knows_its_key_but_records_nothing() {
    check_shop(
        r#"
        > POST shop/add key=k1 {"code":"a"}
        > POST shop/get key=k2 {"code":"a"}
        > POST shop/get key=k2 {"code":"b"}
        > rows shop
        "#,
        r#"
        > POST shop/add key=k1 {"code":"a"}
        200 {"id":"<1>","created":true}
        > POST shop/get key=k2 {"code":"a"}
        200 {"found":"a","key":"k2"}
        > POST shop/get key=k2 {"code":"b"}
        200 {"found":null,"key":"k2"}
        > rows shop
        events 1, keys 1, workflows 0, item 1, loose 0
        "#,
    );
}

#[test]
fn key_means_the_same_in_all_header_forms() {
    let host = shop();
    let first = host.post("shop", "add", "café", r#"{"code":"a"}"#);
    for key in ["%\"caf%c3%a9\"", "café"] {
        let again = host.post("shop", "add", key, r#"{"code":"a"}"#);
        assert!(again.replayed, "{key}");
        assert_eq!(again.body, first.body);
    }
    let plain = host.post("shop", "add", "k", r#"{"code":"b"}"#);
    assert_eq!(host.post("shop", "add", "\"k\"", r#"{"code":"b"}"#).body, plain.body);
    assert_eq!(host.post("shop", "add", "\"k\"x", r#"{"code":"b"}"#).error(), "KEY_INVALID");
}

#[test]
fn stable_ids_and_random_numbers_repeat_with_the_key_and_only_with_it() {
    let host = shop();
    // The same tenant, operation and key in two hosts: nothing but the key decides.
    let (one, two) = (host.post("shop", "stable", "k", "{}"), shop().post("shop", "stable", "k", "{}"));
    assert_eq!(one.data(), two.data());
    assert_eq!(one.data()["a"], one.data()["again"]);
    assert_ne!(one.data()["a"], one.data()["b"]);
    assert_eq!(one.data()["now"], true);
    assert_eq!(one.data()["a"].as_str().unwrap().as_bytes()[14], b'8', "a UUID of version 8");
    let other = host.post("shop", "stable", "other", "{}").data();
    assert_ne!(other["a"], one.data()["a"]);
    assert_ne!(other["random"], one.data()["random"]);
    let keyless = host.read("shop", "stable", "{}");
    assert_eq!((keyless.status, keyless.error().as_str()), (400, "CONTRACT"));
    assert!(keyless.body.contains("send Idempotency-Key"), "{}", keyless.body);
}

#[test]
fn business_error_carries_its_name_status_and_details() {
    let answer = shop().post("shop", "refuse", "k", r#"{"code":"a"}"#);
    let body = answer.json();
    assert_eq!(answer.status, 409);
    assert_eq!((body["code"].as_i64(), body["error"].as_str()), (Some(1000), Some("CLOSED")));
    assert_eq!(body["details"], json!({ "opens": "monday" }));
    assert_eq!(body["retryable"], false);
    assert!(body["requestId"].is_string());
}

#[test]
fn table_without_the_unique_index_answers_with_the_ddl_to_add() {
    let answer = shop().post("shop", "loose", "k", r#"{"name":"a"}"#);
    assert_eq!((answer.status, answer.error().as_str()), (500, "SCHEMA"));
    assert!(answer.body.contains("CREATE UNIQUE INDEX"), "{}", answer.body);
}

#[test]
fn endless_loop_ends_with_limit_leaves_nothing_and_the_next_call_works() {
    check_shop(
        r#"
        > POST shop/add key=k0 {"code":"a"}
        > POST shop/spin key=k1 {"code":"b"}
        > POST shop/add key=k1 {"code":"c"}
        > sql shop SELECT code FROM item ORDER BY code
        "#,
        r#"
        > POST shop/add key=k0 {"code":"a"}
        200 {"id":"<1>","created":true}
        > POST shop/spin key=k1 {"code":"b"}
        500 LIMIT: the script ran longer than 1 s (limits.handler): do less in one run, or move work to a flow step (shop/handlers/spin.ts:3:3)
        > POST shop/add key=k1 {"code":"c"}
        200 {"id":"<2>","created":true}
        > sql shop SELECT code FROM item ORDER BY code
        ["a"]
        ["c"]
        "#,
    );
}

#[test]
fn undefined_result_is_null() {
    assert_eq!(shop().post("shop", "nothing", "k", "{}").body, r#"{"code":0,"data":null}"#);
}

#[test]
fn replay_after_a_restart_is_byte_for_byte() {
    let mut host = shop();
    let first = host.post("shop", "add", "k1", r#"{"code":"a"}"#);
    host.restart();
    let again = host.post("shop", "add", "k1", r#"{"code":"a"}"#);
    assert!(again.replayed);
    assert_eq!((first.body, first.expires), (again.body, again.expires));
}

#[test]
fn list_of_transient_fields_may_change_between_two_tries() {
    let mut host = shop();
    let body = r#"{"code":"a","at":1}"#;
    let first = host.post("shop", "quiet", "k", body);
    let handler = host.app.settings.plugins.join("shop/handlers/quiet.ts");
    let text = std::fs::read_to_string(&handler).unwrap();
    std::fs::write(&handler, format!("export const config = {{ transient: ['at'] }}\n{text}")).unwrap();
    host.restart();
    let again = host.post("shop", "quiet", "k", body);
    assert_eq!((again.body.as_str(), again.replayed), (first.body.as_str(), true));
    assert_eq!(host.post("shop", "quiet", "k", r#"{"code":"a","at":2}"#).error(), "KEY_REUSED");
}

#[test]
fn key_that_is_used_again_after_its_mark_does_not_hold_up_the_clearing() {
    let host = shop();
    host.post("shop", "quiet", "daily", r#"{"code":"a"}"#).data();
    let day = 24 * 3_600_000;
    host.clock.advance(day);
    host.post("shop", "quiet", "other", r#"{"code":"b"}"#).data();
    host.clock.advance(89 * day);
    host.post("shop", "quiet", "daily", r#"{"code":"c"}"#).data();
    assert_eq!(host.block_on(host.app.clear_expired()).unwrap(), (1, 0));
    host.clock.advance(day);
    assert_eq!(host.block_on(host.app.clear_expired()).unwrap(), (0, 1));
}

#[test]
fn thrown_error_of_an_own_class_is_placed_where_it_is_thrown() {
    let mut all = files(SHOP);
    let handler = "class Own extends Error {}\nclass Told extends Error { constructor(m: string) { super(m); this.name = 'Told' } }\n\
                   export function handle(input: { told: boolean }) {\n  if (input.told) throw new Told('x')\n  throw new Own('y')\n}\n";
    all.push(("shop/handlers/own.ts".to_owned(), handler.to_owned()));
    let host = Host::new(all);
    let place = |body: &str| host.read("shop", "own", body).json()["position"].clone();
    let told = place(r#"{"told":true}"#);
    assert_eq!((&told["line"], &told["code"]), (&json!(4), &json!("if (input.told) throw new Told('x')")));
    assert_eq!(place(r#"{"told":false}"#)["line"], 5);
}

#[test]
fn later_intent_under_a_forgotten_key_publishes_an_event_of_its_own() {
    const DAY: i64 = 86_400_000;
    let host = Host::new(files(
        r#"
//- /tell/plugin.json
{ "id": "tell", "version": "1.0.0", "permissions": ["notify:publish"] }
//- /tell/handlers/say.ts
export const config = { replay: 'rerun' }
export function handle(input: { n: number }) {
  const sent = notify.publish('said', { n: input.n })
  if (!sent.ok) throw sent.error
  return sent.data
}
"#,
    ));
    let say = |n: i64| host.post("tell", "say", "k", &format!(r#"{{"n":{n}}}"#)).data();
    let first = say(1);
    assert_eq!(first["already"], false);
    for wait in [0, 60 * DAY, 29 * DAY] {
        host.clock.advance(wait);
        assert_eq!(say(1), json!({ "eventId": first["eventId"], "already": true }), "a try of the first intent");
    }
    host.clock.advance(2 * DAY);
    let second = say(2);
    assert_eq!(second["already"], false);
    assert_ne!(second["eventId"], first["eventId"]);
    assert_eq!(say(2), json!({ "eventId": second["eventId"], "already": true }));
    assert_eq!(host.count("tell", "_oncehost_events"), 2);
}
