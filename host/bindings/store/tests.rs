use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use rusqlite::Connection;
use serde_json::Value as Json;

use super::*;
use crate::ids::SystemIds;
use crate::plugin::{Code as PluginCode, Permissions, Plugin, PluginLimits};
use crate::schema::{Column, ForeignKey, Index, Schema};
use crate::store::sqlite::Tx;

mod arguments;
mod filters;
mod paging;
mod values;
mod writing;

const DDL: &str = "
    CREATE TABLE orders (tenant_id TEXT NOT NULL, id TEXT NOT NULL, number TEXT, total INTEGER, rate REAL,
        paid INTEGER CHECK (paid IN (0, 1)), extra TEXT, raw BLOB, due TEXT, constructor TEXT, created_at TEXT,
        updated_at TEXT, PRIMARY KEY (tenant_id, id), CHECK (total <> -13)) STRICT;
    CREATE UNIQUE INDEX orders_number ON orders (tenant_id, number);
    CREATE INDEX orders_total ON orders (tenant_id, total);
    CREATE TABLE lines (tenant_id TEXT NOT NULL, order_id TEXT NOT NULL, sku TEXT NOT NULL, qty INTEGER NOT NULL DEFAULT 1,
        PRIMARY KEY (tenant_id, order_id, sku),
        FOREIGN KEY (tenant_id, order_id) REFERENCES orders (tenant_id, id)) STRICT;
    CREATE TABLE rates (name TEXT NOT NULL PRIMARY KEY, value REAL) STRICT;
";

fn column(name: &str, ty: ColumnType, not_null: bool) -> Column {
    Column { name: name.to_owned(), ty, not_null, default: None, was: None, line: 1 }
}

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn index(name: &str, columns: &[&str], unique: bool) -> Index {
    Index { name: name.to_owned(), columns: strings(columns), unique, line: 1 }
}

fn table(name: &str, columns: Vec<Column>, primary_key: &[&str], indexes: Vec<Index>) -> Table {
    Table {
        name: name.to_owned(),
        columns,
        primary_key: strings(primary_key),
        indexes,
        foreign_keys: Vec::new(),
        checks: Vec::new(),
        shared: false,
        was: None,
        line: 1,
    }
}

/// The model of [`DDL`].
fn schema() -> Schema {
    use ColumnType::{Blob, Boolean, Integer, Json, Real, Text, Timestamp};
    let orders = table(
        "orders",
        vec![
            column("id", Text, true),
            column("number", Text, false),
            column("total", Integer, false),
            column("rate", Real, false),
            column("paid", Boolean, false),
            column("extra", Json, false),
            column("raw", Blob, false),
            column("due", Timestamp, false),
            column("constructor", Text, false),
            column("created_at", Timestamp, false),
            column("updated_at", Timestamp, false),
        ],
        &["id"],
        vec![index("orders_number", &["number"], true), index("orders_total", &["total"], false)],
    );
    let mut lines = table(
        "lines",
        vec![column("order_id", Text, true), column("sku", Text, true), column("qty", Integer, true)],
        &["order_id", "sku"],
        Vec::new(),
    );
    lines.columns[2].default = Some(Value::Int(1));
    lines.foreign_keys.push(ForeignKey {
        columns: strings(&["order_id"]),
        table: "orders".to_owned(),
        references: strings(&["id"]),
        line: 1,
    });
    let mut rates =
        table("rates", vec![column("name", Text, true), column("value", Real, false)], &["name"], Vec::new());
    rates.shared = true;
    let tables = [orders, lines, rates];
    Schema { tables: tables.into_iter().map(|table| (table.name.clone(), table)).collect() }
}

/// A plugin's database with a transaction open in it, and calls as a script makes them.
struct Fixture {
    connection: Arc<Mutex<Connection>>,
    plugin: Arc<Plugin>,
    ids: Arc<SystemIds>,
    now: AtomicI64,
}

fn plugin(data_read: bool, data_write: bool) -> Arc<Plugin> {
    Arc::new(Plugin {
        id: "shop".to_owned(),
        version: "1.0.0".to_owned(),
        hash: String::new(),
        dir: "shop".into(),
        permissions: Permissions { data_read, data_write, ..Permissions::default() },
        limits: PluginLimits::default(),
        actions: Default::default(),
        flows: Default::default(),
        code: Arc::new(PluginCode { plugin: "shop".to_owned(), modules: Vec::new() }),
        schema: Arc::new(schema()),
        settings: Json::Null,
    })
}

impl Fixture {
    fn new() -> Self {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(DDL).unwrap();
        connection.execute_batch("PRAGMA foreign_keys = ON; BEGIN IMMEDIATE").unwrap();
        Self {
            connection: Arc::new(Mutex::new(connection)),
            plugin: plugin(true, true),
            ids: Arc::default(),
            now: AtomicI64::new(1_767_225_600_000),
        }
    }

    /// The bindings of an invocation of this tenant.
    fn host(&self, tenant: &str) -> Bindings {
        Bindings {
            scope: Scope {
                plugin: self.plugin.clone(),
                tenant: tenant.to_owned(),
                operation: "shop/test".to_owned(),
                key: None,
                invocation: "i1".to_owned(),
                now: self.now.load(Ordering::Relaxed),
                may_write: true,
                ids: self.ids.clone(),
            },
            tx: Tx::new(self.connection.clone()),
        }
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
        self.connection.lock().unwrap().execute_batch(text).unwrap();
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
