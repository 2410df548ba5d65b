//! From one schema to another, with rows in between.

use rusqlite::Connection;
use serde_json::json;

use super::*;

const NOW: i64 = 1_750_000_000_000;

fn schema(sql: &str) -> Schema {
    parse(sql, &[]).unwrap_or_else(|faults| panic!("{sql}\n{faults:#?}"))
}

fn database() -> Connection {
    let conn = Connection::open_in_memory().unwrap();
    conn.pragma_update(None, "foreign_keys", true).unwrap();
    conn.pragma_update(None, "trusted_schema", false).unwrap();
    install(&conn).unwrap();
    conn
}

/// Applies `sql`, allowing everything, and checks that the database then is as wanted.
fn bring(conn: &mut Connection, wanted: &Schema) -> Plan {
    let refused = plan(conn, wanted, &[]).unwrap().refusals;
    let allowed: Vec<String> = refused.into_iter().filter_map(|refusal| refusal.allow).collect();
    let applied = apply(conn, wanted, &allowed, NOW).unwrap_or_else(|error| match error {
        ApplyError::Refused(plan) => panic!("{}", render(&plan)),
        ApplyError::Store(error) => panic!("{error}"),
    });
    let after = status(conn, wanted).unwrap();
    assert_eq!(after.state, State::Equal, "{}\n{}", render(&after.plan), wanted.to_sql());
    applied.plan
}

fn with(sql: &str) -> Connection {
    let mut conn = database();
    bring(&mut conn, &schema(sql));
    conn
}

fn count(conn: &Connection, sql: &str) -> i64 {
    conn.query_row(&format!("SELECT count(*) FROM {sql}"), [], |row| row.get(0)).unwrap()
}

/// The plan to `sql` is refused with `part` in a message; the refusal.
fn refused(conn: &mut Connection, sql: &str, part: &str) -> Refusal {
    let wanted = schema(sql);
    let before = inspect::read(conn).unwrap().schema;
    assert!(matches!(apply(conn, &wanted, &[], NOW), Err(ApplyError::Refused(_))));
    assert_eq!(inspect::read(conn).unwrap().schema, before, "a refused apply changes nothing");
    let refusals = plan(conn, &wanted, &[]).unwrap().refusals;
    refusals
        .iter()
        .find(|refusal| refusal.message.contains(part))
        .unwrap_or_else(|| panic!("wanted {part:?} in {refusals:#?}"))
        .clone()
}

const TABLE: &str = "CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER, s TEXT);";

fn with_rows() -> Connection {
    let conn = with(TABLE);
    conn.execute_batch(
        "INSERT INTO t VALUES ('acme', 'a', 1, 'x'), ('acme', 'b', NULL, 'x'), ('acme', 'c', 3, 'y'), ('beta', 'a', 1, 'x')",
    )
    .unwrap();
    conn
}

#[test]
fn tenant_id_stands_in_front_of_every_key() {
    let conn = with(
        "CREATE TABLE p (id TEXT PRIMARY KEY, k TEXT UNIQUE); CREATE TABLE c (id TEXT PRIMARY KEY, p TEXT REFERENCES p); CREATE INDEX i ON c (p);",
    );
    conn.execute_batch(
        "INSERT INTO p VALUES ('acme', '1', 'k'), ('beta', '1', 'k'); INSERT INTO c VALUES ('acme', '1', '1')",
    )
    .unwrap();
    assert!(
        conn.execute_batch("INSERT INTO c VALUES ('gamma', '1', '1')").is_err(),
        "another tenant's parent is no parent"
    );
    assert!(conn.execute_batch("INSERT INTO p VALUES ('acme', '2', 'k')").is_err());
    let detail: String = conn
        .query_row("EXPLAIN QUERY PLAN SELECT * FROM c WHERE tenant_id = 'acme' AND p = '1'", [], |row| row.get(3))
        .unwrap();
    assert!(detail.contains("USING INDEX i (tenant_id=? AND p=?)"), "{detail}");
}

#[test]
fn shared_tables_have_no_tenant_and_count_nothing_by_themselves() {
    let mut conn = database();
    let wanted = parse("CREATE TABLE lanes (n INTEGER PRIMARY KEY, name TEXT UNIQUE);", &["lanes".into()]).unwrap();
    bring(&mut conn, &wanted);
    conn.execute_batch("INSERT INTO lanes VALUES (7, 'left')").unwrap();
    assert!(conn.execute_batch("INSERT INTO lanes (name) VALUES ('right')").is_err());
}

#[test]
fn storage_keeps_values_to_their_types() {
    let conn = with("CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER, r REAL, b BOOLEAN, j JSON, at TIMESTAMP);");
    for wrong in [
        "'x', NULL, NULL, NULL, NULL",
        "NULL, 'x', NULL, NULL, NULL",
        "NULL, NULL, 2, NULL, NULL",
        "NULL, NULL, NULL, '{a', NULL",
        "NULL, NULL, NULL, NULL, '2026-01-02 03:04:05'",
    ] {
        assert!(conn.execute_batch(&format!("INSERT INTO t VALUES ('acme', 'a', {wrong})")).is_err(), "{wrong}");
    }
    conn.execute_batch(
        "INSERT INTO t VALUES ('acme', 'a', 1, 2, 1, '12345678901234567890', '2026-01-02T03:04:05.000Z')",
    )
    .unwrap();
    let kinds: String = conn
        .query_row("SELECT typeof(n) || typeof(r) || typeof(b) || typeof(j) || typeof(at) FROM t", [], |row| row.get(0))
        .unwrap();
    assert_eq!(kinds, "integerrealintegertexttext");
}

#[test]
fn columns_and_indexes_are_added_without_touching_rows() {
    let mut conn = with_rows();
    let plan = bring(
        &mut conn,
        &schema(
            "CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER, s TEXT, flag BOOLEAN NOT NULL DEFAULT TRUE, at TIMESTAMP); CREATE INDEX t_s ON t (s, n);",
        ),
    );
    let sql: Vec<&str> = plan.steps.iter().flat_map(|step| &step.sql).map(String::as_str).collect();
    assert_eq!(
        sql[0],
        r#"ALTER TABLE "t" ADD COLUMN "flag" INTEGER NOT NULL DEFAULT TRUE CHECK ("flag" IN (FALSE, TRUE))"#
    );
    assert_eq!(sql[2], r#"CREATE INDEX "t_s" ON "t" ("tenant_id", "s", "n")"#);
    assert_eq!(count(&conn, "t WHERE flag = 1"), 4);
}

#[test]
fn a_unique_index_that_cannot_hold_shows_the_rows() {
    let mut conn = with_rows();
    conn.execute_batch("INSERT INTO t VALUES ('acme', 'd', NULL, 'x')").unwrap();
    let refusal =
        refused(&mut conn, "CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER, s TEXT UNIQUE);", "stand more than once");
    let found = refusal.offending.unwrap();
    assert_eq!(found.columns, ["tenant_id", "s", "rows"]);
    assert_eq!(found.rows, [[json!("acme"), json!("x"), json!(3)]]);
    assert_eq!(found.count, 1);
    bring(&mut conn, &schema("CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER UNIQUE, s TEXT);"));
}

#[test]
fn not_null_that_cannot_hold_shows_five_rows_and_the_count() {
    let mut conn = with_rows();
    for at in 0..9 {
        conn.execute("INSERT INTO t VALUES ('acme', ?1, NULL, NULL)", [format!("n{at}")]).unwrap();
    }
    let refusal =
        refused(&mut conn, "CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER NOT NULL, s TEXT);", "is NOT NULL");
    let found = refusal.offending.unwrap();
    assert_eq!((found.count, found.rows.len()), (10, 5));
    assert_eq!(found.rows[0], [json!("acme"), json!("b"), json!(null)]);
    let refusal = refused(&mut conn, &TABLE.replace("s TEXT", "s TEXT, c TEXT NOT NULL"), "give it a DEFAULT");
    assert_eq!(refusal.offending.unwrap().count, 13);
    let text = render(
        &plan(&conn, &schema("CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER NOT NULL, s TEXT);"), &[]).unwrap(),
    );
    assert!(text.contains(r#"tenant_id = "acme", id = "b", n = null"#) && text.contains("and 5 more"), "{text}");
}

#[test]
fn not_null_without_default_is_added_to_an_empty_table() {
    let mut conn = with(TABLE);
    bring(&mut conn, &schema(&TABLE.replace("s TEXT", "s TEXT, c TEXT NOT NULL")));
}

#[test]
fn a_check_or_reference_that_cannot_hold_shows_the_rows() {
    let mut conn = with_rows();
    let refusal = refused(&mut conn, &TABLE.replace("n INTEGER", "n INTEGER CHECK (n > 1)"), "does not hold");
    assert_eq!(refusal.offending.unwrap().count, 2);
    let refusal = refused(
        &mut conn,
        "CREATE TABLE u (id TEXT PRIMARY KEY); CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER, s TEXT REFERENCES u);",
        "are not there",
    );
    assert_eq!(refusal.offending.unwrap().count, 4);
    bring(&mut conn, &schema(&format!("{TABLE} CREATE TABLE u (id TEXT PRIMARY KEY);")));
    conn.execute_batch("INSERT INTO u VALUES ('acme', 'x'), ('acme', 'y')").unwrap();
    let to =
        "CREATE TABLE u (id TEXT PRIMARY KEY); CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER, s TEXT REFERENCES u);";
    let found = refused(&mut conn, to, "are not there").offending.unwrap();
    assert_eq!(found.rows, [[json!("beta"), json!("a"), json!("x")]], "a row of another tenant is no parent");
    conn.execute_batch("INSERT INTO u VALUES ('beta', 'x')").unwrap();
    bring(&mut conn, &schema(to));
}

#[test]
fn what_loses_data_has_to_be_named() {
    let mut conn = with_rows();
    let dropped = "CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER);";
    assert_eq!(refused(&mut conn, dropped, "lose data").allow.as_deref(), Some("t.s"));
    assert_eq!(refused(&mut conn, &TABLE.replace("n INTEGER", "n REAL"), "lose data").allow.as_deref(), Some("t.n"));
    assert_eq!(refused(&mut conn, "", "lose data").allow.as_deref(), Some("t"));
    let swapped = refused(&mut conn, &TABLE.replace("s TEXT", "label TEXT"), "lose data").message;
    assert!(swapped.contains("if s is called label now, write -- was: s on the line of label"), "{swapped}");
    let wrong = apply(&mut conn, &schema(dropped), &["t.n".into()], NOW);
    assert!(matches!(wrong, Err(ApplyError::Refused(_))));
    apply(&mut conn, &schema(dropped), &["t.s".into()], NOW).unwrap();
    assert_eq!(count(&conn, "t"), 4);
    apply(&mut conn, &schema(""), &["t".into()], NOW).unwrap();
    assert!(inspect::read(&conn).unwrap().schema.tables.is_empty());
}

#[test]
fn types_change_where_every_value_has_a_counterpart() {
    let mut conn = with_rows();
    bring(&mut conn, &schema("CREATE TABLE t (id TEXT PRIMARY KEY, n REAL, s TEXT);"));
    bring(&mut conn, &schema("CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER, s TEXT);"));
    bring(&mut conn, &schema("CREATE TABLE t (id TEXT PRIMARY KEY, n TEXT, s TEXT);"));
    assert_eq!(count(&conn, "t WHERE n = '1'"), 2);
    conn.execute_batch("UPDATE t SET n = '1x' WHERE id = 'c'").unwrap();
    let found = refused(&mut conn, TABLE, "no counterpart").offending.unwrap();
    assert_eq!(found.rows, [[json!("acme"), json!("c"), json!("1x")]]);
    refused(&mut conn, "CREATE TABLE t (id TEXT PRIMARY KEY, n JSON, s TEXT);", "cannot go from TEXT to JSON");
    conn.execute_batch("DELETE FROM t").unwrap();
    bring(&mut conn, &schema("CREATE TABLE t (id TEXT PRIMARY KEY, n JSON, s TEXT);"));
}

#[test]
fn numbers_become_text_and_come_back_as_they_were() {
    let table = |ty: &str| schema(&format!("CREATE TABLE t (id TEXT PRIMARY KEY, v {ty});"));
    let mut conn = with("CREATE TABLE t (id TEXT PRIMARY KEY, v REAL);");
    let all: [(f64, &str); 12] = [
        (3.0, "3"),
        (-0.5, "-0.5"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1e20, "100000000000000000000"),
        (5e-7, "5e-7"),
        (5e-324, "5e-324"),
        (1e23, "1e+23"),
        (1.234_567_890_123_456_7e20, "123456789012345670000"),
        (f64::MAX, "1.7976931348623157e+308"),
        (-0.000_012, "-0.000012"),
        (123_456_789.125, "123456789.125"),
        (9_007_199_254_740_991.0, "9007199254740991"),
    ];
    for (at, (number, _)) in all.iter().enumerate() {
        conn.execute("INSERT INTO t VALUES ('acme', ?1, ?2)", (at.to_string(), number)).unwrap();
    }
    conn.execute_batch("INSERT INTO t VALUES ('acme', 'none', NULL)").unwrap();
    bring(&mut conn, &table("TEXT"));
    for (at, (_, text)) in all.iter().enumerate() {
        let found: String =
            conn.query_row("SELECT v FROM t WHERE id = ?1", [at.to_string()], |row| row.get(0)).unwrap();
        assert_eq!(&found, text);
    }
    bring(&mut conn, &table("REAL"));
    for (at, (number, _)) in all.iter().enumerate() {
        let found: f64 = conn.query_row("SELECT v FROM t WHERE id = ?1", [at.to_string()], |row| row.get(0)).unwrap();
        assert_eq!(found.to_bits(), number.to_bits());
    }
    bring(&mut conn, &table("TEXT"));
    for lost in
        ["9007199254740993", "0.12345678901234567890", "1e400", "1e-400", "4.9e-324", "2e-324", " 1", "0x1", "x", ""]
    {
        conn.execute("UPDATE t SET v = ?1 WHERE id = '0'", [lost]).unwrap();
        let found = refused(&mut conn, "CREATE TABLE t (id TEXT PRIMARY KEY, v REAL);", "exactly the same");
        assert_eq!(found.offending.unwrap().rows, [[json!("acme"), json!("0"), json!(lost)]]);
    }
}

#[test]
fn old_name_that_is_not_there_is_refused_while_something_would_go() {
    let mut conn = with_rows();
    let wanted = "CREATE TABLE t (\n id TEXT PRIMARY KEY, n INTEGER,\n label TEXT -- was: ss\n);";
    let said = refused(&mut conn, wanted, "schema.sql:3: -- was: ss");
    assert!(said.message.contains("no column ss in table t (did you mean s?)"), "{said:?}");
    assert!(matches!(apply(&mut conn, &schema(wanted), &["t.s".into()], NOW), Err(ApplyError::Refused(_))));
    let table = "-- was: tt\nCREATE TABLE u (id TEXT PRIMARY KEY);";
    assert!(refused(&mut conn, table, "-- was: tt").message.contains("(did you mean t?)"));
    // It stands at a column that is there already.
    let misplaced = "CREATE TABLE t (\n id TEXT PRIMARY KEY,\n label TEXT,\n -- was: s\n n INTEGER\n);";
    let said = refused(&mut conn, misplaced, "lose data").message;
    assert!(said.contains("-- was: s in line 5 of schema.sql stands at n, which the database has already"), "{said}");
}

#[test]
fn old_name_from_a_version_in_between_does_no_harm() {
    let mut conn = with_rows();
    let plan =
        bring(&mut conn, &schema("CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER, s TEXT,\n b TEXT -- was: a\n);"));
    assert!(plan.steps[0].why.contains("takes over nothing: the database has no a"), "{}", render(&plan));
    assert_eq!(count(&conn, "t"), 4);
    // A new database has none of the old names.
    with("-- was: before\nCREATE TABLE t (id TEXT PRIMARY KEY,\n b TEXT -- was: a\n);");
}

#[test]
fn pending_changes_are_told_from_changes_by_hand() {
    let applied = "CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER, s TEXT);";
    let mut conn = with(applied);
    let pending = schema("CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER NOT NULL CHECK (n > 0), s TEXT, x TEXT);");
    let seen = status(&conn, &pending).unwrap();
    assert_eq!((seen.state, seen.plan.drift.len()), (State::Pending, 0), "{}", render(&seen.plan));
    assert!(!render(&seen.plan).contains("hand"), "{}", render(&seen.plan));

    conn.execute_batch("ALTER TABLE t ADD COLUMN x TEXT; ALTER TABLE t DROP COLUMN s").unwrap();
    let seen = status(&conn, &pending).unwrap();
    assert_eq!(seen.state, State::Drift);
    assert_eq!(seen.plan.drift, ["table t: column x is new, as schema.sql has it now", "table t: column s is gone"]);
    let why = &seen.plan.steps[0].why;
    assert!(why.contains("column s is new (this was changed by hand)"), "{why}");
    assert!(why.contains("column n is NOT NULL now; CHECK (\"n\" > 0) is new"), "{why}");
    bring(&mut conn, &pending);

    // Somebody did by hand what schema.sql says now.
    conn.execute_batch("ALTER TABLE t ADD COLUMN y TEXT").unwrap();
    let next =
        schema("CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER NOT NULL CHECK (n > 0), s TEXT, x TEXT, y TEXT);");
    let seen = status(&conn, &next).unwrap();
    assert!(render(&seen.plan).contains("It is as schema.sql wants it all the same"), "{}", render(&seen.plan));
    bring(&mut conn, &next);
}

#[test]
fn times_of_the_host_in_rows_that_are_there_have_to_be_said() {
    let mut conn = with_rows();
    let wanted = |more: &str| {
        format!("CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER, s TEXT, created_at TIMESTAMP NOT NULL{more});")
    };
    let said = refused(&mut conn, &wanted(""), "created_at is NOT NULL").message;
    let default = " DEFAULT '2000-01-01T00:00:00Z'";
    assert!(said.contains(&format!("created_at TIMESTAMP NOT NULL{default}")), "{said}");
    bring(&mut conn, &schema(&wanted(default)));
    assert_eq!(count(&conn, "t WHERE created_at = '2000-01-01T00:00:00.000Z'"), 4);
}

#[test]
fn names_of_what_may_be_lost_are_those_of_all_versions() {
    let mut conn = with_rows();
    apply(&mut conn, &schema("CREATE TABLE t (id TEXT PRIMARY KEY);"), &["t.n".into(), "t.s".into()], NOW).unwrap();
    let names = plan::names(&conn, &schema("CREATE TABLE u (id TEXT PRIMARY KEY);")).unwrap();
    for name in ["t", "t.n", "t.id", "u", "u.id"] {
        assert!(names.contains(name), "{name}: {names:?}");
    }
    assert!(!names.contains("t.x"));
}

#[test]
fn renames_keep_rows_and_follow_references_and_checks() {
    let from =
        "CREATE TABLE p (id TEXT PRIMARY KEY, a INTEGER CHECK (a > 0), b TEXT CHECK (b <> '\"a\"'), UNIQUE (a, b));
                CREATE TABLE c (id TEXT PRIMARY KEY, p TEXT REFERENCES p);";
    let to = "-- was: p
              CREATE TABLE q (
                key TEXT PRIMARY KEY, -- was: id
                z INTEGER CHECK (z > 0), -- was: a
                b TEXT CHECK (b <> '\"a\"'), UNIQUE (z, b));
              CREATE TABLE c (
                id TEXT PRIMARY KEY,
                q TEXT REFERENCES q); -- was: p";
    let mut conn = with(from);
    conn.execute_batch("INSERT INTO p VALUES ('acme', '1', 5, 'x'); INSERT INTO c VALUES ('acme', '1', '1')").unwrap();
    let plan = bring(&mut conn, &schema(to));
    assert!(plan.steps.iter().flat_map(|step| &step.sql).all(|sql| !sql.contains("INSERT")), "{}", render(&plan));
    assert_eq!(count(&conn, "q JOIN c ON c.q = q.key WHERE z = 5"), 1);
    assert!(plan::plan(&conn, &schema(to), &[]).unwrap().steps.is_empty(), "the comment may stay");
}

#[test]
fn making_a_parent_anew_keeps_its_children() {
    let from =
        "CREATE TABLE p (id TEXT PRIMARY KEY, n INTEGER); CREATE TABLE c (id TEXT PRIMARY KEY, p TEXT REFERENCES p);
                CREATE TABLE own (id TEXT PRIMARY KEY, up TEXT REFERENCES own, n INTEGER);";
    let mut conn = with(from);
    conn.execute_batch("INSERT INTO p VALUES ('acme', '1', 1); INSERT INTO c VALUES ('acme', '1', '1'), ('acme', '2', '1'); INSERT INTO own VALUES ('acme', '1', NULL, 1), ('acme', '2', '1', 2)").unwrap();
    bring(&mut conn, &schema(&from.replace("n INTEGER", "n INTEGER NOT NULL CHECK (n > 0)")));
    assert_eq!((count(&conn, "c"), count(&conn, "own")), (2, 2));
    assert!(conn.execute_batch("DELETE FROM p").is_err(), "foreign keys are enforced again");
    assert!(conn.execute_batch("DELETE FROM own WHERE id = '1'").is_err());
}

#[test]
fn a_reference_may_name_a_unique_key_in_another_order() {
    let conn = with(
        "CREATE TABLE p (id TEXT PRIMARY KEY, a TEXT, b INTEGER, UNIQUE (a, b));
                     CREATE TABLE c (id TEXT PRIMARY KEY, x INTEGER, y TEXT, FOREIGN KEY (x, y) REFERENCES p (b, a));",
    );
    conn.execute_batch("INSERT INTO p VALUES ('acme', '1', 'a', 2); INSERT INTO c VALUES ('acme', '1', 2, 'a')")
        .unwrap();
    assert!(conn.execute_batch("INSERT INTO c VALUES ('acme', '2', 3, 'a')").is_err());
}

#[test]
fn plan_and_status_only_read() {
    let conn = with_rows();
    conn.pragma_update(None, "query_only", true).unwrap();
    let wanted = schema("CREATE TABLE t (id TEXT PRIMARY KEY, n REAL UNIQUE, s TEXT NOT NULL, x TEXT);");
    assert_eq!(status(&conn, &wanted).unwrap().state, State::Pending);
}

#[test]
fn rows_that_a_conversion_makes_equal_leave_everything_as_it_was() {
    let from = "CREATE TABLE t (id TEXT PRIMARY KEY, r TEXT UNIQUE);";
    let mut conn = with(from);
    conn.execute_batch("INSERT INTO t VALUES ('acme', 'a', '1'), ('acme', 'b', '1.0')").unwrap();
    let wanted = schema(&from.replace("r TEXT", "r REAL"));
    let error = apply(&mut conn, &wanted, &["t.r".into()], NOW).unwrap_err();
    assert!(error.to_string().contains("UNIQUE constraint failed"), "{error}");
    assert_eq!(status(&conn, &schema(from)).unwrap().state, State::Equal);
    assert_eq!(count(&conn, "t"), 2);
}

#[test]
fn tables_move_between_shared_and_tenants_only_while_empty() {
    let mut conn = with_rows();
    let shared = parse(TABLE, &["t".into()]).unwrap();
    let key = TABLE.replace("id TEXT PRIMARY KEY", "key TEXT PRIMARY KEY -- was: id\n");
    let renamed = parse(&key.replace(" (", " (\n"), &["t".into()]).unwrap();
    let found = plan(&conn, &renamed, &[]).unwrap().refusals.remove(0).offending.unwrap();
    assert_eq!(found.columns, ["tenant_id", "id"]);
    let refusals = plan(&conn, &shared, &[]).unwrap().refusals;
    assert!(refusals[0].message.contains("while it has rows"), "{refusals:?}");
    conn.execute_batch("DELETE FROM t").unwrap();
    bring(&mut conn, &shared);
    bring(&mut conn, &schema(TABLE));
}

#[test]
fn changes_by_hand_are_explained_and_taken_back() {
    for (by_hand, words, allow) in [
        ("ALTER TABLE t ADD COLUMN extra TEXT", "table t: column extra is new", Some("t.extra")),
        ("DROP INDEX t_s", "table t: index t_s is gone", None),
        ("CREATE INDEX mine ON t (n)", "index mine: it does not begin with tenant_id", None),
        ("CREATE INDEX mine ON t (tenant_id, n)", "table t: index mine is new", None),
        (
            "DROP INDEX t_s; CREATE UNIQUE INDEX t_s ON t (tenant_id, s COLLATE NOCASE)",
            "index t_s: it has a COLLATE",
            None,
        ),
        ("DROP INDEX t_s; CREATE UNIQUE INDEX t_s ON t (tenant_id, s) WHERE n > 0", "index t_s: it is partial", None),
        ("CREATE TRIGGER tr AFTER INSERT ON t BEGIN SELECT 1; END", "trigger tr is new", Some("tr")),
        ("CREATE VIEW v AS SELECT * FROM t", "view v is new", Some("v")),
        ("CREATE VIEW broken AS SELECT * FROM nowhere", "view broken is new", Some("broken")),
        ("CREATE VIRTUAL TABLE words USING fts5(word)", "table words is new", Some("words")),
        ("CREATE TABLE other (x)", "table other is new", Some("other")),
        ("ALTER TABLE t RENAME COLUMN n TO m", "table t: column n is gone", Some("t.m")),
        ("DROP TABLE t", "table t is gone", None),
        (
            "DROP TABLE t; CREATE TABLE t (tenant_id TEXT, id TEXT, n, s TEXT COLLATE NOCASE, PRIMARY KEY (tenant_id, id))",
            "it is not an ordinary STRICT table",
            Some("t.n"),
        ),
    ] {
        let wanted = schema(&format!("{TABLE} CREATE UNIQUE INDEX t_s ON t (s);"));
        let mut conn = database();
        bring(&mut conn, &wanted);
        conn.execute_batch(by_hand).unwrap();
        let status = status(&conn, &wanted).unwrap();
        assert_eq!(status.state, State::Drift, "{by_hand}");
        assert!(status.plan.drift.iter().any(|line| line.contains(words)), "{by_hand}: {:#?}", status.plan.drift);
        let names: Vec<&str> = status.plan.refusals.iter().filter_map(|refusal| refusal.allow.as_deref()).collect();
        assert_eq!(names.first().copied(), allow, "{by_hand}: {names:?}");
        bring(&mut conn, &wanted);
    }
}

#[test]
fn applying_twice_changes_nothing_and_versions_count_up() {
    let mut conn = database();
    assert_eq!(status(&conn, &schema(TABLE)).unwrap().state, State::Pending);
    assert_eq!(apply(&mut conn, &schema(TABLE), &[], NOW).unwrap().version, 1);
    let again = apply(&mut conn, &schema(TABLE), &[], NOW + 5).unwrap();
    assert_eq!((again.version, again.plan), (1, Plan::default()));
    let next = schema(&TABLE.replace("s TEXT", "s TEXT, x TEXT"));
    assert_eq!(apply(&mut conn, &next, &[], NOW + 9).unwrap().version, 2);
    let status = status(&conn, &next).unwrap();
    assert_eq!((status.version, status.applied_at), (Some(2), Some(NOW + 9)));
    assert!(conn.pragma_query_value(None, "foreign_keys", |row| row.get::<_, bool>(0)).unwrap());
}

#[test]
fn the_plan_as_json_has_steps_refusals_and_drift() {
    let plan = plan(&database(), &schema("CREATE TABLE t (id TEXT PRIMARY KEY);"), &[]).unwrap();
    assert_eq!(
        serde_json::to_value(&plan).unwrap(),
        json!({
            "steps": [{
                "why": "table t is new",
                "sql": ["CREATE TABLE \"t\" (\n  \"tenant_id\" TEXT NOT NULL,\n  \"id\" TEXT NOT NULL,\n  PRIMARY KEY (\"tenant_id\", \"id\")\n) STRICT"],
                "destructive": [],
            }],
            "refusals": [],
            "drift": [],
        })
    );
}
