//! Generated scripts against the bindings: whatever they do, the host answers, and no row of another plugin or
//! tenant is read or touched (spec, G9 and G10). A failure names its seed; `ONCEHOST_SEED` runs that one again.

use std::fmt::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use oncehost::plugin::Registry;

use crate::support::process::{Folders, Process};
use crate::support::{long, postgres};

const MANIFEST: &str = r#"{ "id": "PLUGIN", "version": "1.0.0",
  "permissions": ["data:read", "data:write", "flow:start", "notify:publish"],
  "limits": { "handler": "100ms", "memory": "16MiB", "hostCalls": 500 } }"#;
const SCHEMA: &str = "CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER, r REAL, flag BOOLEAN, note TEXT, raw BLOB, data JSON, at TIMESTAMP, UNIQUE (n), UNIQUE (note, flag));";
const FLOW: &str = r#"{ "name": "work", "job": { "seed": ["a"] }, "steps": [{ "id": "one", "uses": "sleep", "inputs": { "for": { "const": "1s" } } }] }"#;
/// Rows that nobody else may see.
const SECRET: &str = "export function handle() {\n  for (const id of ['a', 'b', '1', '']) {\n    const r = store.createIfAbsent('t', { id, note: 'SECRET' + id }, ['id'])\n    if (!r.ok) throw r.error\n  }\n}";
const SCRIPTS: u64 = 60;

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % most as u64).unwrap()
    }

    fn of<'a>(&mut self, these: &[&'a str]) -> &'a str {
        these[self.below(these.len())]
    }
}

const ODD: [&str; 46] = [
    "undefined",
    "null",
    "true",
    "false",
    "0",
    "-0",
    "1",
    "-1",
    "NaN",
    "Infinity",
    "1.5",
    "1e308",
    "2 ** 53",
    "9007199254740993n",
    "1n << 63n",
    "-(1n << 63n)",
    "1n << 70n",
    "''",
    "'a'",
    "'b'",
    "'1'",
    "'\\0'",
    "'\\ud800'",
    "'😀'",
    "'%'",
    "'_'",
    "\"'; DROP TABLE t; --\"",
    "'2024-02-29T00:00:00Z'",
    "'2024-02-30'",
    "'x'.repeat(3000)",
    "new Date()",
    "new Date(NaN)",
    "new Uint8Array([1, 2])",
    "new Float64Array(2)",
    "new Map([[1, 2]])",
    "Symbol('s')",
    "() => 1",
    "Object.create(null)",
    "new Proxy({}, { ownKeys() { throw new Error('trap') } })",
    "new Proxy([], {})",
    "{ get id() { throw new Error('got') } }",
    "{ toJSON() { return 1 } }",
    "(() => { const o: any = {}; o.o = o; return o })()",
    "new (class A { id = 'a' })()",
    "ctx",
    "input",
];
const COLUMNS: [&str; 14] = [
    "id",
    "n",
    "r",
    "flag",
    "note",
    "raw",
    "data",
    "at",
    "tenant_id",
    "created_at",
    "createdAt",
    "rowid",
    "nope",
    "__proto__",
];
const OPERATORS: [&str; 12] =
    ["eq", "ne", "gt", "gte", "lt", "lte", "in", "notIn", "isNull", "startsWith", "like", "toString"];
const TABLES: [&str; 8] =
    ["'t'", "'t'", "'t'", "'t'", "'_oncehost_keys'", "'sqlite_master'", "'vault.t'", "'t; DROP TABLE t'"];

/// Such as a well-behaved script would write, so that what is behind the checks is reached too.
const CONDITIONS: [&str; 8] = [
    "{ id: { ne: 'q' } }",
    "{ note: { startsWith: '' } }",
    "{ n: { isNull: true } }",
    "{ or: [{ id: { eq: 'a' } }, { n: { gte: 0 } }] }",
    "{ id: { in: ['a', 'b', '1', ''] } }",
    "{ id: { eq: 'a' } }",
    "{ id: { eq: 'b' }, flag: { ne: true } }",
    "{ createdAt: { lt: '2999-01-01T00:00:00Z' } }",
];
const RECORDS: [&str; 6] = [
    "{ id: 'a', n: 1 }",
    "{ id: 'b', note: 'mine', flag: true }",
    "{ n: 7 }",
    "{ note: 'x', flag: false, r: 1.5 }",
    "{ data: { a: [1] }, at: new Date(), raw: new Uint8Array([1]) }",
    "{ n: { inc: 1 }, note: null }",
];

fn value(dice: &mut Dice, depth: usize) -> String {
    match dice.below(if depth > 3 { 6 } else { 8 }) {
        6 => format!("[{}, {}]", value(dice, depth + 1), value(dice, depth + 1)),
        7 => record(dice, depth + 1),
        _ => dice.of(&ODD).to_owned(),
    }
}

fn record(dice: &mut Dice, depth: usize) -> String {
    if depth == 0 && dice.below(2) == 0 {
        return dice.of(&RECORDS).to_owned();
    }
    let members: Vec<_> =
        (0..dice.below(4)).map(|_| format!("[{:?}]: {}", dice.of(&COLUMNS), value(dice, depth + 1))).collect();
    format!("{{ {} }}", members.join(", "))
}

fn condition(dice: &mut Dice, depth: usize) -> String {
    if depth == 0 && dice.below(2) == 0 {
        return dice.of(&CONDITIONS).to_owned();
    }
    match dice.below(10) {
        0 => value(dice, 2),
        1 => "{}".to_owned(),
        2 if depth < 3 => format!("{{ or: [{}, {}] }}", condition(dice, depth + 1), condition(dice, depth + 1)),
        _ => {
            let each = |dice: &mut Dice| {
                format!("[{:?}]: {{ [{:?}]: {} }}", dice.of(&COLUMNS), dice.of(&OPERATORS), value(dice, 3))
            };
            let conditions: Vec<_> = (0..=dice.below(2)).map(|_| each(dice)).collect();
            format!("{{ {} }}", conditions.join(", "))
        }
    }
}

fn table(dice: &mut Dice) -> String {
    if dice.below(20) == 0 { value(dice, 3) } else { dice.of(&TABLES).to_owned() }
}

fn call(dice: &mut Dice) -> String {
    let table = table(dice);
    let unique = |dice: &mut Dice| {
        if dice.below(5) == 0 {
            value(dice, 2)
        } else {
            dice.of(&["['id']", "['n']", "['note', 'flag']", "[]", "['tenant_id', 'id']"]).to_owned()
        }
    };
    match dice.below(12) {
        0 | 1 => format!("store.createIfAbsent({table}, {}, {})", record(dice, 0), unique(dice)),
        2 => format!("store.update({table}, {}, {})", condition(dice, 0), record(dice, 0)),
        3 => format!("store.delete({table}, {})", condition(dice, 0)),
        4 => format!("store.get({table}, {})", condition(dice, 0)),
        5 | 6 => {
            if dice.below(2) == 0 {
                return format!("store.list('t', {{ where: {} }})", condition(dice, 0));
            }
            let (order, cursor) = (value(dice, 2), value(dice, 3));
            let order = if dice.below(2) == 0 { format!("{{ [{:?}]: 'desc' }}", dice.of(&COLUMNS)) } else { order };
            let cursor = if dice.below(2) == 0 { "undefined".to_owned() } else { cursor };
            format!(
                "store.list({table}, {{ where: {}, orderBy: {order}, limit: {}, cursor: {cursor} }})",
                condition(dice, 0),
                dice.of(&["1", "undefined", "5", "1e9", "-1", "'2'"])
            )
        }
        7 => format!("store.count({table}, {})", condition(dice, 0)),
        8 => format!(
            "flow.start({}, {}, {})",
            dice.of(&["'work'", "'none'", "null"]),
            value(dice, 3),
            dice.of(&["{ a: 1 }", "{}", "{ a: input, b: 1 }", "null"])
        ),
        9 => format!("flow.get({})", value(dice, 3)),
        10 => format!(
            "notify.publish({}, {}, {{ eventKey: {} }})",
            dice.of(&["'a.b'", "''", "5"]),
            value(dice, 0),
            value(dice, 3)
        ),
        _ => format!("ctx.stableId({})", value(dice, 3)),
    }
}

fn statement(dice: &mut Dice, depth: usize) -> String {
    let inner = |dice: &mut Dice| statement(dice, depth + 1);
    match dice.below(if depth > 3 { 8 } else { 14 }) {
        0..=6 => format!("try {{ use({}) }} catch (e) {{ use(e) }}", call(dice)),
        7 => format!("kept = {}", value(dice, 0)),
        8 => format!("for (let i = 0; i < {}; i++) {{ {} }}", dice.of(&["2", "20", "1e3", "Infinity"]), inner(dice)),
        9 => format!("(async () => {{ await ({}); {} }})()", value(dice, 2), inner(dice)),
        10 => format!(
            "try {{ {}; throw {} }} catch {{ {} }} finally {{ {} }}",
            inner(dice),
            value(dice, 2),
            inner(dice),
            inner(dice)
        ),
        11 => format!("console.log({}, {})", value(dice, 0), value(dice, 0)),
        12 => format!("if ({}) {{ {} }} else {{ {} }}", value(dice, 3), inner(dice), inner(dice)),
        _ => format!(
            "try {{ Object.assign({}, {}) }} catch {{}} {}",
            dice.of(&["store", "globalThis", "Array.prototype", "kept ?? {}", "ctx"]),
            value(dice, 2),
            inner(dice)
        ),
    }
}

fn script(dice: &mut Dice) -> String {
    let mut text = String::from(
        "export function handle(input: any, ctx: any) {\n  let kept: any, leaked = false\n  const use = (r: any) => {\n    kept = r\n    let text = ''\n    \
         try { text = JSON.stringify(r, (_, v) => (typeof v === 'bigint' ? String(v) : v)) ?? '' } catch {}\n    try { text += r?.error?.message ?? '' } catch {}\n    \
         if (text.includes('SECRET')) leaked = true\n  }\n  try {\n",
    );
    for _ in 0..=dice.below(8) {
        writeln!(text, "    ;{}", statement(dice, 0)).unwrap();
    }
    let last = if dice.below(6) == 0 { format!("throw {}", value(dice, 1)) } else { "return kept".to_owned() };
    write!(
        text,
        "    {last}\n  }} finally {{\n    if (leaked) throw new BizError('LEAKED', 'a foreign row was seen')\n  }}\n}}"
    )
    .unwrap();
    text
}

/// All rows that are not the fuzzed tenant's, as text.
fn foreign(folders: &Folders) -> Vec<String> {
    let mut rows = Vec::new();
    for (plugin, whose) in [("fuzzed", "tenant_id <> 'dev'"), ("vault", "true")] {
        let parts = "tenant_id || '/' || id || '/' || note || '/' || coalesce(CAST(n AS TEXT), '')";
        let found = folders.rows(plugin, &format!("SELECT {parts} FROM t WHERE {whose} ORDER BY 1"));
        rows.extend(found.into_iter().map(|row| row[0].as_str().unwrap().to_owned()));
    }
    rows
}

fn batch(seed: u64, store: Option<String>) {
    let mut dice = Dice(seed);
    let mut files: Vec<(String, String)> =
        (0..SCRIPTS).map(|number| (format!("fuzzed/handlers/s{number}.ts"), script(&mut dice))).collect();
    for plugin in ["fuzzed", "vault"] {
        // The neighbour has time enough, so that none of its calls fails on a machine that is busy.
        let manifest = if plugin == "vault" { MANIFEST.replace("100ms", "10s") } else { MANIFEST.to_owned() };
        files.push((format!("{plugin}/plugin.json"), manifest.replace("PLUGIN", plugin)));
        files.push((format!("{plugin}/schema.sql"), SCHEMA.to_owned()));
        files.push((format!("{plugin}/flows/work.json"), FLOW.to_owned()));
        files.push((format!("{plugin}/handlers/secret.ts"), SECRET.to_owned()));
    }
    let folders = Folders::new(files.clone()).on_postgres(store);
    let broken = Registry::load(&folders.plugins(), 0).unwrap().broken;
    assert!(broken.is_empty(), "seed {seed}: {broken:#?}");
    let host = Process::logging(folders.command(&["dev", "--apply-schema"]), Stdio::null());
    for (plugin, tenant) in [("fuzzed", "other"), ("vault", "dev"), ("vault", "other")] {
        // On a busy machine 100 ms are not much.
        let mut tries = (0..50).map(|_| host.post_as(tenant, plugin, "secret", "secret", "{}"));
        let done = tries.find(|done| !done.body.contains("limits.handler")).unwrap();
        assert_eq!(done.status, 200, "{}", done.body);
    }
    let before = foreign(&folders);
    assert_eq!(before.len(), 12);
    for number in 0..SCRIPTS {
        let said = || format!("seed {seed}, script {number}:\n{}", files[usize::try_from(number).unwrap()].1);
        let began = Instant::now();
        let call = || {
            host.try_post("fuzzed", &format!("s{number}"), &format!("k{number}"), r#"{"a":[1,{"b":"c"}]}"#)
                .unwrap_or_else(|| panic!("no answer; {}", said()))
        };
        let mut answer = call();
        assert!(began.elapsed() < Duration::from_secs(30), "a hang; {}", said());
        // A server beside a busy machine may be slow now and then, but not each time.
        for _ in 0..3 {
            if answer.status == 503 && folders.is_on_postgres() {
                answer = call();
            }
        }
        if answer.status != 200 {
            let error = answer.error();
            assert!(
                !["UNAVAILABLE", "OVERLOADED", "LEAKED", "NOT_FOUND"].contains(&error.as_str()),
                "{}\n{}",
                answer.body,
                said()
            );
        }
    }
    assert_eq!(foreign(&folders), before, "seed {seed}: foreign rows were touched");
    assert_eq!(host.get("/healthz").status, 200, "seed {seed}");
}

#[test]
fn generated_scripts_never_bring_down_the_host_or_touch_foreign_rows() {
    if let Some(seed) = std::env::var_os("ONCEHOST_SEED") {
        let seed = seed.to_str().unwrap().parse().unwrap();
        return [None, Some(postgres::database())].into_iter().for_each(|store| batch(seed, store));
    }
    let until = Instant::now() + Duration::from_secs(long(4, 600));
    let mut seed = long(1, u64::from(std::process::id()) << 32);
    while Instant::now() < until {
        batch(seed, None);
        batch(seed, Some(postgres::database()));
        seed += 1;
    }
    eprintln!("{} generated scripts or more", SCRIPTS * (seed & 0xffff_ffff));
}
