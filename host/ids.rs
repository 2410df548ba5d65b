//! Identifiers: rising ones for rows and invocations, derived ones for `ctx.stableId` and events.

use std::fmt::Debug;
use std::sync::Mutex;

use sha2::{Digest, Sha256};
use uuid::{ContextV7, Timestamp, Uuid};

use crate::clock::Millis;

/// Where fresh identifiers come from.
pub trait Ids: Send + Sync + Debug {
    /// A UUIDv7 (RFC 9562, section 5.7) for the instant `now`, rising within this host.
    fn rising(&self, now: Millis) -> Uuid;
}

/// UUIDv7 from the machine's randomness, rising also within one millisecond and when the clock is set back.
#[derive(Debug)]
pub struct SystemIds(Mutex<(ContextV7, Millis)>);

impl Default for SystemIds {
    fn default() -> Self {
        Self(Mutex::new((ContextV7::new(), 0)))
    }
}

impl Ids for SystemIds {
    fn rising(&self, now: Millis) -> Uuid {
        let mut state = match self.0.lock() {
            Ok(state) => state,
            Err(poisoned) => poisoned.into_inner(),
        };
        state.1 = state.1.max(now);
        let millis = u64::try_from(state.1).unwrap_or(0);
        let subsec = u32::try_from(millis % 1000).unwrap_or(0) * 1_000_000;
        Uuid::new_v7(Timestamp::from_unix(&state.0, millis / 1000, subsec))
    }
}

/// A UUIDv8 made of the first 16 bytes of SHA-256 over `parts`, each preceded by its length as 4 bytes,
/// big-endian. Equal parts give equal ids, on every host and for ever.
pub fn derived(parts: &[&str]) -> Uuid {
    let mut first = [0_u8; 16];
    first.copy_from_slice(&digest(parts)[..16]);
    Uuid::new_v8(first)
}

/// SHA-256 over `parts`, each preceded by its length as 4 bytes, big-endian, so that no two lists read alike.
pub fn digest(parts: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
        hash.update(length.to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().into()
}
