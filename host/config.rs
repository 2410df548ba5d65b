//! Settings: flags over `ONCEHOST_*` over `oncehost.toml` over these defaults.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// All that an operator can set, with its default (spec §5, §8).
#[derive(Clone, Debug)]
pub struct Settings {
    /// Folder with a sub-folder for each plugin.
    pub plugins: PathBuf,
    /// Folder for the databases, the lock and the local socket.
    pub data: PathBuf,
    pub listen: SocketAddr,
    /// `dev` instead of `serve`: no credentials, tenant `dev`, causes of script errors in replies.
    pub dev: bool,
    /// Time limit of a handler, of a read action, of a flow script.
    pub handler_time: Duration,
    pub read_time: Duration,
    pub script_time: Duration,
    /// Bytes of heap and stack of a plugin's script engine.
    pub memory: usize,
    pub stack: usize,
    /// Bytes of a request body, and of a reply.
    pub body_limit: usize,
    pub reply_limit: usize,
    /// Invocations that may wait in a plugin's lane.
    pub queue: usize,
    /// How long a second try waits for the first one.
    pub key_wait: Duration,
    /// How long replies are kept under their key, and how long the mark that something was done.
    pub reply_kept: Duration,
    pub mark_kept: Duration,
    /// How long a lane without work keeps its threads and connections.
    pub lane_idle: Duration,
    /// How long a stop waits for work that is under way.
    pub stop_grace: Duration,
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Default for Settings {
    fn default() -> Self {
        Self {
            plugins: PathBuf::from("plugins"),
            data: PathBuf::from("data"),
            listen: SocketAddr::from(([127, 0, 0, 1], 7070)),
            dev: false,
            handler_time: Duration::from_secs(1),
            read_time: Duration::from_secs(5),
            script_time: Duration::from_secs(30),
            memory: 64 << 20,
            stack: 512 << 10,
            body_limit: 1 << 20,
            reply_limit: 1 << 20,
            queue: 1024,
            key_wait: Duration::from_secs(5),
            reply_kept: 7 * DAY,
            mark_kept: 90 * DAY,
            lane_idle: Duration::from_secs(60),
            stop_grace: Duration::from_secs(10),
        }
    }
}
