//! `schema apply` by the built binary, killed on the way: the database is as before or as after, nothing between, and
//! applying again works (issue of interrupted migrations).

use std::path::PathBuf;
use std::process::{Output, Stdio};

use rusqlite::Connection;
use serde_json::Value as Json;

use crate::support::postgres;
use crate::support::process::Folders;

mod commands;

/// A version of `tests/schema/lane-change`, counted from 1.
fn version(number: usize) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/schema/lane-change");
    std::fs::read_to_string(folder.join(format!("v{number}.sql"))).unwrap()
}

/// Where a plugin's tables rest.
enum On {
    Sqlite,
    /// The database's name.
    Postgres(String),
}

/// The plugin `lane` with one of the versions, and its database.
struct Lane {
    folders: Folders,
    on: On,
}

/// On each database.
fn both() -> [On; 2] {
    let url = postgres::database();
    [On::Sqlite, On::Postgres(url.rsplit('/').next().unwrap().to_owned())]
}

impl Lane {
    fn new(on: On, from: usize) -> Self {
        let folders = Folders::new([
            ("lane/plugin.json", r#"{ "id": "lane", "version": "1.0.0", "permissions": [] }"#.to_owned()),
            ("lane/schema.sql", version(from)),
        ]);
        Self { folders, on }
    }

    fn set(&self, sql: &str) {
        std::fs::write(self.folders.plugins().join("lane/schema.sql"), sql).unwrap();
    }

    /// Runs a command of the binary.
    fn run(&self, args: &[&str], point: Option<&str>) -> Output {
        let mut command = self.folders.command(args);
        if let On::Postgres(name) = &self.on {
            command.env("ONCEHOST_STORE", postgres::cluster().url(name));
        }
        if let Some(point) = point {
            command.env("ONCEHOST_CRASH_AT", point);
        }
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// Runs `schema VERB lane`, allowing what `allow` lists; killed at `point` where one is given.
    fn schema(&self, verb: &str, allow: &[String], point: Option<&str>) -> Output {
        let mut args = vec!["schema", verb, "lane", "--json"];
        args.extend(allow.iter().flat_map(|name| ["--allow-destructive", name.as_str()]));
        self.run(&args, point)
    }

    fn allowed(&self) -> Vec<String> {
        let plan = told(&self.schema("plan", &[], None));
        let refusals = plan["plan"]["refusals"].as_array().unwrap().iter();
        refusals.map(|refusal| refusal["allow"].as_str().unwrap_or_else(|| panic!("{refusal}")).to_owned()).collect()
    }

    /// Runs SQL by hand; gives the first column of all rows.
    fn sql(&self, sql: &str) -> Vec<String> {
        match &self.on {
            On::Sqlite => {
                let conn = self.folders.database("lane");
                let mut statement = conn.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
                let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
                rows.map(Result::unwrap).collect()
            }
            On::Postgres(name) => {
                let told = postgres::cluster().psql(name, &format!("SET search_path TO lane; {sql}"));
                assert!(told.status.success(), "{sql}: {}", String::from_utf8_lossy(&told.stderr));
                String::from_utf8_lossy(&told.stdout).lines().map(str::to_owned).collect()
            }
        }
    }

    /// All definitions, and all rows but the host's own.
    fn whole(&self) -> Vec<String> {
        match &self.on {
            On::Sqlite => whole(&self.folders.database("lane")),
            On::Postgres(_) => {
                let mut all = self.sql(
                    "SELECT c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || a.attnotnull \
                     FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE c.relnamespace = 'lane'::regnamespace \
                     AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind = 'r' ORDER BY 1",
                );
                all.extend(self.sql("SELECT indexdef FROM pg_indexes WHERE schemaname = 'lane' ORDER BY 1"));
                all.extend(self.sql(
                    "SELECT conname || pg_get_constraintdef(oid) FROM pg_constraint \
                     WHERE connamespace = 'lane'::regnamespace ORDER BY 1",
                ));
                let tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'lane' \
                              AND tablename NOT LIKE '\\_oncehost%' ORDER BY 1";
                for table in self.sql(tables) {
                    all.extend(self.sql(&format!("SELECT CAST(t AS TEXT) FROM \"{table}\" t ORDER BY 1")));
                }
                all
            }
        }
    }

    /// Rows of a table that every version has, under its old or its new name.
    fn fill(&self, from: usize) {
        let obj = if from < 3 { "obj" } else { "obj_id" };
        let numbers = match self.on {
            On::Sqlite => "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 199) ",
            On::Postgres(_) => "WITH n(i) AS (SELECT generate_series(0, 199)) ",
        };
        self.sql(&format!(
            "{numbers} INSERT INTO lane_change_event (tenant_id, id, event_key, {obj}, lane_from, lane_to, speed, created_at) \
             SELECT 'acme', 'e' || i, 'e' || i, 'car', i, i + 1, i * 2, '2026-01-02T03:04:05.678Z' FROM n"
        ));
    }
}

fn told(output: &Output) -> Json {
    let err = String::from_utf8_lossy(&output.stderr);
    let told: Json = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {err}"));
    told["plugins"][0].clone()
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

/// Kills `schema apply` behind each statement in turn, then before and behind the commit.
fn killed_everywhere(on: On, from: usize, to: usize) {
    let lane = Lane::new(on, from);
    assert!(lane.schema("apply", &[], None).status.success());
    lane.fill(from);
    let before = lane.whole();
    lane.set(&version(to));
    let allow = lane.allowed();
    let plan = told(&lane.schema("plan", &allow, None));
    assert_eq!(plan["refused"], false, "{plan:#}");
    let steps = plan["plan"]["steps"].as_array().unwrap();
    let statements: usize = steps.iter().map(|step| step["sql"].as_array().unwrap().len()).sum();
    let within = (1..=statements).map(|nth| format!("schema-statement:{nth}"));
    for point in within.chain(["schema-before-commit".to_owned()]) {
        let killed = lane.schema("apply", &allow, Some(&point));
        assert_eq!((killed.status.code(), killed.stdout.len()), (None, 0), "{point} kills");
        assert_eq!(lane.whole(), before, "{point}");
    }
    let killed = lane.schema("apply", &allow, Some("schema-after-commit"));
    assert_eq!(killed.status.code(), None);
    let after = lane.whole();
    assert_ne!(after, before);
    let again = lane.schema("apply", &allow, None);
    assert!(again.status.success(), "{again:?}");
    assert_eq!(told(&again)["applied"]["version"], 2, "it was counted once");
    assert_eq!(lane.whole(), after);
    assert_eq!(told(&lane.schema("status", &[], None))["status"]["state"], "equal");
}

#[test]
fn added_columns_are_all_there_or_none_after_a_kill() {
    both().into_iter().for_each(|on| killed_everywhere(on, 1, 2));
}

#[test]
fn from_each_kept_version_the_newest_is_whole_or_not_at_all_after_a_kill() {
    for from in 1..4 {
        killed_everywhere(On::Sqlite, from, 4);
    }
}

#[test]
fn from_each_kept_version_the_newest_is_whole_or_not_at_all_after_a_kill_on_postgres() {
    for from in 1..4 {
        let [_, on] = both();
        killed_everywhere(on, from, 4);
    }
}

#[test]
fn apply_killed_on_the_way_succeeds_when_run_again() {
    for on in both() {
        let lane = Lane::new(on, 3);
        assert!(lane.schema("apply", &[], None).status.success());
        lane.fill(3);
        lane.set(&version(4));
        let allow = lane.allowed();
        assert_eq!(lane.schema("apply", &allow, Some("schema-statement:3")).status.code(), None);
        let again = lane.schema("apply", &allow, None);
        assert!(again.status.success(), "{again:?}");
        let rows = lane.sql("SELECT CAST(count(*) AS TEXT) FROM event WHERE speed = lane_from * 2");
        assert_eq!(rows, ["200"]);
    }
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
