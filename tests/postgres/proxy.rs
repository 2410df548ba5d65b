//! A proxy in front of Postgres that cuts a connection at a COMMIT.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const PASS: u8 = 0;
/// The next COMMIT does not reach the database.
pub const BEFORE: u8 = 1;
/// The next COMMIT does, and its answer does not come back.
pub const AFTER: u8 = 2;

pub struct Proxy {
    folder: tempfile::TempDir,
    cut: Arc<AtomicU8>,
}

impl Proxy {
    /// A proxy to the socket of the cluster in `folder`.
    pub fn new(cluster: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
        let (cut, server) = (Arc::new(AtomicU8::new(PASS)), cluster.join(".s.PGSQL.5432"));
        let armed = cut.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                pass(client, &server, &armed);
            }
        });
        Self { folder, cut }
    }

    /// The URL of a database behind it.
    pub fn url(&self, direct: &str) -> String {
        let database = direct.rsplit('/').next().unwrap();
        let folder = self.folder.path().to_str().unwrap().replace('/', "%2F");
        format!("postgres://postgres@{folder}/{database}")
    }

    /// Has the next COMMIT cut.
    pub fn cut(&self, how: u8) {
        self.cut.store(how, Ordering::SeqCst);
    }

    /// Whether it was cut.
    pub fn has_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst) == PASS
    }
}

/// Passes one connection on, both ways.
fn pass(client: UnixStream, server: &PathBuf, armed: &Arc<AtomicU8>) {
    let Ok(server) = UnixStream::connect(server) else { return };
    let (mut from_server, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let silent = Arc::new(AtomicU8::new(0));
    let mute = silent.clone();
    std::thread::spawn(move || {
        let mut bytes = [0; 8192];
        while let Ok(read @ 1..) = from_server.read(&mut bytes) {
            if mute.load(Ordering::SeqCst) == 1 {
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
        while let Ok(read @ 1..) = client.read(&mut bytes) {
            let commits = bytes[..read].windows(7).any(|window| window == b"COMMIT;");
            let how = if commits { armed.swap(PASS, Ordering::SeqCst) } else { PASS };
            if how == BEFORE {
                break;
            }
            if how == AFTER {
                // The answer is kept from the client before it can come.
                silent.store(1, Ordering::SeqCst);
            }
            if server.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        let _ = server.shutdown(std::net::Shutdown::Both);
        let _ = client.shutdown(std::net::Shutdown::Both);
    });
}
