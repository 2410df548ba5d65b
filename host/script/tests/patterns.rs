//! Patterns that are given to the engine in another form mean what they meant.

use proptest::prelude::*;
use rquickjs::{Context, Runtime};

use super::*;
use crate::plugin::pattern::{CLOSES, stoppable};

/// What a function's body gives without a host around it.
fn in_an_engine_of_its_own(body: &str) -> String {
    let runtime = Runtime::new().unwrap();
    runtime.set_memory_limit(64 << 20);
    let context = Context::full(&runtime).unwrap();
    context.with(|ctx| ctx.eval(format!("(() => {{ {body} }})()")).unwrap())
}

/// What a pattern finds in a text, with all its groups, as the engine says by itself.
fn finds(source: &str, flags: &str, text: &str) -> String {
    in_an_engine_of_its_own(&format!(
        "try {{ const r = new RegExp({source:?}, {flags:?}), all = []; let m; \
         while ((m = r.exec({text:?})) && all.push([m.index, m]) < 20) if (m[0] === '') r.lastIndex += 1; return JSON.stringify(all) }} catch (e) {{ return e.name }}"
    ))
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

/// What three searches in a row find in a text, from there on where the first begins, and where each one ends.
fn searches(source: &str, flags: &str, text: &str, from: &str) -> String {
    format!(
        "const r = new RegExp({source:?}, {flags:?}), text = {text:?} + '\\n'.repeat(600), all = []; r.lastIndex = {from}; \
         for (let i = 0; i < 3; i++) {{ const m = r.exec(text); all.push(m && [m.index, [...m].map((x) => x?.slice(0, 9)), m.indices, m.input === text], r.lastIndex) }} \
         return JSON.stringify(all)"
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_pattern_that_is_tried_at_one_place_finds_what_it_found(
        begin in 0..4_usize, inner in pattern(), flags in "[dgm]?[iy]?", text in "[ab]{0,5}", from in 0..3_usize
    ) {
        let source = [format!("^{inner}"), format!("^{inner}|^b"), format!("(^{inner})(a)?"), format!("{inner}^a?")][begin].clone();
        let from = ["0", "1", "{ valueOf: () => 2 }"][from];
        let body = searches(&source, &flags, &text, from);
        let wanted = in_an_engine_of_its_own(&body);
        prop_assert_eq!(once(&format!("() => {{ {body} }}")).unwrap(), serde_json::to_string(&wanted).unwrap(), "{} {}", source, flags);
    }
}

#[test]
fn what_can_only_be_found_at_the_beginning_is_looked_for_nowhere_else() {
    // Tried everywhere, this would be some ten thousand million places.
    let body = "const text = 'a'.repeat(1e6), first = /^b/, global = /^(?:b|c)/g; let found = 0; \
                for (let i = 0; i < 5_000; i++) found += first.test(text) + global.test(text); return found";
    assert_eq!(once(&format!("() => {{ {body} }}")).unwrap(), "0");
}

#[test]
fn a_pattern_keeps_what_can_be_seen_of_it_in_a_long_text() {
    let body = "const text = 'ab' + 'c'.repeat(2e4), frozen = Object.freeze(/^b/g), one = /^a(?<n>b)/d; \
                const first = one.exec(text), again = one.exec(text); let thrown; \
                try { frozen.exec(text) } catch (e) { thrown = e.name } \
                one.compile('^(ab)c'); class P extends RegExp { exec(t) { return super.exec(t) } } const own = new P('^ab'); \
                return [first.groups.n, first.indices.groups.n, again.index, thrown, one.exec(text)[1], one.source, own.test(text), text.replace(own, '').length, text.match(/^b/), text.search(/^ab/), text.split(/^ab/).length]";
    assert_eq!(
        once(&format!("() => {{ {body} }}")).unwrap(),
        r#"["b",[1,2],0,"TypeError","ab","^(ab)c",true,20000,null,0,2]"#
    );
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
