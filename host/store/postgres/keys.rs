//! The records of what was done under which key.

use std::time::{Duration, Instant};

use super::{Stage, StoreError, Tx, errors, get, gone, number_of, optional, text};
use crate::clock::Millis;
use crate::query::Cell;
use crate::store::keys::{Cleared, KeyId, KeyRecord};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

/// The record in the columns of a row from the one at `at` on.
pub(super) fn record(row: &Row, at: usize) -> Result<KeyRecord, StoreError> {
    let hash: Vec<u8> = get(row, at)?;
    Ok(KeyRecord {
        request_hash: hash.try_into().unwrap_or_default(),
        transient: KeyRecord::read_transient(get(row, at + 1)?),
        fields: get::<Option<Vec<u8>>>(row, at + 2)?.unwrap_or_default(),
        reply: get(row, at + 3)?,
        committed_at: get(row, at + 4)?,
    })
}

/// Finds the record of a key, once no other try of it runs, on any host: the lock is held until the transaction ends.
///
/// It is looked up before the transaction begins, after the lock was had: so it sees what the try before this one
/// wrote, and tries of other keys never run into each other here. It is waited for no longer than until the instant of
/// the hold, if that has one.
pub fn find(tx: &Tx, id: &KeyId) -> Result<Option<KeyRecord>, StoreError> {
    let mut slot = tx.slot()?;
    if let Some(found) = slot.group.as_ref().and_then(|group| group.found(id)) {
        return Ok(found);
    }
    if slot.stage != Stage::Wanted {
        return Err(gone());
    }
    tx.connected(&mut slot)?;
    let begins = tx.begin_text(&slot);
    let Some(client) = &slot.client else { return Err(gone()) };
    let select = format!(
        "SELECT request_hash, transient, fields, reply, committed_at FROM {} \
         WHERE tenant = $1 AND operation = $2 AND key = $3",
        tx.shared.table("_oncehost_keys")
    );
    let number = number_of(&[&tx.shared.plugin, &id.tenant, &id.operation, &id.key]);
    let (shorter, usual) = waits(tx);
    let found = tx.patient().wait(async {
        let lock = client.prepare_cached("SELECT pg_advisory_lock($1)").await?;
        let select = client.prepare_cached(&select).await?;
        let (lock_params, key): ([&(dyn ToSql + Sync); 1], [&(dyn ToSql + Sync); 3]) =
            ([&number], [&id.tenant, &id.operation, &id.key]);
        let set = async |text: Option<&String>| match text {
            Some(text) => client.batch_execute(text).await,
            None => Ok(()),
        };
        let (shortened, locked, entered, found, reset, began) = tokio::join!(
            biased;
            set(shorter.as_ref()),
            client.query(&lock, &lock_params),
            tx.enter(client),
            client.query_opt(&select, &key),
            set(shorter.as_ref().map(|_| &usual)),
            client.batch_execute(begins)
        );
        shortened?;
        if let Err(error) = locked {
            return if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) { Ok(None) } else { Err(error) };
        }
        reset?;
        began?;
        Ok(Some((entered?, found?)))
    });
    match found {
        Ok(Ok(Some((version, row)))) => {
            slot.stage = Stage::Open;
            tx.entered(&mut slot, version);
            row.as_ref().map(|row| record(row, 0)).transpose()
        }
        Ok(Ok(None)) => {
            // Nothing is wrong with the transaction: there was none.
            tx.release(&mut slot);
            slot.stage = Stage::Wanted;
            Err(StoreError::InProgress(
                "another try with this Idempotency-Key still runs, on another host; try again with the same key"
                    .to_owned(),
            ))
        }
        Ok(Err(error)) => Err(tx.failed(&mut slot, &error.into(), false, errors::fault)),
        Err(_) => {
            slot.close();
            slot.stage = Stage::Away;
            Err(StoreError::Unavailable("the database does not answer; try again shortly".to_owned()))
        }
    }
}

/// How long a lock is waited for where less is left than usual, and what makes it the usual time again.
fn waits(tx: &Tx) -> (Option<String>, String) {
    let usual = tx.shared.server.lock_wait();
    let set = |wait: Duration| format!("SET lock_timeout = {}", wait.as_millis().max(1));
    let left = tx.until.map(|until| until.saturating_duration_since(Instant::now()));
    (left.filter(|left| *left < usual - usual / 10).map(set), set(usual))
}

/// Keeps a reply under its key, with the COMMIT. Where the key has a record already, it stays as it is, unless it is
/// older than `forgotten`.
pub fn keep(tx: &Tx, id: &KeyId, record: &KeyRecord, forgotten: Millis) -> Result<(), StoreError> {
    let insert = format!(
        "INSERT INTO {} AS k (tenant, operation, key, request_hash, transient, fields, reply, committed_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (tenant, operation, key) DO UPDATE SET \
         request_hash = excluded.request_hash, transient = excluded.transient, fields = excluded.fields, \
         reply = excluded.reply, committed_at = excluded.committed_at WHERE k.committed_at <= $9",
        tx.shared.table("_oncehost_keys")
    );
    let params = vec![
        text(&id.tenant),
        text(&id.operation),
        text(&id.key),
        Cell::Blob(record.request_hash.to_vec()),
        optional(record.stored_transient().as_deref()),
        Cell::Blob(record.fields.clone()),
        optional(record.reply.as_deref()),
        Cell::Integer(record.committed_at),
        Cell::Integer(forgotten),
    ];
    tx.defer(insert, params)
}

/// Clears at most `batch` replies and as many marks, the oldest first. One host at a time: where another one clears
/// now, nothing is done.
pub fn clear(tx: &Tx, replies_before: Millis, marks_before: Millis, batch: usize) -> Result<Cleared, StoreError> {
    if !tx.clears_alone()? {
        return Ok(Cleared::default());
    }
    let table = tx.shared.table("_oncehost_keys");
    let limit = i64::try_from(batch).unwrap_or(i64::MAX);
    let oldest = |also: &str| {
        format!(
            "ctid = ANY(ARRAY(SELECT ctid FROM {table} WHERE committed_at <= $1{also} ORDER BY committed_at LIMIT $2))"
        )
    };
    let params = |before: Millis| [Cell::Integer(before), Cell::Integer(limit)];
    let marks = tx.changed(&format!("DELETE FROM {table} WHERE {}", oldest("")), &params(marks_before))?;
    let replies = tx.changed(
        &format!("UPDATE {table} SET reply = NULL, fields = NULL WHERE {}", oldest(" AND reply IS NOT NULL")),
        &params(replies_before),
    )?;
    let count = |changed: u64| usize::try_from(changed).unwrap_or(usize::MAX);
    let (marks, replies) = (count(marks), count(replies));
    Ok(Cleared { replies, marks, more: [marks, replies].contains(&batch) })
}
