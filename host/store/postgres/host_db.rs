//! What belongs to no plugin, in the schema `host`.

use std::sync::Arc;

use deadpool_postgres::Object;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use super::errors::{self, Kind};
use super::server::HOST_SCHEMA;
use super::{Server, StoreError, get, instant, most, number, number_of};
use crate::clock::Millis;
use crate::query::Cell;
use crate::store::host_db::TokenRow;

mod events;
mod hosts;
mod notifications;
mod placed;

pub use placed::noted;

/// Tries of a transaction that runs into others.
const TRIES: usize = 5;

/// The host's own tables on a server. Little is written to them, and never by an invocation.
pub struct HostDb(Arc<Server>);

const SELECT: &str =
    "SELECT id, hash, tail, tenant, subject, scopes, created_at, expires_at, revoked_at FROM host.tokens";

impl HostDb {
    /// Makes them where they are not there yet.
    ///
    /// # Errors
    /// When the database cannot be reached, or was written by a newer version.
    pub fn open(server: &Arc<Server>) -> Result<Self, StoreError> {
        let opened = server.clone();
        server.wait_anywhere(async move { opened.make_ready(HOST_SCHEMA).await })?;
        Ok(Self(server.clone()))
    }

    fn query(&self, sql: String, params: Vec<Cell>) -> Result<Vec<Row>, StoreError> {
        let server = self.0.clone();
        self.0.wait_anywhere(async move {
            let asked = server.lend(async |client: &mut Object| {
                let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|cell| cell as _).collect();
                let prepared = client.prepare_cached(&sql).await?;
                client.query(&prepared, &params).await
            });
            asked.await?.map_err(|error| errors::fault(&error))
        })
    }

    /// Runs statements in one transaction that is on disk when this returns; gives the rows of each. What runs into
    /// others runs again, so that each must be safe to repeat.
    fn transact(&self, statements: Vec<(String, Vec<Cell>)>) -> Result<Vec<Vec<Row>>, StoreError> {
        let server = self.0.clone();
        self.0.wait_anywhere(async move {
            let mut tries = 1;
            loop {
                match server.lend(async |client: &mut Object| run(client, &statements).await).await? {
                    Err(error) if errors::kind(&error) == Kind::Again && tries < TRIES => tries += 1,
                    done => return done.map_err(|error| errors::fault(&error)),
                }
            }
        })
    }

    /// Runs a statement that forgets rows of at most one batch, where `mine` of the table `alone` says that no other host
    /// does so at the moment; gives how many went.
    fn clear(&self, sql: &str, before: Millis, batch: usize) -> Result<usize, StoreError> {
        let alone = "WITH alone AS MATERIALIZED (SELECT pg_try_advisory_xact_lock($3) AS mine)";
        let lock = number_of(&["oncehost", "clear", HOST_SCHEMA]);
        Ok(self.query(format!("{alone} {sql}"), vec![number(before), most(batch), number(lock)])?.len())
    }

    /// Keeps a new token; it is on disk when this returns.
    ///
    /// # Errors
    /// When the database fails.
    pub fn add_token(&self, token: &TokenRow) -> Result<(), StoreError> {
        let params = vec![
            super::text(&token.id),
            Cell::Blob(token.hash.to_vec()),
            super::text(&token.tail),
            super::text(&token.tenant),
            super::text(&token.subject),
            super::text(&token.scopes.join(" ")),
            Cell::Integer(token.created_at),
            instant(token.expires_at),
            instant(token.revoked_at),
        ];
        let sql = "INSERT INTO host.tokens (id, hash, tail, tenant, subject, scopes, created_at, expires_at, revoked_at) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        self.query(sql.to_owned(), params).map(drop)
    }

    /// All tokens, the oldest first.
    ///
    /// # Errors
    /// When the database fails.
    pub fn tokens(&self) -> Result<Vec<TokenRow>, StoreError> {
        self.query(format!("{SELECT} ORDER BY id"), Vec::new())?.iter().map(token).collect()
    }

    /// Marks a token as revoked. A second time changes nothing. `None` when there is no such token.
    ///
    /// # Errors
    /// When the database fails.
    pub fn revoke_token(&self, id: &str, now: Millis) -> Result<Option<TokenRow>, StoreError> {
        let sql = "UPDATE host.tokens SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL";
        self.query(sql.to_owned(), vec![super::text(id), Cell::Integer(now)])?;
        let found = self.query(format!("{SELECT} WHERE id = $1"), vec![super::text(id)])?;
        found.first().map(token).transpose()
    }

    /// Forgets tokens that were revoked or expired before `before`.
    ///
    /// # Errors
    /// When the database fails.
    pub fn clear_tokens(&self, before: Millis) -> Result<usize, StoreError> {
        let sql = "DELETE FROM host.tokens WHERE revoked_at < $1 OR expires_at < $1 RETURNING id";
        Ok(self.query(sql.to_owned(), vec![Cell::Integer(before)])?.len())
    }
}

async fn run(client: &mut Object, statements: &[(String, Vec<Cell>)]) -> Result<Vec<Vec<Row>>, Error> {
    let transaction = client.transaction().await?;
    let mut gave = Vec::with_capacity(statements.len());
    for (sql, params) in statements {
        let prepared = transaction.prepare_cached(sql).await?;
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|cell| cell as _).collect();
        gave.push(transaction.query(&prepared, &params).await?);
    }
    transaction.commit().await?;
    Ok(gave)
}

fn hash(row: &Row, at: usize) -> Result<[u8; 32], StoreError> {
    get::<Vec<u8>>(row, at).map(|hash| hash.try_into().unwrap_or_default())
}

fn token(row: &Row) -> Result<TokenRow, StoreError> {
    let scopes: String = get(row, 5)?;
    Ok(TokenRow {
        id: get(row, 0)?,
        hash: hash(row, 1)?,
        tail: get(row, 2)?,
        tenant: get(row, 3)?,
        subject: get(row, 4)?,
        scopes: scopes.split_whitespace().map(str::to_owned).collect(),
        created_at: get(row, 6)?,
        expires_at: get(row, 7)?,
        revoked_at: get(row, 8)?,
    })
}
