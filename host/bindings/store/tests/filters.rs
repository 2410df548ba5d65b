//! The `where` language against a plain evaluator over script values.

use std::cmp::Ordering as Compared;

use proptest::prelude::*;

use super::*;

const COLUMNS: [(&str, ColumnType); 6] = [
    ("constructor", ColumnType::Text),
    ("total", ColumnType::Integer),
    ("rate", ColumnType::Real),
    ("paid", ColumnType::Boolean),
    ("raw", ColumnType::Blob),
    ("due", ColumnType::Timestamp),
];

/// Few values of each type, so that they meet.
fn value_of(ty: ColumnType) -> BoxedStrategy<Value> {
    let words =
        ["", "a", "A", "ab", "a%", "a_", "b", "é", "\u{d7ff}", "\u{e000}", "\u{10ffff}", "\u{10ffff}x", "a\u{10ffff}"];
    match ty {
        ColumnType::Text | ColumnType::Json => proptest::sample::select(words.to_vec()).prop_map(text).boxed(),
        ColumnType::Integer => (-2_i64..3).prop_map(Value::Int).boxed(),
        ColumnType::Real => (-2_i32..3).prop_map(|n| crate::codec::json::number_value(f64::from(n) / 2.0)).boxed(),
        ColumnType::Boolean => any::<bool>().prop_map(Value::Bool).boxed(),
        ColumnType::Blob => proptest::collection::vec(0_u8..2, 0..3).prop_map(Value::Blob).boxed(),
        ColumnType::Timestamp => (0_i64..4).prop_map(|n| text(&crate::codec::time::iso(n * 500).unwrap())).boxed(),
    }
}

fn row() -> impl Strategy<Value = Vec<Value>> {
    let cell = |ty| prop_oneof![1 => Just(Value::Null), 4 => value_of(ty)];
    COLUMNS.map(|(_, ty)| cell(ty)).to_vec()
}

fn member(name: &str, value: Value) -> Value {
    Value::Object(vec![(name.to_owned(), value)])
}

fn test() -> impl Strategy<Value = Value> {
    (0..COLUMNS.len()).prop_flat_map(|column| {
        let (name, ty) = COLUMNS[column];
        let compare = (proptest::sample::select(vec!["eq", "ne", "gt", "gte", "lt", "lte"]), value_of(ty));
        let list = (proptest::sample::select(vec!["in", "notIn"]), proptest::collection::vec(value_of(ty), 0..4));
        let prefix = value_of(ColumnType::Text).prop_map(|prefix| ("startsWith", prefix));
        let null = any::<bool>().prop_map(|null| ("isNull", Value::Bool(null)));
        let list = list.prop_map(|(operator, values)| (operator, Value::Array(values)));
        let operator = if ty == ColumnType::Text {
            prop_oneof![compare, list, null, prefix].boxed()
        } else {
            prop_oneof![compare, list, null].boxed()
        };
        operator.prop_map(move |(operator, value)| member(name, member(operator, value)))
    })
}

fn condition() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![8 => test(), 1 => Just(v("{}")), 1 => Just(v(r#"{"total":{}}"#))];
    leaf.prop_recursive(3, 16, 3, |inner| {
        let all = proptest::collection::vec(inner.clone(), 1..3).prop_map(|parts| {
            let mut members: Vec<(String, Value)> = Vec::new();
            for part in parts {
                let Value::Object(more) = part else { continue };
                let fresh = more.into_iter().filter(|(name, _)| members.iter().all(|(own, _)| own != name));
                members.extend(fresh.collect::<Vec<_>>());
            }
            Value::Object(members)
        });
        prop_oneof![
            all,
            proptest::collection::vec(inner, 0..4).prop_map(|branches| member("or", Value::Array(branches)))
        ]
    })
}

fn compared(a: &Value, b: &Value) -> Compared {
    match (a, b) {
        (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Value::Blob(a), Value::Blob(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Int(_) | Value::Real(_), Value::Int(_) | Value::Real(_)) => float(a).partial_cmp(&float(b)).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn float(value: &Value) -> f64 {
    match crate::codec::json::exact(value) {
        Ok(Json::Number(number)) => number.as_f64().unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The contract's words, as code.
fn holds(condition: &Value, row: &[Value]) -> bool {
    let Value::Object(members) = condition else { panic!() };
    members.iter().all(|(name, tests)| {
        if name == "or" {
            let Value::Array(branches) = tests else { panic!() };
            return branches.iter().any(|branch| holds(branch, row));
        }
        let cell = &row[COLUMNS.iter().position(|(column, _)| column == name).unwrap()];
        let Value::Object(operators) = tests else { panic!() };
        operators.iter().all(|(operator, operand)| passes(cell, operator, operand))
    })
}

fn passes(cell: &Value, operator: &str, operand: &Value) -> bool {
    if let (Value::Null, "ne" | "notIn") = (cell, operator) {
        return true;
    }
    if operator == "isNull" {
        return *operand == Value::Bool(*cell == Value::Null);
    }
    if *cell == Value::Null {
        return false;
    }
    let among = |list: &Value| {
        let Value::Array(items) = list else { panic!() };
        items.iter().any(|item| compared(cell, item).is_eq())
    };
    match operator {
        "eq" => compared(cell, operand).is_eq(),
        "ne" => compared(cell, operand).is_ne(),
        "gt" => compared(cell, operand).is_gt(),
        "gte" => compared(cell, operand).is_ge(),
        "lt" => compared(cell, operand).is_lt(),
        "lte" => compared(cell, operand).is_le(),
        "in" => among(operand),
        "notIn" => !among(operand),
        "startsWith" => cell.as_text().unwrap().starts_with(operand.as_text().unwrap()),
        other => panic!("{other}"),
    }
}

#[test]
fn conditions_match_what_their_words_say() {
    let shop = Fixture::new();
    let config = ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(rows in proptest::collection::vec(row(), 0..12), condition in condition())| {
        shop.sql("DELETE FROM orders");
        for (at, row) in rows.iter().enumerate() {
            let mut members = vec![("id".to_owned(), text(&format!("{at:02}")))];
            members.extend(COLUMNS.iter().zip(row).map(|((name, _), value)| ((*name).to_owned(), value.clone())));
            shop.call("createIfAbsent", &[text("orders"), Value::Object(members), v(r#"["id"]"#)]).unwrap();
        }
        let matching = rows.iter().enumerate().filter(|(_, row)| holds(&condition, row));
        let wanted: Vec<Value> = matching.map(|(at, _)| text(&format!("{at:02}"))).collect();
        let listed = shop.call("list", &[text("orders"), member("where", condition.clone())]).unwrap();
        let Some(Value::Array(records)) = listed.get("records") else { panic!() };
        let ids: Vec<Value> = records.iter().map(|record| record.get("id").unwrap().clone()).collect();
        prop_assert_eq!(&ids, &wanted);
        let number = number(wanted.len());
        let counted = shop.call("count", &[text("orders"), condition.clone()]).unwrap();
        prop_assert_eq!(counted.get("count"), Some(&number));
        if let Ok(done) = shop.call("update", &[text("orders"), condition.clone(), v(r#"{"number":null}"#)]) {
            prop_assert_eq!(done.get("affected"), Some(&number));
            let done = shop.call("delete", &[text("orders"), condition]).unwrap();
            prop_assert_eq!(done.get("affected"), Some(&number));
        }
    });
}
