//! What is kept, and for how long.

use std::time::Duration;

use oncehost::config::Settings;

use super::scenario;

#[test]
fn ended_deliveries_and_relayed_events_go_in_time_and_dead_letters_stay() {
    scenario(
        r#"> event heard id=1
        > event refused id=2
        > POST ear/say-two key=k {"text":"x"}
        > drain
        > advance 6d
        > clear-events
        > sql ear SELECT state, count(*) FROM _oncehost_deliveries GROUP BY 1
        > advance 2d
        > clear-events
        > sql ear SELECT state, count(*) FROM _oncehost_deliveries GROUP BY 1
        > rows ear
        > advance 30d
        > clear-events
        > rows ear
        > event heard id=1
        > drain
        > rows ear"#,
        r#"> event heard id=1
        202 {"eventId":"<1>","already":false}
        > event refused id=2
        202 {"eventId":"<2>","already":false}
        > POST ear/say-two key=k {"text":"x"}
        200 null
        > drain
        > advance 6d
        > clear-events
        1 rows
        > sql ear SELECT state, count(*) FROM _oncehost_deliveries GROUP BY 1
        ["dead",1]
        ["done",6]
        > advance 2d
        > clear-events
        6 rows
        > sql ear SELECT state, count(*) FROM _oncehost_deliveries GROUP BY 1
        ["dead",1]
        > rows ear
        events 2, keys 7, workflows 0, also 3, heard 3, switch 0
        > advance 30d
        > clear-events
        4 rows
        > rows ear
        events 0, keys 7, workflows 0, also 3, heard 3, switch 0
        > event heard id=1
        202 {"eventId":"<1>","already":false}
        > drain
        > rows ear
        events 0, keys 7, workflows 0, also 3, heard 3, switch 0"#,
    );
}

#[test]
fn deliveries_that_would_outlive_their_marks_are_refused() {
    let env = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let merged = |deliveries: &str, marks: &str| {
        let env = [env("ONCEHOST_DELIVERIES_KEPT", deliveries), env("ONCEHOST_MARK_KEPT", marks)];
        Settings::merge(None, &env, &[])
    };
    assert_eq!(merged("30d", "30d").unwrap().deliveries_kept, Duration::from_secs(30 * 86400));
    let why = merged("31d", "30d").unwrap_err().to_string();
    assert!(why.contains("deliveries_kept") && why.contains("done twice"), "{why}");
}
