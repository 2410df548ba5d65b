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

/// Clears at most `batch` replies that were committed at or before `replies_before`, and as many marks committed at
/// or before `marks_before`. Each record is judged by its own instant, whatever the clock did between two of them; the
/// cost does not grow with what is kept.
///
/// # Errors
/// When the database fails.
pub fn clear(tx: &Tx, replies_before: Millis, marks_before: Millis, batch: usize) -> Result<Cleared, StoreError> {
    let limit = i64::try_from(batch).unwrap_or(i64::MAX);
    tx.with(|connection| {
        // Along the index `_oncehost_keys_age`, the oldest first.
        let change = |what: &str, mark: bool, before: Millis| {
            let sql = format!(
                "{what} WHERE id IN (SELECT id FROM _oncehost_keys WHERE (reply IS NULL) = ?1 AND committed_at <= ?2 \
                 ORDER BY committed_at LIMIT ?3)"
            );
            connection.prepare_cached(&sql)?.execute(params![mark, before, limit])
        };
        let clear = || {
            let marks = change("DELETE FROM _oncehost_keys", true, marks_before)?;
            // Where marks are not kept longer than replies, replies go with their record.
            let whole = change("DELETE FROM _oncehost_keys", false, marks_before)?;
            let replies = change("UPDATE _oncehost_keys SET reply = NULL, fields = NULL", false, replies_before)?;
            let more = [marks, whole, replies].contains(&batch);
            Ok(Cleared { replies, marks: marks + whole, more })
        };
        clear().map_err(|error: rusqlite::Error| fault(&error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::{Access, Shared};

    fn database() -> (tempfile::TempDir, std::sync::Arc<Shared>) {
        let folder = tempfile::tempdir().unwrap();
        let shared = Shared::open(&folder.path().join("p.db"), Access::Write).unwrap();
        (folder, shared)
    }

    fn keep_at(tx: &Tx, key: &str, at: Millis) {
        let id = KeyId { tenant: "t".to_owned(), operation: "o".to_owned(), key: key.to_owned() };
        let (transient, fields, reply) = (Vec::new(), Vec::new(), Some("1".to_owned()));
        keep(tx, &id, &KeyRecord { request_hash: [0; 32], transient, fields, reply, committed_at: at }, 0).unwrap();
    }

    #[test]
    fn record_from_the_future_holds_up_no_other() {
        let (_folder, shared) = database();
        let tx = Tx::begin(&shared).unwrap();
        // The clock was wrong at first, and was set back.
        for (key, at) in [("wrong", 1_000_000), ("a", 100), ("b", 200), ("c", 300)] {
            keep_at(&tx, key, at);
        }
        assert_eq!(clear(&tx, 200, 50, 9).unwrap(), Cleared { replies: 2, marks: 0, more: false });
        assert_eq!(clear(&tx, 300, 100, 9).unwrap(), Cleared { replies: 1, marks: 1, more: false });
        assert_eq!(clear(&tx, 400, 400, 1).unwrap(), Cleared { replies: 0, marks: 1, more: true });
        assert_eq!(clear(&tx, 400, 400, 9).unwrap(), Cleared { replies: 0, marks: 1, more: false });
        assert_eq!(clear(&tx, 1_000_000, 1_000_000, 9).unwrap().marks, 1);
    }

    #[test]
    fn each_search_of_the_clearing_goes_along_the_index() {
        let (_folder, shared) = database();
        let plan: Vec<String> = shared
            .lock()
            .prepare(
                "EXPLAIN QUERY PLAN SELECT id FROM _oncehost_keys WHERE (reply IS NULL) = ?1 AND committed_at <= ?2 \
                 ORDER BY committed_at LIMIT ?3",
            )
            .unwrap()
            .query_map(params![true, 5, 5], |row| row.get(3))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(plan.len(), 1, "no sorting: {plan:?}");
        assert!(plan[0].contains("_oncehost_keys_age (<expr>=? AND committed_at<?)"), "{plan:?}");
    }
}
