//! Snippets that loop, recurse, eat, lie or break in: each ends clearly and in bounded time, and the next call works.

use super::*;
use crate::plugin::tests::compiled;

fn ends(outcome: &Result<String, ScriptError>) -> &'static str {
    match outcome {
        Ok(_) => "fine",
        Err(ScriptError::Limit { what, .. }) => match what.as_str() {
            what if what.contains("limits.handler") => "time",
            what if what.contains("limits.memory") => "memory",
            what if what.contains("limits.stack") => "stack",
            what if what.contains("limits.hostCalls") => "calls",
            what if what.contains("limits.result") => "result",
            what if what.contains("levels") => "depth",
            what if what.contains("65,536 bits") => "bigint",
            what => panic!("a limit without a name: {what}"),
        },
        Err(ScriptError::Host(failure)) if failure.code == Name::Contract => "contract",
        Err(ScriptError::Host(failure)) if failure.code == Name::Limit => "limit",
        Err(ScriptError::Thrown { message, stack, .. }) => {
            assert!(message.len() <= 16_000 && stack.len() <= 16_000, "unbounded: {message}");
            "thrown"
        }
        Err(ScriptError::Business { .. } | ScriptError::Discard { .. } | ScriptError::Host(_)) => "other",
    }
}

fn fits(expected: &str, got: &str) -> bool {
    expected == got
        || (expected == "limit" && ["time", "memory", "stack", "calls", "result", "depth", "bigint"].contains(&got))
}

/// How long this thread has had a processor: what goes by is more, on a busy machine.
fn processor_time() -> Duration {
    let had = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(had.split_whitespace().next().unwrap().parse().unwrap())
}

#[test]
fn every_hostile_snippet_ends_clearly_and_the_next_call_works() {
    let snippets: Vec<_> = include_str!("hostile.txt")
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| line.split_once(" | ").unwrap())
        .collect();
    assert!(snippets.len() >= 150);
    let small = EngineLimits { memory: 32 << 20, ..EngineLimits::default() };
    let mut bench = Bench::with(small.clone());
    let mut wrong = Vec::new();
    for (expected, body) in snippets {
        // Where memory is to run out first, time must not.
        let time = if matches!(expected, "time" | "limit") { 50 } else { 60_000 };
        bench.limits.time = Duration::from_millis(time);
        let before = processor_time();
        // As the compiler makes it, whose ticks are a part of the guards; what it refuses is tried as it is.
        let compiled = compiled(&format!("export function handle(input, ctx) {{ {body} }}"));
        let code = compiled.map_or_else(|| handler(&format!("(input, ctx) => {{ {body} }}")), Arc::new);
        let outcome = bench.run(&code, "{}");
        let took = processor_time() - before;
        if !fits(expected, ends(&outcome)) || (expected == "time" && took > Duration::from_secs(3)) {
            wrong.push(format!("{expected}, {took:?}: {body}\n    {outcome:?}"));
        }
        if bench.engine.is_spent() {
            bench.engine = Engine::new(small.clone()).unwrap();
        }
        bench.limits.time = Duration::from_secs(10);
        assert_eq!(bench.handle("() => 'next'").unwrap(), r#""next""#, "after {body}");
    }
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n"));
}
