use rusqlite::{Connection, StatementStatus};

use super::*;
use crate::codec::{Value, json};
use crate::query::sql::{self, Set, Target};
use crate::query::{Filter, Purpose, filter, order};
use crate::schema::{self, Dialect, Table, ddl};

const SCHEMA: &str = "
    CREATE TABLE orders (id TEXT PRIMARY KEY, number TEXT UNIQUE, total INTEGER, rate REAL, note TEXT);
    CREATE INDEX orders_total ON orders (total);
";

fn orders() -> (Connection, Table) {
    let table = schema::parse(SCHEMA, &[]).unwrap().tables.remove("orders").unwrap();
    let connection = Connection::open_in_memory().unwrap();
    crate::store::sqlite::prepare(&connection).unwrap();
    let indexes = table.indexes.iter().map(|index| ddl::create_index(&table, index));
    let all: Vec<String> = std::iter::once(ddl::create_table(&table, "orders")).chain(indexes).collect();
    connection.execute_batch(&all.join(";")).unwrap();
    (connection, table)
}

fn v(text: &str) -> Value {
    json::from_json(&serde_json::from_str(text).unwrap())
}

/// The steps of SQLite's plan for a statement.
fn plan(connection: &Connection, statement: &Statement) -> String {
    let mut explained = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", statement.text)).unwrap();
    let steps = explained.query_map(params_from_iter(&statement.params), |row| row.get::<_, String>(3)).unwrap();
    steps.collect::<Result<Vec<_>, _>>().unwrap().join(" / ")
}

#[test]
fn conditions_of_a_tenant_use_an_index_that_begins_with_the_tenant() {
    let (connection, table) = orders();
    let target = Target { plugin: "shop", table: &table, tenant: "acme" };
    for (condition, wanted) in [
        ("{}", "(tenant_id=?)"),
        (r#"{"id":{"eq":"1"}}"#, "(tenant_id=? AND id=?)"),
        (r#"{"id":{"in":["1","2"]}}"#, "(tenant_id=? AND id=?)"),
        (r#"{"number":{"eq":"A"}}"#, "orders_number (tenant_id=? AND number=?)"),
        (r#"{"number":{"startsWith":"A"}}"#, "orders_number (tenant_id=? AND number>? AND number<?)"),
        (r#"{"total":{"gte":1,"lt":5}}"#, "orders_total (tenant_id=? AND total>? AND total<?)"),
        (r#"{"note":{"ne":"A"}}"#, "(tenant_id=?)"),
        (r#"{"or":[{"number":{"eq":"A"}},{"total":{"eq":1}}]}"#, "tenant_id=?"),
    ] {
        let filter = filter::parse(&table, &v(condition), Purpose::Read).unwrap();
        for statement in [
            sql::select(Dialect::Sqlite, target, &filter, None, None, 2),
            sql::count(Dialect::Sqlite, target, &filter),
            sql::delete(Dialect::Sqlite, target, &filter),
            sql::update(Dialect::Sqlite, target, &[Set::Put(3, Cell::Null)], &filter),
            sql::larger(Dialect::Sqlite, target, &filter, &[1], 2_000),
        ] {
            let plan = plan(&connection, &statement);
            assert!(plan.contains(wanted) && !plan.contains("SCAN"), "{condition}: {plan}");
        }
    }
}

#[test]
fn later_pages_begin_at_their_place_in_an_index() {
    let (connection, table) = orders();
    let target = Target { plugin: "shop", table: &table, tenant: "acme" };
    let text = |text: &str| Cell::Text(text.to_owned());
    for (by, after, wanted) in [
        ("{}", vec![text("5")], "(tenant_id=? AND id>?)"),
        (r#"{"total":"asc"}"#, vec![Cell::Integer(1), text("5")], "orders_total (tenant_id=? AND total>?)"),
        (r#"{"id":"desc"}"#, vec![text("5")], "(tenant_id=? AND id<?)"),
        (r#"{"total":"desc"}"#, vec![Cell::Integer(1), text("5")], "orders_total (tenant_id=? AND total<?)"),
        (r#"{"total":"desc"}"#, vec![Cell::Null, text("5")], "(tenant_id=? AND id>?)"),
    ] {
        let order = order::parse(&table, Some(&v(by))).unwrap();
        let statement = sql::select(Dialect::Sqlite, target, &Filter::All(Vec::new()), Some(&order), Some(&after), 101);
        let plan = plan(&connection, &statement);
        assert!(plan.contains(wanted) && !plan.contains("SCAN"), "{by}: {plan}");
    }
}

#[test]
fn list_is_planned_once_whatever_its_limit() {
    let (connection, table) = orders();
    let target = Target { plugin: "shop", table: &table, tenant: "acme" };
    let filter = filter::parse(&table, &v("{}"), Purpose::Read).unwrap();
    for limit in [1, 2, 1000, 1] {
        let statement = sql::select(Dialect::Sqlite, target, &filter, None, None, limit);
        let mut prepared = connection.prepare_cached(&statement.text).unwrap();
        assert!(prepared.query(params_from_iter(&statement.params)).unwrap().next().unwrap().is_none());
        assert_eq!(prepared.get_status(StatementStatus::RePrepare), 0, "limit {limit}");
    }
}
