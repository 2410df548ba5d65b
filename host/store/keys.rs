//! The records of what was done under which key.

use crate::clock::Millis;

/// What a key is unique within, and the key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyId {
    pub tenant: String,
    pub operation: String,
    pub key: String,
}

/// A record as it stands in the database.
#[derive(Clone, Debug)]
pub struct KeyRecord {
    pub request_hash: [u8; 32],
    /// The fields that were left out of the hash.
    pub transient: Vec<String>,
    /// See [`crate::idempotency::request::Fingerprint`]; empty once the reply is no longer kept.
    pub fields: Vec<u8>,
    /// `None` once the reply is no longer kept.
    pub reply: Option<String>,
    pub committed_at: Millis,
}

impl KeyRecord {
    /// The list of `transient` as it is stored: a JSON array, `None` for an empty one.
    pub(super) fn stored_transient(&self) -> Option<String> {
        (!self.transient.is_empty()).then(|| serde_json::json!(self.transient).to_string())
    }

    /// The list behind the stored form.
    pub(super) fn read_transient(stored: Option<String>) -> Vec<String> {
        stored.and_then(|list| serde_json::from_str(&list).ok()).unwrap_or_default()
    }
}

/// How far one clearing got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleared {
    pub replies: usize,
    pub marks: usize,
    /// Whether a full batch was found, so that there may be more.
    pub more: bool,
}

verbs! { keys:
    /// Finds the record of a key. Nothing was done in the transaction before: what is found is what the try before this
    /// one wrote, which may have to be waited for.
    ///
    /// # Errors
    /// When the database fails.
    pub fn find(tx, id: &KeyId) -> Option<KeyRecord>;

    /// Keeps a reply under its key. Where the key has a record already, it stays as it is, unless it is older than
    /// `forgotten`: then even its mark is void, and the new record takes its place.
    ///
    /// # Errors
    /// When the database fails.
    pub fn keep(tx, id: &KeyId, record: &KeyRecord, forgotten: Millis) -> ();

    /// Clears at most `batch` replies that were committed at or before `replies_before`, and as many marks committed at
    /// or before `marks_before`. Each record is judged by its own instant, whatever the clock did between two of them;
    /// the cost does not grow with what is kept.
    ///
    /// # Errors
    /// When the database fails.
    pub fn clear(tx, replies_before: Millis, marks_before: Millis, batch: usize) -> Cleared;
}
