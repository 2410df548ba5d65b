//! How a server is, looked at without changing anything.

use std::sync::Arc;

use super::ready::newest_tables;
use super::server::{HOST_SCHEMA, Server};
use super::{StoreError, errors, get};
use crate::clock::Millis;

/// What `look` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Where it is, without a password.
    pub place: String,
    /// As people write it, and as a number: 150003.
    pub version: String,
    pub number: i32,
    /// Its clock.
    pub now: Millis,
    pub encoding: String,
    /// It follows another one, and takes no writes.
    pub standby: bool,
    /// Whether the user may create schemas.
    pub may_create: bool,
    pub fsync: bool,
    pub full_page_writes: bool,
    /// As the host's own connections have it.
    pub synchronous_commit: String,
    pub synchronous_standbys: String,
    /// Servers that follow this one.
    pub replicas: i64,
    /// Connections of other processes of oncehost to this database, and from how many addresses.
    pub oncehost: (i64, i64),
    /// Connections of clients in use on the server, and the most there may be.
    pub connections: (i64, i64),
    /// The host's schemas: name, version of the host's tables in it, newest version that is known here.
    pub schemas: Vec<(String, i64, i64)>,
}

/// Looks at a server.
///
/// # Errors
/// When it cannot be reached or asked.
pub fn look(server: &Arc<Server>) -> Result<Health, StoreError> {
    let asked = server.clone();
    server.wait_anywhere(async move { ask(&asked).await })
}

const FACTS: &str = "SELECT current_setting('server_version'), current_setting('server_version_num')::int4, \
    (extract(epoch from clock_timestamp()) * 1000)::int8, current_setting('server_encoding'), pg_is_in_recovery(), \
    has_database_privilege(current_database(), 'CREATE'), current_setting('fsync')::bool, \
    current_setting('full_page_writes')::bool, current_setting('synchronous_commit'), \
    current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication), \
    (SELECT count(*) FROM pg_stat_activity WHERE application_name = 'oncehost' AND pid <> pg_backend_pid() \
        AND datname = current_database()), \
    (SELECT count(DISTINCT coalesce(client_addr::text, 'this machine')) FROM pg_stat_activity \
        WHERE application_name = 'oncehost' AND pid <> pg_backend_pid() AND datname = current_database()), \
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'), \
    current_setting('max_connections')::int8";

async fn ask(server: &Arc<Server>) -> Result<Health, StoreError> {
    let client = server.connect_telling().await?;
    let failed = |error: tokio_postgres::Error| errors::fault(&error);
    let row = client.query_one(FACTS, &[]).await.map_err(failed)?;
    let place = "SELECT schemaname::text FROM pg_tables WHERE tablename = '_oncehost_version' ORDER BY 1";
    let mut schemas = Vec::new();
    for found in client.query(place, &[]).await.map_err(failed)? {
        let schema: String = get(&found, 0)?;
        let quoted = schema.replace('"', "\"\"");
        let newest = format!("SELECT coalesce(max(version), 0) FROM \"{quoted}\"._oncehost_version");
        let version = client.query_one(&newest, &[]).await.map_err(failed)?;
        let known = newest_tables(schema == HOST_SCHEMA);
        schemas.push((schema, get(&version, 0)?, known));
    }
    Ok(Health {
        place: server.place().to_owned(),
        version: get(&row, 0)?,
        number: get(&row, 1)?,
        now: get(&row, 2)?,
        encoding: get(&row, 3)?,
        standby: get(&row, 4)?,
        may_create: get(&row, 5)?,
        fsync: get(&row, 6)?,
        full_page_writes: get(&row, 7)?,
        synchronous_commit: get(&row, 8)?,
        synchronous_standbys: get(&row, 9)?,
        replicas: get(&row, 10)?,
        oncehost: (get(&row, 11)?, get(&row, 12)?),
        connections: (get(&row, 13)?, get(&row, 14)?),
        schemas,
    })
}
