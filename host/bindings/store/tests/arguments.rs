use super::*;

#[test]
fn calls_take_exactly_their_arguments() {
    let shop = Fixture::new();
    let (orders, all) = (text("orders"), v("{}"));
    shop.refused(
        "get",
        &[orders.clone(), all.clone(), all.clone()],
        Code::Contract,
        &["store.get(table, where) takes 2"],
    );
    shop.refused("get", std::slice::from_ref(&orders), Code::Contract, &["where takes an object"]);
    shop.refused("count", &[orders.clone(), Value::Undefined], Code::Contract, &["where takes an object", "undefined"]);
    shop.refused("list", &[], Code::Contract, &["table's name", "undefined"]);
    shop.refused("list", &[v("1")], Code::Contract, &["table's name", "a number"]);
    shop.refused("list", &[orders.clone(), v("[]")], Code::Contract, &["{ where, orderBy, limit, cursor }"]);
    shop.refused(
        "createIfAbsent",
        &[orders.clone(), v("[]"), v(r#"["id"]"#)],
        Code::Contract,
        &["record takes an object"],
    );
    shop.refused("update", &[orders.clone(), v(r#"{"id":{"eq":"1"}}"#)], Code::Contract, &["patch takes an object"]);
    shop.call("list", std::slice::from_ref(&orders)).unwrap();
    shop.call("get", &[orders, all, Value::Undefined]).unwrap();
}

#[test]
fn a_plugin_does_only_what_it_has_permission_for() {
    let mut shop = Fixture::new();
    shop.plugin = plugin(shop.folder.path(), r#"["data:write"]"#);
    for name in ["get", "list", "count"] {
        shop.refused(name, &[text("orders"), v("{}")], Code::Contract, &["data:read", "plugin.json"]);
    }
    shop.plugin = plugin(shop.folder.path(), r#"["data:read"]"#);
    for name in ["createIfAbsent", "update", "delete"] {
        shop.refused(name, &[text("orders"), v("{}")], Code::Contract, &["data:write", "plugin.json"]);
    }
}

#[test]
fn a_read_action_writes_nothing() {
    let shop = Fixture::new();
    let mut host = shop.host("acme");
    host.scope.may_write = false;
    let args = [text("orders"), v(r#"{"id":"1"}"#), v(r#"["id"]"#)];
    let failure = call(&mut host, "createIfAbsent", &args).unwrap_err();
    assert_eq!(failure.code, Code::Contract);
    assert!(failure.detail.contains("kind: 'read'"), "{failure}");
    assert_eq!(call(&mut host, "count", &[text("orders"), v("{}")]).unwrap(), v(r#"{"count":0}"#));
}

#[test]
fn get_refuses_more_than_one_match() {
    let shop = Fixture::new();
    for id in ["1", "2"] {
        let record = v(&format!(r#"{{"id":"{id}","total":1}}"#));
        shop.call("createIfAbsent", &[text("orders"), record, v(r#"["id"]"#)]).unwrap();
    }
    shop.refused("get", &[text("orders"), v(r#"{"total":{"eq":1}}"#)], Code::Contract, &["more than one", "list"]);
    assert_eq!(shop.call("get", &[text("orders"), v(r#"{"total":{"eq":2}}"#)]).unwrap(), Value::Null);
}

#[test]
fn tables_that_are_not_declared_cannot_be_reached() {
    let shop = Fixture::new();
    shop.refused(
        "list",
        &[text("order")],
        Code::Schema,
        &["no table order", "did you mean \"orders\"?", "schema apply shop"],
    );
    for name in [
        "sqlite_master",
        "_oncehost_keys",
        "orders\"",
        "orders; DROP TABLE orders",
        "main.orders",
        "Orders",
        "__proto__",
        "",
        "pg_class",
        "t'",
    ] {
        shop.refused("list", &[text(name)], Code::Contract, &["is no table of this plugin"]);
        shop.refused(
            "delete",
            &[text(name), v(r#"{"id":{"eq":"1"}}"#)],
            Code::Contract,
            &["is no table of this plugin"],
        );
    }
    for name in ["constructor", "toString".to_lowercase().as_str()] {
        shop.refused("list", &[text(name)], Code::Schema, &["declares no table"]);
    }
}

#[test]
fn columns_that_are_not_declared_reach_no_sql_wherever_they_stand() {
    let shop = Fixture::new();
    for name in [
        "__proto__",
        "toString",
        "id\"",
        "id; DROP TABLE orders",
        "t.id",
        "ID",
        "rowid",
        "oid",
        "_rowid_",
        "",
        "*",
        "id\0",
    ] {
        let object = |value: &str| Value::Object(vec![(name.to_owned(), v(value))]);
        let names = Value::Array(vec![text(name)]);
        let one = v(r#"{"id":{"eq":"1"}}"#);
        let says = ["has no column"];
        shop.refused("createIfAbsent", &[text("orders"), object("\"x\""), v(r#"["id"]"#)], Code::Contract, &says);
        shop.refused("createIfAbsent", &[text("orders"), v(r#"{"id":"1"}"#), names], Code::Contract, &says);
        shop.refused("update", &[text("orders"), one, object("\"x\"")], Code::Contract, &says);
        shop.refused("count", &[text("orders"), object(r#"{"eq":"x"}"#)], Code::Contract, &says);
        let order = Value::Object(vec![("orderBy".to_owned(), object("\"asc\""))]);
        shop.refused("list", &[text("orders"), order], Code::Contract, &says);
    }
    assert_eq!(shop.call("count", &[text("orders"), v("{}")]).unwrap(), v(r#"{"count":0}"#));
}

#[test]
fn a_column_called_constructor_is_a_column() {
    let shop = Fixture::new();
    shop.call("createIfAbsent", &[text("orders"), v(r#"{"id":"1","constructor":"c"}"#), v(r#"["id"]"#)]).unwrap();
    let found = shop.call("get", &[text("orders"), v(r#"{"constructor":{"eq":"c"}}"#)]).unwrap();
    assert_eq!(found.get("constructor"), Some(&text("c")));
    shop.refused(
        "createIfAbsent",
        &[text("lines"), v(r#"{"constructor":"c"}"#), v(r#"["sku"]"#)],
        Code::Contract,
        &["no column"],
    );
}

#[test]
fn the_hosts_columns_are_the_hosts() {
    let shop = Fixture::new();
    let one = v(r#"{"id":{"eq":"1"}}"#);
    for (name, says) in [
        ("createdAt", "set by the host"),
        ("updatedAt", "set by the host"),
        ("created_at", "called createdAt"),
        ("updated_at", "called updatedAt"),
        ("tenant_id", "belongs to the host"),
    ] {
        let object = Value::Object(vec![(name.to_owned(), text("2026-01-01T00:00:00Z"))]);
        shop.refused("createIfAbsent", &[text("orders"), object.clone(), v(r#"["id"]"#)], Code::Contract, &[says]);
        shop.refused("update", &[text("orders"), one.clone(), object], Code::Contract, &[says]);
    }
    for name in ["created_at", "tenant_id"] {
        let filter = Value::Object(vec![(name.to_owned(), v(r#"{"eq":"2026-01-01T00:00:00Z"}"#))]);
        shop.refused("count", &[text("orders"), filter], Code::Contract, &[name]);
        let order = Value::Object(vec![("orderBy".to_owned(), Value::Object(vec![(name.to_owned(), text("asc"))]))]);
        shop.refused("list", &[text("orders"), order], Code::Contract, &[name]);
    }
    let filter = v(r#"{"createdAt":{"gte":"2026-01-01T00:00:00Z"}}"#);
    assert_eq!(shop.call("count", &[text("orders"), filter]).unwrap(), v(r#"{"count":0}"#));
}

#[test]
fn refusals_name_the_call_the_table_and_what_was_probably_meant() {
    let shop = Fixture::new();
    for (filter, says) in [
        (r#"{"totl":{"eq":1}}"#, "no column \"totl\"; did you mean \"total\"?"),
        (r#"{"total":5}"#, "write { total: { eq: value } }"),
        (r#"{"total":null}"#, "write { total: { isNull: true } }"),
        (r#"{"total":[1]}"#, "write { total: { in: […] } }"),
        (r#"{"total":{"eq":null}}"#, "isNull"),
        (r#"{"total":{"ne":null}}"#, "isNull"),
        (r#"{"total":{"in":[1,null]}}"#, "where.total.in[1] is null"),
        (r#"{"total":{"$gte":1}}"#, "did you mean \"gte\"?"),
        (r#"{"number":{"like":"a%"}}"#, "did you mean \"startsWith\"?"),
        (r#"{"number":{"startswith":"a"}}"#, "did you mean \"startsWith\"?"),
        (r#"{"total":{"startsWith":"a"}}"#, "this one is INTEGER"),
        (r#"{"total":{"isNull":"yes"}}"#, "takes true or false"),
        (r#"{"total":{"in":5}}"#, "takes an array"),
        (r#"{"total":{"eq":"5"}}"#, "where.total.eq is INTEGER and takes a number"),
        (r#"{"due":{"lt":"2026-01-01T00:00:00"}}"#, "names no zone"),
        (r#"{"extra":{"gt":{}}}"#, "JSON column, which has no order"),
        (r#"{"or":{"total":{"eq":1}}}"#, "takes an array of conditions"),
        (r#"{"OR":[]}"#, "lower case"),
        (r#"{"and":[]}"#, "ANDed already"),
        (r#"{"or":[5]}"#, "where.or[0] takes an object"),
        (r#"{"or":[{"or":[{"total":{"foo":1}}]}]}"#, "where.or[0].or[0].total.foo"),
    ] {
        shop.refused("count", &[text("orders"), v(filter)], Code::Contract, &["store.count(\"orders\"): ", says]);
    }
}

#[test]
fn undefined_is_refused_anywhere_in_a_where() {
    let shop = Fixture::new();
    let member = |name: &str, value: Value| Value::Object(vec![(name.to_owned(), value)]);
    for filter in [
        member("total", Value::Undefined),
        member("nothing", Value::Undefined),
        member("or", Value::Undefined),
        member("total", member("eq", Value::Undefined)),
        member("total", member("in", Value::Array(vec![Value::Int(1), Value::Undefined]))),
        member("extra", member("eq", member("a", Value::Undefined))),
        member("or", Value::Array(vec![member("total", Value::Undefined)])),
    ] {
        shop.refused("count", &[text("orders"), filter.clone()], Code::Contract, &["undefined"]);
        shop.refused("delete", &[text("orders"), filter], Code::Contract, &["undefined"]);
    }
    shop.refused(
        "count",
        &[text("orders"), member("or", Value::Array(vec![Value::Undefined]))],
        Code::Contract,
        &["undefined"],
    );
}

#[test]
fn conditions_that_could_match_everything_change_nothing() {
    let shop = Fixture::new();
    for filter in [
        "{}",
        r#"{"or":[]}"#,
        r#"{"or":[{"id":{"eq":"1"}},{}]}"#,
        r#"{"id":{"eq":"1"},"total":{}}"#,
        r#"{"id":{"notIn":[]}}"#,
        r#"{"id":{"startsWith":""}}"#,
    ] {
        shop.refused("update", &[text("orders"), v(filter), v(r#"{"total":1}"#)], Code::Contract, &["every row"]);
        shop.refused("delete", &[text("orders"), v(filter)], Code::Contract, &[]);
        shop.call("count", &[text("orders"), v(filter)]).unwrap();
    }
    let nothing = shop.call("delete", &[text("orders"), v(r#"{"id":{"in":[]}}"#)]).unwrap();
    assert_eq!(nothing, v(r#"{"affected":0}"#));
}

#[test]
fn tests_that_no_row_can_fail_change_nothing() {
    let shop = Fixture::new();
    for (table, filter) in [
        ("orders", r#"{"id":{"isNull":false}}"#),
        ("lines", r#"{"qty":{"isNull":false},"tags":{"isNull":false}}"#),
        ("orders", r#"{"id":{"gte":""}}"#),
        ("orders", r#"{"or":[{"id":{"isNull":false}},{"total":{"eq":1}}]}"#),
        ("orders", r#"{"or":[{"total":{"isNull":true}},{"total":{"isNull":false}}]}"#),
    ] {
        shop.refused("delete", &[text(table), v(filter)], Code::Contract, &["every row", "{ id: { eq: id } }"]);
        shop.call("count", &[text(table), v(filter)]).unwrap();
    }
    let patch = v(r#"{"qty":1}"#);
    shop.refused("update", &[text("lines"), v(r#"{"qty":{"isNull":false}}"#), patch], Code::Contract, &["every row"]);
    // What a row can fail is no such test, and beside one that can, the others do no harm.
    for filter in [r#"{"total":{"isNull":false}}"#, r#"{"id":{"isNull":false,"eq":"1"}}"#, r#"{"id":{"gte":"a"}}"#] {
        assert_eq!(shop.call("delete", &[text("orders"), v(filter)]).unwrap(), v(r#"{"affected":0}"#), "{filter}");
    }
}

#[test]
fn conditions_have_bounds() {
    let shop = Fixture::new();
    let nested = (0..40).fold(r#"{"total":{"eq":1}}"#.to_owned(), |inner, _| format!(r#"{{"or":[{inner}]}}"#));
    shop.refused("count", &[text("orders"), v(&nested)], Code::Contract, &["16 levels"]);
    let many = vec![r#"{"total":{"eq":1}}"#; 300].join(",");
    shop.refused("count", &[text("orders"), v(&format!(r#"{{"or":[{many}]}}"#))], Code::Contract, &["256"]);
    let list = |length: usize| v(&format!(r#"{{"total":{{"in":[{}]}}}}"#, vec!["1"; length].join(",")));
    shop.refused("count", &[text("orders"), list(1_001)], Code::Contract, &["1,000"]);
    shop.call("count", &[text("orders"), list(1_000)]).unwrap();
    let widest = vec![r#"{"total":{"ne":1}}"#; 128].join(",");
    shop.call("count", &[text("orders"), v(&format!(r#"{{"or":[{widest}]}}"#))]).unwrap();
}

#[test]
fn a_patch_sets_something() {
    let shop = Fixture::new();
    let one = v(r#"{"id":{"eq":"1"}}"#);
    let nothing = Value::Object(vec![("total".to_owned(), Value::Undefined)]);
    for patch in [v("{}"), nothing] {
        shop.refused("update", &[text("orders"), one.clone(), patch], Code::Contract, &["sets nothing"]);
    }
}
