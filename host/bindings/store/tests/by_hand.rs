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
            &["no plain UNIQUE index on exactly (number)", "schema apply shop"],
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
