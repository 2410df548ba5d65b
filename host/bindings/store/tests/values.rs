use proptest::prelude::*;

use super::*;

fn member(name: &str, value: Value) -> Value {
    Value::Object(vec![(name.to_owned(), value)])
}

/// Writes the value as a new row's, and gives what comes back from createIfAbsent, get and list, all the same.
fn through(shop: &Fixture, column: &str, value: Value) -> Value {
    let id = shop.ids.rising_text();
    let record = Value::Object(vec![("id".to_owned(), text(&id)), (column.to_owned(), value.clone())]);
    let made = shop.call("createIfAbsent", &[text("orders"), record, v(r#"["id"]"#)]).unwrap();
    let here = member("id", member("eq", text(&id)));
    let got = shop.call("get", &[text("orders"), here.clone()]).unwrap();
    assert_eq!(made.get("record"), Some(&got));
    let listed = shop.call("list", &[text("orders"), member("where", here)]).unwrap();
    assert_eq!(listed.get("records"), Some(&Value::Array(vec![got.clone()])));
    // What is written is also found by its value.
    if value != Value::Null {
        let same = Value::Object(vec![
            ("id".to_owned(), member("eq", text(&id))),
            (
                column.to_owned(),
                Value::Object(vec![("eq".to_owned(), value.clone()), ("in".to_owned(), Value::Array(vec![value]))]),
            ),
        ]);
        assert_eq!(shop.call("count", &[text("orders"), same]).unwrap(), v(r#"{"count":1}"#));
    }
    let Value::Object(members) = got else { panic!() };
    members.into_iter().find(|(name, _)| name == column).unwrap().1
}

trait RisingText {
    fn rising_text(&self) -> String;
}

impl RisingText for SystemIds {
    fn rising_text(&self) -> String {
        crate::ids::Ids::rising(self, 0).to_string()
    }
}

#[test]
fn values_at_the_edges_come_back_as_they_went_in() {
    let shop = Fixture::new();
    let same = |column: &str, value: Value| assert_eq!(through(&shop, column, value.clone()), value);
    for number in [0, 1, -1, (1 << 53) - 1, 1 - (1 << 53)] {
        same("total", Value::Int(number));
    }
    for number in [1 << 53, -(1 << 53), i64::MAX, i64::MIN] {
        same("total", Value::BigInt(number));
    }
    for number in [0.1 + 0.2, 5e-324, f64::MAX, f64::MIN, f64::MIN_POSITIVE, 1e21, 9_007_199_254_740_993.0] {
        same("rate", Value::Real(number));
        same("extra", Value::Real(number));
    }
    for words in [
        "",
        "\u{1f600}",
        "a\u{2028}b\u{2029}",
        "\u{10ffff}\u{e000}\u{d7ff}",
        "ﬁ e\u{301}",
        "';--\"\\",
        "\u{1}\u{7f}\r\n",
    ] {
        same("number", text(words));
        same("extra", text(words));
        same("extra", member(words, Value::Array(vec![text(words)])));
    }
    same("raw", Value::Blob(Vec::new()));
    same("raw", Value::Blob((0..=255).collect()));
    same("paid", Value::Bool(true));
    same("paid", Value::Bool(false));
    same("due", text("0001-01-01T00:00:00.000Z"));
    same("due", text("9999-12-31T23:59:59.999Z"));
    same("extra", v(r#"{"a":null,"b":[null,true,{"":3,"__proto__":1,"constructor":2}]}"#));
    same("extra", text("a\0b"));
    for column in ["number", "total", "rate", "paid", "extra", "raw", "due"] {
        same(column, Value::Null);
    }
}

#[test]
fn values_take_their_one_form() {
    let shop = Fixture::new();
    assert_eq!(through(&shop, "total", Value::BigInt(5)), Value::Int(5));
    assert_eq!(through(&shop, "rate", Value::Int(5)), Value::Int(5));
    assert_eq!(through(&shop, "rate", Value::Real(-0.0)), Value::Int(0));
    assert_eq!(through(&shop, "extra", Value::Real(-0.0)), Value::Int(0));
    assert_eq!(through(&shop, "due", text("2026-01-01T01:00:00+08:00")), text("2025-12-31T17:00:00.000Z"));
    assert_eq!(through(&shop, "due", Value::Date(0)), text("1970-01-01T00:00:00.000Z"));
    let left_out = Value::Object(vec![("a".to_owned(), Value::Undefined), ("b".to_owned(), Value::Int(1))]);
    assert_eq!(through(&shop, "extra", left_out.clone().without_undefined()), v(r#"{"b":1}"#));
    let record = Value::Object(vec![("id".to_owned(), text("left-out")), ("extra".to_owned(), left_out)]);
    let made = shop.call("createIfAbsent", &[text("orders"), record, v(r#"["id"]"#)]).unwrap();
    assert_eq!(made.get("record").and_then(|record| record.get("extra")), Some(&v(r#"{"b":1}"#)));
}

trait WithoutUndefined {
    fn without_undefined(self) -> Value;
}

impl WithoutUndefined for Value {
    fn without_undefined(self) -> Value {
        let Value::Object(members) = self else { return self };
        Value::Object(members.into_iter().filter(|(_, value)| *value != Value::Undefined).collect())
    }
}

#[test]
fn what_a_column_cannot_hold_is_refused_with_field_and_form() {
    let shop = Fixture::new();
    let deep = (0..200).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
    for (column, value, says) in [
        ("total", Value::Real(1.5), "total is INTEGER and takes a number without a fraction"),
        ("total", Value::Real(1.5), "it got the number 1.5"),
        ("total", Value::Real(9_007_199_254_740_992.0), "write it as a BigInt"),
        ("total", Value::Real(9_223_372_036_854_775_808.0), "BigInt within 64 bits"),
        ("total", Value::Real(f64::NAN), "the number NaN"),
        ("total", text("1"), "a string"),
        ("total", Value::Bool(true), "a boolean"),
        ("rate", Value::Real(f64::NAN), "a finite number"),
        ("rate", Value::Real(f64::NEG_INFINITY), "a finite number"),
        ("rate", Value::BigInt(1), "Number(value)"),
        ("paid", Value::Int(1), "true or false"),
        ("number", text("a\0b"), "NUL"),
        ("number", Value::Int(1), "a string"),
        ("raw", text("a"), "Uint8Array"),
        ("raw", Value::Array(vec![]), "Uint8Array"),
        ("due", text("2026-01-02T03:04:05"), "names no zone"),
        ("due", text("2026-01-02 03:04:05"), "capital T"),
        ("due", Value::Int(0), "ISO 8601"),
        ("due", Value::Date(i64::MAX), "years 0001 to 9999"),
        ("extra", Value::Real(f64::NAN), "NaN is no JSON value"),
        ("extra", member("a", Value::Array(vec![Value::BigInt(1)])), "at .a[0], a BigInt"),
        ("extra", Value::Array(vec![Value::Undefined]), "at [0], undefined"),
        ("extra", Value::Date(0), "toISOString"),
        ("extra", Value::Blob(vec![]), "Uint8Array"),
        ("extra", deep, "100 levels"),
    ] {
        let record = member(column, value.clone());
        shop.refused(
            "createIfAbsent",
            &[text("orders"), record.clone(), v(r#"["id"]"#)],
            Code::Contract,
            &[column, says],
        );
        let one = v(r#"{"id":{"eq":"1"}}"#);
        shop.refused("update", &[text("orders"), one, record], Code::Contract, &[column, says]);
        let tested = member(column, member("eq", value));
        shop.refused("count", &[text("orders"), tested], Code::Contract, &[column]);
    }
}

#[test]
fn a_value_changed_by_hand_is_explained() {
    let shop = Fixture::new();
    shop.call("createIfAbsent", &[text("orders"), v(r#"{"id":"1","extra":{}}"#), v(r#"["id"]"#)]).unwrap();
    shop.sql("PRAGMA ignore_check_constraints = ON; UPDATE orders SET extra = 'no json'");
    shop.refused("list", &[text("orders")], Code::Schema, &["orders.extra is JSON", "by hand"]);
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(crate::codec::json::number_value),
        (-9_007_199_254_740_991_i64..=9_007_199_254_740_991).prop_map(Value::Int),
        any::<String>().prop_map(Value::Text),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            // Members come back in the canonical form's order: by UTF-16 code units.
            proptest::collection::btree_map("[a-z_]{0,6}", inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn few(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

#[test]
fn every_integer_comes_back() {
    let shop = Fixture::new();
    let edges = (1_i64 << 53) - 3..(1 << 53) + 3;
    proptest!(few(200), |(number in prop_oneof![any::<i64>(), edges])| {
        let back = through(&shop, "total", Value::BigInt(number));
        let safe = (-crate::codec::SAFE..=crate::codec::SAFE).contains(&number);
        prop_assert_eq!(back, if safe { Value::Int(number) } else { Value::BigInt(number) });
    });
}

#[test]
fn every_finite_number_comes_back() {
    let shop = Fixture::new();
    proptest!(few(200), |(number in any::<f64>().prop_filter("finite", |number| number.is_finite()))| {
        let value = crate::codec::json::number_value(number);
        prop_assert_eq!(through(&shop, "rate", value.clone()), value);
    });
}

#[test]
fn every_text_without_nul_comes_back() {
    let shop = Fixture::new();
    proptest!(few(200), |(words in any::<String>())| {
        let words = words.replace('\0', "");
        prop_assert_eq!(through(&shop, "constructor", text(&words)), text(&words));
    });
}

#[test]
fn all_bytes_come_back() {
    let shop = Fixture::new();
    proptest!(few(100), |(bytes in any::<Vec<u8>>())| {
        prop_assert_eq!(through(&shop, "raw", Value::Blob(bytes.clone())), Value::Blob(bytes));
    });
}

#[test]
fn every_json_value_comes_back() {
    let shop = Fixture::new();
    proptest!(few(200), |(value in json_value())| {
        prop_assert_eq!(through(&shop, "extra", value.clone()), value);
    });
}
