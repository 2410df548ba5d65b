//! What the language takes, and what it refuses, with the line and the way out.

use super::*;

fn read(sql: &str) -> Schema {
    parse(sql, &[]).unwrap_or_else(|faults| panic!("{sql}\n{faults:#?}"))
}

fn faults(sql: &str) -> Vec<(u32, String)> {
    match parse(sql, &[]) {
        Ok(schema) => panic!("accepted: {sql}\n{schema:#?}"),
        Err(faults) => faults.into_iter().map(|fault| (fault.line, fault.message)).collect(),
    }
}

/// The one fault of `sql` stands on `line` and its message holds `part`.
fn refused(sql: &str, line: u32, part: &str) {
    let found = faults(sql);
    assert_eq!(found.len(), 1, "{sql}\n{found:#?}");
    assert_eq!(found[0].0, line, "{sql}\n{found:#?}");
    assert!(found[0].1.contains(part), "{sql}\nwanted {part:?} in {found:#?}");
}

/// As [`refused`], for one line within a table.
fn refused_in_table(element: &str, part: &str) {
    refused(
        &format!(
            "CREATE TABLE t (\n  id TEXT PRIMARY KEY,\n  n INTEGER, s TEXT, j JSON, b BOOLEAN, x BLOB, at TIMESTAMP,\n  {element}\n);"
        ),
        4,
        part,
    );
}

fn check(condition: &str) -> String {
    let sql = format!(
        "CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER, r REAL, s TEXT, j JSON, b BOOLEAN, x BLOB, at TIMESTAMP,\n CHECK ({condition}))"
    );
    read(&sql).tables["t"].checks[0].sql.clone()
}

const LANE_CHANGE: &str = "
CREATE TABLE lane_change_event (
  id          TEXT PRIMARY KEY,
  event_key   TEXT NOT NULL UNIQUE,
  lane        INTEGER NOT NULL DEFAULT 1 CHECK (lane BETWEEN 1 AND 12),
  confidence  REAL DEFAULT 0.5,
  reviewed    BOOLEAN NOT NULL DEFAULT FALSE,
  raw         BLOB DEFAULT X'00ff',
  payload     JSON NOT NULL DEFAULT '{ \"b\": 2, \"a\": 1 }',
  crossed_at  TIMESTAMP NOT NULL DEFAULT '2026-01-01T08:00:00+08:00',
  created_at  TIMESTAMP NOT NULL,
  updated_at  TIMESTAMP
);
CREATE INDEX lane_change_by_time ON lane_change_event (crossed_at, lane);
";

#[test]
fn a_whole_table_is_read() {
    let schema = read(LANE_CHANGE);
    let table = &schema.tables["lane_change_event"];
    let column = |name: &str| table.column(name).unwrap();
    assert_eq!(table.line, 2);
    assert_eq!(table.primary_key, ["id"]);
    assert!(column("id").not_null);
    assert_eq!(column("lane").default, Some(Value::Int(1)));
    assert_eq!(column("confidence").default, Some(Value::Real(0.5)));
    assert_eq!(column("reviewed").default, Some(Value::Bool(false)));
    assert_eq!(column("raw").default, Some(Value::Blob(vec![0, 255])));
    assert_eq!(column("payload").default, Some(Value::Text(r#"{"a":1,"b":2}"#.into())));
    assert_eq!(column("crossed_at").default, Some(Value::Text("2026-01-01T00:00:00.000Z".into())));
    assert_eq!(table.checks[0].sql, r#""lane" BETWEEN 1 AND 12"#);
    assert_eq!(table.indexes[0].name, "lane_change_event_event_key");
    assert_eq!((table.indexes[1].name.as_str(), table.indexes[1].line), ("lane_change_by_time", 14));
    assert!(table.has_plain_unique(&["event_key"]));
    assert!(!table.has_plain_unique(&["crossed_at", "lane"]));
}

#[test]
fn scripts_know_the_hosts_columns_by_their_own_names() {
    let schema = read(LANE_CHANGE);
    let table = &schema.tables["lane_change_event"];
    assert_eq!(table.script_column("createdAt").unwrap().name, "created_at");
    assert!(table.script_column("created_at").is_none());
    assert_eq!(table.column("updated_at").unwrap().script_name(), "updatedAt");
    assert_eq!(table.script_column("lane").unwrap().script_name(), "lane");
}

#[test]
fn the_missing_unique_index_is_named_in_the_words_of_the_language() {
    let schema = read("CREATE TABLE lane_change_event (id TEXT PRIMARY KEY, event_key TEXT);");
    let ddl = missing_unique_ddl(&schema.tables["lane_change_event"], &["event_key"]);
    assert_eq!(ddl, "CREATE UNIQUE INDEX lane_change_event_event_key ON lane_change_event (event_key);");
    assert!(parse(&format!("CREATE TABLE lane_change_event (id TEXT PRIMARY KEY, event_key TEXT);{ddl}"), &[]).is_ok());
}

#[test]
fn tenant_id_is_the_same_written_or_left_out() {
    let strip = |mut schema: Schema| {
        for table in schema.tables.values_mut() {
            table.line = 0;
            table.columns.iter_mut().for_each(|column| column.line = 0);
            table.indexes.iter_mut().for_each(|index| (index.line, index.name) = (0, String::new()));
            table.foreign_keys.iter_mut().for_each(|key| key.line = 0);
        }
        schema
    };
    let with =
        "CREATE TABLE a (tenant_id TEXT NOT NULL, id TEXT, k TEXT, PRIMARY KEY (tenant_id, id), UNIQUE (tenant_id, k));
        CREATE TABLE b (tenant_id TEXT, id TEXT, a_id TEXT, PRIMARY KEY (tenant_id, id),
          FOREIGN KEY (tenant_id, a_id) REFERENCES a (tenant_id, id));
        CREATE INDEX b_a ON b (tenant_id, a_id);";
    let without = "CREATE TABLE a (id TEXT PRIMARY KEY, k TEXT UNIQUE);
        CREATE TABLE b (id TEXT PRIMARY KEY, a_id TEXT REFERENCES a);
        CREATE INDEX b_a ON b (a_id);";
    assert_eq!(strip(read(with)), strip(read(without)));
}

#[test]
fn tenant_id_is_refused_where_it_cannot_be() {
    refused("CREATE TABLE t (id TEXT PRIMARY KEY,\n tenant_id INTEGER);", 2, "tenant_id TEXT NOT NULL");
    refused("CREATE TABLE t (id TEXT PRIMARY KEY,\n CHECK (length(tenant_id) > 1));", 2, "belongs to the host");
    refused("CREATE TABLE t (id TEXT PRIMARY KEY);\nCREATE INDEX i ON t (tenant_id);", 2, "has that already");
    let shared = parse("CREATE TABLE t (id TEXT PRIMARY KEY, tenant_id TEXT);", &["t".into()]).unwrap_err();
    assert!(shared[0].message.contains("sharedTables"), "{shared:?}");
}

#[test]
fn shared_tables_have_to_be_declared() {
    let schema = parse("CREATE TABLE lanes (id TEXT PRIMARY KEY);", &["lanes".into()]).unwrap();
    assert!(schema.tables["lanes"].shared);
    let fault = parse("CREATE TABLE lanes (id TEXT PRIMARY KEY);", &["lane".into()]).unwrap_err();
    assert!(fault[0].message.contains("did you mean lanes?"), "{fault:?}");
}

#[test]
fn other_types_are_refused_with_the_right_one() {
    for (ty, instead) in [
        ("VARCHAR(20)", "write TEXT"),
        ("INT", "write INTEGER"),
        ("BIGINT", "write INTEGER"),
        ("DATETIME", "write TIMESTAMP"),
        ("TIMESTAMP WITH TIME ZONE", "write TIMESTAMP"),
        ("TIMESTAMPTZ", "write TIMESTAMP"),
        ("DECIMAL(10, 2)", "smallest unit"),
        ("DOUBLE PRECISION", "write REAL"),
        ("FLOAT", "write REAL"),
        ("JSONB", "write JSON"),
        ("BYTEA", "write BLOB"),
        ("UUID", "write TEXT"),
        ("BOOL", "write BOOLEAN"),
        ("TEXT[]", "not expected"),
        ("widget", "write TEXT, INTEGER"),
        ("", "needs a type"),
    ] {
        refused_in_table(&format!("c {ty}"), instead);
    }
}

#[test]
fn options_outside_the_language_are_refused() {
    for (element, part) in [
        ("c TEXT COLLATE NOCASE", "by its bytes"),
        ("c INTEGER GENERATED ALWAYS AS (n * 2) STORED", "in the action"),
        ("c TEXT REFERENCES t (id) ON DELETE CASCADE", "ON DELETE"),
        ("c TEXT REFERENCES t (id) DEFERRABLE INITIALLY DEFERRED", "alone"),
        ("c TEXT UNIQUE ON CONFLICT REPLACE", "answers conflicts"),
        ("c INTEGER AUTOINCREMENT", "id TEXT PRIMARY KEY"),
        ("UNIQUE (s COLLATE NOCASE)", "without COLLATE"),
        ("UNIQUE (s DESC)", "write s alone"),
        ("PRIMARY KEY (s)", "second primary key"),
        ("EXCLUDE USING gist (s WITH =)", ""),
    ] {
        refused_in_table(element, part);
    }
}

#[test]
fn defaults_have_to_be_constants_of_the_type() {
    for (element, part) in [
        ("c TIMESTAMP DEFAULT CURRENT_TIMESTAMP", "the host fills created_at"),
        ("c INTEGER DEFAULT 'one'", "does not fit the type INTEGER"),
        ("c INTEGER DEFAULT 1.5", "whole number"),
        ("c INTEGER DEFAULT 9223372036854775808", "64 bits"),
        ("c BOOLEAN DEFAULT 0", "TRUE or FALSE"),
        ("c JSON DEFAULT '{a}'", "not JSON"),
        ("c TIMESTAMP DEFAULT '2026-01-01T00:00:00'", "offset"),
        ("c BLOB DEFAULT X'0'", "hexadecimal"),
        ("c REAL DEFAULT 1e999", "REAL can hold"),
        ("c INTEGER DEFAULT (1 + 1)", "only a constant"),
    ] {
        refused_in_table(element, part);
    }
    let schema = read(
        "CREATE TABLE t (id TEXT PRIMARY KEY, a INTEGER DEFAULT -9223372036854775808, b TEXT DEFAULT NULL, c TEXT DEFAULT 'it''s', d REAL DEFAULT -0.0);",
    );
    let default = |name: &str| schema.tables["t"].column(name).unwrap().default.clone();
    assert_eq!(default("a"), Some(Value::BigInt(i64::MIN)));
    assert_eq!(default("b"), None);
    assert_eq!(default("c"), Some(Value::Text("it's".into())));
    assert_eq!(default("d"), Some(Value::Real(0.0)));
}

#[test]
fn checks_are_written_anew_and_read_back_the_same() {
    for (given, written) in [
        ("n > 0 AND n < 10 AND r <> 0.50", r#"("n" > 0 AND ("n" < 10) AND ("r" <> 0.5))"#),
        ("n in (1, -2, 3)", r#"("n" IN (1, -2, 3))"#),
        ("s NOT IN ('a', 'it''s')", r#"("s" NOT IN ('a', 'it''s'))"#),
        ("NOT b OR s IS NULL", r#"((NOT "b") OR ("s" IS NULL))"#),
        ("length(s) <= 20", r#"(length("s") <= 20)"#),
        ("- -n = n", r#"((- (- "n")) = "n")"#),
        ("n - (r - 1) * 2 >= 0", r#"(("n" - (("r" - 1) * 2)) >= 0)"#),
        ("at > '2026-01-01T08:00:00+08:00'", r#"("at" > '2026-01-01T00:00:00.000Z')"#),
        ("b = TRUE", r#"("b" = TRUE)"#),
        ("j IS NOT NULL", r#"("j" IS NOT NULL)"#),
    ] {
        let sql = check(given);
        assert_eq!(check(&sql), sql, "{given}");
        let flat = |text: &str| text.replace(['(', ')'], "");
        assert_eq!(flat(&sql), flat(written), "{sql}");
    }
}

#[test]
fn checks_outside_the_language_are_refused() {
    for (condition, part) in [
        ("n / 2 > 1", "/ in"),
        ("s LIKE 'a%'", "not part of schema.sql"),
        ("upper(s) = 'A'", "not part of schema.sql"),
        ("n > (SELECT 1)", "not part of schema.sql"),
        ("s > 5", "compares text with a number"),
        ("b = 1", "compares true or false with a number"),
        ("j = '{}'", "of one type"),
        ("j = j", "IS NULL"),
        ("b > FALSE", "no order"),
        ("n = NULL", "IS NULL"),
        ("n", "a condition is needed"),
        ("s + 1 > 0", "a number is needed"),
        ("naem = 1", "no column naem"),
        ("nn = 1", "did you mean n?"),
        ("t.n = 1", "not part of schema.sql"),
        ("n IN ()", "at least one"),
        ("at > 'soon'", "not a TIMESTAMP"),
        ("length(at) = 24", "takes text"),
        ("s = 'a' COLLATE NOCASE", "not part of schema.sql"),
        ("n IS 1", ""),
        ("n = ?", "not part of schema.sql"),
        ("n = 1 COLLATE x", ""),
    ] {
        refused_in_table(&format!("CHECK ({condition})"), part);
    }
}

#[test]
fn a_very_long_or_deep_check_is_refused_and_does_not_overflow() {
    let deep = format!("CHECK ({}n = 1{})", "NOT (".repeat(60), ")".repeat(60));
    refused_in_table(&deep, "");
    let long = format!("CHECK (n = 1{})", " OR n = 1".repeat(5_000));
    refused_in_table(&long, "too long");
    let chain = format!("n = 1{}", " OR n = 1".repeat(300));
    assert_eq!(check(&check(&chain)), check(&chain));
}

#[test]
fn names_follow_one_rule() {
    refused("CREATE TABLE Orders (id TEXT PRIMARY KEY);", 1, "write orders");
    refused("CREATE TABLE pg_orders (id TEXT PRIMARY KEY);", 1, "pg_");
    refused("CREATE TABLE sqlite_x (id TEXT PRIMARY KEY);", 1, "sqlite_");
    refused("CREATE TABLE _oncehost_x (id TEXT PRIMARY KEY);", 1, "cannot name a table");
    refused(&format!("CREATE TABLE {} (id TEXT PRIMARY KEY);", "a".repeat(49)), 1, "at most 48");
    refused("CREATE TABLE t (id TEXT PRIMARY KEY,\n \"a b\" TEXT);", 2, "cannot name a column");
    refused("CREATE TABLE t (id TEXT PRIMARY KEY,\n `b` TEXT);", 2, "double quotes");
    refused("CREATE TABLE main.t (id TEXT PRIMARY KEY);", 1, "no schema in front");
    refused("CREATE TABLE t (id TEXT PRIMARY KEY,\n xmin TEXT);", 2, "Postgres");
    let schema = read("CREATE TABLE \"order\" (\"constructor\" TEXT PRIMARY KEY, \"group\" TEXT);");
    assert!(schema.tables["order"].column("group").is_some());
}

#[test]
fn other_statements_are_refused() {
    for (sql, part) in [
        ("DROP TABLE t;", "delete the CREATE"),
        ("ALTER TABLE t ADD COLUMN x TEXT;", "-- was:"),
        ("INSERT INTO t VALUES (1);", "in an action"),
        ("CREATE VIEW v AS SELECT 1;", "in an action"),
        ("CREATE TRIGGER a AFTER INSERT ON t BEGIN DELETE FROM t; SELECT 1; END;", "in the action"),
        ("CREATE TEMP TABLE t (id TEXT PRIMARY KEY);", "nothing else"),
        ("PRAGMA foreign_keys = OFF;", "delete this line"),
        ("SELECT 1;", "nothing else"),
        ("CREATE TABLE t AS SELECT 1;", "write the columns"),
        ("CREATE TABLE t (id TEXT PRIMARY KEY) STRICT;", "STRICT"),
        ("CREATE TABLE t (id TEXT PRIMARY KEY) WITHOUT ROWID;", "WITHOUT ROWID"),
        ("CREATE TABLE t (id TEXT PRIMARY KEY;", "do not close"),
        ("CREATE TABLE t (id TEXT PRIMARY KEY,);", "nothing between"),
        ("CREATE TABLE t (id TEXT);", "id TEXT PRIMARY KEY"),
        ("CREATE TABLE t (id TEXT PRIMARY KEY, id TEXT);", "twice"),
        ("CREATE TABLE t (id TEXT PRIMARY KEY, s TEXT 'x);", "nterminated"),
    ] {
        let found = faults(&format!("\n{sql}"));
        assert!(found.iter().all(|(line, _)| *line == 2), "{sql}: {found:?}");
        assert!(found.iter().any(|(_, message)| message.contains(part)), "{sql}: {found:?}");
    }
}

#[test]
fn indexes_are_plain() {
    let table = "CREATE TABLE t (id TEXT PRIMARY KEY, s TEXT, n INTEGER);\n";
    for (sql, part) in [
        ("CREATE INDEX i ON t (s) WHERE n > 0;", "covers all rows"),
        ("CREATE INDEX i ON t (s COLLATE NOCASE);", "without COLLATE"),
        ("CREATE INDEX i ON t (n DESC);", "write n alone"),
        ("CREATE INDEX i ON t (lower(s));", "not expressions"),
        ("CREATE INDEX i ON t (xyz);", "no column of it (there is id, s, n)"),
        ("CREATE INDEX i ON t (idd);", "no column of it (did you mean id?)"),
        ("CREATE INDEX i ON tt (s);", "did you mean t?"),
        ("CREATE INDEX i ON t (s, s);", "twice"),
        ("CREATE INDEX t ON t (s);", "called so already"),
        ("CREATE INDEX i ON t USING btree (s);", "nothing more"),
        ("CREATE INDEX Upper ON t (s);", "write upper"),
    ] {
        refused(&format!("{table}{sql}"), 2, part);
    }
    let schema = read(&format!("{table}CREATE UNIQUE INDEX IF NOT EXISTS i ON t (s, n ASC);"));
    assert!(schema.tables["t"].has_plain_unique(&["n", "s"]));
}

#[test]
fn foreign_keys_point_at_something_unique_of_the_same_type() {
    let parent = "CREATE TABLE p (id TEXT PRIMARY KEY, k TEXT UNIQUE, n INTEGER, a TEXT, b TEXT, UNIQUE (a, b));\n";
    for (column, part) in [
        ("x TEXT REFERENCES q (id)", "no such table (there is c, p)"),
        ("x TEXT REFERENCES pp (id)", "no such table (did you mean p?)"),
        ("x TEXT REFERENCES p (idd)", "did you mean id?"),
        ("x INTEGER REFERENCES p (id)", "same type"),
        ("x INTEGER REFERENCES p (n)", "CREATE UNIQUE INDEX p_n ON p (n);"),
        ("x TEXT, y TEXT, FOREIGN KEY (x, y) REFERENCES p", "as many columns"),
        ("x TEXT, FOREIGN KEY (z) REFERENCES p (id)", "names z"),
    ] {
        refused(&format!("{parent}CREATE TABLE c (id TEXT PRIMARY KEY, {column});"), 2, part);
    }
    let schema = read(&format!(
        "{parent}CREATE TABLE c (id TEXT PRIMARY KEY, x TEXT REFERENCES p, y TEXT, FOREIGN KEY (x, y) REFERENCES p (b, a));"
    ));
    let keys = &schema.tables["c"].foreign_keys;
    assert_eq!(keys[0].references, ["id"]);
    assert_eq!(keys[1].references, ["b", "a"]);
}

#[test]
fn a_shared_table_cannot_refer_to_a_tenants_table() {
    let sql = "CREATE TABLE p (id TEXT PRIMARY KEY);\nCREATE TABLE c (id TEXT PRIMARY KEY, p TEXT REFERENCES p);";
    let faults = parse(sql, &["c".into()]).unwrap_err();
    assert!(faults[0].message.contains("whose rows belong to tenants"), "{faults:?}");
    assert!(parse(sql, &["p".into()]).is_ok());
}

#[test]
fn was_comments_are_read_on_the_line_and_above_it() {
    let schema = read(
        "-- was: old_table\nCREATE TABLE t (\n  id TEXT PRIMARY KEY,\n  a TEXT, -- was: x\n  -- was: y\n  b TEXT,\n  c TEXT\n);\nCREATE TABLE u ( -- was: v\n  id TEXT PRIMARY KEY);",
    );
    let table = &schema.tables["t"];
    assert_eq!(table.was.as_deref(), Some("old_table"));
    let was: Vec<Option<&str>> = table.columns.iter().map(|column| column.was.as_deref()).collect();
    assert_eq!(was, [None, Some("x"), Some("y"), None]);
    assert_eq!(schema.tables["u"].was.as_deref(), Some("v"));
}

#[test]
fn was_comments_may_be_written_in_other_ways() {
    for comment in
        ["/* was: x */", "--was:x", "-- Was: x", "-- WAS : \"x\"", "-- was: x, until 2025", "/** was = x **/"]
    {
        let schema = read(&format!("CREATE TABLE t (\n  id TEXT PRIMARY KEY,\n  a TEXT {comment}\n);"));
        assert_eq!(schema.tables["t"].columns[1].was.as_deref(), Some("x"), "{comment}");
        let schema = read(&format!("CREATE TABLE t (\n  id TEXT PRIMARY KEY,\n  {comment}\n  a TEXT\n);"));
        assert_eq!(schema.tables["t"].columns[1].was.as_deref(), Some("x"), "{comment}");
    }
    for remark in ["-- was added in 2024", "-- what it was: a name of two words", "-- wash", "/* formerly ours, too */"]
    {
        let schema = read(&format!("CREATE TABLE t (\n  id TEXT PRIMARY KEY,\n  a TEXT {remark}\n);"));
        assert_eq!(schema.tables["t"].columns[1].was, None, "{remark}");
    }
}

#[test]
fn comments_that_look_like_a_renaming_are_refused_with_the_right_form() {
    for (comment, part) in [
        ("-- was x", "write -- was: x with a colon"),
        ("-- renamed from x", "write -- was: x"),
        ("/* formerly: x */", "write -- was: x"),
        ("-- the title; was: x", "write -- was: x"),
        ("-- was:", "one name, the old one"),
        ("-- was: x y", "one name, the old one"),
    ] {
        refused(&format!("CREATE TABLE t (\n id TEXT PRIMARY KEY,\n a TEXT {comment}\n);"), 3, part);
    }
    refused("CREATE TABLE t (id TEXT PRIMARY KEY, a TEXT /* was: x */);", 1, "the table or a column");
    refused("CREATE TABLE t (\n id TEXT PRIMARY KEY, a TEXT -- was: x\n);", 2, "several columns");
    refused("CREATE TABLE t (\n id TEXT PRIMARY KEY,\n -- was: x\n a TEXT, b TEXT);", 4, "several columns");
    refused("CREATE TABLE t (\n id TEXT PRIMARY KEY,\n a TEXT /* was: x */ /* was: y */);", 3, "twice");
}

#[test]
fn was_comments_that_rename_nothing_are_refused() {
    refused("CREATE TABLE t (\n  id TEXT PRIMARY KEY\n\n  -- was: x\n);", 4, "move it there");
    refused("CREATE TABLE t (\n id TEXT PRIMARY KEY,\n a TEXT,\n b TEXT -- was: a\n);", 4, "declared too");
    refused(
        "-- was: u\nCREATE TABLE t (id TEXT PRIMARY KEY);\nCREATE TABLE u (id TEXT PRIMARY KEY);",
        2,
        "declared too",
    );
}

#[test]
fn all_faults_come_at_once_in_order() {
    let found = faults(
        "CREATE TABLE a (\n  id TEXT PRIMARY KEY,\n  n INT,\n  s VARCHAR(5) COLLATE NOCASE,\n  CHECK (zz > 1)\n);\nDROP TABLE b;\nCREATE TABLE c (id TEXT PRIMARY KEY, x x x);\nCREATE INDEX i ON nowhere (a);",
    );
    let lines: Vec<u32> = found.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [3, 4, 4, 5, 7, 8, 9], "{found:#?}");
}

#[test]
fn long_names_of_unnamed_indexes_stay_distinct_and_short() {
    let column = |last: char| format!("{}{last}", "c".repeat(47));
    let (a, b) = (column('a'), column('b'));
    let schema =
        read(&format!("CREATE TABLE {} (id TEXT PRIMARY KEY, {a} TEXT UNIQUE, {b} TEXT UNIQUE);", "t".repeat(48)));
    let names: Vec<&str> =
        schema.tables.values().flat_map(|table| &table.indexes).map(|index| index.name.as_str()).collect();
    assert!(names.iter().all(|name| name.len() <= 63) && names[0] != names[1], "{names:?}");
}

#[test]
fn line_ends_and_byte_order_marks_of_windows_are_taken() {
    let schema = read("\u{feff}CREATE TABLE t (\r\n  id TEXT PRIMARY KEY,\r\n  a TEXT -- was: b\r\n);\r\n");
    assert_eq!(schema.tables["t"].column("a").unwrap().was.as_deref(), Some("b"));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn no_text_makes_the_reader_panic(words in proptest::collection::vec(proptest::sample::select(vec![
        "CREATE", "TABLE", "INDEX", "UNIQUE", "t", "id", "TEXT", "PRIMARY KEY", "(", ")", ",", ";", "CHECK", "NOT", "NULL", "DEFAULT",
        "REFERENCES", "FOREIGN KEY", "'", "\"", "-", "--", "-- was: x\n", "1", "1e9", "X'0", "/*", "*/", "\n", "é", "AND", "IN", "BETWEEN",
        "length", "=", "<", "+", "CONSTRAINT", "BEGIN", "END", "TRIGGER", "$", "?", "[", "]", "`", ".", "::", "CASE", "ON", "DELETE",
    ]), 0..40)) {
        let _ = parse(&words.join(" "), &[]);
        let _ = parse(&format!("CREATE TABLE t (id TEXT PRIMARY KEY, {})", words.join(" ")), &[]);
    }
}

#[test]
fn columns_have_an_end_that_is_said_at_its_line() {
    let table = |most: usize| {
        let columns: String = (1..most).map(|at| format!("c{at} TEXT,\n")).collect();
        parse(&format!("CREATE TABLE t (\n{columns}id TEXT PRIMARY KEY);"), &[])
    };
    assert_eq!(table(500).unwrap().tables["t"].columns.len(), 500);
    let faults = table(503).unwrap_err();
    assert_eq!((faults.len(), faults[0].line), (1, 502), "{faults:?}");
    assert!(faults[0].message.contains("more than 500 columns"), "{faults:?}");
}
