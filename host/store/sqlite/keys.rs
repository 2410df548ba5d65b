//! The records of what was done under which key.

use rusqlite::{OptionalExtension, params};

use super::{StoreError, Tx, fault};
use crate::clock::Millis;
use crate::store::keys::{Cleared, KeyId, KeyRecord};

/// Finds the record of a key.
///
/// # Errors
/// When the database fails.
pub fn find(tx: &Tx, id: &KeyId) -> Result<Option<KeyRecord>, StoreError> {
    tx.with(|connection| {
        connection
            .prepare_cached(
                "SELECT request_hash, transient, fields, reply, committed_at FROM _oncehost_keys \
                 WHERE tenant = ?1 AND operation = ?2 AND key = ?3",
            )
            .and_then(|mut statement| {
                statement
                    .query_row(params![id.tenant, id.operation, id.key], |row| {
                        Ok(KeyRecord {
                            request_hash: row.get(0)?,
                            transient: KeyRecord::read_transient(row.get(1)?),
                            fields: row.get::<_, Option<Vec<u8>>>(2)?.unwrap_or_default(),
                            reply: row.get(3)?,
                            committed_at: row.get(4)?,
                        })
                    })
                    .optional()
            })
            .map_err(|error| fault(&error))
    })
}

/// Keeps a reply under its key. Where the key has a record already, it stays as it is, unless it is older than
/// `forgotten`: then even its mark is void, and the new record takes its place.
///
/// # Errors
/// When the database fails.
pub fn keep(tx: &Tx, id: &KeyId, record: &KeyRecord, forgotten: Millis) -> Result<(), StoreError> {
    let transient = record.stored_transient();
    tx.with(|connection| {
        let insert = || {
            connection
                .prepare_cached(
                    "INSERT INTO _oncehost_keys \
                     (tenant, operation, key, request_hash, transient, fields, reply, committed_at) \
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (tenant, operation, key) DO NOTHING",
                )?
                .execute(params![
                    id.tenant,
                    id.operation,
                    id.key,
                    record.request_hash,
                    transient,
                    record.fields,
                    record.reply,
                    record.committed_at
                ])
        };
        // A void mark goes, and the new row comes at the end: rows stay in the order of their commits.
        let make_room = || {
            connection
                .prepare_cached(
                    "DELETE FROM _oncehost_keys \
                     WHERE tenant = ?1 AND operation = ?2 AND key = ?3 AND committed_at <= ?4",
                )?
                .execute(params![id.tenant, id.operation, id.key, forgotten])
        };
        let kept = insert().and_then(|new| if new == 0 && make_room()? == 1 { insert() } else { Ok(new) });
        kept.map(|_| ()).map_err(|error| fault(&error))
    })
}

/// Clears at most `batch` replies that were committed at or before `replies_before`, beginning behind row `after`,
/// and at most `batch` marks committed at or before `marks_before`.
///
/// # Errors
/// When the database fails.
pub fn clear(
    tx: &Tx,
    replies_before: Millis,
    marks_before: Millis,
    after: i64,
    batch: usize,
) -> Result<Cleared, StoreError> {
    let limit = i64::try_from(batch).unwrap_or(i64::MAX);
    tx.with(|connection| {
        // Rows are in commit order, so that the first one that is too young ends the walk.
        let walk = |statement: &str, from: i64, before: Millis| -> rusqlite::Result<Option<(i64, usize)>> {
            let ids = connection
                .prepare_cached("SELECT id, committed_at FROM _oncehost_keys WHERE id > ?1 ORDER BY id LIMIT ?2")?
                .query_map(params![from, limit], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Millis>(1)?)))?
                .collect::<rusqlite::Result<Vec<_>>>()?;
            let Some(last) = ids.iter().take_while(|(_, at)| *at <= before).map(|(id, _)| *id).last() else {
                return Ok(None);
            };
            let changed = connection.prepare_cached(statement)?.execute(params![from, last])?;
            Ok(Some((last, changed)))
        };
        let marks = walk("DELETE FROM _oncehost_keys WHERE id > ?1 AND id <= ?2", 0, marks_before);
        let replies = walk(
            "UPDATE _oncehost_keys SET reply = NULL, fields = NULL WHERE id > ?1 AND id <= ?2 AND reply IS NOT NULL",
            after,
            replies_before,
        );
        let (marks, replies) = marks.and_then(|m| replies.map(|r| (m, r))).map_err(|error| fault(&error))?;
        Ok(Cleared {
            replies: replies.map_or(0, |(_, changed)| changed),
            marks: marks.map_or(0, |(_, changed)| changed),
            next: replies.map_or(after, |(last, _)| last),
            more: marks.is_some() || replies.is_some(),
        })
    })
}
