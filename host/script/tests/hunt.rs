//! Hostile calls of every built-in: each must end by itself or at its deadline. They run in a process of their own,
//! so that one that does not end can be stopped and named.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Instant;

use super::*;
use crate::plugin::tests::code_of;

const HUNT: &str = include_str!("hunt.js");
const DEADLINE: Duration = Duration::from_millis(20);
/// How long a call may take all in all: what it was given is made, too, and the machine may be busy.
const BOUND: Duration = Duration::from_secs(2);

fn listed(name: &str) -> Vec<String> {
    let mut bench = Bench::new();
    let text = bench.run(&code(&format!("{HUNT} const handle = () => {name}; {}", export("handle"))), "{}").unwrap();
    serde_json::from_str(&text).unwrap()
}

fn value(text: &str) -> String {
    if text.starts_with('{') { format!("(() => {text})()") } else { format!("({text})") }
}

/// `every`: take each n-th of all calls.
fn calls(every: usize) -> Vec<String> {
    let functions = listed("functions()");
    let values: Vec<_> = listed("values").iter().map(|text| value(text)).collect();
    let mut calls = Vec::new();
    let mut push = |this: &str, function: &str, args: &[&str]| {
        calls.push(format!(
            "const f = {function}; const t = {this}; const a = [{}]; let r; try {{ r = Reflect.apply(f, t, a) }} catch (e) {{ \
             try {{ r = Reflect.construct(f, [t, ...a]) }} catch (e) {{}} }} try {{ r?.next?.() }} catch (e) {{}}",
            args.join(", ")
        ));
    };
    for function in &functions {
        for (index, this) in values.iter().enumerate() {
            push(this, function, &[]);
            for shift in [1, 5, 11, 17, 23, 29] {
                let other = |n: usize| values[(index + shift * n) % values.len()].as_str();
                push(this, function, &[other(1)]);
                push(this, function, &[other(1), other(2), other(3)]);
            }
            push(this, function, &[this]);
            push(this, function, &["'a'.repeat(1e5) + 'b'", "'x'"]);
            push(this, function, &["2 ** 32", "0", "2 ** 52"]);
        }
    }
    calls.into_iter().step_by(every).collect()
}

/// Operators that are applied again and again, `a` and `b` being hostile values.
const OPERATORS: [&str; 24] = [
    "a * b",
    "a / b",
    "a % b",
    "a ** b",
    "a + b",
    "a - b",
    "a << b",
    "a >> b",
    "a & b",
    "a | b",
    "a ^ b",
    "a < b",
    "a >= b",
    "a == b",
    "a === b",
    "a in b",
    "a instanceof b",
    "-a",
    "~a",
    "[...a]",
    "({ ...a, ...b })",
    "f(...a)",
    "[a, ...b]",
    "(([x, ...y]) => y)(a)",
];

fn operations(every: usize) -> Vec<String> {
    let values: Vec<_> = listed("values").iter().map(|text| value(text)).collect();
    let mut lines = Vec::new();
    for operator in OPERATORS {
        for a in &values {
            for b in &values {
                lines.push(format!(
                    "const f = (...all) => all.length; const a = {a}, b = {b}; let y; for (;;) {{ try {{ y = {operator} }} catch {{}} }}"
                ));
            }
        }
    }
    lines.into_iter().step_by(every).collect()
}

/// Runs each line of its input as the body of a handler, and says so. Started by the hunt, never by hand.
#[test]
#[ignore = "the hunt starts it"]
fn hunted() {
    let mut bench = Bench::new();
    bench.limits.time = DEADLINE;
    for line in std::io::stdin().lines() {
        // As the compiler makes it: what it puts in is a part of the guards.
        let source = format!("export const handle = () => {{ {} }}", line.unwrap());
        let _ = bench.run(&Arc::new(code_of(&source)), "{}");
        if bench.engine.is_spent() {
            bench.engine = Engine::new(EngineLimits::default()).unwrap();
        }
        let mut out = std::io::stdout().lock();
        writeln!(out, "@done").unwrap();
    }
}

pub(super) struct Hunted {
    child: Child,
    done: mpsc::Receiver<()>,
}

/// Starts one of the ignored tests as a process of its own.
fn start(test: &str) -> Hunted {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (send, done) = mpsc::channel();
    let out = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            if line.ends_with("@done") && send.send(()).is_err() {
                return;
            }
        }
    });
    Hunted { child, done }
}

/// Has the lines run by `test` in a process of its own; gives those that did not end within the bound, or ended the process.
pub(super) fn hunt(test: &str, bound: Duration, calls: &[String]) -> Vec<String> {
    let mut caught = Vec::new();
    let mut hunted = start(test);
    for call in calls {
        let began = Instant::now();
        let sent = writeln!(hunted.child.stdin.as_mut().unwrap(), "{call}");
        let ended = sent.is_ok() && hunted.done.recv_timeout(bound).is_ok();
        if !ended {
            let _ = hunted.child.kill();
            let how = hunted.child.wait().unwrap();
            caught.push(format!("{:?}, {how} {call}", began.elapsed()));
            hunted = start(test);
        }
    }
    drop(hunted.child.stdin.take());
    let _ = hunted.child.wait();
    caught
}

fn check(calls: Vec<String>) {
    let caught = hunt("script::tests::hunt::hunted", BOUND, &calls);
    assert!(caught.is_empty(), "{} of {}:\n{}", caught.len(), calls.len(), caught.join("\n"));
}

#[test]
fn no_builtin_outlives_its_deadline() {
    check(calls(1999));
}

/// The same with far more of them, for a change of the guards or of the engine.
#[test]
#[ignore = "takes the better part of an hour"]
fn no_builtin_outlives_its_deadline_long() {
    check(calls(13));
}

/// What somebody who knows the engine would try: re-entrance, buffers that shrink meanwhile, proxies and accessors in
/// whatever the host reads, depths, and texts, patterns and numbers at which a built-in takes long.
fn tricks(every: usize) -> Vec<String> {
    include_str!("tricks.txt").lines().step_by(every).map(str::to_owned).collect()
}

#[test]
fn no_trick_outlives_its_deadline() {
    check(tricks(4));
}

#[test]
#[ignore = "takes some minutes"]
fn no_trick_outlives_its_deadline_long() {
    check(tricks(1));
}

#[test]
fn no_operator_outlives_its_deadline() {
    check(operations(1999));
}

#[test]
#[ignore = "takes the better part of an hour"]
fn no_operator_outlives_its_deadline_long() {
    check(operations(97));
}
