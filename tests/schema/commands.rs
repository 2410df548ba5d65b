//! What `schema plan`, `status` and `apply` say, and what they leave alone.

use super::*;

const ONE: &str = "CREATE TABLE event (id TEXT PRIMARY KEY, title TEXT);\n";

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The command ends with this code and says all of this; what it said.
#[track_caller]
fn ends(output: &Output, code: i32, says: &[&str]) -> String {
    let said = said(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for part in says {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
    said
}

#[test]
fn plugin_that_does_not_load_is_named_with_its_faults() {
    let lane = Lane::new(On::Sqlite, 1);
    let bad = "CREATE TABLE a (id TEXT PRIMARY KEY);\nCREATE INDEX i ON a (idd);\nDROP TABLE b;\n";
    let write = |file: &str, text: &str| {
        let folder = lane.folders.plugins().join("bad");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(file), text).unwrap();
    };
    write("plugin.json", r#"{ "id": "bad", "version": "1.0.0", "permissions": [] }"#);
    write("schema.sql", bad);
    for verb in ["plan", "apply"] {
        let told = lane.run(&["schema", verb, "bad", "--allow-destructive", "a.gone"], None);
        ends(&told, 1, &["bad/schema.sql:2: ", "does not load"]);
    }
    for verb in ["plan", "status", "apply"] {
        let says = ["bad/schema.sql:2: ", "did you mean id?", "bad/schema.sql:3: ", "does not load"];
        let all = ends(&lane.run(&["schema", verb], None), 1, &says);
        assert!(all.contains("\nlane\n") || all.starts_with("lane\n"), "the others are heard of: {all}");
        let one = ends(&lane.run(&["schema", verb, "bad"], None), 1, &says);
        assert!(!one.contains("lane\n"), "{one}");
        ends(&lane.run(&["schema", verb, "lane"], None), 0, &["lane"]);
        ends(&lane.run(&["schema", verb, "lan"], None), 1, &["did you mean \"lane\"?"]);
    }
}

#[test]
fn plan_and_status_make_nothing() {
    for on in both() {
        let lane = Lane::new(on, 1);
        ends(&lane.run(&["schema", "plan"], None), 0, &["CREATE TABLE \"lane_change_event\""]);
        ends(&lane.run(&["schema", "status"], None), 0, &["are to be applied", "table lane_change_event is new"]);
        assert!(!lane.folders.data().exists());
        if let On::Postgres(name) = &lane.on {
            let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname IN ('lane', 'host')";
            let found = postgres::cluster().psql(name, schemas);
            assert_eq!(String::from_utf8_lossy(&found.stdout).trim(), "0");
        }
    }
}

#[test]
fn status_says_what_differs() {
    for on in both() {
        let lane = Lane::new(on, 1);
        lane.set(ONE);
        ends(&lane.run(&["schema", "apply"], None), 0, &["version 1"]);
        ends(&lane.run(&["schema", "status"], None), 0, &["as schema.sql wants it"]);
        lane.set(&ONE.replace("title TEXT", "title TEXT NOT NULL, n INTEGER"));
        let told =
            ends(&lane.run(&["schema", "status"], None), 0, &["column n is new", "column title is NOT NULL now"]);
        assert!(!told.contains("hand"), "{told}");
        lane.sql("ALTER TABLE event DROP COLUMN title");
        let says = [
            "changed by other hands",
            "column title is gone",
            "to apply:",
            "column title is new (this was changed by hand)",
        ];
        ends(&lane.run(&["schema", "status"], None), 0, &says);
    }
}

#[test]
fn unknown_name_of_what_may_be_lost_is_refused() {
    let lane = Lane::new(On::Sqlite, 1);
    lane.set(ONE);
    ends(&lane.run(&["schema", "apply"], None), 0, &[]);
    lane.set("CREATE TABLE event (id TEXT PRIMARY KEY);");
    let apply = |name: &str, verb: &str| lane.run(&["schema", verb, "--allow-destructive", name], None);
    for verb in ["plan", "apply"] {
        ends(&apply("event.titel", verb), 2, &["--allow-destructive event.titel", "did you mean \"event.title\"?"]);
    }
    ends(&apply("event.title", "apply"), 0, &["version 2"]);
    ends(&apply("event.title", "apply"), 0, &["nothing to do"]);
}

#[test]
fn dropped_table_of_the_host_is_told_and_made_again_when_allowed() {
    for on in both() {
        let lane = Lane::new(on, 1);
        lane.set(ONE);
        ends(&lane.run(&["schema", "apply"], None), 0, &[]);
        lane.sql("DROP TABLE _oncehost_keys");
        lane.sql("DROP INDEX _oncehost_deliveries_due");
        let gone = "the host's own table _oncehost_keys is gone";
        let way_out = ["oncehost restore", "--allow-destructive _oncehost_keys", "retry of it runs again"];
        ends(&lane.run(&["schema", "status"], None), 0, &[gone, "index _oncehost_deliveries_due is gone"]);
        ends(&lane.run(&["schema", "plan"], None), 1, &[&[gone], way_out.as_slice()].concat());
        ends(&lane.run(&["schema", "apply"], None), 1, &way_out);
        assert!(said(&lane.run(&["doctor"], None)).contains(gone));
        let allow = ["schema", "apply", "--allow-destructive", "_oncehost_keys"];
        ends(&lane.run(&allow, None), 0, &["applied"]);
        ends(&lane.run(&["schema", "status"], None), 0, &["as schema.sql wants it"]);
    }
}

#[test]
fn overflow_in_a_check_names_the_check_on_postgres() {
    let [_, on] = both();
    let lane = Lane::new(on, 1);
    lane.set("CREATE TABLE cube (id TEXT PRIMARY KEY, m INTEGER CHECK (m * m * m > -1));");
    ends(&lane.run(&["schema", "apply"], None), 0, &["version 1"]);
    let folder = lane.folders.plugins().join("lane");
    std::fs::create_dir_all(folder.join("handlers/lane")).unwrap();
    let manifest = r#"{ "id": "lane", "version": "1.0.0", "permissions": ["data:write"] }"#;
    std::fs::write(folder.join("plugin.json"), manifest).unwrap();
    let handler = "export function handle(row: any): any {\n  const made = store.createIfAbsent('cube', row, ['id'])\n  \
                   if (!made.ok) throw made.error\n}\n";
    std::fs::write(folder.join("handlers/lane/op.ts"), handler).unwrap();
    let make = |input: &str| lane.run(&["invoke", "lane", "lane.op", "--tenant", "acme", "--input", input], None);
    ends(&make(r#"{ "id": "1", "m": 9 }"#), 0, &[]);
    let says = ["CONSTRAINT", "an integer passes 64 bits where CHECK (", " of schema.sql is computed"];
    ends(&make(r#"{ "id": "2", "m": 1099511627776 }"#), 1, &says);
}
