use super::*;

#[test]
fn create_if_absent_gives_the_row_that_is_there() {
    let shop = Fixture::new();
    let unique = v(r#"["number"]"#);
    let first =
        shop.call("createIfAbsent", &[text("orders"), v(r#"{"number":"A","total":5}"#), unique.clone()]).unwrap();
    let second = shop.call("createIfAbsent", &[text("orders"), v(r#"{"number":"A","total":6}"#), unique]).unwrap();
    assert_eq!(first.get("created"), Some(&Value::Bool(true)));
    assert_eq!(second.get("created"), Some(&Value::Bool(false)));
    assert_eq!(first.get("record"), second.get("record"));
    assert_eq!(shop.call("count", &[text("orders"), v("{}")]).unwrap(), v(r#"{"count":1}"#));
}

#[test]
fn a_made_record_reads_as_it_was_answered() {
    let shop = Fixture::new();
    let made =
        shop.call("createIfAbsent", &[text("orders"), v(r#"{"number":"A","rate":2}"#), v(r#"["number"]"#)]).unwrap();
    let read = shop.call("get", &[text("orders"), v(r#"{"number":{"eq":"A"}}"#)]).unwrap();
    assert_eq!(made.get("record"), Some(&read));
    let Value::Object(members) = &read else { panic!() };
    let names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
    let wanted = "id number total rate paid extra raw due constructor createdAt updatedAt";
    assert_eq!(names.join(" "), wanted);
    assert_eq!(read.get("createdAt"), Some(&text("2026-01-01T00:00:00.000Z")));
    assert_eq!(read.get("id").and_then(Value::as_text).unwrap().len(), 36);
}

#[test]
fn ids_rise_in_the_order_of_the_calls() {
    let shop = Fixture::new();
    for number in 0..50 {
        let record = v(&format!(r#"{{"number":"{number}"}}"#));
        shop.call("createIfAbsent", &[text("orders"), record, v(r#"["number"]"#)]).unwrap();
    }
    let all = shop.call("list", &[text("orders"), v("{}")]).unwrap();
    let Some(Value::Array(records)) = all.get("records") else { panic!() };
    let numbers: Vec<_> = records.iter().map(|record| record.get("number").cloned()).collect();
    assert_eq!(numbers, (0..50).map(|number| Some(text(&number.to_string()))).collect::<Vec<_>>());
}

#[test]
fn defaults_of_the_schema_are_in_the_record() {
    let shop = Fixture::new();
    shop.call("createIfAbsent", &[text("orders"), v(r#"{"id":"o"}"#), v(r#"["id"]"#)]).unwrap();
    let unique = v(r#"["sku","order_id"]"#);
    let made = shop.call("createIfAbsent", &[text("lines"), v(r#"{"order_id":"o","sku":"s"}"#), unique]).unwrap();
    assert_eq!(made, v(r#"{"record":{"order_id":"o","sku":"s","qty":1,"tags":[1,{}]},"created":true}"#));
}

#[test]
fn create_if_absent_needs_its_unique_columns_in_the_record_and_not_null() {
    let shop = Fixture::new();
    for record in [r#"{"total":1}"#, r#"{"number":null}"#] {
        let args = [text("orders"), v(record), v(r#"["number"]"#)];
        shop.refused("createIfAbsent", &args, Code::Contract, &["number is in uniqueBy", "must hold it"]);
    }
    let undefined = Value::Object(vec![("number".to_owned(), Value::Undefined)]);
    shop.refused("createIfAbsent", &[text("orders"), undefined, v(r#"["number"]"#)], Code::Contract, &["number"]);
    for unique in ["[]", "null", r#""number""#, "[1]", r#"["number","number"]"#] {
        shop.refused(
            "createIfAbsent",
            &[text("orders"), v(r#"{"number":"A"}"#), v(unique)],
            Code::Contract,
            &["uniqueBy"],
        );
    }
}

#[test]
fn create_if_absent_refuses_where_the_model_has_no_plain_unique_index() {
    let shop = Fixture::new();
    let says = [
        "no plain UNIQUE index",
        "CREATE UNIQUE INDEX orders_total_number ON orders (total, number)",
        "schema apply shop",
        r#"CREATE UNIQUE INDEX "orders_total_number" ON "orders" ("tenant_id", "total"#,
    ];
    let args = [text("orders"), v(r#"{"number":"A","total":1}"#), v(r#"["total","number"]"#)];
    shop.refused("createIfAbsent", &args, Code::Schema, &says);
    shop.refused("createIfAbsent", &[text("orders"), v(r#"{"total":1}"#), v(r#"["total"]"#)], Code::Schema, &[]);
}

#[test]
fn another_unique_index_gives_duplicate_and_the_transaction_goes_on() {
    let shop = Fixture::new();
    shop.call("createIfAbsent", &[text("orders"), v(r#"{"id":"1","number":"secret"}"#), v(r#"["id"]"#)]).unwrap();
    let again = [text("orders"), v(r#"{"id":"2","number":"secret"}"#), v(r#"["id"]"#)];
    shop.refused("createIfAbsent", &again, Code::Duplicate, &["orders", "(number)"]);
    let failure = shop.call("createIfAbsent", &again).unwrap_err();
    assert!(!failure.detail.contains("secret") && !failure.detail.contains("tenant_id"), "{failure}");
    shop.call("createIfAbsent", &[text("orders"), v(r#"{"id":"3"}"#), v(r#"["id"]"#)]).unwrap();
    let affected = shop.call("update", &[text("orders"), v(r#"{"id":{"eq":"3"}}"#), v(r#"{"id":"1"}"#)]);
    assert_eq!(affected.unwrap_err().code, Code::Duplicate);
    assert_eq!(shop.call("count", &[text("orders"), v("{}")]).unwrap(), v(r#"{"count":2}"#));
}

#[test]
fn broken_constraints_say_which_and_leave_the_transaction_usable() {
    let shop = Fixture::new();
    let (id, pair) = (v(r#"["id"]"#), v(r#"["order_id","sku"]"#));
    let check = [text("orders"), v(r#"{"id":"1","total":-13}"#), id.clone()];
    shop.refused("createIfAbsent", &check, Code::Constraint, &["CHECK", "\"total\" <> -13"]);
    let line = [text("lines"), v(r#"{"order_id":"none","sku":"s"}"#), pair.clone()];
    shop.refused("createIfAbsent", &line, Code::Constraint, &["foreign key", "(order_id) refers to orders"]);
    shop.call("createIfAbsent", &[text("orders"), v(r#"{"id":"1"}"#), id]).unwrap();
    let line = [text("lines"), v(r#"{"order_id":"1","sku":"s","qty":null}"#), pair.clone()];
    shop.refused("createIfAbsent", &line, Code::Constraint, &["qty is NOT NULL"]);
    shop.call("createIfAbsent", &[text("lines"), v(r#"{"order_id":"1","sku":"s"}"#), pair]).unwrap();
    shop.refused("delete", &[text("orders"), v(r#"{"id":{"eq":"1"}}"#)], Code::Constraint, &["foreign key"]);
    assert_eq!(shop.call("count", &[text("lines"), v("{}")]).unwrap(), v(r#"{"count":1}"#));
}

#[test]
fn a_record_stays_with_its_tenant() {
    let shop = Fixture::new();
    let (mut acme, mut umbrella) = (shop.host("acme"), shop.host("umbrella"));
    let args = [text("orders"), v(r#"{"id":"1","number":"A"}"#), v(r#"["number"]"#)];
    for host in [&mut acme, &mut umbrella] {
        assert_eq!(call(host, "createIfAbsent", &args).unwrap().get("created"), Some(&Value::Bool(true)));
    }
    let one = v(r#"{"or":[{"id":{"eq":"1"}},{"id":{"ne":"1"}}]}"#);
    let done = call(&mut acme, "update", &[text("orders"), one.clone(), v(r#"{"total":7}"#)]).unwrap();
    assert_eq!(done, v(r#"{"affected":1}"#));
    assert_eq!(call(&mut umbrella, "get", &[text("orders"), one.clone()]).unwrap().get("total"), Some(&Value::Null));
    assert_eq!(call(&mut acme, "delete", &[text("orders"), one.clone()]).unwrap(), v(r#"{"affected":1}"#));
    assert_eq!(call(&mut umbrella, "count", &[text("orders"), one]).unwrap(), v(r#"{"count":1}"#));
}

#[test]
fn shared_tables_are_one_for_all_tenants() {
    let shop = Fixture::new();
    let args = [text("rates"), v(r#"{"name":"vat","value":0.2}"#), v(r#"["name"]"#)];
    shop.call("createIfAbsent", &args).unwrap();
    let second = call(&mut shop.host("umbrella"), "createIfAbsent", &args).unwrap();
    assert_eq!(second, v(r#"{"record":{"name":"vat","value":0.2},"created":false}"#));
}

#[test]
fn update_changes_only_what_matches_and_sets_updated_at() {
    let shop = Fixture::new();
    shop.call("createIfAbsent", &[text("orders"), v(r#"{"id":"1","total":1}"#), v(r#"["id"]"#)]).unwrap();
    shop.now.fetch_add(1_000, Ordering::Relaxed);
    let compare_and_set = [text("orders"), v(r#"{"id":{"eq":"1"},"total":{"eq":1}}"#), v(r#"{"total":2}"#)];
    assert_eq!(shop.call("update", &compare_and_set).unwrap(), v(r#"{"affected":1}"#));
    assert_eq!(shop.call("update", &compare_and_set).unwrap(), v(r#"{"affected":0}"#));
    let row = shop.call("get", &[text("orders"), v(r#"{"id":{"eq":"1"}}"#)]).unwrap();
    assert_eq!(row.get("createdAt"), Some(&text("2026-01-01T00:00:00.000Z")));
    assert_eq!(row.get("updatedAt"), Some(&text("2026-01-01T00:00:01.000Z")));
}

#[test]
fn inc_adds_and_refuses_what_a_column_cannot_hold() {
    let shop = Fixture::new();
    let one = v(r#"{"id":{"eq":"1"}}"#);
    shop.call("createIfAbsent", &[text("orders"), v(r#"{"id":"1","total":40,"rate":0.5}"#), v(r#"["id"]"#)]).unwrap();
    shop.call("update", &[text("orders"), one.clone(), v(r#"{"total":{"inc":2},"rate":{"inc":-1}}"#)]).unwrap();
    let row = shop.call("get", &[text("orders"), one.clone()]).unwrap();
    assert_eq!((row.get("total"), row.get("rate")), (Some(&Value::Int(42)), Some(&Value::Real(-0.5))));

    let most =
        Value::Object(vec![("total".to_owned(), Value::BigInt(i64::MAX)), ("rate".to_owned(), Value::Real(f64::MAX))]);
    shop.call("update", &[text("orders"), one.clone(), most]).unwrap();
    for patch in [r#"{"total":{"inc":1}}"#, r#"{"rate":{"inc":1e308}}"#] {
        shop.refused("update", &[text("orders"), one.clone(), v(patch)], Code::Constraint, &["inc", "64 bits"]);
    }
    shop.call("update", &[text("orders"), one.clone(), v(r#"{"total":null}"#)]).unwrap();
    shop.refused("update", &[text("orders"), one.clone(), v(r#"{"total":{"inc":1}}"#)], Code::Constraint, &["NULL"]);
    for patch in
        [r#"{"number":{"inc":1}}"#, r#"{"total":{"inc":1.5}}"#, r#"{"total":{"inc":1,"by":2}}"#, r#"{"total":{}}"#]
    {
        shop.refused("update", &[text("orders"), one.clone(), v(patch)], Code::Contract, &["takes"]);
    }
}

#[test]
fn one_overflow_among_many_rows_changes_none() {
    let shop = Fixture::new();
    for (id, total) in [("1", Value::Int(1)), ("2", Value::BigInt(i64::MAX)), ("3", Value::Int(3))] {
        let record = Value::Object(vec![("id".to_owned(), text(id)), ("total".to_owned(), total)]);
        shop.call("createIfAbsent", &[text("orders"), record, v(r#"["id"]"#)]).unwrap();
    }
    let all = v(r#"{"id":{"ne":"none"}}"#);
    shop.refused("update", &[text("orders"), all, v(r#"{"total":{"inc":1}}"#)], Code::Constraint, &[]);
    let row = shop.call("get", &[text("orders"), v(r#"{"id":{"eq":"1"}}"#)]).unwrap();
    assert_eq!(row.get("total"), Some(&Value::Int(1)));
}

#[test]
fn a_key_or_index_holds_at_most_2000_bytes() {
    let shop = Fixture::new();
    let record = |number: usize| v(&format!(r#"{{"id":"1","number":"{}"}}"#, "é".repeat(number)));
    let id = v(r#"["id"]"#);
    shop.refused(
        "createIfAbsent",
        &[text("orders"), record(1_001), id.clone()],
        Code::Constraint,
        &["(number)", "2000 bytes"],
    );
    shop.call("createIfAbsent", &[text("orders"), record(1_000), id]).unwrap();
    let one = v(r#"{"id":{"eq":"1"}}"#);
    let patch = v(&format!(r#"{{"number":"{}"}}"#, "x".repeat(2_001)));
    shop.refused("update", &[text("orders"), one, patch], Code::Constraint, &["(number)"]);

    let line = v(&format!(r#"{{"order_id":"1","sku":"{}"}}"#, "x".repeat(1_999)));
    shop.call("createIfAbsent", &[text("lines"), line, v(r#"["order_id","sku"]"#)]).unwrap();
    let all = v(r#"{"qty":{"gt":0}}"#);
    let patch = v(r#"{"order_id":"22"}"#);
    shop.refused("update", &[text("lines"), all, patch], Code::Constraint, &["(order_id, sku)"]);
}

#[test]
fn a_database_behind_its_schema_says_how_to_apply_it() {
    let shop = Fixture::new();
    shop.sql("ALTER TABLE orders DROP COLUMN extra; DROP TABLE rates");
    let says = ["extra", "schema apply shop"];
    shop.refused("createIfAbsent", &[text("orders"), v(r#"{"id":"1"}"#), v(r#"["id"]"#)], Code::Schema, &says);
    shop.refused("list", &[text("orders"), v("{}")], Code::Schema, &says);
    shop.refused("update", &[text("orders"), v(r#"{"id":{"eq":"1"}}"#), v(r#"{"extra":[]}"#)], Code::Schema, &says);
    shop.refused("count", &[text("orders"), v(r#"{"extra":{"eq":"extra"}}"#)], Code::Schema, &says);
    shop.refused(
        "count",
        &[text("rates"), v("{}")],
        Code::Schema,
        &["rates", "schema apply shop", "CREATE TABLE \"rates\""],
    );
}

#[test]
fn table_in_another_form_than_the_plugin_says_is_not_used() {
    let shop = Fixture::new();
    let list = |table: &str| shop.call("list", &[text(table), v("{}")]);
    list("lines").unwrap();
    // Another version of the plugin, whose change of lines is not applied.
    let home = tempfile::tempdir().unwrap();
    let other = |schema: &str, shared: &str| {
        let folder = home.path().join("shop");
        std::fs::create_dir_all(&folder).unwrap();
        let manifest = format!(
            r#"{{ "id": "shop", "version": "2.0.0", "permissions": ["data:read", "data:write"], "sharedTables": {shared} }}"#
        );
        std::fs::write(folder.join("plugin.json"), manifest).unwrap();
        std::fs::write(folder.join("schema.sql"), schema).unwrap();
        let registry = Registry::load(home.path(), 0).unwrap();
        assert_eq!(registry.broken, Default::default());
        let mut host = shop.host("acme");
        host.scope.plugin = registry.plugins["shop"].clone();
        host
    };
    let mut retyped = other(&SCHEMA.replace("qty INTEGER", "qty REAL"), r#"["rates"]"#);
    let failure = call(&mut retyped, "list", &[text("lines"), v("{}")]).unwrap_err();
    assert_eq!(failure.code, Code::Schema);
    assert!(failure.detail.contains("column lines.qty is INTEGER in the database, and REAL here"), "{failure}");
    assert!(failure.detail.contains("oncehost schema apply shop"), "{failure}");
    call(&mut retyped, "list", &[text("orders"), v("{}")]).unwrap();
    let mut own = other(SCHEMA, "[]");
    let failure = call(&mut own, "list", &[text("rates"), v("{}")]).unwrap_err();
    assert!(failure.detail.contains("shared by all tenants in the database"), "{failure}");
    list("lines").unwrap();
}

#[test]
fn run_that_begins_after_a_change_of_tables_looks_at_them_again() {
    let shop = Fixture::new();
    shop.call("list", &[text("lines"), v("{}")]).unwrap();
    shop.tx.commit().unwrap();
    let next = SCHEMA.replace("qty INTEGER NOT NULL DEFAULT 1", "qty REAL NOT NULL DEFAULT 1.0");
    let next = crate::schema::parse(&next, &["rates".to_owned()]).unwrap();
    tables::apply(&shop.database, &next, &["lines.qty".to_owned()], 1).unwrap();
    let mut host = shop.host("acme");
    host.tx = shop.database.begin().unwrap();
    let failure = call(&mut host, "list", &[text("lines"), v("{}")]).unwrap_err();
    assert_eq!(failure.code, Code::Schema);
    assert!(failure.detail.contains("column lines.qty is REAL in the database, and INTEGER here"), "{failure}");
}

#[test]
fn rule_that_only_the_database_has_is_no_fault_of_the_row() {
    let shop = Fixture::new();
    for (rule, record, says) in [
        ("NOT NULL", r#"{"name":"1"}"#, "the database has NOT NULL on value"),
        ("CHECK (value > 5)", r#"{"name":"2","value":1}"#, "the database has the CHECK"),
    ] {
        let columns = match shop.is_postgres() {
            true => "name TEXT COLLATE \"C\" PRIMARY KEY, value DOUBLE PRECISION",
            false => "name TEXT PRIMARY KEY, value REAL",
        };
        shop.sql(&format!("DROP TABLE rates; CREATE TABLE rates ({columns} {rule})"));
        let args = [text("rates"), v(record), v(r#"["name"]"#)];
        let more = ["and schema.sql has not", "oncehost schema plan shop"];
        shop.refused("createIfAbsent", &args, Code::Schema, &[&[says], more.as_slice()].concat());
    }
}

#[test]
fn broken_rules_have_their_facts_for_programs() {
    let shop = Fixture::new();
    let call = |name: &str, args: [&str; 3]| {
        let [table, record, unique] = args;
        shop.call(name, &[text(table), v(record), v(unique)]).map(drop)
    };
    call("createIfAbsent", ["orders", r#"{"id":"1","number":"A"}"#, r#"["id"]"#]).unwrap();
    let line = r#"{"order_id":"1","sku":"s","qty":null}"#;
    for (table, record, details) in [
        ("orders", r#"{"id":"2","number":"A"}"#, r#"{"table":"orders","columns":["number"]}"#),
        ("orders", r#"{"id":"3","total":-13}"#, r#"{"table":"orders","constraint":"CHECK (\"total\" <> -13)"}"#),
        ("lines", r#"{"order_id":"x","sku":"s"}"#, r#"{"table":"lines","constraint":"FOREIGN KEY"}"#),
        ("lines", line, r#"{"table":"lines","columns":["qty"],"constraint":"NOT NULL"}"#),
    ] {
        let unique = if table == "orders" { r#"["id"]"# } else { r#"["order_id","sku"]"# };
        let failure = call("createIfAbsent", [table, record, unique]).unwrap_err();
        assert_eq!(failure.details, serde_json::from_str::<Json>(details).unwrap(), "{failure}");
    }
}

#[test]
fn of_several_unique_keys_in_the_way_the_first_of_the_schema_is_named() {
    let shop = Fixture::new();
    let unique = v(r#"["id"]"#);
    let seat = |record: &str| shop.call("createIfAbsent", &[text("seats"), v(record), unique.clone()]);
    seat(r#"{"id":"a","code":"x","floor":1,"place":"p"}"#).unwrap();
    seat(r#"{"id":"b","code":"y","floor":2,"place":"q"}"#).unwrap();
    let duplicate = |failure: Failure, key: &str| {
        assert_eq!(failure.code, Code::Duplicate, "{failure}");
        assert!(failure.detail.contains(&format!("the same ({key});")), "{key} is not in: {failure}");
    };
    for (unique, record, key) in [
        (r#"["id"]"#, r#"{"id":"c","code":"x","floor":1,"place":"p"}"#, "code"),
        (r#"["id"]"#, r#"{"id":"c","code":"z","floor":1,"place":"p"}"#, "floor, place"),
        (r#"["id"]"#, r#"{"id":"c","floor":1,"place":"p"}"#, "floor, place"),
        (r#"["code"]"#, r#"{"id":"a","code":"z","floor":2,"place":"q"}"#, "id"),
    ] {
        duplicate(shop.call("createIfAbsent", &[text("seats"), v(record), v(unique)]).unwrap_err(), key);
    }
    let b = r#"{"id":{"eq":"b"}}"#;
    for (filter, patch, key) in [
        (b, r#"{"code":"x","floor":1,"place":"p"}"#, "code"),
        (b, r#"{"id":"a","code":"x"}"#, "id"),
        (b, r#"{"code":"z","floor":1,"place":"p"}"#, "floor, place"),
        (b, r#"{"code":"y","floor":{"inc":-1},"place":"p"}"#, "floor, place"),
        (b, r#"{"code":null,"floor":1,"place":"p"}"#, "floor, place"),
        (r#"{"id":{"in":["a","b"]}}"#, r#"{"code":"n","floor":7,"place":"m"}"#, "code"),
        (r#"{"id":{"in":["a","b"]}}"#, r#"{"floor":7,"place":"m","code":null}"#, "floor, place"),
    ] {
        duplicate(shop.call("update", &[text("seats"), v(filter), v(patch)]).unwrap_err(), key);
    }
    let kept = shop.call("list", &[text("seats"), v("{}")]).unwrap();
    let Some(Value::Array(kept)) = kept.get("records") else { panic!() };
    let codes: Vec<_> = kept.iter().map(|seat| seat.get("code").and_then(Value::as_text)).collect();
    assert_eq!(codes, [Some("x"), Some("y")]);
}

#[test]
fn of_several_checks_that_a_row_breaks_the_first_of_the_schema_is_named() {
    let shop = Fixture::new();
    let seat = |record: &str| shop.call("createIfAbsent", &[text("seats"), v(record), v(r#"["id"]"#)]);
    seat(r#"{"id":"a","code":"x","floor":1,"place":"p"}"#).unwrap();
    seat(r#"{"id":"b","code":"y","floor":2,"place":"q"}"#).unwrap();
    let broken = |failure: Failure, check: &str| {
        assert_eq!(failure.code, Code::Constraint, "{failure}");
        assert!(failure.detail.contains(&format!("breaks CHECK ({check}) of")), "{check} is not in: {failure}");
    };
    let (short, high, other) = (r#"length("place") < 5"#, r#""floor" > -5"#, r#""code" <> "place""#);
    for (record, check) in [
        (r#"{"id":"c","code":"place","floor":-9,"place":"place"}"#, short),
        (r#"{"id":"c","code":"x","floor":-9,"place":"x"}"#, high),
        (r#"{"id":"c","code":"z","place":"z"}"#, other),
    ] {
        broken(seat(record).unwrap_err(), check);
    }
    let all = r#"{"id":{"in":["a","b"]}}"#;
    for (patch, check) in [
        (r#"{"place":"place","floor":{"inc":-10}}"#, short),
        (r#"{"floor":{"inc":-10}}"#, high),
        (r#"{"place":"y","code":"y"}"#, other),
    ] {
        broken(shop.call("update", &[text("seats"), v(all), v(patch)]).unwrap_err(), check);
    }
}

#[test]
fn numbers_that_are_added_give_the_same_whatever_the_order_of_the_rows() {
    let shop = Fixture::new();
    for stair in [r#"{"step":2,"mark":1}"#, r#"{"step":1,"mark":2,"above":2}"#, r#"{"step":3,"mark":5,"above":3}"#] {
        shop.call("createIfAbsent", &[text("stairs"), v(stair), v(r#"["step"]"#)]).unwrap();
    }
    let all = r#"{"step":{"gt":0}}"#;
    let update = |filter: &str, patch: &str| shop.call("update", &[text("stairs"), v(filter), v(patch)]);
    for patch in [r#"{"mark":{"inc":1}}"#, r#"{"mark":{"inc":-1}}"#] {
        let failure = update(all, patch).unwrap_err();
        assert_eq!(failure.code, Code::Duplicate, "{failure}");
        assert!(failure.detail.contains("the same (mark)"), "{failure}");
    }
    assert_eq!(update(all, r#"{"mark":{"inc":10}}"#).unwrap(), v(r#"{"affected":3}"#));
    for step in ["1", "-1", "10"] {
        let failure = update(all, &format!(r#"{{"step":{{"inc":{step}}}}}"#)).unwrap_err();
        assert_eq!(failure.code, Code::Constraint, "{failure}");
        assert!(failure.detail.contains("refer to step") && failure.detail.contains("one row at a time"), "{failure}");
    }
    assert_eq!(update(r#"{"step":{"eq":1}}"#, r#"{"step":{"inc":10}}"#).unwrap(), v(r#"{"affected":1}"#));
}

/// Whichever row the database takes first.
#[test]
fn of_an_update_whose_rows_run_into_different_things_the_sum_is_told_before_a_check_before_a_key() {
    let shop = Fixture::new();
    for (id, floor) in [("a", "0"), ("b", "1"), ("c", "2"), ("e", "null")] {
        let row = format!(r#"{{"id":"{id}","code":"{id}","floor":{floor},"place":"p{id}"}}"#);
        shop.call("createIfAbsent", &[text("seats"), v(&row), v(r#"["id"]"#)]).unwrap();
    }
    let refused = |filter: &str, patch: &str, says: &str| {
        shop.refused("update", &[text("seats"), v(filter), v(patch)], Code::Constraint, &[says]);
    };
    // A place for several rows on one floor is a key that is there already, and of one of them it is the code.
    for code in ["a", "b", "c"] {
        let patch = format!(r#"{{"floor":0,"place":"{code}"}}"#);
        refused(r#"{"id":{"in":["a","b","c"]}}"#, &patch, r#"breaks CHECK ("code" <> "place") of"#);
    }
    for other in ["a", "b", "c"] {
        let filter = format!(r#"{{"id":{{"in":["{other}","e"]}}}}"#);
        for patch in [r#"{"floor":{"inc":1},"code":"z"}"#, r#"{"floor":{"inc":-9},"place":"q"}"#] {
            refused(&filter, patch, "{ inc: n } met NULL");
        }
    }
}

#[test]
fn sum_beyond_64_bits_is_told_as_such_where_a_check_computes_too() {
    let shop = Fixture::new();
    for (name, units) in [("high", i64::MAX - 1), ("low", i64::MIN + 1)] {
        let tank = Value::Object(vec![("name".to_owned(), text(name)), ("units".to_owned(), Value::BigInt(units))]);
        shop.call("createIfAbsent", &[text("tanks"), tank, v(r#"["name"]"#)]).unwrap();
    }
    for (name, inc) in [("high", 2), ("low", -2)] {
        let (filter, patch) = (format!(r#"{{"name":{{"eq":"{name}"}}}}"#), format!(r#"{{"units":{{"inc":{inc}}}}}"#));
        let says = ["tanks: an { inc: n } met NULL, or the sum would pass what the column can hold"];
        shop.refused("update", &[text("tanks"), v(&filter), v(&patch)], Code::Constraint, &says);
    }
}
