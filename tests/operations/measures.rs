//! What a host says about itself in numbers.

use super::{body, shop};
use crate::flows::until;

fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')));
    line.unwrap_or_else(|| panic!("no {series} in\n{text}")).rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn metrics_count_what_calls_came_to() {
    let folders = shop();
    let host = folders.dev();
    host.post("shop", "add", "key-77", &body("code-77")).data();
    assert!(host.post("shop", "add", "key-77", &body("code-77")).replayed);
    assert_eq!(host.post("shop", "add", "key-77", &body("other")).error(), "KEY_REUSED");
    assert_eq!(host.post("shop", "refuse", "r", &body("r")).status, 409);
    assert_eq!(host.post("shop", "spin", "s", &body("s")).error(), "LIMIT");
    assert_eq!(host.post("shop", "no-such", "n", &body("n")).status, 404);
    let answer = host.get("/metrics");
    assert_eq!((answer.status, answer.content_type.as_str()), (200, "text/plain; version=0.0.4; charset=utf-8"));
    let text = answer.body;
    let calls = |action: &str, outcome: &str| {
        value(&text, &format!(r#"oncehost_calls_total{{plugin="shop",action="{action}",outcome="{outcome}"}}"#))
    };
    assert_eq!(calls("add", "ok"), 1.0);
    assert_eq!(calls("add", "replayed"), 1.0);
    assert_eq!(calls("add", "KEY_REUSED"), 1.0);
    assert_eq!(calls("refuse", "refused"), 1.0);
    assert_eq!(calls("spin", "LIMIT"), 1.0);
    assert_eq!(value(&text, r#"oncehost_calls_total{plugin="",action="",outcome="NOT_FOUND"}"#), 1.0);
    assert!(value(&text, r#"oncehost_commit_seconds_count{plugin="shop"}"#) >= 1.0);
    assert!(value(&text, r#"oncehost_script_seconds_sum{plugin="shop"}"#) >= 1.0, "the handler that spun for a second");
    // The host's own work may wait there for a moment.
    let depth = || value(&host.get("/metrics").body, r#"oncehost_queue_depth{plugin="shop",lane="write"}"#);
    until(depth, |depth| *depth == 0.0);
    assert!(value(&text, "process_open_fds") > 3.0);
    for secret in ["key-77", "code-77", "tenant", "\"dev\""] {
        assert!(!text.contains(secret), "{secret} in\n{text}");
    }
}
