//! `schema apply` by the built binary, killed on the way: the database is as before or as after, nothing between, and
//! applying again works (issue of interrupted migrations).

use std::path::PathBuf;
use std::process::{Output, Stdio};

use rusqlite::Connection;
use serde_json::Value as Json;

use crate::support::process::Folders;

/// A version of `tests/schema/lane-change`, counted from 1.
fn version(number: usize) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/schema/lane-change");
    std::fs::read_to_string(folder.join(format!("v{number}.sql"))).unwrap()
}

fn folders(from: usize) -> Folders {
    Folders::new([
        ("lane/plugin.json", r#"{ "id": "lane", "version": "1.0.0", "permissions": [] }"#.to_owned()),
        ("lane/schema.sql", version(from)),
    ])
}

/// Runs `schema VERB lane`, allowing what the plan asks to be allowed; killed at `point` where one is given.
fn schema(folders: &Folders, verb: &str, allow: &[String], point: Option<&str>) -> Output {
    let mut command = folders.command(&["schema", verb, "lane", "--json"]);
    command.args(allow.iter().flat_map(|name| ["--allow-destructive", name])).stdin(Stdio::null());
    if let Some(point) = point {
        command.env("ONCEHOST_CRASH_AT", point);
    }
    command.output().unwrap()
}

fn told(output: &Output) -> Json {
    let err = String::from_utf8_lossy(&output.stderr);
    let told: Json = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {err}"));
    told["plugins"][0].clone()
}

fn allowed(folders: &Folders) -> Vec<String> {
    let plan = told(&schema(folders, "plan", &[], None));
    let refusals = plan["plan"]["refusals"].as_array().unwrap().iter();
    refusals.map(|refusal| refusal["allow"].as_str().unwrap_or_else(|| panic!("{refusal}")).to_owned()).collect()
}

/// All definitions, and all rows but the host's own.
fn whole(conn: &Connection) -> Vec<String> {
    let texts = |sql: &str| -> Vec<String> {
        let mut statement = conn.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(texts("PRAGMA integrity_check"), ["ok"]);
    let mut all = texts("SELECT name || ': ' || sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name");
    for table in texts(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '\\_oncehost%' ESCAPE '\\' AND name NOT LIKE 'sqlite%' ORDER BY name",
    ) {
        let mut statement = conn.prepare(&format!("SELECT * FROM \"{table}\" ORDER BY 1, 2")).unwrap();
        let width = statement.column_count();
        let row = |row: &rusqlite::Row| -> rusqlite::Result<String> {
            let cells: Vec<String> = (0..width).map(|at| format!("{:?}", row.get_ref(at).unwrap())).collect();
            Ok(format!("{table}: {}", cells.join(" ")))
        };
        all.extend(statement.query_map([], row).unwrap().map(Result::unwrap));
    }
    all
}

/// Rows of a table that every version has, under its old or its new name.
fn fill(conn: &Connection, from: usize) {
    let obj = if from < 3 { "obj" } else { "obj_id" };
    for at in 0..200 {
        conn.execute(
            &format!(
                "INSERT INTO lane_change_event (tenant_id, id, event_key, {obj}, lane_from, lane_to, speed, created_at) \
                 VALUES ('acme', ?1, ?1, 'car', ?2, ?2 + 1, ?2 * 2, '2026-01-02T03:04:05.678Z')"
            ),
            (format!("e{at}"), at),
        )
        .unwrap();
    }
}

/// Kills `schema apply` behind each statement in turn, then before and behind the commit.
fn killed_everywhere(from: usize, to: usize) {
    let folders = folders(from);
    assert!(schema(&folders, "apply", &[], None).status.success());
    fill(&folders.database("lane"), from);
    let before = whole(&folders.database("lane"));
    std::fs::write(folders.plugins().join("lane/schema.sql"), version(to)).unwrap();
    let allow = allowed(&folders);
    let plan = told(&schema(&folders, "plan", &allow, None));
    assert_eq!(plan["refused"], false, "{plan:#}");
    let steps = plan["plan"]["steps"].as_array().unwrap();
    let statements: usize = steps.iter().map(|step| step["sql"].as_array().unwrap().len()).sum();
    let within = (1..=statements).map(|nth| format!("schema-statement:{nth}"));
    for point in within.chain(["schema-before-commit".to_owned()]) {
        let killed = schema(&folders, "apply", &allow, Some(&point));
        assert_eq!((killed.status.code(), killed.stdout.len()), (None, 0), "{point} kills");
        assert_eq!(whole(&folders.database("lane")), before, "{point}");
    }
    let killed = schema(&folders, "apply", &allow, Some("schema-after-commit"));
    assert_eq!(killed.status.code(), None);
    let after = whole(&folders.database("lane"));
    assert_ne!(after, before);
    let again = schema(&folders, "apply", &allow, None);
    assert!(again.status.success(), "{again:?}");
    assert_eq!(told(&again)["applied"]["version"], 2, "it was counted once");
    assert_eq!(whole(&folders.database("lane")), after);
    assert_eq!(told(&schema(&folders, "status", &[], None))["status"]["state"], "equal");
}

#[test]
fn added_columns_are_all_there_or_none_after_a_kill() {
    killed_everywhere(1, 2);
}

#[test]
fn destructive_rebuild_is_whole_or_not_at_all_after_a_kill() {
    killed_everywhere(1, 4);
}

#[test]
fn apply_killed_on_the_way_succeeds_when_run_again() {
    let folders = folders(3);
    assert!(schema(&folders, "apply", &[], None).status.success());
    fill(&folders.database("lane"), 3);
    std::fs::write(folders.plugins().join("lane/schema.sql"), version(4)).unwrap();
    let allow = allowed(&folders);
    assert_eq!(schema(&folders, "apply", &allow, Some("schema-statement:3")).status.code(), None);
    let again = schema(&folders, "apply", &allow, None);
    assert!(again.status.success(), "{again:?}");
    let database = folders.database("lane");
    let rows: i64 =
        database.query_row("SELECT count(*) FROM event WHERE speed = lane_from * 2", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 200);
}

/// `oncehost invoke s op`, with whatever the plugin's version in the folder now is; gives what was printed.
fn op(folders: &Folders, tenant: &str, input: &str) -> (bool, String) {
    let mut command = folders.command(&["invoke", "s", "s.op", "--tenant", tenant, "--input", input]);
    let ended = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (ended.status.success(), text(&ended.stdout) + &text(&ended.stderr))
}

#[test]
fn table_whose_change_is_not_applied_is_not_used() {
    let manifest = |more: &str| {
        format!(r#"{{ "id": "s", "version": "1.0.0", "permissions": ["data:read", "data:write"]{more} }}"#)
    };
    let table = |column: &str| {
        format!("CREATE TABLE a (id TEXT PRIMARY KEY, {column});\nCREATE TABLE b (id TEXT PRIMARY KEY);")
    };
    let handler = "export function handle({ call, args }: { call: string; args: any[] }) {\n  \
                   const result = (store as any)[call](...args)\n  if (!result.ok) throw result.error\n  return result.data\n}\n";
    let folders = Folders::new([
        ("s/plugin.json", manifest("")),
        ("s/schema.sql", table("c REAL")),
        ("s/handlers/s/op.ts", handler.to_owned()),
    ]);
    let apply = |allow: &[&str]| {
        let mut command = folders.command(&["schema", "apply", "s"]);
        assert!(command.args(allow).stdin(Stdio::null()).output().unwrap().status.success());
    };
    apply(&[]);
    let write = |file: &str, text: String| std::fs::write(folders.plugins().join("s").join(file), text).unwrap();
    let make = r#"{"call":"createIfAbsent","args":["a",{"id":"1","c":1},["id"]]}"#;
    let list = |table: &str| format!(r#"{{"call":"list","args":["{table}"]}}"#);
    assert!(op(&folders, "t1", make).0);

    write("schema.sql", table("c INTEGER"));
    for input in [make.to_owned(), list("a"), r#"{"call":"update","args":["a",{"id":{"eq":"1"}},{"c":2}]}"#.to_owned()]
    {
        let (done, said) = op(&folders, "t1", &input);
        assert!(!done && said.contains("SCHEMA") && said.contains("column a.c is REAL in the database"), "{said}");
        assert!(said.contains("oncehost schema apply s"), "{said}");
    }
    assert!(op(&folders, "t1", &list("b")).0, "a table that is as it was is used");
    apply(&["--allow-destructive", "a.c"]);
    assert!(op(&folders, "t1", &list("a")).0);

    write("plugin.json", manifest(r#", "sharedTables": ["a"]"#));
    let (done, said) = op(&folders, "t2", &list("a"));
    assert!(!done && said.contains("SCHEMA") && said.contains("each tenant's own"), "{said}");
}
