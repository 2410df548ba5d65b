use std::fmt::Write as _;

use super::super::names;
use super::{Bench, Fake, Notes, handler};
use crate::codec::Value;
use crate::codec::time::iso;
use crate::failure::{Code, Failure};
use crate::script::{
    Binding, Call, Engine, EngineLimits, Facts, Host, Level, Outside, Progress, RunLimits, ScriptError,
};

/// Names with one hash: the next letter in front weighs as much as 263 of the one behind it.
fn crowd() -> Vec<String> {
    let second = |up: u8| char::from_u32(0x3fff - 263 * u32::from(up)).unwrap();
    let pairs: Vec<String> = (0..16).map(|up| format!("{}{}", char::from(b'a' + up), second(up))).collect();
    let mut names = vec![String::new()];
    for _ in 0..3 {
        names = names.iter().flat_map(|name| pairs.iter().map(move |pair| format!("{name}{pair}"))).collect();
    }
    names
}

/// A JSON text of one object.
fn object(names: impl IntoIterator<Item = String>) -> String {
    let mut text = String::from("{\"\":0");
    for name in names {
        write!(text, ",\"{name}\" : 1").unwrap();
    }
    text + "}"
}

fn refused(input: &str) -> Failure {
    match Bench::new().run(&handler("() => 1"), input) {
        Err(ScriptError::Host(failure)) => failure,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn input_whose_names_share_a_hash_is_not_valid() {
    let failure = refused(&object(crowd()));
    assert_eq!(failure.code, Code::Validation);
    assert!(failure.detail.contains("the input holds more than 250 names"), "{}", failure.detail);
    assert!(failure.detail.contains("send what has so many names as a list"), "{}", failure.detail);
}

#[test]
fn names_that_share_a_hash_are_found_wherever_they_stand() {
    let escaped = crowd().into_iter().map(|name| name.chars().map(|c| format!("\\u{:04X}", u32::from(c))).collect());
    let escaped = object(escaped);
    let single = crowd().into_iter().map(|name| object([name])).collect::<Vec<_>>().join(",");
    let deep = format!("{}{}", "[".repeat(100_000), object(crowd()));
    let behind = format!("{{\"\\\\\\\"\\/\\b\\f\\n\\r\\té\":\"\\\"\",{}", &object(crowd())[1..]);
    for text in [escaped, format!("[{single}]"), deep, behind] {
        assert_eq!(refused(&text).code, Code::Validation, "{}", &text[..100]);
    }
}

#[test]
fn indexes_that_an_object_keeps_in_one_place_are_refused() {
    let place = |number: &u64| (number | 1 << 31).wrapping_mul(0x61c8_8646_80b5_83eb) >> 48 == 12_345;
    let indexes = (0..20_000_000).filter(place).map(|number| format!("{number}"));
    let text = object(indexes.chain([" ".repeat(20_000)]));
    assert_eq!(refused(&text).code, Code::Validation);
}

#[test]
fn broken_texts_are_left_to_the_engine() {
    let long = "x".repeat(20_000);
    for text in [
        format!("{{\"{long}"),
        format!("{{\"{long}\\"),
        format!("\"{long}\" "),
        format!("{long}\":"),
        format!("{{\"{long}\\é\":1}}"),
    ] {
        assert_eq!(names::refusal(&text), None);
    }
}

#[test]
fn json_parse_throws_a_range_error_for_names_that_share_a_hash() {
    let function = "({ text }) => { try { JSON.parse(text) } catch (error) { return [error instanceof RangeError, error.message] } }";
    let mut bench = Bench::new();
    for text in [object(crowd()), format!("[\"\\ud800\",{}]", object(crowd()))] {
        let input = serde_json::json!({ "text": text }).to_string().replace("\\\\ud800", "\\ud800");
        let told = bench.run(&handler(function), &input).unwrap();
        assert!(told.starts_with("[true,\"the JSON text holds more than 250 names"), "{told}");
        assert!(told.contains("list of pairs, [name, value]"), "{told}");
    }
}

#[test]
fn json_parse_takes_long_texts_with_half_of_a_surrogate_pair() {
    let function =
        "() => { const text = '\"' + 'a\\ud800'.repeat(40_000) + '\"'; return JSON.parse(text) === text.slice(1, -1) }";
    assert_eq!(Bench::new().handle(function), Ok("true".to_owned()));
}

#[test]
fn what_a_binding_gives_throws_a_range_error_for_names_that_share_a_hash() {
    let function = "(names) => {
        const record = {};
        for (const name of names) record[name] = 1;
        try { store.createIfAbsent('t', record) } catch (error) { return `${error}` }
    }";
    let told = Bench::new().run(&handler(function), &serde_json::json!(crowd()).to_string()).unwrap();
    assert!(told.starts_with("\"RangeError: what was read holds more than 250 names"), "{told}");
}

/// Begins whatever it is asked to.
struct Begins(Fake);

impl Host for Begins {
    fn call(&mut self, binding: Binding, args: Vec<Value>) -> Result<Value, Failure> {
        self.0.call(binding, args)
    }

    fn begin(&mut self, _number: u32, _what: Outside, _args: Vec<Value>) -> Result<(), Failure> {
        Ok(())
    }

    fn log(&mut self, level: Level, line: String) {
        self.0.log(level, line);
    }
}

#[test]
fn what_an_action_gives_rejects_for_names_that_share_a_hash() {
    let function = "(input, ctx) => invoke(ctx, 'p', 'p.a', {}).catch((error) => [error.code, error.message])";
    let mut engine = Engine::new(EngineLimits::default()).unwrap();
    let call = Call {
        code: &handler(function),
        entry: 0,
        export: "handle",
        input: "{}",
        ctx: &Facts::default(),
        now: 0,
        seed: [7; 32],
        limits: &RunLimits::default(),
        step: Some("{}"),
    };
    let began = engine.start(&call, Box::new(Begins(Fake(std::rc::Rc::new(Notes::default().into())))));
    assert!(matches!(began, Progress::Waits), "{began:?}");
    let given = Value::Object(crowd().into_iter().map(|name| (name, Value::Null)).collect());
    let Progress::Done(Ok(told)) = engine.resume(1, Ok(given)) else { panic!("not done") };
    assert!(told.starts_with("[\"LIMIT\",\"what was read holds more than 250 names"), "{told}");
}

#[test]
fn names_that_come_back_count_once() {
    let row = object(crowd().into_iter().take(200));
    let rows = format!("[{}]", vec![row; 100].join(","));
    assert_eq!(Bench::new().run(&handler("(rows) => rows.length"), &rows), Ok("100".to_owned()));
}

/// The digits of a number to a base.
fn digits(mut number: u64, digits: &str, length: usize) -> String {
    let all: Vec<char> = digits.chars().collect();
    let base = u64::try_from(all.len()).unwrap();
    let mut text = Vec::new();
    for _ in 0..length {
        text.push(all[usize::try_from(number % base).unwrap()]);
        number /= base;
    }
    text.iter().rev().collect()
}

fn uuid(number: u64) -> String {
    let mixed =
        number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number.wrapping_mul(0xc2b2_ae3d_27d4_eb4f) >> 29;
    format!("{:08x}-{:04x}-4000-8{:03x}-{:012x}", mixed >> 32, mixed & 0xffff, mixed >> 20 & 0xfff, mixed >> 16)
}

const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";

type Named = fn(u64) -> String;

/// Names as they are met, by their numbers.
const ORDINARY: [(&str, Named); 24] = [
    ("counted", |n| format!("key{n:06}")),
    ("texts of numbers", |n| n.to_string()),
    ("thousands", |n| (n * 1_000).to_string()),
    ("days in seconds", |n| (n * 86_400).to_string()),
    ("minutes in milliseconds", |n| (1_600_000_000_000 + n * 60_000).to_string()),
    ("shifted numbers", |n| (n << 16).to_string()),
    ("numbers with a time in front", |n| ((n << 22) + 1_234_567_890_123_456_789).to_string()),
    ("UUIDs", uuid),
    ("UUIDs in order", |n| format!("{:012x}{}", 1_600_000_000_000 + n, &uuid(n)[13..])),
    ("hexadecimal", |n| format!("{n:08x}")),
    ("ids of documents", |n| format!("507f1f77bcf86cd799{n:06x}")),
    ("bits", |n| format!("{n:020b}")),
    ("addresses of mail", |n| format!("user{n}@example.com")),
    ("paths", |n| format!("/a/{}/{}.json", n / 1_000, n % 1_000)),
    ("places in a grid", |n| format!("{},{}", n / 1_000, n % 1_000)),
    ("cells of a sheet", |n| format!("{}{}", digits(n, "ABCDEFGHIJKLMNOPQRSTUVWXYZ", 2), n / 676)),
    ("addresses of the network", |n| format!("10.{}.{}.{}", n >> 16, n >> 8 & 255, n & 255)),
    ("prices", |n| format!("{}.{:02}", n / 100, n % 100)),
    ("times", |n| iso(i64::try_from(n).unwrap() * 60_000).unwrap()),
    ("another script", |n| format!("ключ-{n}")),
    ("words of signs", |n| digits(n, "一二三四五六七八九十百千", 8)),
    ("words", |n| digits(n, LETTERS, 6)),
    ("words backwards", |n| digits(n, LETTERS, 6).chars().rev().collect()),
    ("two letters", |n| digits(n, "ab", 20)),
];

#[test]
fn ordinary_names_are_taken_however_many_they_are() {
    for (what, name) in ORDINARY {
        let size = if what == "places in a grid" { 16 << 20 } else { 2 << 20 };
        let mut text = String::from("{\"\":0");
        for number in 0.. {
            if text.len() > size {
                break;
            }
            write!(text, ",\"{}\":1", name(number)).unwrap();
        }
        assert_eq!(names::refusal(&(text + "}")), None, "{what}");
    }
}
