use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn options(where_: &str, order: &str, limit: i64, cursor: &Value) -> Value {
    Value::Object(vec![
        ("where".to_owned(), v(where_)),
        ("orderBy".to_owned(), v(order)),
        ("limit".to_owned(), Value::Int(limit)),
        ("cursor".to_owned(), cursor.clone()),
    ])
}

/// One page: the ids, and the next cursor.
fn page(shop: &Fixture, options: Value) -> (Vec<String>, Value) {
    let page = shop.call("list", &[text("orders"), options]).unwrap();
    let Some(Value::Array(records)) = page.get("records") else { panic!() };
    let ids = records.iter().map(|record| record.get("id").and_then(Value::as_text).unwrap().to_owned()).collect();
    (ids, page.get("nextCursor").unwrap().clone())
}

fn pages(shop: &Fixture, order: &str, limit: i64, mut between: impl FnMut(usize)) -> Vec<String> {
    let (mut all, mut cursor) = (Vec::new(), Value::Undefined);
    for round in 0.. {
        let (ids, next) = page(shop, options("{}", order, limit, &cursor));
        assert!(i64::try_from(ids.len()).unwrap() <= limit);
        all.extend(ids);
        if next == Value::Null {
            break;
        }
        cursor = next;
        between(round);
    }
    all
}

fn put(shop: &Fixture, id: &str, total: Option<i64>, number: Option<&str>) {
    let show = |json: Option<Json>| json.unwrap_or(Json::Null).to_string();
    let paid = total.map(|total| Json::from(total % 2 == 0));
    let rate = total.map(|total| Json::from(f64::from(i32::try_from(total % 100).unwrap()) / 3.0));
    let due = number.map(|name| Json::from(format!("2026-01-0{}T00:00:00Z", name.len() + 1)));
    let record = format!(
        r#"{{"id":{},"paid":{},"rate":{},"due":{},"total":{},"constructor":{}}}"#,
        Json::from(id),
        show(paid),
        show(rate),
        show(due.filter(|_| number.is_some_and(|name| name.len() < 8))),
        show(total.map(Json::from)),
        show(number.map(Json::from))
    );
    shop.call("createIfAbsent", &[text("orders"), v(&record), v(r#"["id"]"#)]).unwrap();
}

const ORDERS: [&str; 9] = [
    "{}",
    r#"{"total":"asc"}"#,
    r#"{"total":"desc"}"#,
    r#"[{"constructor":"asc"},{"total":"desc"}]"#,
    r#"{"constructor":"desc","total":"asc","id":"desc"}"#,
    r#"{"createdAt":"desc"}"#,
    r#"{"id":"desc"}"#,
    r#"[{"paid":"asc"},{"due":"desc"}]"#,
    r#"[{"paid":"desc"},{"rate":"asc"},{"total":"asc"},{"constructor":"desc"}]"#,
];

#[test]
fn nulls_and_text_are_ordered_as_the_contract_says() {
    let shop = Fixture::new();
    for (id, total, name) in [
        ("a", Some(2), Some("b")),
        ("b", None, Some("B")),
        ("c", Some(1), Some("é")),
        ("d", None, None),
        ("e", Some(2), Some("\u{ff5e}")),
        ("f", Some(1), Some("\u{1f600}")),
    ] {
        put(&shop, id, total, name);
    }
    let ids = |order: &str| page(&shop, options("{}", order, 100, &Value::Undefined)).0.join("");
    assert_eq!(ids(r#"{"total":"asc"}"#), "bdcfae");
    assert_eq!(ids(r#"{"total":"desc"}"#), "aecfbd");
    assert_eq!(ids(r#"{"constructor":"asc"}"#), "dbacef");
    assert_eq!(ids(r#"{"constructor":"desc"}"#), "fecabd");
    assert_eq!(ids(r#"[{"total":"asc"},{"id":"desc"}]"#), "dbfcea");
    assert_eq!(ids("{}"), "abcdef");
}

#[test]
fn a_cursor_belongs_to_its_tenant_table_where_and_order() {
    let shop = Fixture::new();
    for id in ["1", "2", "3"] {
        put(&shop, id, Some(1), None);
    }
    let (filter, order) = (r#"{"total":{"eq":1}}"#, r#"{"total":"asc"}"#);
    let (_, cursor) = page(&shop, options(filter, order, 1, &Value::Undefined));
    assert_eq!(page(&shop, options(filter, order, 1, &cursor)).0, ["2"]);
    let says = ["another tenant, table, where or orderBy"];
    for (filter, order) in
        [(r#"{"total":{"eq":2}}"#, order), ("{}", order), (filter, r#"{"total":"desc"}"#), (filter, "{}")]
    {
        shop.refused("list", &[text("orders"), options(filter, order, 1, &cursor)], Code::Contract, &says);
    }
    let other = call(&mut shop.host("umbrella"), "list", &[text("orders"), options(filter, order, 1, &cursor)]);
    assert_eq!(other.unwrap_err().code, Code::Contract);
    let lines = Value::Object(vec![("cursor".to_owned(), cursor)]);
    shop.refused("list", &[text("lines"), lines], Code::Contract, &says);
    for bad in ["", "x", "!!", "W10", "WzFd", "bnVsbA"] {
        shop.refused("list", &[text("orders"), options("{}", "{}", 1, &text(bad))], Code::Contract, &["cursor"]);
    }
    for bad in [Value::Null, Value::Int(1)] {
        shop.refused("list", &[text("orders"), options("{}", "{}", 1, &bad)], Code::Contract, &["leave it out"]);
    }
}

#[test]
fn options_are_checked_and_undefined_ones_left_out() {
    let shop = Fixture::new();
    let none = |name: &str| (name.to_owned(), Value::Undefined);
    let all_undefined = Value::Object(vec![none("where"), none("orderBy"), none("limit"), none("cursor")]);
    assert_eq!(shop.call("list", &[text("orders"), all_undefined]).unwrap(), v(r#"{"records":[],"nextCursor":null}"#));
    for (options, says) in [
        (r#"{"limit":0}"#, "1 to 1000"),
        (r#"{"limit":1001}"#, "1 to 1000"),
        (r#"{"limit":1.5}"#, "1 to 1000"),
        (r#"{"limit":"5"}"#, "1 to 1000"),
        (r#"{"limit":null}"#, "1 to 1000"),
        (r#"{"order_by":{"id":"asc"}}"#, "did you mean \"orderBy\"?"),
        (r#"{"offset":5}"#, "is no option"),
        (r#"{"orderBy":"id"}"#, "{ field: 'asc' | 'desc' }"),
        (r#"{"orderBy":{"id":"ASC"}}"#, "'asc' or 'desc'"),
        (r#"{"orderBy":{"id":1}}"#, "'asc' or 'desc'"),
        (r#"{"orderBy":[{"id":"asc"},{"id":"desc"}]}"#, "twice"),
        (r#"{"orderBy":{"extra":"asc"}}"#, "JSON"),
        (r#"{"orderBy":[["id"]]}"#, "{ field: 'asc' | 'desc' }"),
        (r#"{"where":null}"#, "where takes an object"),
    ] {
        shop.refused("list", &[text("orders"), v(options)], Code::Contract, &["store.list(\"orders\")", says]);
    }
}

#[test]
fn a_page_holds_100_rows_without_a_limit_and_ends_with_null() {
    let shop = Fixture::new();
    for number in 0..101 {
        put(&shop, &format!("{number:03}"), Some(number), None);
    }
    let (ids, next) = page(&shop, v("{}"));
    assert_eq!(ids.len(), 100);
    assert_eq!(page(&shop, Value::Object(vec![("cursor".to_owned(), next)])), (vec!["100".to_owned()], Value::Null));
    assert_eq!(page(&shop, v(r#"{"limit":101}"#)).1, Value::Null);
}

#[test]
fn a_page_too_large_for_memory_is_refused() {
    let shop = Fixture::new();
    let large = "x".repeat(1_000_000);
    for number in 0..40 {
        let row = v(&format!(r#"{{"id":"{number:02}","constructor":"{large}"}}"#));
        shop.call("createIfAbsent", &[text("orders"), row, v(r#"["id"]"#)]).unwrap();
    }
    shop.refused("list", &[text("orders")], Code::Limit, &["32 MiB", "limit"]);
    assert_eq!(page(&shop, v(r#"{"limit":20}"#)).0.len(), 20);
}

#[test]
fn paging_through_100_000_rows_that_change_meets_each_lasting_row_once() {
    let shop = Fixture::new();
    shop.sql(
        "WITH RECURSIVE n(i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM n WHERE i < 99999)
         INSERT INTO orders (tenant_id, id, total) SELECT 'acme', substr(CAST(1000000 + i AS TEXT), 2), i / 7 FROM n",
    );
    let order = r#"{"total":"desc"}"#;
    let mut fresh = 0;
    let met = pages(&shop, order, 1_000, |round| {
        for _ in 0..5 {
            fresh += 1;
            put(&shop, &format!("new{fresh}"), Some(i64::from(fresh * 2_851 % 14_285)), None);
        }
        // Rows whose id ends in 77 go, before and behind the cursor.
        let gone =
            format!(r#"{{"id":{{"in":["{:06}","{:06}"]}}}}"#, (round * 100 + 77) % 100_000, 99_977 - round * 100);
        shop.call("delete", &[text("orders"), v(&gone)]).unwrap();
    });
    let mut times: BTreeMap<&str, u32> = BTreeMap::new();
    for id in &met {
        *times.entry(id).or_default() += 1;
    }
    assert!(times.values().all(|times| *times == 1));
    let lasting = (0..100_000).map(|number| format!("{number:06}")).filter(|id| !id.ends_with("77"));
    assert_eq!(lasting.filter(|id| !times.contains_key(id.as_str())).count(), 0);
}

#[test]
fn pages_of_any_size_are_the_whole_list_in_order() {
    let shop = Fixture::new();
    let config = ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() };
    let row = (proptest::option::of(0_i64..3), proptest::option::of("[aAé]{0,2}"));
    let rows = proptest::collection::vec(row, 0..24);
    proptest!(config, |(rows in rows, order in proptest::sample::select(ORDERS.to_vec()), limit in 1_i64..7)| {
        shop.sql("DELETE FROM orders");
        for (at, (total, name)) in rows.iter().enumerate() {
            put(&shop, &format!("{:02}", at * 37 % 100), *total, name.as_deref());
        }
        let whole = page(&shop, options("{}", order, 1_000, &Value::Undefined)).0;
        prop_assert_eq!(whole.len(), rows.len());
        prop_assert_eq!(pages(&shop, order, limit, |_| {}), whole);
    });
}
