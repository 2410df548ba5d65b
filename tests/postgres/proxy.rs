//! A proxy in front of Postgres that cuts a connection at a COMMIT.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Where the COMMIT of a transaction is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It does not reach the database.
    Before,
    /// It does, and its answer does not come back.
    After,
}

/// What is to be cut: the next transaction that says this.
type Armed = Arc<Mutex<Option<(Cut, String)>>>;

pub struct Proxy {
    folder: tempfile::TempDir,
    armed: Armed,
}

impl Proxy {
    /// A proxy to the socket of the cluster in `folder`.
    pub fn new(cluster: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
        let (armed, server) = (Armed::default(), cluster.join(".s.PGSQL.5432"));
        let shared = armed.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                pass(client, &server, &shared);
            }
        });
        Self { folder, armed }
    }

    /// The URL of a database behind it.
    pub fn url(&self, direct: &str) -> String {
        let database = direct.rsplit('/').next().unwrap();
        let folder = self.folder.path().to_str().unwrap().replace('/', "%2F");
        format!("postgres://postgres@{folder}/{database}")
    }

    /// Has the COMMIT of the next transaction cut in which `text` is sent.
    pub fn cut(&self, how: Cut, text: &str) {
        *self.armed.lock().unwrap() = Some((how, text.to_owned()));
    }

    /// Whether it was cut.
    pub fn has_cut(&self) -> bool {
        self.armed.lock().unwrap().is_none()
    }
}

/// Passes one connection on, both ways.
fn pass(client: UnixStream, server: &PathBuf, armed: &Armed) {
    let Ok(server) = UnixStream::connect(server) else { return };
    let (mut from_server, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let silent = Arc::new(AtomicBool::new(false));
    let mute = silent.clone();
    std::thread::spawn(move || {
        let mut bytes = [0; 8192];
        while let Ok(read @ 1..) = from_server.read(&mut bytes) {
            if mute.load(Ordering::SeqCst) {
                // Not before the database has said it: one that loses its client in the middle of a COMMIT may still give it up.
                if bytes[..read].windows(7).any(|window| window == b"COMMIT\0") {
                    break;
                }
            } else if to_client.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        let _ = to_client.shutdown(std::net::Shutdown::Both);
    });
    let armed = armed.clone();
    std::thread::spawn(move || {
        let (mut client, mut server) = (client, server);
        let mut bytes = [0; 65536];
        let mut said = false;
        while let Ok(read @ 1..) = client.read(&mut bytes) {
            let has = |text: &[u8]| bytes[..read].windows(text.len()).any(|window| window == text);
            let cut = {
                let mut armed = armed.lock().unwrap();
                said |= armed.as_ref().is_some_and(|(_, text)| has(text.as_bytes()));
                if has(b"COMMIT;") && std::mem::take(&mut said) { armed.take() } else { None }
            };
            match cut {
                Some((Cut::Before, _)) => break,
                // The answer is kept from the client before it can come.
                Some((Cut::After, _)) => silent.store(true, Ordering::SeqCst),
                None => {}
            }
            if server.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        let _ = server.shutdown(std::net::Shutdown::Both);
        let _ = client.shutdown(std::net::Shutdown::Both);
    });
}
