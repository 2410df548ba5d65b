use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::Value as Json;

use super::*;
use crate::ids::SystemIds;
use crate::plugin::{Plugin, Registry};
use crate::store::{self, Access, Stores, Tx, tables};
use crate::test_postgres;

// Each has the same tests, with a `Fixture` of its own.
#[expect(clippy::duplicate_mod, reason = "the same tests, once on each database")]
mod postgres;
#[expect(clippy::duplicate_mod, reason = "the same tests, once on each database")]
mod sqlite;

/// Which database a fixture is on.
trait On {
    fn stores(folder: &Path) -> Stores;
}

struct Sqlite;
struct Postgres;

impl On for Sqlite {
    fn stores(folder: &Path) -> Stores {
        Stores::files(folder.to_owned())
    }
}

impl On for Postgres {
    fn stores(_: &Path) -> Stores {
        let lock_wait = std::time::Duration::from_secs(5);
        let limits = store::postgres::Limits { connections: 4, lock_wait, answer: lock_wait * 6 };
        Stores::server(store::postgres::Server::new(&test_postgres::database(), limits).unwrap())
    }
}

const SCHEMA: &str = "
    CREATE TABLE orders (id TEXT PRIMARY KEY, number TEXT UNIQUE, total INTEGER CHECK (total <> -13), rate REAL,
        paid BOOLEAN, extra JSON, raw BLOB, due TIMESTAMP, constructor TEXT, created_at TIMESTAMP, updated_at TIMESTAMP);
    CREATE INDEX orders_total ON orders (total);
    CREATE TABLE lines (order_id TEXT REFERENCES orders (id), sku TEXT, qty INTEGER NOT NULL DEFAULT 1,
        tags JSON NOT NULL DEFAULT '[1, {}]',
        PRIMARY KEY (order_id, sku));
    CREATE TABLE seats (id TEXT PRIMARY KEY, code TEXT UNIQUE, floor INTEGER, place TEXT, owner TEXT REFERENCES seats (id),
        CONSTRAINT zz_by_name CHECK (length(place) < 5), CHECK (floor > -5), CHECK (code <> place), CHECK (floor <> -9));
    CREATE UNIQUE INDEX seats_place ON seats (floor, place);
    CREATE TABLE stairs (step INTEGER PRIMARY KEY, above INTEGER REFERENCES stairs (step), mark INTEGER UNIQUE);
    CREATE TABLE rates (name TEXT PRIMARY KEY, value REAL);
    CREATE TABLE tanks (name TEXT PRIMARY KEY, units INTEGER CHECK (units - 0 <> 7));
";

/// A plugin's database with a transaction open in it, and calls as a script makes them.
struct Fixture<D> {
    database: store::Shared,
    tx: Tx,
    on: PhantomData<D>,
    folder: tempfile::TempDir,
    plugin: Arc<Plugin>,
    ids: Arc<SystemIds>,
    now: AtomicI64,
}

/// The plugin in `folder`, with these permissions.
fn plugin(folder: &Path, permissions: &str) -> Arc<Plugin> {
    let home = folder.join("shop");
    let manifest =
        format!(r#"{{ "id": "shop", "version": "1.0.0", "permissions": {permissions}, "sharedTables": ["rates"] }}"#);
    std::fs::create_dir_all(&home).unwrap();
    std::fs::write(home.join("plugin.json"), manifest).unwrap();
    std::fs::write(home.join("schema.sql"), SCHEMA).unwrap();
    let registry = Registry::load(folder, 0).unwrap();
    assert_eq!(registry.broken, Default::default());
    registry.plugins["shop"].clone()
}

impl<D: On> Fixture<D> {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plugin = plugin(folder.path(), r#"["data:read", "data:write"]"#);
        let database = D::stores(folder.path()).plugin("shop").open(Access::Write).unwrap();
        tables::apply(&database, &plugin.schema, &[], 0).unwrap();
        let tx = database.begin().unwrap();
        if let Tx::Postgres(tx) = &tx {
            // A run that meets an error would begin anew; here it goes on.
            tx.be_careful();
            tx.execute("SET LOCAL search_path TO shop").unwrap();
        }
        Self {
            database,
            tx,
            on: PhantomData,
            plugin,
            folder,
            ids: Arc::default(),
            now: AtomicI64::new(1_767_225_600_000),
        }
    }

    /// The bindings of an invocation of this tenant.
    fn host(&self, tenant: &str) -> Bindings {
        Bindings::new(
            Scope {
                origin: crate::trace::Origin::default(),
                plugin: self.plugin.clone(),
                tenant: tenant.to_owned(),
                operation: "shop/test".to_owned(),
                action: "test".to_owned(),
                user: serde_json::Value::Null,
                key: None,
                invocation: "i1".to_owned(),
                now: self.now.load(Ordering::Relaxed),
                may_write: true,
                ids: self.ids.clone(),
                desk: Arc::new(crate::workflow::Desk::new("test".to_owned(), 10_000, 0)),
            },
            self.tx.clone(),
            1 << 20,
        )
    }

    fn call(&self, name: &str, args: &[Value]) -> Result<Value, Failure> {
        call(&mut self.host("acme"), name, args)
    }

    /// The call's refusal, which must have this code and say all of this.
    #[track_caller]
    fn refused(&self, name: &str, args: &[Value], code: Code, says: &[&str]) {
        let failure = self.call(name, args).unwrap_err();
        assert_eq!(failure.code, code, "{failure}");
        for text in says {
            assert!(failure.detail.contains(text), "{text:?} is not in: {failure}");
        }
    }

    fn is_postgres(&self) -> bool {
        matches!(self.database, store::Shared::Postgres(_))
    }

    fn sql(&self, text: &str) {
        match &self.database {
            store::Shared::Sqlite(shared) => shared.lock().execute_batch(text).unwrap(),
            store::Shared::Postgres(_) => text.split(';').for_each(|sql| self.tx.execute(sql).unwrap()),
        }
    }
}

fn call(host: &mut Bindings, name: &str, args: &[Value]) -> Result<Value, Failure> {
    match name {
        "createIfAbsent" => create_if_absent(host, args),
        "update" => update(host, args),
        "delete" => delete(host, args),
        "get" => get(host, args),
        "list" => list(host, args),
        "count" => count(host, args),
        other => panic!("{other}"),
    }
}

/// A value from JSON text, as a script would write it.
fn v(json: &str) -> Value {
    crate::codec::json::from_json(&serde_json::from_str(json).unwrap())
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}
