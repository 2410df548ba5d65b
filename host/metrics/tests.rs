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
