//! Rows as JSON, read beside the running host.

use rusqlite::types::ValueRef;
use serde_json::Value as Json;
use tokio_postgres::types::Type;

fn bytes(bytes: &[u8]) -> Json {
    Json::String(format!("{bytes:02x?}"))
}

/// The rows that a query finds in a SQLite database.
pub fn sqlite(database: &rusqlite::Connection, sql: &str) -> Vec<Vec<Json>> {
    let cell = |value: ValueRef<'_>| match value {
        ValueRef::Null => Json::Null,
        ValueRef::Integer(number) => Json::from(number),
        ValueRef::Real(number) => Json::from(number),
        ValueRef::Text(text) => Json::String(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(blob) => bytes(blob),
    };
    let mut statement = database.prepare(sql).unwrap();
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| (0..columns).map(|at| Ok(cell(row.get_ref(at)?))).collect());
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

/// The rows that a query finds in a plugin's schema of a Postgres database.
pub async fn postgres(url: &str, plugin: &str, sql: &str) -> Vec<Vec<Json>> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    let asked = async {
        client.batch_execute(&format!("SET search_path TO \"{plugin}\"")).await.unwrap();
        let rows = client.query(sql, &[]).await.unwrap();
        drop(client);
        rows
    };
    let (rows, connected) = tokio::join!(asked, connection);
    connected.unwrap();
    let cell = |row: &tokio_postgres::Row, at: usize| match *row.columns()[at].type_() {
        Type::BOOL => row.get::<_, Option<bool>>(at).map(Json::from),
        Type::INT8 => row.get::<_, Option<i64>>(at).map(Json::from),
        Type::INT4 => row.get::<_, Option<i32>>(at).map(Json::from),
        Type::FLOAT8 => row.get::<_, Option<f64>>(at).map(Json::from),
        Type::BYTEA => row.get::<_, Option<Vec<u8>>>(at).map(|blob| bytes(&blob)),
        _ => row.get::<_, Option<String>>(at).map(Json::from),
    };
    rows.iter().map(|row| (0..row.len()).map(|at| cell(row, at).unwrap_or(Json::Null)).collect()).collect()
}
