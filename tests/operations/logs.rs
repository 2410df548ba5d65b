//! What a host writes about its work: log lines and spans.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::{Value as Json, json};

use super::shop;
use crate::support::host::{answer, ureq_agent};
use crate::support::process::{Folders, Process};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn talker() -> Folders {
    Folders::new([
        ("talk/plugin.json", r#"{ "id": "talk", "version": "1.0.0", "permissions": [] }"#),
        ("talk/handlers/say.ts", "export function handle(input: any) { console.warn('said', input.word); return 1 }\n"),
        ("talk/handlers/fall.ts", "export function handle() { throw new Error('fell') }\n"),
    ])
}

/// Calls an action with all that a caller may say about itself, stops the host, and gives its log.
fn logged(folders: &Folders, filter: &str, action: &str) -> Vec<Json> {
    let path = folders.data().with_file_name("log");
    let host = Process::logging(folders.command(&["dev", "--log", filter]), File::create(&path).unwrap().into());
    let request = ureq_agent()
        .post(format!("{}/plugins/talk/invoke/{action}?token=sesame", host.url))
        .header("Content-Type", "application/json")
        .header("Idempotency-Key", "hidden-key")
        .header("X-Tenant-Id", "acme")
        .header("X-Request-Id", "request-7")
        .header("traceparent", PARENT);
    answer(request.send(r#"{"word":"hello","pin":"hidden-input"}"#).unwrap());
    assert!(host.terminate().success());
    let text = fs::read_to_string(path).unwrap();
    for secret in ["hidden-key", "hidden-input", "sesame"] {
        assert!(!text.contains(secret), "{text}");
    }
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

#[track_caller]
fn line<'l>(lines: &'l [Json], target: &str) -> &'l Json {
    let mut found = lines.iter().filter(|line| line["target"] == target);
    let first = found.next().unwrap_or_else(|| panic!("no line of {target} in {lines:#?}"));
    assert!(found.next().is_none(), "one line of {target}: {lines:#?}");
    first
}

#[test]
fn line_of_a_script_says_which_run_wrote_it() {
    let folders = talker();
    for (action, message) in [("say", "said hello"), ("fall", "the handler threw: Error: fell")] {
        let lines = logged(&folders, "script=info", action);
        let line = line(&lines, "script");
        assert!(line["message"].as_str().unwrap().starts_with(message), "{line}");
        assert_eq!(line["plugin"], "talk");
        assert_eq!(line["action"], action);
        assert_eq!(line["tenant"], "acme");
        assert_eq!(line["request_id"], "request-7");
        assert_eq!(line["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(line["invocation"].as_str().unwrap().len(), 36);
    }
}

#[test]
fn access_line_tells_all_of_a_call_but_its_secrets() {
    let folders = talker();
    let lines = logged(&folders, "error,access=debug", "say");
    let line = line(&lines, "access");
    assert_eq!((&line["method"], &line["path"]), (&json!("POST"), &json!("/plugins/talk/invoke/say")));
    assert_eq!((&line["status"], &line["outcome"]), (&json!(200), &json!("ok")));
    assert_eq!((&line["plugin"], &line["action"], &line["tenant"]), (&json!("talk"), &json!("say"), &json!("acme")));
    assert_eq!(line["request_id"], "request-7");
    assert!(line["elapsed_us"].as_u64().is_some());
}

#[test]
fn spans_of_a_call_reach_the_collector_under_the_callers_trace() {
    let folders = shop();
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = folders.command(&["dev", "--apply-schema"]);
    command.env("ONCEHOST_OTLP_ENDPOINT", format!("http://{}", collector.local_addr().unwrap()));
    let host = Process::start(command);
    let request = ureq_agent()
        .post(format!("{}/plugins/shop/invoke/add", host.url))
        .header("Content-Type", "application/json")
        .header("traceparent", PARENT);
    assert_eq!(answer(request.send(r#"{"code":"a"}"#).unwrap()).status, 200);
    // A stop sends what is there.
    let stopping = std::thread::spawn(|| host.terminate());
    let mut spans: Vec<Json> = Vec::new();
    while spans.len() < 2 {
        let (mut stream, _) = collector.accept().unwrap();
        let mut text = String::new();
        let mut piece = [0; 4096];
        while !text.ends_with("]}]}]}") {
            let read = stream.read(&mut piece).unwrap();
            text.push_str(std::str::from_utf8(&piece[..read]).unwrap());
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
        let body: Json = serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
        spans.extend(body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone());
    }
    assert!(stopping.join().unwrap().success());
    let (handler, call) = (&spans[0], &spans[1]);
    assert_eq!((&handler["name"], &call["name"]), (&json!("handler"), &json!("POST /plugins/shop/invoke/add")));
    assert_eq!(call["parentSpanId"], "00f067aa0ba902b7");
    assert_eq!(handler["parentSpanId"], call["spanId"]);
    for span in [handler, call] {
        assert_eq!(span["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
    }
}

#[test]
fn limits_of_a_plugin_cut_its_log_lines_and_end_its_reads() {
    let folders = Folders::new([
        (
            "lim/plugin.json",
            r#"{ "id": "lim", "version": "1.0.0", "permissions": [], "limits": { "read": "40ms", "logLine": "64B" } }"#,
        ),
        ("lim/handlers/say.ts", "export function handle() { console.info('é'.repeat(1000)); return 1 }\n"),
        (
            "lim/handlers/spin.ts",
            "export const config = { kind: 'read' }\nexport function handle() { while (true) {} }\n",
        ),
    ]);
    let path = folders.data().with_file_name("log");
    let log = File::create(&path).unwrap().into();
    let host = Process::logging(folders.command(&["dev", "--log", "script=info"]), log);
    assert_eq!(host.post("lim", "say", "k", "{}").data(), json!(1));
    let spun = host.post("lim", "spin", "k", "{}");
    assert_eq!(spun.error(), "LIMIT");
    assert!(spun.json()["detail"].as_str().unwrap().contains("longer than 40 ms"), "{}", spun.body);
    assert!(host.terminate().success());
    let text = fs::read_to_string(path).unwrap();
    let said = text.lines().find(|line| line.contains('é')).unwrap();
    let said: Json = serde_json::from_str(said).unwrap();
    let bytes = said["message"].as_str().unwrap().matches('é').count() * 2;
    assert!((2..=64).contains(&bytes), "{said}");
}
