//! Several invocations in one transaction: their keys are looked up at once, what each leaves for the COMMIT goes out
//! together, and one flush to disk serves them all.
//!
//! There is no savepoint between them: it would cost as much as a transaction. One that fails after it has written, or
//! guessed, takes the others with it, and they run again, each alone.

use std::collections::{HashMap, HashSet};

use super::keys::record;
use super::run::{give_all, prepare};
use super::{Slot, Stage, StoreError, Tx, errors, get, gone, number_of};
use crate::store::keys::{KeyId, KeyRecord};

/// What the members of a group share.
#[derive(Default)]
pub(super) struct Group {
    /// The keys whose locks it holds, with their records.
    found: HashMap<KeyId, Option<KeyRecord>>,
    /// How many statements were kept back when the member of the moment began, and whether it has written since.
    mark: usize,
    wrote: bool,
}

impl Group {
    /// The record of a key that was looked up for a member.
    pub fn found(&self, id: &KeyId) -> Option<Option<KeyRecord>> {
        self.found.get(id).cloned()
    }

    /// Notes that a statement runs, with all that was kept back where `flushed`.
    pub fn runs(&mut self, writes: bool, flushed: Option<usize>) {
        self.wrote |= writes || flushed.is_some_and(|kept| kept > self.mark);
        if flushed.is_some() {
            self.mark = 0;
        }
    }
}

impl Slot {
    /// What the invocation of the moment has kept back.
    pub(super) fn kept(&self) -> usize {
        self.group.as_ref().map_or(0, |group| group.mark)
    }
}

impl Tx {
    /// Begins a group, and looks its members' keys up; gives which of them may run in it. The others' keys are held by
    /// tries that run elsewhere, or by another member.
    ///
    /// # Errors
    /// When the database fails.
    pub fn gather(&self, keys: &[Option<&KeyId>]) -> Result<Vec<bool>, StoreError> {
        let mut slot = self.slot()?;
        if slot.stage != Stage::Wanted {
            return Err(gone());
        }
        let mut seen = HashSet::new();
        let wanted: Vec<&KeyId> = keys.iter().flatten().copied().filter(|key| seen.insert(*key)).collect();
        let mut group = Group::default();
        if !wanted.is_empty() {
            self.connected(&mut slot)?;
            let found = self.lock_all(&mut slot, &wanted)?;
            group.found = found;
            slot.stage = Stage::Open;
        }
        // Of one key the first has what was found.
        let mut first = HashSet::new();
        let mut may = |key: &KeyId| group.found.contains_key(key) && first.insert(key.clone());
        let ready = keys.iter().map(|key| key.is_none_or(&mut may)).collect();
        slot.group = Some(group);
        Ok(ready)
    }

    fn lock_all(&self, slot: &mut Slot, wanted: &[&KeyId]) -> Result<HashMap<KeyId, Option<KeyRecord>>, StoreError> {
        let shared = &self.shared;
        let number = |id: &&KeyId| number_of(&[&shared.plugin, &id.tenant, &id.operation, &id.key]);
        let numbers: Vec<i64> = wanted.iter().map(number).collect();
        let column = |of: fn(&KeyId) -> &str| wanted.iter().map(|id| of(id)).collect::<Vec<&str>>();
        let (tenants, operations, names) = (column(|id| &id.tenant), column(|id| &id.operation), column(|id| &id.key));
        // A row at a time, whatever the planner thinks of the table.
        let select = format!(
            "SELECT w.at, k.* FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS w (tenant, operation, key, at) \
             CROSS JOIN LATERAL (SELECT request_hash, transient, fields, reply, committed_at FROM {} AS k \
             WHERE k.tenant = w.tenant AND k.operation = w.operation AND k.key = w.key LIMIT 1) AS k",
            shared.table("_oncehost_keys")
        );
        let lock = "SELECT n, pg_try_advisory_lock(n) FROM unnest($1::bigint[]) AS n";
        let Some(client) = &slot.client else { return Err(gone()) };
        let asked = self.patient().wait(async {
            let lock = client.prepare_cached(lock).await?;
            let select = client.prepare_cached(&select).await?;
            let (of, which): (
                [&(dyn tokio_postgres::types::ToSql + Sync); 1],
                [&(dyn tokio_postgres::types::ToSql + Sync); 3],
            ) = ([&numbers], [&tenants, &operations, &names]);
            // What is found was committed before the locks were had.
            let (locked, entered, found, began) = tokio::join!(
                biased;
                client.query(&lock, &of),
                self.enter(client),
                client.query(&select, &which),
                client.batch_execute(self.begin_text(slot))
            );
            began?;
            Ok::<_, tokio_postgres::Error>((locked?, found?, entered?))
        });
        let (locked, found) = match asked {
            Ok(Ok((locked, found, version))) => {
                self.entered(slot, version);
                (locked, found)
            }
            Ok(Err(error)) => return Err(self.failed(slot, &error.into(), false, errors::fault)),
            Err(_) => {
                slot.close();
                slot.stage = Stage::Away;
                return Err(errors::away());
            }
        };
        let mut had = HashSet::new();
        for row in &locked {
            if get::<bool>(row, 1)? {
                had.insert(get::<i64>(row, 0)?);
            }
        }
        let mut records: HashMap<KeyId, Option<KeyRecord>> = HashMap::new();
        for (id, number) in wanted.iter().zip(&numbers) {
            if had.contains(number) {
                records.insert((*id).clone(), None);
            }
        }
        for row in &found {
            let at = usize::try_from(get::<i64>(row, 0)?).unwrap_or(0).wrapping_sub(1);
            if let Some(kept) = wanted.get(at).and_then(|id| records.get_mut(*id)) {
                *kept = Some(record(row, 1)?);
            }
        }
        Ok(records)
    }

    /// Marks the place to which [`Tx::undo_to_mark`] goes back. Outside of a group that is the beginning.
    pub fn mark(&self) {
        let mut slot = self.shared.lock();
        slot.talked = false;
        let kept = slot.pending.len();
        if let Some(group) = &mut slot.group {
            (group.mark, group.wrote) = (kept, false);
        }
    }

    /// Undoes what was done since [`Tx::mark`]; where that alone cannot be undone, the whole transaction. What failed after
    /// a guess may have failed because of it: the guess is looked at first, and where it was wrong everything runs again.
    pub fn undo_to_mark(&self) {
        let mut slot = self.shared.lock();
        if !self.is_current() || !matches!(slot.stage, Stage::Open | Stage::Wanted) {
            return;
        }
        let mark = slot.kept();
        let guessed = slot.pending.iter().skip(mark).any(|it| it.guess.is_some());
        match &slot.group {
            Some(group) if group.wrote || guessed => {
                self.release(&mut slot);
                slot.stage = Stage::Again;
            }
            Some(_) => slot.pending.truncate(mark),
            None => {
                if !guessed || self.see(&mut slot).is_ok() {
                    drop(slot);
                    self.undo();
                }
            }
        }
    }

    /// Sends what was kept back. Where a guess among it is wrong, the transaction has to run again.
    fn see(&self, slot: &mut Slot) -> Result<(), StoreError> {
        self.connected(slot)?;
        self.enter_now(slot)?;
        let begins = slot.stage == Stage::Wanted;
        let kept = std::mem::take(&mut slot.pending);
        let Some(client) = &slot.client else { return Err(gone()) };
        let seen = self.wait(async {
            let prepared = prepare(client, &kept).await?;
            if begins {
                client.batch_execute(self.begin_text(slot)).await?;
            }
            give_all(client, &kept, &prepared).await
        });
        match seen {
            Ok(Ok(())) => {
                slot.stage = Stage::Open;
                Ok(())
            }
            Ok(Err(failed)) => Err(self.failed(slot, &failed, false, errors::fault)),
            Err(_) => {
                slot.close();
                slot.stage = Stage::Away;
                Err(errors::away())
            }
        }
    }

    /// Whether a statement had to be waited for since [`Tx::mark`].
    pub fn talked(&self) -> bool {
        self.shared.lock().talked
    }
}
