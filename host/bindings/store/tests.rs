use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::Value as Json;

use super::*;
use crate::ids::SystemIds;
use crate::plugin::{Plugin, Registry};
use crate::schema::ddl;
use crate::store::{
    Access, Tx,
    sqlite::{self, Shared},
};

mod arguments;
mod filters;
mod paging;
mod values;
mod writing;

const SCHEMA: &str = "
    CREATE TABLE orders (id TEXT PRIMARY KEY, number TEXT UNIQUE, total INTEGER CHECK (total <> -13), rate REAL,
        paid BOOLEAN, extra JSON, raw BLOB, due TIMESTAMP, constructor TEXT, created_at TIMESTAMP, updated_at TIMESTAMP);
    CREATE INDEX orders_total ON orders (total);
    CREATE TABLE lines (order_id TEXT REFERENCES orders (id), sku TEXT, qty INTEGER NOT NULL DEFAULT 1,
        tags JSON NOT NULL DEFAULT '[1, {}]',
        PRIMARY KEY (order_id, sku));
    CREATE TABLE rates (name TEXT PRIMARY KEY, value REAL);
";

/// A plugin's database with a transaction open in it, and calls as a script makes them.
struct Fixture {
    database: Arc<Shared>,
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

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = Shared::open(&folder.path().join("shop.db"), Access::Write).unwrap();
        let plugin = plugin(folder.path(), r#"["data:read", "data:write"]"#);
        for table in plugin.schema.tables.values() {
            let mut sql = vec![ddl::create_table(table, &table.name)];
            sql.extend(table.indexes.iter().map(|index| ddl::create_index(table, index)));
            database.lock().execute_batch(&sql.join(";")).unwrap();
        }
        database.lock().execute_batch("BEGIN IMMEDIATE").unwrap();
        Self { database, plugin, folder, ids: Arc::default(), now: AtomicI64::new(1_767_225_600_000) }
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
                desk: Arc::new(crate::workflow::Desk::new("test".to_owned(), 10_000)),
            },
            Tx::Sqlite(sqlite::Tx::new(&self.database)),
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

    fn sql(&self, text: &str) {
        self.database.lock().execute_batch(text).unwrap();
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
