//! What hands other than the host's did to a database, in SQLite's words.

use super::*;

#[test]
fn create_if_absent_refuses_where_the_database_has_no_plain_unique_index() {
    for by_hand in [
        "",
        "CREATE UNIQUE INDEX orders_number ON orders (tenant_id, number COLLATE NOCASE)",
        "CREATE UNIQUE INDEX orders_number ON orders (tenant_id COLLATE NOCASE, number)",
        "CREATE UNIQUE INDEX orders_number ON orders (tenant_id, number) WHERE total > 0",
        "CREATE UNIQUE INDEX orders_number ON orders (tenant_id, lower(number))",
        "CREATE UNIQUE INDEX orders_number ON orders (number)",
        "CREATE UNIQUE INDEX orders_number ON orders (tenant_id, number, total)",
        "CREATE INDEX orders_number ON orders (tenant_id, number)",
    ] {
        let shop = Fixture::new();
        let args = [text("orders"), v(r#"{"number":"A"}"#), v(r#"["number"]"#)];
        // The statement is in the cache when the index changes.
        shop.call("createIfAbsent", &args).unwrap();
        shop.sql(&format!("DROP INDEX orders_number; {by_hand}"));
        shop.refused(
            "createIfAbsent",
            &args,
            Code::Schema,
            &[
                "no plain UNIQUE index on exactly (number)",
                "schema apply shop",
                r#"CREATE UNIQUE INDEX "orders_number" ON "orders" ("tenant_id", "number")"#,
            ],
        );
        assert_eq!(shop.call("count", &[text("orders"), v("{}")]).unwrap(), v(r#"{"count":1}"#), "{by_hand}");
    }
}

#[test]
fn a_transaction_rolled_back_by_the_database_is_gone() {
    let shop = Fixture::new();
    shop.sql("CREATE TRIGGER t BEFORE INSERT ON orders BEGIN SELECT raise(ROLLBACK, 'by hand'); END");
    shop.sql("COMMIT; BEGIN IMMEDIATE");
    let host = shop.host("acme");
    let target = Target { plugin: "shop", table: &shop.plugin.schema.tables["orders"], tenant: "acme" };
    let cells = record(&host.scope, target.table, &v("{}")).unwrap();
    let gone = records::create_if_absent(&host.tx, target, cells, &[0]);
    assert!(matches!(gone, Err(crate::store::StoreError::Gone(_))), "{gone:?}");
}

#[test]
fn an_insert_that_is_swallowed_ends_in_an_error_and_no_endless_loop() {
    let shop = Fixture::new();
    shop.sql("CREATE TRIGGER t BEFORE INSERT ON orders BEGIN SELECT raise(IGNORE); END");
    let args = [text("orders"), v(r#"{"id":"1"}"#), v(r#"["id"]"#)];
    shop.refused("createIfAbsent", &args, Code::Unavailable, &["cannot be read"]);
}

#[test]
fn a_value_changed_by_hand_is_explained() {
    let shop = Fixture::new();
    shop.call("createIfAbsent", &[text("orders"), v(r#"{"id":"1","extra":{}}"#), v(r#"["id"]"#)]).unwrap();
    shop.sql("PRAGMA ignore_check_constraints = ON; UPDATE orders SET extra = 'no json'");
    shop.refused("list", &[text("orders")], Code::Schema, &["orders.extra is JSON", "by hand"]);
}

#[test]
fn missing_index_or_column_is_shown_as_the_plan_would_add_it() {
    let shop = Fixture::new();
    let args = [text("orders"), v(r#"{"number":"A"}"#), v(r#"["number"]"#)];
    for by_hand in ["DROP INDEX orders_number", "ALTER TABLE lines DROP COLUMN qty"] {
        shop.sql(&format!("COMMIT; {by_hand}; BEGIN IMMEDIATE"));
        let plan = tables::plan(&Sqlite::stores(shop.folder.path()).plugin("shop"), &shop.plugin.schema, &[]).unwrap();
        let step = plan.steps.iter().flat_map(|step| &step.sql).next().unwrap().clone();
        match by_hand.starts_with("DROP") {
            true => shop.refused("createIfAbsent", &args, Code::Schema, &[&step, "oncehost schema apply shop"]),
            false => shop.refused("count", &[text("lines"), v(r#"{"qty":{"eq":1}}"#)], Code::Schema, &[&step]),
        }
        shop.sql(&step);
    }
}

#[test]
fn default_null_of_a_json_column_is_null_in_new_rows_and_in_old_ones() {
    let wanted = |sql: &str| crate::schema::parse(sql, &[]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut conn = rusqlite::Connection::open(folder.path().join("a.db")).unwrap();
    let (first, second) =
        ("CREATE TABLE t (id TEXT PRIMARY KEY);", "CREATE TABLE t (id TEXT PRIMARY KEY, j JSON DEFAULT 'null');");
    crate::schema::apply(&mut conn, &wanted(first), &[], 0).unwrap();
    conn.execute_batch("INSERT INTO t VALUES ('acme', 'old')").unwrap();
    crate::schema::apply(&mut conn, &wanted(second), &[], 0).unwrap();
    conn.execute_batch("INSERT INTO t (tenant_id, id) VALUES ('acme', 'new')").unwrap();
    let nulls: i64 = conn.query_row("SELECT count(*) FROM t WHERE j IS NULL", [], |row| row.get(0)).unwrap();
    assert_eq!(nulls, 2);
    assert_eq!(wanted(second).tables["t"].column("j").unwrap().default, None);
}

#[test]
fn search_that_outlasts_the_run_is_stopped_before_anything_changes() {
    let shop = Fixture::new();
    shop.sql(
        "INSERT INTO orders (tenant_id, id, number, total) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n \
         WHERE i < 20000) SELECT 'acme', i, i, i FROM n",
    );
    let mut late = shop.host("acme");
    late.tx = late.tx.until(std::time::Instant::now());
    let slow = v(r#"{"constructor":{"isNull":true},"rate":{"isNull":true}}"#);
    for args in [vec![text("orders"), slow.clone(), v(r#"{"total":1}"#)], vec![text("orders"), slow]] {
        let name = if args.len() == 3 { "update" } else { "delete" };
        let failure = call(&mut late, name, &args).unwrap_err();
        assert_eq!(failure.code, Code::Limit, "{name}: {failure}");
    }
    let one = [text("orders"), v(r#"{"id":{"eq":"7"}}"#), v(r#"{"total":-1}"#)];
    assert_eq!(call(&mut late, "update", &one).unwrap(), v(r#"{"affected":1}"#), "the transaction goes on");
    let all = shop.call("count", &[text("orders"), v(r#"{"total":{"ne":1}}"#)]).unwrap();
    assert_eq!(all, v(r#"{"count":19999}"#), "only row 1 has the total 1, as before");
}
