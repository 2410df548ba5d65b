//! Patterns that are given to the engine in another form mean what they meant.

use proptest::prelude::*;
use rquickjs::{Context, Runtime};

use super::*;
use crate::plugin::pattern::{CLOSES, stoppable};

/// What a pattern finds in a text, with all its groups, as the engine says by itself.
fn finds(source: &str, flags: &str, text: &str) -> String {
    let runtime = Runtime::new().unwrap();
    runtime.set_memory_limit(64 << 20);
    let context = Context::full(&runtime).unwrap();
    context.with(|ctx| {
        let code = format!(
            "try {{ const r = new RegExp({source:?}, {flags:?}), all = []; let m; \
             while ((m = r.exec({text:?})) && all.push([m.index, m]) < 20) if (m[0] === '') r.lastIndex += 1; JSON.stringify(all) }} catch (e) {{ e.name }}"
        );
        ctx.eval(code).unwrap()
    })
}

fn atom() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop_oneof![Just("a"), Just("b"), Just("[ab]"), Just("."), Just(r"\w"), Just(r"\x61"), Just(r"\u0062")].prop_map(str::to_owned),
        1 => prop_oneof![Just(r"\b"), Just("^"), Just("$"), Just(r"\1"), Just("")].prop_map(str::to_owned),
    ]
}

fn pattern() -> impl Strategy<Value = String> {
    let times = prop_oneof![
        Just(""),
        Just("+"),
        Just("*"),
        Just("?"),
        Just("{2}"),
        Just("{1,}"),
        Just("{1,90}"),
        Just("{0,70}"),
        Just("+?"),
        Just("{2,}")
    ];
    let ends = |inner: &str, times: &str| match inner {
        "^" | "$" | r"\b" | "" => inner.to_owned(),
        _ => format!("{inner}{times}"),
    };
    let leaf = (atom(), times.clone()).prop_map(move |(atom, times)| ends(&atom, times));
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let group = prop_oneof![Just("("), Just("(?:"), Just("(?="), Just("(?!"), Just("(?<="), Just("(?<!")];
        prop_oneof![
            (group, inner.clone(), times.clone()).prop_map(|(open, inner, times)| {
                let repeatable = !open.starts_with("(?<");
                format!("{open}{inner}){}", if repeatable { times } else { "" })
            }),
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("{one}{other}")),
            (inner.clone(), inner).prop_map(|(one, other)| format!("(?:{one}|{other})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_counted_pattern_finds_what_it_found(inner in pattern(), outer in pattern(), around in 0..4_usize, text in "[ab]{0,7}") {
        let around = ["(?=", "(?!", "(?<=", "(?<!"][around];
        let source = format!("({around}{inner})){outer}");
        if let Ok(Some(made)) = stoppable(&source, "g") {
            prop_assert_eq!(finds(&made, "g", &text), finds(&source, "g", &text), "{} as {}", source, made);
        }
    }
}

#[test]
fn patterns_of_libraries_find_what_they_found() {
    for (source, flags, text) in [
        (r"\B(?=(\d{3})+(?!\d))", "g", "1234567.891"),
        (r"(?<=\$)\d+(?=\.\d+)", "g", "$12.50 $7 $33.1"),
        (r"^(?=.{1,64}@)[\w.]+(?=@[\w-]+\.)", "g", "jo.doe@host-1.org"),
        (r"(?:^|[^\\])(?=(?:[ \t]+\n)+)", "g", "a  \n \t\nb"),
        (r"(?=(\w+)\s+\1\b)", "gi", "the The cat cat"),
        (r"(?!^)(?=(?:\p{Lu}\p{Ll}+)+$)", "gu", "ÄpfelUndÖl"),
        (r"^(?!.*?[._]{2})(?=(?:[a-z]\d?)+$)", "g", "a1b2c"),
    ] {
        let made = stoppable(source, flags).unwrap();
        let counted = made.as_ref().is_some_and(|made| made.contains(CLOSES));
        assert_eq!(finds(made.as_deref().unwrap_or(source), flags, text), finds(source, flags, text), "{source}");
        assert_eq!(once(&format!("() => JSON.stringify([...{text:?}.matchAll(new RegExp({source:?}, {flags:?}))].map((m) => [m.index, m]))")).unwrap(), serde_json::to_string(&finds(source, flags, text)).unwrap(), "{source}");
        assert!(counted || source.contains(r"\d{3}") || source.contains("{2}"), "{source} stays as it is");
    }
}
