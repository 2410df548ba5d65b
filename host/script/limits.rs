//! The limits of a run, as sentences that name the limit and its setting.

use std::time::Duration;

use super::{EngineLimits, RunLimits};

/// Bytes between the plugin's limit on its heap, which the prelude looks after (`room.js`), and the engine's own, which is
/// never to be reached: more than is made between two looks. Blocks of more than 32 MiB come from the system and go back
/// to it, so that asking for one is cheap.
pub(super) const SPARE: usize = 64 << 20;

/// Which limit ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Time,
    Memory,
    Stack,
    HostCalls,
    Result,
    Depth,
    BigInt,
}

impl Stop {
    /// The limit as metrics call it.
    pub fn name(self) -> &'static str {
        match self {
            Stop::Time => "time",
            Stop::Memory => "memory",
            Stop::Stack => "stack",
            Stop::HostCalls => "hostCalls",
            Stop::Result => "result",
            Stop::Depth => "depth",
            Stop::BigInt => "bigint",
        }
    }
}

/// The sentence for a limit, with its value, the setting that moves it, and what to do.
pub(super) fn sentence(stop: Stop, engine: &EngineLimits, run: &RunLimits) -> String {
    match stop {
        Stop::Time => format!(
            "the script ran longer than {} ({}): do less in one run, or {}",
            time(run.time),
            run.time_is,
            if run.time_is == "limits.handler" { "move work to a flow step" } else { "give it longer" }
        ),
        Stop::Memory => format!(
            "the script needed more than {} of memory (limits.memory): keep less at a time, page through lists",
            size(engine.memory)
        ),
        Stop::Stack => format!(
            "the script's calls nest deeper than {} of stack allow (limits.stack): look for a recursion without end",
            size(engine.stack)
        ),
        Stop::HostCalls => format!(
            "the script made more than {} calls of store, flow, notify and ctx (limits.hostCalls): use store.list instead \
             of many store.get, or split the work",
            run.host_calls
        ),
        Stop::Result => {
            format!(
                "the result is bigger than {} of JSON (limits.result): return less, or a page of it",
                size(run.result)
            )
        }
        Stop::BigInt => "the script made a BigInt of more than 65,536 bits: work with smaller numbers, or with bytes \
                         (Uint8Array)"
            .to_owned(),
        Stop::Depth => {
            format!("the result is nested deeper than {} levels (limits.depth): return a flatter one", run.depth)
        }
    }
}

/// A number of bytes in the largest unit that divides it.
pub(super) fn size(bytes: usize) -> String {
    match bytes {
        b if b >= 1 << 20 && b.is_multiple_of(1 << 20) => format!("{} MiB", b >> 20),
        b if b >= 1 << 10 && b.is_multiple_of(1 << 10) => format!("{} KiB", b >> 10),
        b => format!("{b} bytes"),
    }
}

fn time(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis > 0 && millis.is_multiple_of(1000) { format!("{} s", millis / 1000) } else { format!("{millis} ms") }
}
