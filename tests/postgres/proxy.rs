//! A proxy in front of Postgres that reads the protocol: it cuts a connection at a message, delays, keeps silent, refuses,
//! and counts the turns that hosts and database take.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Where the COMMIT of a transaction is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It does not reach the database.
    Before,
    /// It does, and its answer does not come back.
    After,
}

/// Who sends a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    Host,
    Database,
}

/// The next transaction that is to be cut, and where.
#[derive(Clone, Debug)]
enum Armed {
    /// At its COMMIT, where it says this.
    Commit(Cut, String),
    /// Once this was said in it, instead of this message, counted from 1.
    Message(From, usize, &'static str),
}

/// What keyed calls begin with.
pub const KEYED: &str = "SELECT pg_advisory_lock";

/// What is done to all connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Pass,
    /// Whatever is sent arrives later by this.
    Delay(Duration),
    /// Nothing arrives; connections that met this end with it.
    Silent,
    /// Nobody gets in, and nobody stays.
    Refuse,
    /// Who listens for notifications is cut off.
    Deaf,
    /// The database is heard only when the host has been quiet for this long: what it sends without waiting is one turn.
    Turns(Duration),
}

struct Control {
    armed: Option<Armed>,
    mode: Mode,
    /// Rises with each change of the mode.
    change: usize,
    turns: Vec<usize>,
}

type Shared = Arc<(Mutex<Control>, Condvar)>;

fn lock(shared: &Shared) -> MutexGuard<'_, Control> {
    shared.0.lock().unwrap()
}

pub struct Proxy {
    folder: tempfile::TempDir,
    shared: Shared,
}

impl Proxy {
    /// A proxy to the socket of the cluster in `folder`.
    pub fn new(cluster: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
        let control = Control { armed: None, mode: Mode::Pass, change: 0, turns: Vec::new() };
        let shared: Shared = Arc::new((Mutex::new(control), Condvar::new()));
        let (server, of) = (cluster.join(".s.PGSQL.5432"), shared.clone());
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                if lock(&of).mode == Mode::Refuse {
                    continue;
                }
                if let Ok(server) = UnixStream::connect(&server) {
                    pass(client, server, &of);
                }
            }
        });
        Self { folder, shared }
    }

    /// The URL of a database behind it.
    pub fn url(&self, direct: &str) -> String {
        let database = direct.rsplit('/').next().unwrap();
        let folder = self.folder.path().to_str().unwrap().replace('/', "%2F");
        format!("postgres://postgres@{folder}/{database}")
    }

    /// Has the COMMIT of the next transaction cut in which `text` is sent.
    pub fn cut(&self, how: Cut, text: &str) {
        lock(&self.shared).armed = Some(Armed::Commit(how, text.to_owned()));
    }

    /// Has the next connection on which the statement `begins` is sent cut, instead of the message `number` from there.
    pub fn cut_at(&self, from: From, number: usize, begins: &'static str) {
        lock(&self.shared).armed = Some(Armed::Message(from, number, begins));
    }

    /// Whether it was cut. What was not will not be.
    pub fn has_cut(&self) -> bool {
        lock(&self.shared).armed.take().is_none()
    }

    pub fn set(&self, mode: Mode) {
        let mut control = lock(&self.shared);
        (control.mode, control.change) = (mode, control.change + 1);
        control.turns.clear();
        self.shared.1.notify_all();
    }

    /// The turns of each keyed call since the mode was set, from the look at its key to the end of its COMMIT.
    pub fn turns(&self) -> Vec<usize> {
        lock(&self.shared).turns.clone()
    }
}

/// What both directions of a connection know.
#[derive(Default)]
struct Line {
    /// Names of prepared statements, with their texts.
    prepared: Vec<(String, String)>,
    /// What was armed on this connection when it said what it waits for, and the messages since, from each side.
    struck: Option<(From, usize)>,
    counted: [usize; 2],
    said: bool,
    asked_for_tls: bool,
    /// The answer to a COMMIT is kept from the host.
    mute: bool,
    /// When the host was heard last, and whether it has been answered since.
    heard: Option<Instant>,
    spoke: bool,
    /// Turns of the keyed call of the moment, and whether its COMMIT was sent.
    turns: Option<usize>,
    commits: bool,
}

impl Line {
    /// Reads a message of the host; gives the statement that it names or brings.
    fn statement(&mut self, message: &[u8]) -> Option<String> {
        let mut texts = message[5.min(message.len())..].split(|byte| *byte == 0).map(String::from_utf8_lossy);
        match message[0] {
            b'Q' => texts.next().map(|text| text.into_owned()),
            b'P' => {
                let (name, text) = (texts.next()?.into_owned(), texts.next()?.into_owned());
                self.prepared.push((name, text.clone()));
                Some(text)
            }
            b'B' => {
                let name = texts.nth(1)?;
                self.prepared.iter().rev().find(|(known, _)| *known == name).map(|(_, text)| text.clone())
            }
            _ => None,
        }
    }
}

/// Passes one connection on, both ways.
fn pass(client: UnixStream, server: UnixStream, shared: &Shared) {
    let line = Arc::new(Mutex::new(Line::default()));
    let (to_client, to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let (of, other) = (shared.clone(), line.clone());
    std::thread::spawn(move || carry(From::Database, &server, &to_client, &of, &other));
    let (of, other) = (shared.clone(), line);
    std::thread::spawn(move || carry(From::Host, &client, &to_server, &of, &other));
}

/// Carries messages from one end to the other until the connection is cut or ends.
fn carry(from: From, source: &UnixStream, target: &UnixStream, shared: &Shared, line: &Arc<Mutex<Line>>) {
    let (mut source, mut target) = (source, target);
    let (mut bytes, mut held) = ([0; 65536], Vec::new());
    // The first message of a host has no type.
    let mut first = from == From::Host;
    'all: while let Ok(read @ 1..) = source.read(&mut bytes) {
        held.extend_from_slice(&bytes[..read]);
        if !wait(from, shared, line) {
            break;
        }
        while let Some(message) = next(&mut held, &mut first, line) {
            if cut(from, &message, shared, line) {
                break 'all;
            }
            if (from == From::Host || !line.lock().unwrap().mute) && target.write_all(&message).is_err() {
                break 'all;
            }
        }
    }
    let _ = source.shutdown(Shutdown::Both);
    let _ = target.shutdown(Shutdown::Both);
}

/// A first message that asks for TLS, less its length. It is answered by one byte, and another first message follows.
const ASKS_FOR_TLS: [u8; 4] = 80_877_103_u32.to_be_bytes();

/// Takes the first whole message from what was read.
fn next(held: &mut Vec<u8>, first: &mut bool, line: &Mutex<Line>) -> Option<Vec<u8>> {
    if !*first && !held.is_empty() && std::mem::take(&mut line.lock().unwrap().asked_for_tls) {
        return Some(held.drain(..1).collect());
    }
    let at = usize::from(!*first);
    let length: [u8; 4] = held.get(at..at + 4)?.try_into().unwrap();
    let whole = at + usize::try_from(u32::from_be_bytes(length)).unwrap();
    if held.len() < whole {
        return None;
    }
    let message: Vec<u8> = held.drain(..whole).collect();
    if std::mem::take(first) && message[4..] == ASKS_FOR_TLS {
        *first = true;
        line.lock().unwrap().asked_for_tls = true;
    }
    Some(message)
}

/// Waits as long as the mode says; gives whether the connection goes on.
fn wait(from: From, shared: &Shared, line: &Mutex<Line>) -> bool {
    if from == From::Host {
        let mut line = line.lock().unwrap();
        (line.heard, line.spoke) = (Some(Instant::now()), true);
    }
    let mut control = lock(shared);
    match control.mode {
        Mode::Pass | Mode::Deaf => true,
        Mode::Refuse => false,
        Mode::Silent => {
            let change = control.change;
            while control.change == change {
                control = shared.1.wait(control).unwrap();
            }
            false
        }
        Mode::Delay(span) => {
            drop(control);
            pause(Instant::now() + span);
            true
        }
        Mode::Turns(quiet) => {
            drop(control);
            if from == From::Database {
                let until = || line.lock().unwrap().heard.map(|heard| heard + quiet);
                while let Some(until) = until().filter(|until| *until > Instant::now()) {
                    pause(until);
                }
                let mut line = line.lock().unwrap();
                if std::mem::take(&mut line.spoke)
                    && let Some(turns) = line.turns.as_mut()
                {
                    *turns += 1;
                }
                if line.commits
                    && let Some(turns) = line.turns.take()
                {
                    lock(shared).turns.push(turns);
                }
            }
            true
        }
    }
}

fn pause(until: Instant) {
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        std::thread::park_timeout(left);
    }
}

/// Whether the connection ends here instead of passing this message on.
fn cut(from: From, message: &[u8], shared: &Shared, line: &Mutex<Line>) -> bool {
    let mut line = line.lock().unwrap();
    let statement = if from == From::Host { line.statement(message) } else { None };
    let mut control = lock(shared);
    match statement.as_deref() {
        Some(text) if text.starts_with(KEYED) => {
            line.turns = matches!(control.mode, Mode::Turns(_)).then_some(0);
            line.commits = false;
        }
        Some("COMMIT") => line.commits = true,
        Some(_) | None => {}
    }
    if control.mode == Mode::Deaf && statement.as_ref().is_some_and(|text| text.starts_with("LISTEN")) {
        return true;
    }
    match control.armed.clone() {
        Some(Armed::Commit(how, text)) if from == From::Host => {
            line.said |= message.windows(text.len()).any(|window| window == text.as_bytes());
            if line.said && statement.as_deref() == Some("COMMIT") {
                control.armed = None;
                line.said = false;
                line.mute = how == Cut::After;
                return how == Cut::Before;
            }
        }
        Some(Armed::Message(side, number, begins)) => {
            if line.struck.is_none() && statement.is_some_and(|text| text.starts_with(begins)) {
                (line.struck, line.counted) = (Some((side, number)), [0, 0]);
            }
        }
        Some(Armed::Commit(..)) | None => {}
    }
    // Not before the database has said it: one that loses its host in the middle of a COMMIT may still give it up.
    if from == From::Database && line.mute && message.windows(7).any(|window| window == b"COMMIT\0") {
        return true;
    }
    if let Some((side, number)) = line.struck {
        if control.armed.is_none() {
            line.struck = None;
            return false;
        }
        line.counted[usize::from(from == From::Database)] += 1;
        if side == from && line.counted[usize::from(from == From::Database)] == number {
            control.armed = None;
            return true;
        }
    }
    false
}
