//! What a host says about itself in numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{body, shop};

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
    assert_eq!(value(&text, r#"oncehost_queue_depth{plugin="shop",lane="write"}"#), 0.0);
    assert!(value(&text, "process_open_fds") > 3.0);
    for secret in ["key-77", "code-77", "tenant", "\"dev\""] {
        assert!(!text.contains(secret), "{secret} in\n{text}");
    }
}

/// Names of metrics with those of their labels, as the table in docs/operations.md has them.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operations.md")).unwrap();
    let table = text.split("\n## Metrics").nth(1).unwrap().split("\n## ").next().unwrap().to_owned();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let words = rows.flat_map(|row| {
        row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()
    });
    words
        .map(|word| {
            let (name, labels) = word.split_once('{').unwrap_or((&word, ""));
            let labels = labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty());
            (name.to_owned(), labels.map(str::to_owned).collect())
        })
        .collect()
}

#[test]
fn documentation_names_each_metric_with_its_labels_and_no_other() {
    let folders = shop();
    let host = folders.dev();
    host.post("shop", "fail-late", "f", r#"{"code":"f","fail":false}"#).data();
    assert_eq!(host.post("shop", "spin", "s", &body("s")).error(), "LIMIT");
    let text = host.get("/metrics").body;
    let known = documented();
    let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let mut found = BTreeSet::new();
    for (name, kind) in kinds.filter_map(|line| line.split_once(' ')) {
        assert!(known.contains_key(name), "docs/operations.md has no row for {name} ({kind})");
        found.insert(name.to_owned());
    }
    let missing: Vec<_> = known.keys().filter(|name| !found.contains(*name)).collect();
    assert!(missing.is_empty(), "docs/operations.md names {missing:?}, which /metrics does not have");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, rest)) = line.split_once('{') else { continue };
        let ends = ["", "_bucket", "_sum", "_count"];
        let name = ends.iter().filter_map(|end| series.strip_suffix(end)).find(|name| known.contains_key(*name));
        let labels = rest.split_once('}').unwrap().0.split("\",");
        let labels: BTreeSet<String> =
            labels.map(|label| label.split_once('=').unwrap().0.to_owned()).filter(|label| label != "le").collect();
        assert_eq!(known[name.unwrap_or_else(|| panic!("{series}"))], labels, "{line}");
    }
}
