use std::collections::{BTreeMap, BTreeSet};

use super::*;

fn line<'t>(text: &'t str, start: &str) -> &'t str {
    text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no {start} in\n{text}"))
}

#[test]
fn calls_are_counted_by_plugin_action_and_outcome() {
    let metrics = Metrics::default();
    let shop = metrics.plugin("shop");
    shop.call("add", Outcome::Ok);
    shop.call("add", Outcome::Ok);
    metrics.plugin("shop").call("add", Outcome::Replayed);
    shop.call("get", Outcome::Failed(Code::Limit));
    metrics.turned_away(Code::NotFound);
    let text = metrics.text(&Standing::default());
    let calls = |labels: &str| line(&text, &format!("oncehost_calls_total{{{labels}}}"));
    assert!(calls(r#"plugin="shop",action="add",outcome="ok""#).ends_with(" 2"));
    assert!(calls(r#"plugin="shop",action="add",outcome="replayed""#).ends_with(" 1"));
    assert!(calls(r#"plugin="shop",action="get",outcome="LIMIT""#).ends_with(" 1"));
    assert!(calls(r#"plugin="",action="",outcome="NOT_FOUND""#).ends_with(" 1"));
}

#[test]
fn every_outcome_has_a_counter_of_its_own() {
    let all = [Outcome::Ok, Outcome::Replayed, Outcome::Refused];
    let all = all.into_iter().chain(Code::ALL.map(Outcome::Failed));
    let indices: Vec<usize> = all.map(Outcome::index).collect();
    assert_eq!(indices, (0..Outcome::COUNT).collect::<Vec<_>>());
}

#[test]
fn lanes_show_as_they_stand_when_asked() {
    let metrics = Metrics::default();
    let lane = LaneStanding { plugin: "shop".to_owned(), waiting: [3, 0], threads: [1, 0], reliefs: 0 };
    let standing = Standing { lanes: vec![lane], plugins_loaded: 1, plugins_broken: 2, spans_dropped: None };
    let text = metrics.text(&standing);
    assert!(line(&text, r#"oncehost_queue_depth{plugin="shop",lane="write"}"#).ends_with(" 3"));
    assert!(line(&text, "oncehost_lanes_open").ends_with(" 1"));
    assert!(line(&text, "oncehost_plugins_broken").ends_with(" 2"));
    assert!(!metrics.text(&Standing::default()).contains("oncehost_queue_depth{"));
}

#[test]
fn names_follow_the_conventions_and_units_stand_in_them() {
    let metrics = Metrics::default();
    let shop = metrics.plugin("shop");
    shop.ran(Duration::from_millis(3), &["time"]);
    shop.committed(7, Duration::from_micros(100));
    shop.waited(Duration::from_secs(1));
    shop.relieved();
    metrics.cleared(5, 1);
    metrics.reloaded(true);
    let text = metrics.text(&Standing::default());
    for (start, end) in [
        (r#"oncehost_script_seconds_count{plugin="shop"}"#, " 1"),
        (r#"oncehost_commit_seconds_count{plugin="shop"}"#, " 1"),
        (r#"oncehost_commit_group_size_sum{plugin="shop"}"#, " 7.0"),
        (r#"oncehost_key_wait_seconds_sum{plugin="shop"}"#, " 1.0"),
        (r#"oncehost_watchdog_reliefs_total{plugin="shop"}"#, " 1"),
        (r#"oncehost_cleared_total{kind="reply"}"#, " 5"),
        (r#"oncehost_reloads_total{result="ok"}"#, " 1"),
        (concat!(r#"oncehost_build_info{version=""#, env!("CARGO_PKG_VERSION"), r#""}"#), " 1"),
    ] {
        assert!(line(&text, start).ends_with(end), "{}", line(&text, start));
    }
    for name in ["process_resident_memory_bytes", "process_open_fds", "process_cpu_seconds_total"] {
        let value: f64 = line(&text, name).rsplit(' ').next().unwrap().parse().unwrap();
        assert!(value >= 0.0, "{name}");
    }
}

/// Names of metrics with those of their labels, as the table in docs/operations.md has them.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let text = include_str!("../../docs/operations.md");
    let table = text.split("\n## Metrics").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let words = rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2));
    words
        .map(|word| {
            let (name, labels) = word.split_once('{').unwrap_or((word, ""));
            let labels = labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty());
            (name.to_owned(), labels.map(str::to_owned).collect())
        })
        .collect()
}

/// The same as they are written. A family without a value is left out there.
fn written(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .map(|line| (line.split(' ').next().unwrap().to_owned(), BTreeSet::new()))
        .collect();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, rest)) = line.split_once('{') else { continue };
        let ends = ["", "_bucket", "_sum", "_count"];
        let name = ends.iter().filter_map(|end| series.strip_suffix(end)).find(|name| found.contains_key(*name));
        let labels =
            rest.split_once('}').unwrap().0.split("\",").map(|label| label.split('=').next().unwrap().to_owned());
        found.get_mut(name.unwrap()).unwrap().extend(labels.filter(|label| label != "le"));
    }
    found
}

#[test]
fn documentation_names_each_metric_with_its_labels_and_no_other() {
    let metrics = Metrics::default();
    let shop = metrics.plugin("shop");
    shop.call("add", Outcome::Ok);
    shop.ran(Duration::from_millis(3), &["time"]);
    shop.committed(7, Duration::from_micros(100));
    shop.waited(Duration::from_secs(1));
    shop.relieved();
    shop.ran_again();
    shop.flows(&[("started", 1)], &[("done", 1)]);
    shop.troubled(&[]);
    metrics.cleared(5, 1);
    metrics.accepted(true);
    metrics.relayed(1);
    metrics.delivered("shop", "done", 1);
    metrics.reloaded(true);
    let lane = LaneStanding { plugin: "shop".to_owned(), ..LaneStanding::default() };
    let standing = Standing { lanes: vec![lane], spans_dropped: Some(1), ..Standing::default() };
    let text = metrics.text(&standing);
    assert_eq!(written(&text), documented());
}
