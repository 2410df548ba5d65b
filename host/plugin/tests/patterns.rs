//! Patterns that the engine could not be stopped in: given a turn that it counts, or refused.

use super::modules::{gives, run_with};
use super::{Folder, bundle, faults};
use crate::plugin::Registry;
use crate::plugin::pattern::{CLOSES, Manner, OPENS, counted, manner, stoppable};
use crate::script::{RunLimits, ScriptError};

#[test]
fn what_is_repeated_in_a_look_around_is_counted() {
    for (source, flags, made) in [
        ("(?=a+)b", "", "(?=(?:(?:)a(?:){2})+)b"),
        ("(?!(a)+)", "", "(?!(?:(?:)(a)(?:){2})+)"),
        (r"(?<=[\]+]{2,}x)", "", r"(?<=(?:(?:)[\]+](?:){2}){2,}x)"),
        (r"(?<!\d{1,100})", "", r"(?<!(?:(?:)\d(?:){2}){1,100})"),
        (r"(?=(?:\x41\u0042)+\101+)", "", r"(?=(?:(?:)(?:\x41\u0042)(?:){2})+(?:(?:)\101(?:){2})+)"),
        (
            r"(?=\u{1f600}+\p{L}+\ud83d\ude00+)",
            "u",
            r"(?=(?:(?:)\u{1f600}(?:){2})+(?:(?:)\p{L}(?:){2})+(?:(?:)\ud83d\ude00(?:){2})+)",
        ),
        ("(?=[[a-z]--[a-c]]+)", "v", "(?=(?:(?:)[[a-z]--[a-c]](?:){2})+)"),
        ("(?=(?:(?!x+y).)+)", "", "(?=(?:(?!(?:(?:)x(?:){2})+y).)+)"),
        ("(?=(?:(?!x).)+)", "", "(?=(?:(?:)(?:(?!x).)(?:){2})+)"),
    ] {
        let made = made.replace("(?:(?:)", OPENS).replace("(?:){2})", CLOSES);
        assert_eq!(stoppable(source, flags), Ok(Some(made)), "{source}");
    }
}

#[test]
fn what_the_engine_looks_up_in_by_itself_stays_as_it_is() {
    for source in [
        "a+b",
        "(a+)+b",
        "(?=a*)",
        "(?=a+?b)",
        r"\B(?=(\d{3})+(?!\d))",
        "(?=(?:a|b)+)",
        r"(?=\d{1,3}x)",
        "(?=[+*])",
        r"(?=\+)",
        "(?=a{3})",
        "(?:(?:(?:x?){200}){200}){200}y",
        "(?=a{,3}x)",
        r"^(?=.*[a-z])(?=.*\d).{8,}$",
        "(",
        "(?=a++)",
        ")",
        "[",
        r"\",
        "a{2",
        "(?<n",
        "(?x",
        r"(?<n>a)\k<n>",
        "",
    ] {
        assert_eq!(stoppable(source, ""), Ok(None), "{source}");
    }
}

#[test]
fn patterns_that_could_not_be_stopped_are_refused_at_their_place() {
    let many = |part: &str, times: usize| part.repeat(times);
    for (source, said) in [
        ("(a){1000000}".to_owned(), "groups are repeated too often"),
        ("(?:(?:(a)){200}){200}".to_owned(), "groups are repeated too often"),
        ("(?:(?=a{2})){100000}".to_owned(), "groups are repeated too often"),
        (format!("/{}/i", many("a", 9_000)).trim_matches('/').to_owned(), "compared in a row"),
        (many("[é]", 6_000), "compared in a row"),
        (many("x", 20_001), "compared in a row"),
        (format!(r"(a*){}", many(r"\1", 11)), "references"),
        ("(?=😀+)".to_owned(), "flag `u`"),
    ] {
        let (pattern, flags) = source.rsplit_once("/").unwrap_or((&source, ""));
        let found = faults(&[("a.ts", &format!("const far = 1\nexport const x = /{pattern}/{flags}"))]);
        assert!(
            found.len() == 1 && found[0].starts_with("p/a.ts:2:18: ") && found[0].contains(said),
            "{said}: {found:?}"
        );
        let made = run(&format!("return new RegExp({pattern:?}, {flags:?})"));
        assert!(
            matches!(&made, Err(ScriptError::Thrown { message, .. }) if message.starts_with("RangeError: ") && message.contains(said)),
            "{made:?}"
        );
    }
}

fn run(body: &str) -> Result<String, ScriptError> {
    let bundle = bundle(&[("a.ts", &format!("export function handle(): unknown {{ {body} }}"))]);
    assert_eq!(bundle.faults, [], "{body}");
    run_with(bundle.code, &RunLimits::default())
}

#[test]
fn a_text_has_a_most_where_it_is_compared_with_a_group_of_any_length() {
    for (source, flags, most) in [
        (r"(a+)\1", "", Some(100_000)),
        (r"(?<n>a*)b\k<n>\k<n>", "", Some(50_000)),
        (r"(a+)\1", "i", Some(5_000)),
        (r"(?i:a)(b*)\1", "", Some(5_000)),
        (r"\1(a+)", "", Some(100_000)),
        (r"(['\x22])(.*?)\1", "", None),
        (r"<(script|style)>.*?</\1>", "i", None),
        (r"(\w{1,64})\1", "", None),
        (r"(\w{1,65})\1", "", Some(100_000)),
        (r"(a)\2", "", None),
    ] {
        assert_eq!(manner(source, flags).unwrap().reach, most, "{source}");
    }
    assert_eq!(counted(r"(a+)\1{2}\1(b)\2", "").unwrap(), r"(a+)(?:(?:){1000}\1){2}(?:(?:){1000}\1)(b)\2");
    gives(
        &[(
            "a.ts",
            r"export function handle() { const long = 'a'.repeat(1.5e5), found = /^(a+)-\1$/.exec(long + '-' + long); const all: any[] = [found?.index, found?.[1].length]; for (const more of ['', 'b']) { try { all.push(/^(b+)-\1$/i.test('a'.repeat(5e6) + more)) } catch (e: any) { all.push(e.name, e.message.includes('at most 5000000 characters')) } } return all }",
        )],
        r#"[0,150000,false,"RangeError",true]"#,
    );
}

#[test]
fn a_pattern_that_matches_at_the_beginning_or_nowhere_is_known() {
    for (source, flags, wanted) in [
        ("^a", "", true),
        ("^a|^b", "g", true),
        ("(^a|(?:^b))c", "", true),
        ("(?:^a)+b", "", true),
        ("(?i:^a)", "", true),
        ("a*^b", "", true),
        (r"^(a+)\1", "", true),
        ("^a|b", "", false),
        ("^a|", "", false),
        ("(?:^a)?b", "", false),
        ("(?:^a){0,2}b", "", false),
        ("(?=^a)b", "", false),
        ("(?<=^)b", "", false),
        ("(?!^)b", "", false),
        (r"\^a", "", false),
        ("[^a]", "", false),
        ("^a", "m", false),
        ("(?m:^a)", "", false),
        ("", "", false),
    ] {
        assert_eq!(manner(source, flags).map(|it: Manner| it.anchored), Some(wanted), "{source}");
    }
}

#[test]
fn a_pattern_of_a_schema_that_is_none_is_told_at_its_place() {
    let handler =
        |schema: &str| format!("export const config = {{ input: {{ {schema} }} }}\nexport function handle() {{}}");
    for (schema, place) in [
        (
            "properties: { a: { pattern: '^(' } }",
            "p/handlers/a.ts:1:62: `input.properties.a.pattern` is no regular expression of ECMA-262",
        ),
        (
            "properties: { a: { pattern: '(?i)a' } }, not: { pattern: 'a' }",
            "p/handlers/a.ts:1:62: `input.properties.a.pattern` is no",
        ),
        (r"patternProperties: { '\\k<n>': {} }", "p/handlers/a.ts:1:"),
    ] {
        let manifest = r#"{ "id": "p", "version": "1.0.0" }"#;
        let folder = Folder::with(&[("p/plugin.json", manifest), ("p/handlers/a.ts", &handler(schema))]);
        let broken = Registry::load(&folder.path(""), 0).unwrap().broken;
        let told: Vec<String> = broken.values().flatten().map(ToString::to_string).collect();
        let right =
            |told: &String| told.starts_with(place) && told.contains("leave to the handler what cannot be said so");
        assert!(matches!(told.as_slice(), [only] if right(only)), "{schema}: {told:?}");
    }
}

#[test]
fn a_pattern_is_shown_as_it_was_written() {
    gives(
        &[(
            "a.ts",
            r"export function handle() { const a = /(?=(a+))b+/g, b = new RegExp('(?=(a+))b+', 'g'); return [a.source, b.source, String(a), new RegExp(a.source).source, new RegExp(a, 'i').source, new RegExp(a).source === a.source, RegExp(a) === a] }",
        )],
        r#"["(?=(a+))b+","(?=(a+))b+","/(?=(a+))b+/g","(?=(a+))b+","(?=(a+))b+",true,true]"#,
    );
}

#[test]
fn patterns_that_look_like_what_is_put_in_stay_as_they_were_written() {
    let body = r#"
        const joined = new RegExp('(?:' + new RegExp('').source + 'foo)')
        return [
            joined.source, 'xfoox'.split(/(?:(?:)foo)/), new RegExp(/[(?:(?:)]x/, 'g').test('(x'), /[(?:(?:)]/.source,
            /(?=a+)b/.source, structuredClone(/(?:(?:)foo){2}/g).source,
        ]"#;
    let wanted = r#"["(?:(?:)foo)",["x","x"],true,"[(?:(?:)]","(?=a+)b","(?:(?:)foo){2}"]"#;
    assert_eq!(run(body).unwrap(), wanted);
}

#[test]
fn what_is_made_a_pattern_by_a_search_is_looked_at_whatever_it_is() {
    for given in ["['(?=(a+))b']", "{ toString: () => '(?=(a+))b' }"] {
        for how in ["match", "search"] {
            let limits = RunLimits { time: std::time::Duration::from_millis(100), ..RunLimits::default() };
            let text =
                format!("export function handle(): unknown {{ return 'a'.repeat(300000).{how}({given} as any) }}");
            let ended = run_with(bundle(&[("a.ts", &text)]).code, &limits);
            assert!(matches!(ended, Err(ScriptError::Limit { .. })), "{how} {given}: {ended:?}");
        }
    }
    let body = "return ['1null'.match(null as any)![0], 'a1'.search(1 as any), 'ab'.match(undefined as any)![0],                 [...'abab'.matchAll('b' as any)].length, 'x'.match({ [Symbol.match]: (text: string) => [text + '!'] } as any)]";
    assert_eq!(run(body).unwrap(), r#"["null",1,"",2,["x!"]]"#);
}

#[test]
fn functions_and_classes_keep_the_names_of_where_they_stand() {
    let made: Vec<String> = (0..700).map(|n| format!("const C{n} = class {{}}; const f{n} = () => {n};")).collect();
    let names: Vec<String> = (0..700).map(|n| format!("C{n}.name === 'C{n}' && f{n}.name === 'f{n}'")).collect();
    assert_eq!(run(&format!("{}\nreturn {}", made.join("\n"), names.join(" && "))).unwrap(), "true");
}
