//! From each kept version of a schema to the newest, with data, and with the process killed on the way; and from any
//! schema to any other.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use proptest::prelude::*;
use rusqlite::Connection;

use super::*;

const NOW: i64 = 1_750_000_000_000;

/// The versions of `tests/schema/lane-change`, oldest first.
fn versions() -> Vec<Schema> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schema/lane-change");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |file: &PathBuf| parse(&std::fs::read_to_string(file).unwrap(), &[]);
    files.iter().map(|file| read(file).unwrap_or_else(|faults| panic!("{}: {faults:#?}", file.display()))).collect()
}

/// Applies `wanted`, allowing all that it asks to be allowed; gives the number of steps.
fn bring(conn: &mut Connection, wanted: &Schema) -> usize {
    let refused = plan(conn, wanted, &[]).unwrap().refusals;
    let allowed: Vec<String> = refused.into_iter().filter_map(|refusal| refusal.allow).collect();
    let applied = apply(conn, wanted, &allowed, NOW).unwrap_or_else(|error| match error {
        ApplyError::Refused(plan) => panic!("{}", render(&plan)),
        ApplyError::Store(error) => panic!("{error}"),
    });
    applied.plan.steps.len()
}

/// Rows as a plugin of the first version would have written them; later columns keep their defaults.
fn fill(conn: &Connection, tables: &Schema) {
    let (event, obj) = match tables.tables.get("lane_change_event") {
        Some(table) if table.column("obj").is_some() => ("lane_change_event", "obj"),
        Some(_) => ("lane_change_event", "obj_id"),
        None => ("event", "obj_id"),
    };
    for tenant in ["acme", "beta"] {
        for at in 0..50 {
            conn.execute(
                &format!("INSERT INTO {event} (tenant_id, id, event_key, {obj}, lane_from, lane_to, speed, created_at) VALUES (?1, ?2, ?3, 'car', ?4, ?4 + 1, ?5, '2026-01-02T03:04:05.678Z')"),
                (tenant, format!("id{at}"), format!("key{at}"), at, (at % 3 > 0).then_some(at * 2)),
            )
            .unwrap();
        }
    }
    for note in ["lane_change_note", "note"].into_iter().filter(|name| tables.tables.contains_key(*name)) {
        conn.execute_batch(&format!(
            "INSERT INTO {note} (tenant_id, id, event_id, body) SELECT tenant_id, 'n' || id, id, 'seen' FROM {event}"
        ))
        .unwrap();
    }
}

fn text(conn: &Connection, sql: &str) -> String {
    conn.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn every_kept_version_reaches_the_newest_with_its_rows() {
    let versions = versions();
    let newest = versions.last().unwrap();
    assert!(versions.len() >= 4);
    for (at, version) in versions.iter().enumerate() {
        let mut conn = Connection::open_in_memory().unwrap();
        install(&conn).unwrap();
        conn.pragma_update(None, "foreign_keys", true).unwrap();
        bring(&mut conn, version);
        fill(&conn, version);
        // Once straight to the newest, once through every version between.
        let through = if at % 2 == 0 { at + 1..versions.len() } else { versions.len() - 1..versions.len() };
        for next in through {
            bring(&mut conn, &versions[next]);
        }
        assert_eq!(status(&conn, newest).unwrap().state, State::Equal);
        let sums = text(
            &conn,
            "SELECT count(*) || ' ' || count(DISTINCT tenant_id) || ' ' || sum(lane_from) || ' ' || total(speed) || ' ' || min(obj_id) || ' ' || max(created_at) FROM event",
        );
        assert_eq!(sums, "100 2 2450 3268.0 car 2026-01-02T03:04:05.678Z", "from version {}", at + 1);
        let notes = text(
            &conn,
            "SELECT count(*) || '' FROM note JOIN event ON event.id = note.event_id AND event.tenant_id = note.tenant_id",
        );
        assert_eq!(notes, if version.tables.len() > 2 { "100" } else { "0" });
        assert_eq!(
            text(&conn, "SELECT typeof(speed) || details || reviewed FROM event WHERE speed IS NOT NULL LIMIT 1"),
            "real{}0"
        );
    }
}

/// Copies a database with its log, as a killed process leaves them.
fn copy(from: &Path, to: &Path) {
    for end in ["", "-wal"] {
        let name = |path: &Path| PathBuf::from(format!("{}{end}", path.display()));
        if name(from).exists() {
            std::fs::copy(name(from), name(to)).unwrap();
        }
    }
}

/// All rows and definitions, as one text.
fn whole(conn: &Connection) -> String {
    let mut text = String::new();
    let names = "SELECT name || ': ' || sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name";
    let mut all: Vec<String> = inspect::rows(conn, names, [], |row| row.get(0)).unwrap();
    for table in inspect::read(conn).unwrap().schema.tables.keys() {
        let sql = format!("SELECT * FROM \"{table}\" ORDER BY 1, 2");
        let mut statement = conn.prepare(&sql).unwrap();
        let width = statement.column_count();
        let row =
            |row: &rusqlite::Row| (0..width).map(|at| row.get_ref(at).map(|value| format!("{value:?}"))).collect();
        let rows: Vec<Vec<String>> = statement.query_map([], row).unwrap().map(Result::unwrap).collect();
        all.push(format!("{table}: {rows:?}"));
    }
    text.push_str(&all.join("\n"));
    text
}

#[test]
fn killed_at_any_moment_the_database_is_as_before_or_as_after() {
    let folder = tempfile::tempdir().unwrap();
    let versions = versions();
    let file = folder.path().join("plugin.db");
    let mut conn = Connection::open(&file).unwrap();
    conn.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = 10").unwrap();
    bring(&mut conn, &versions[0]);
    fill(&conn, &versions[0]);
    let before = whole(&conn);
    let copies: Rc<RefCell<Vec<PathBuf>>> = Rc::default();
    let taken = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let (seen, target, source) = (taken.clone(), folder.path().to_owned(), file.clone());
    let snap = move || {
        let at = seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        copy(&source, &target.join(format!("copy{at}.db")));
        false
    };
    conn.progress_handler(400, Some(snap.clone())).unwrap();
    conn.commit_hook(Some(snap)).unwrap();
    bring(&mut conn, versions.last().unwrap());
    conn.progress_handler(0, None::<fn() -> bool>).unwrap();
    conn.commit_hook(None::<fn() -> bool>).unwrap();
    let after = whole(&conn);
    copy(&file, &folder.path().join("last.db"));
    let count = taken.load(std::sync::atomic::Ordering::SeqCst);
    assert!(count > 20, "only {count} moments were looked at");
    copies.borrow_mut().extend((0..count).map(|at| folder.path().join(format!("copy{at}.db"))));
    for path in copies.borrow().iter() {
        assert_eq!(whole(&Connection::open(path).unwrap()), before, "{}", path.display());
    }
    assert_eq!(whole(&Connection::open(folder.path().join("last.db")).unwrap()), after);
    assert_ne!(before, after);
}

fn default_of(ty: ColumnType) -> BoxedStrategy<Value> {
    match ty {
        ColumnType::Integer => any::<i64>()
            .prop_map(|number| if number.unsigned_abs() < 1 << 53 { Value::Int(number) } else { Value::BigInt(number) })
            .boxed(),
        ColumnType::Real => any::<f64>()
            .prop_filter("finite", |number| number.is_finite())
            .prop_map(|number| Value::Real(number + 0.0))
            .boxed(),
        ColumnType::Boolean => any::<bool>().prop_map(Value::Bool).boxed(),
        ColumnType::Text => "[^\0]{0,6}".prop_map(Value::Text).boxed(),
        ColumnType::Blob => proptest::collection::vec(any::<u8>(), 0..4).prop_map(Value::Blob).boxed(),
        ColumnType::Json => prop_oneof![Just("{}"), Just(r#"{"a":[1,"it's"]}"#), Just("[null]")]
            .prop_map(|text| Value::Text(text.into()))
            .boxed(),
        ColumnType::Timestamp => Just(Value::Text("2026-01-02T03:04:05.678Z".into())).boxed(),
    }
}

fn column(name: &'static str) -> impl Strategy<Value = Column> {
    (proptest::sample::select(ColumnType::ALL.to_vec()), any::<bool>(), any::<bool>()).prop_flat_map(
        move |(ty, not_null, has)| {
            let default = if has { default_of(ty).prop_map(Some).boxed() } else { Just(None).boxed() };
            default.prop_map(move |default| Column { name: name.into(), ty, not_null, default, was: None, line: 0 })
        },
    )
}

/// A table with `id` and some of the columns `a` to `d`, with indexes and CHECKs over those.
fn table(name: &'static str) -> impl Strategy<Value = Table> {
    let columns = [column("a"), column("b"), column("order"), column("d")].prop_map(Vec::from);
    let some = || proptest::sample::subsequence(vec![0_usize, 1, 2, 3], 0..=4);
    let indexes = proptest::collection::vec((some(), any::<bool>()), 0..3);
    (columns, some(), indexes, any::<bool>(), 0..3_usize, any::<bool>()).prop_map(
        move |(all, kept, indexes, shared, key, check)| {
            let mut table = Table { name: name.into(), shared, ..Table::default() };
            table.columns.push(Column {
                name: "id".into(),
                ty: ColumnType::Text,
                not_null: true,
                default: None,
                was: None,
                line: 0,
            });
            table.columns.extend(kept.iter().map(|&at| all[at].clone()));
            let names: Vec<String> = table.columns.iter().skip(1).map(|column| column.name.clone()).collect();
            table.primary_key = match (key, names.first()) {
                (1, Some(first)) => vec![first.clone(), "id".into()],
                (2, Some(first)) => vec![first.clone()],
                _ => vec!["id".into()],
            };
            let key = table.primary_key.clone();
            table
                .columns
                .iter_mut()
                .filter(|column| key.contains(&column.name))
                .for_each(|column| column.not_null = true);
            for (at, (picked, unique)) in indexes.into_iter().enumerate() {
                let columns: Vec<String> = picked.into_iter().filter_map(|at| names.get(at).cloned()).collect();
                if !columns.is_empty() {
                    table.indexes.push(Index { name: format!("{name}_{at}"), columns, unique, line: 0 });
                }
            }
            if let Some(last) = names.last().filter(|_| check) {
                table.checks.push(Check {
                    name: Some("given".into()),
                    sql: format!("{} IS NOT NULL", ddl::quote(last)),
                    line: 0,
                });
            }
            table
        },
    )
}

fn any_schema() -> impl Strategy<Value = Schema> {
    let optional = |name| proptest::option::weighted(0.8, table(name));
    (optional("one"), optional("two"), any::<bool>()).prop_map(|(one, two, refers)| {
        let tables = [one, two].into_iter().flatten().map(|table| (table.name.clone(), table)).collect();
        let mut schema = Schema { tables };
        let target = schema.tables.get("one").filter(|one| one.primary_key == ["id"]).map(|one| one.shared);
        if let (Some(shared), Some(two)) = (target.filter(|_| refers), schema.tables.get_mut("two"))
            && (shared || !two.shared)
        {
            let (columns, references) = (vec!["id".into()], vec!["id".into()]);
            two.foreign_keys.push(ForeignKey { columns, table: "one".into(), references, shared, line: 0 });
        }
        schema
    })
}

fn read_back(schema: &Schema) -> Schema {
    let sql = schema.to_sql();
    parse(&sql, &schema.shared_tables()).unwrap_or_else(|faults| panic!("{sql}\n{faults:#?}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_applied_and_inspected_is_what_was_wanted(schema in any_schema()) {
        let parsed = read_back(&schema);
        prop_assert_eq!(parsed.normal(), schema.normal());
        prop_assert_eq!(parsed.hash(), schema.hash());
        let mut conn = Connection::open_in_memory().unwrap();
        install(&conn).unwrap();
        bring(&mut conn, &parsed);
        let live = inspect::read(&conn).unwrap();
        prop_assert_eq!(live.schema.normal(), schema.normal());
        let after = status(&conn, &parsed).unwrap();
        prop_assert_eq!(after.state, State::Equal, "{}", render(&after.plan));
    }

    #[test]
    fn any_schema_can_follow_any_other(from in any_schema(), to in any_schema()) {
        let mut conn = Connection::open_in_memory().unwrap();
        install(&conn).unwrap();
        bring(&mut conn, &read_back(&from));
        bring(&mut conn, &read_back(&to));
        let after = status(&conn, &to).unwrap();
        prop_assert_eq!(after.state, State::Equal, "{}", render(&after.plan));
    }

    #[test]
    fn with_rows_a_change_is_refused_or_keeps_them(from in any_schema(), to in any_schema()) {
        let (from, to) = (read_back(&from), read_back(&to));
        let mut conn = Connection::open_in_memory().unwrap();
        install(&conn).unwrap();
        bring(&mut conn, &from);
        from.tables.values().for_each(|table| one_row(&conn, table));
        let refused = plan(&conn, &to, &[]).unwrap().refusals;
        let allowed: Vec<String> = refused.into_iter().filter_map(|refusal| refusal.allow).collect();
        match apply(&mut conn, &to, &allowed, NOW) {
            Err(ApplyError::Store(error)) => prop_assert!(false, "the plan did not foresee: {error}"),
            Err(ApplyError::Refused(_)) => prop_assert_eq!(inspect::read(&conn).unwrap().schema.normal(), from.normal()),
            Ok(_) => for name in to.tables.keys() {
                let count: i64 = conn.query_row(&format!("SELECT count(*) FROM {name}"), [], |row| row.get(0)).unwrap();
                prop_assert_eq!(count, i64::from(from.tables.contains_key(name)));
            },
        }
    }
}

/// Puts one row into `table`, with NULL where that may stand and no CHECK is against it.
fn one_row(conn: &Connection, table: &Table) {
    let value = |column: &Column| match column.ty {
        _ if !column.not_null && table.checks.is_empty() => "NULL",
        ColumnType::Integer | ColumnType::Boolean => "1",
        ColumnType::Real => "1.5",
        ColumnType::Text => "'1'",
        ColumnType::Blob => "X'00'",
        ColumnType::Json => "'{}'",
        ColumnType::Timestamp => "'2026-01-02T03:04:05.678Z'",
    };
    let mut values: Vec<&str> = table.columns.iter().map(value).collect();
    if !table.shared {
        values.insert(0, "'acme'");
    }
    conn.execute_batch(&format!("INSERT INTO {} VALUES ({})", table.name, values.join(", "))).unwrap();
}
