//! From one schema to another on Postgres, with rows in between.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::schema::{Plan, State, parse, render};
use crate::store::postgres::Limits;
use crate::store::tables::{apply, plan, status};
use crate::store::{self, Access};
use crate::test_postgres;

/// A plugin's schema in a database of its own.
struct Shop {
    shared: Arc<Shared>,
    database: store::Database,
}

fn schema(sql: &str) -> Schema {
    let shared = sql.contains("TABLE rates").then(|| "rates".to_owned());
    parse(sql, shared.as_slice()).unwrap_or_else(|faults| panic!("{sql}\n{faults:#?}"))
}

impl Shop {
    fn new() -> Self {
        let limits = Limits { connections: 4, lock_wait: Duration::from_secs(5), answer: Duration::from_secs(30) };
        let server = Server::new(&test_postgres::database(), limits).unwrap();
        let shared = Shared::open(&server, "shop", Access::Write).unwrap();
        Self { shared, database: store::Database::Postgres(server, "shop".to_owned()) }
    }

    /// Applies `sql`, allowing everything, and checks that the database then is as wanted.
    fn bring(&self, sql: &str) -> Plan {
        let wanted = schema(sql);
        let refused = plan(&self.database, &wanted, &[]).unwrap().refusals;
        let allowed: Vec<String> = refused.into_iter().filter_map(|refusal| refusal.allow).collect();
        let applied =
            apply(&store::Shared::Postgres(self.shared.clone()), &wanted, &allowed, 5).unwrap_or_else(|error| {
                match error {
                    ApplyError::Refused(plan) => panic!("{}", render(&plan)),
                    ApplyError::Store(error) => panic!("{error}"),
                }
            });
        let after = status(&self.database, &wanted).unwrap();
        assert_eq!(after.state, State::Equal, "{}\n{}", render(&after.plan), wanted.to_sql());
        applied.plan
    }

    /// Runs statements by hand.
    fn sql(&self, sql: &str) {
        let catalog = Catalog::begin(&self.shared, "BEGIN").unwrap();
        catalog.run(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        catalog.end("COMMIT").unwrap();
    }

    /// The first column of the first row, as text.
    fn one(&self, sql: &str) -> String {
        let rows = within(&self.shared, LOOK, |db| db.rows(&format!("SELECT CAST(({sql}) AS TEXT)"))).unwrap();
        rows[0][0].as_text().unwrap_or("NULL").to_owned()
    }

    /// Why `sql` is refused.
    fn refused(&self, sql: &str) -> String {
        let plan = plan(&self.database, &schema(sql), &[]).unwrap();
        assert!(!plan.refusals.is_empty(), "{}", render(&plan));
        assert!(matches!(
            apply(&store::Shared::Postgres(self.shared.clone()), &schema(sql), &[], 5),
            Err(ApplyError::Refused(_))
        ));
        plan.refusals.into_iter().map(|refusal| refusal.message).collect::<Vec<_>>().join("\n")
    }
}

const ALL: &str = "
    CREATE TABLE p (id TEXT PRIMARY KEY, code TEXT NOT NULL UNIQUE);
    CREATE TABLE t (id TEXT PRIMARY KEY, i INTEGER DEFAULT -5 CHECK (i <> 9223372036854775807), r REAL NOT NULL DEFAULT 0.5,
      b BOOLEAN DEFAULT TRUE, s TEXT DEFAULT 'it''s' CONSTRAINT short CHECK (length(s) < 10 AND s <> 'X''a'),
      x BLOB DEFAULT X'00ff', j JSON NOT NULL DEFAULT '{\"b\":1,\"a\":[]}', at TIMESTAMP DEFAULT '2026-01-31T12:00:00Z',
      large INTEGER DEFAULT 9007199254740993, parent TEXT REFERENCES p (id), CHECK (length(x) < 3 OR b), CHECK (i BETWEEN -9 AND 9));
    CREATE INDEX t_by_i ON t (i, at);
    CREATE TABLE rates (name TEXT PRIMARY KEY, value REAL);";

#[test]
fn all_that_the_language_says_is_made_and_read_back() {
    let shop = Shop::new();
    assert!(shop.bring(ALL).steps.len() >= 4);
    assert!(shop.bring(ALL).steps.is_empty());
    shop.sql(
        "INSERT INTO p VALUES ('acme', '1', 'a'); INSERT INTO t (tenant_id, id, parent) VALUES ('acme', '1', '1')",
    );
    assert_eq!(
        shop.one("SELECT i || s || encode(x, 'hex') || j || large FROM t"),
        "-5it's00ff{\"a\":[],\"b\":1}9007199254740993"
    );
    for broken in ["i = 77", "s = 'much longer'", "x = '\\x010203', b = FALSE", "parent = '2'", "j = '{'"] {
        let catalog = Catalog::begin(&shop.shared, "BEGIN").unwrap();
        let refused = catalog.run(&format!("UPDATE t SET {broken}"));
        assert!(refused.is_err(), "{broken}");
        catalog.give_up(());
    }
}

#[test]
fn columns_and_indexes_are_added_without_touching_rows() {
    let shop = Shop::new();
    shop.bring("CREATE TABLE t (id TEXT PRIMARY KEY);");
    shop.sql("INSERT INTO t VALUES ('acme', '1')");
    let plan = shop.bring(
        "CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER NOT NULL DEFAULT 7, j JSON DEFAULT '[]', s TEXT);
         CREATE UNIQUE INDEX t_s ON t (s, n);",
    );
    assert!(!render(&plan).contains("made anew"), "{}", render(&plan));
    assert_eq!(shop.one("SELECT n || j FROM t"), "7[]");
}

#[test]
fn making_a_parent_anew_keeps_its_children_and_their_keys() {
    let shop = Shop::new();
    let child = "CREATE TABLE c (id TEXT PRIMARY KEY, p TEXT REFERENCES p (id));";
    shop.bring(&format!("CREATE TABLE p (id TEXT PRIMARY KEY, n INTEGER); {child}"));
    shop.sql("INSERT INTO p VALUES ('acme', '1', 5); INSERT INTO c VALUES ('acme', '1', '1')");
    shop.bring(&format!("CREATE TABLE p (id TEXT PRIMARY KEY, n REAL NOT NULL); {child}"));
    assert_eq!((shop.one("SELECT n FROM p"), shop.one("SELECT count(*) FROM c")), ("5".to_owned(), "1".to_owned()));
    let catalog = Catalog::begin(&shop.shared, "BEGIN").unwrap();
    assert!(catalog.run("DELETE FROM p").is_err(), "the key still holds");
    catalog.give_up(());
}

#[test]
fn renames_keep_rows_and_follow_references_and_checks() {
    let shop = Shop::new();
    shop.bring(
        "CREATE TABLE p (id TEXT PRIMARY KEY, j JSON, n INTEGER CHECK (n > 0), CONSTRAINT both CHECK (n < 9 OR j IS NULL));
         CREATE TABLE c (id TEXT PRIMARY KEY, p TEXT REFERENCES p (id));",
    );
    shop.sql("INSERT INTO p VALUES ('acme', '1', '[]', 5); INSERT INTO c VALUES ('acme', '1', '1')");
    let plan = shop.bring(
        "-- was: p
         CREATE TABLE parents (id TEXT PRIMARY KEY,
           data JSON, -- was: j
           count INTEGER CHECK (count > 0), -- was: n
           CONSTRAINT both CHECK (count < 9 OR data IS NULL));
         CREATE TABLE c (id TEXT PRIMARY KEY, p TEXT REFERENCES parents (id));",
    );
    assert!(!render(&plan).contains("made anew"), "{}", render(&plan));
    assert_eq!(shop.one("SELECT data || count FROM parents"), "[]5");
    shop.bring("CREATE TABLE parents (id TEXT PRIMARY KEY, data JSON, j JSON, count INTEGER); CREATE TABLE c (id TEXT PRIMARY KEY, p TEXT REFERENCES parents (id));");
}

#[test]
fn types_change_where_every_value_has_a_counterpart() {
    let all = [
        ("INTEGER", "7", "REAL", "7"),
        ("REAL", "7", "INTEGER", "7"),
        ("INTEGER", "7", "TEXT", "7"),
        ("REAL", "7", "TEXT", "7"),
        ("REAL", "0.30000000000000004", "TEXT", "0.30000000000000004"),
        ("REAL", "-2.5e-7", "TEXT", "-2.5e-7"),
        ("REAL", "5e-324", "TEXT", "5e-324"),
        ("REAL", "1e23", "TEXT", "1e+23"),
        ("REAL", "1e22", "TEXT", "1e+22"),
        ("REAL", "-1.5e22", "TEXT", "-1.5e+22"),
        ("REAL", "1e20", "TEXT", "100000000000000000000"),
        ("REAL", "1.2345678901234567e20", "TEXT", "123456789012345670000"),
        ("REAL", "1.7976931348623157e308", "TEXT", "1.7976931348623157e+308"),
        ("REAL", "-0.000012", "TEXT", "-0.000012"),
        ("REAL", "123456789.125", "TEXT", "123456789.125"),
        ("TEXT", "'5e-324'", "REAL", "5e-324"),
        ("TEXT", "'1e+23'", "REAL", "9.999999999999999e+22"),
        ("TEXT", "'123456789012345670000'", "REAL", "1.2345678901234567e+20"),
        ("TEXT", "'1.7976931348623157e+308'", "REAL", "1.7976931348623157e+308"),
        ("TEXT", "'0.30000000000000004'", "REAL", "0.30000000000000004"),
        ("TEXT", "'-12'", "INTEGER", "-12"),
        ("TEXT", "'1.5e3'", "REAL", "1500"),
        ("BOOLEAN", "TRUE", "INTEGER", "1"),
        ("INTEGER", "1", "BOOLEAN", "true"),
        ("BOOLEAN", "FALSE", "TEXT", "false"),
        ("JSON", "'[1]'", "TEXT", "[1]"),
        ("TIMESTAMP", "'2026-01-31T12:00:00.5Z'", "TEXT", "2026-01-31T12:00:00.500Z"),
        ("TEXT", "'2024-02-29T12:00:00.500Z'", "TIMESTAMP", "2024-02-29 12:00:00.5+00"),
        ("TEXT", "'é'", "BLOB", "\\xc3a9"),
    ];
    let shop = Shop::new();
    for (from, value, to, wanted) in all {
        shop.bring("CREATE TABLE other (id TEXT PRIMARY KEY);");
        shop.bring(&format!("CREATE TABLE t (id TEXT PRIMARY KEY, v {from});"));
        shop.sql(&format!("INSERT INTO t VALUES ('acme', '1', {value}), ('acme', '2', NULL)"));
        shop.bring(&format!("CREATE TABLE t (id TEXT PRIMARY KEY, v {to});"));
        assert_eq!(shop.one("SELECT v FROM t WHERE id = '1'"), wanted, "{from} to {to}");
        assert_eq!(shop.one("SELECT v FROM t WHERE id = '2'"), "NULL", "{from} to {to}");
    }
}

#[test]
fn what_rows_do_not_allow_is_refused_and_shown() {
    let shop = Shop::new();
    shop.bring("CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER, s TEXT); CREATE TABLE p (id TEXT PRIMARY KEY);");
    shop.sql("INSERT INTO t VALUES ('acme', '1', 5, 'x'), ('acme', '2', 5, '2023-02-29T00:00:00.000Z'), ('acme', '3', NULL, '')");
    let table = |columns: &str| {
        format!("CREATE TABLE t (id TEXT PRIMARY KEY, {columns}); CREATE TABLE p (id TEXT PRIMARY KEY);")
    };
    for (columns, says) in [
        ("n INTEGER NOT NULL, s TEXT", "rows have no value"),
        ("n INTEGER UNIQUE, s TEXT", "stand more than once"),
        ("n INTEGER CHECK (n > 5), s TEXT", "does not hold"),
        ("n INTEGER, s INTEGER", "no counterpart in INTEGER"),
        ("n INTEGER, s REAL", "no counterpart in REAL"),
        ("n INTEGER, s TIMESTAMP", "no counterpart in TIMESTAMP"),
        ("n INTEGER, s TEXT REFERENCES p (id)", "are not there"),
        ("n INTEGER", "--allow-destructive t.s"),
    ] {
        let told = shop.refused(&table(columns));
        assert!(told.contains(says), "{columns}: {told}");
    }
    assert_eq!(shop.one("SELECT count(*) FROM t"), "3");
    for lost in ["9007199254740993", "0.12345678901234567890", "1e400", "1e-400", "4.9e-324", "2e-324", " 1", "x"] {
        shop.sql(&format!("UPDATE t SET s = '{lost}'"));
        assert!(shop.refused(&table("n INTEGER, s REAL")).contains("no counterpart in REAL"), "{lost}");
    }
}

#[test]
fn changes_by_hand_are_told_and_taken_back() {
    let shop = Shop::new();
    shop.bring(ALL);
    for by_hand in [
        "ALTER TABLE t ADD COLUMN more TEXT",
        "ALTER TABLE t ALTER COLUMN s TYPE VARCHAR(10)",
        "ALTER TABLE t ALTER COLUMN s TYPE TEXT COLLATE \"default\"",
        "ALTER TABLE t ALTER COLUMN i SET DEFAULT 6",
        "ALTER TABLE t ALTER COLUMN at SET DEFAULT now()",
        "ALTER TABLE t ALTER COLUMN i SET NOT NULL",
        "ALTER TABLE t DROP CONSTRAINT short",
        "ALTER TABLE t ADD CHECK (i > -100)",
        "ALTER TABLE t DROP CONSTRAINT t_parent_fkey",
        "ALTER TABLE t DROP CONSTRAINT _oncehost_json_j",
        "DROP INDEX t_by_i; CREATE INDEX t_by_i ON t (tenant_id, i) WHERE i > 0",
        "DROP INDEX p_code; CREATE UNIQUE INDEX p_code ON p (tenant_id, lower(code))",
        "ALTER TABLE p ADD UNIQUE (code)",
        "CREATE VIEW v AS SELECT 1 AS one",
        "CREATE OR REPLACE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; \
         CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
        "ALTER TABLE t ALTER CONSTRAINT t_parent_fkey DEFERRABLE",
    ] {
        shop.sql(by_hand);
        let seen = status(&shop.database, &schema(ALL)).unwrap();
        assert_eq!(seen.state, State::Drift, "{by_hand}");
        shop.bring(ALL);
    }
}
