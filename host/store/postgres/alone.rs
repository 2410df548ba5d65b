//! What one of several hosts does at a time, over many transactions. It holds a lock of its session, which goes with the
//! connection, and so with the host. That connection is no one of the pool: work that holds the lock may wait for those.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio_postgres::{Client, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{Server, StoreError, errors, number_of};

/// The connection that has the locks, made when it is needed.
#[derive(Default)]
pub(super) struct Kept(Mutex<Option<Arc<Client>>>);

impl Kept {
    fn get(&self) -> Option<Arc<Client>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone().filter(|client| !client.is_closed())
    }

    fn set(&self, client: Option<Arc<Client>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = client;
    }

    /// Gives it up; locks that are held now keep it until they are dropped.
    pub(super) fn close(&self) {
        self.set(None);
    }
}

/// No other host does the same until this is dropped, or the connection is lost.
pub struct Alone {
    client: Arc<Client>,
    handle: Handle,
    lock: (i32, i32),
}

impl Drop for Alone {
    fn drop(&mut self) {
        let (client, (high, low)) = (self.client.clone(), self.lock);
        let sql = format!("SELECT pg_advisory_unlock({high}, {low})");
        // Where that fails, the connection is gone, and the lock with it.
        self.handle.spawn(async move { client.simple_query(&sql).await });
    }
}

impl Server {
    /// Has this host be the only one that does `what`; `None` where another one does so now. Within a host it keeps
    /// nobody from anything.
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub fn alone(self: &Arc<Self>, what: &[&str]) -> Result<Option<Alone>, StoreError> {
        let [a, b, c, d, e, f, g, h] = number_of(what).to_be_bytes();
        // Of two numbers: whoever looks at the locks tells them from those of keys.
        let (high, low) = (i32::from_be_bytes([a, b, c, d]), i32::from_be_bytes([e, f, g, h]));
        let own = self.clone();
        self.wait_anywhere(async move {
            let client = match own.alone.get() {
                Some(client) => client,
                None => own.connect_alone().await?,
            };
            let sql = format!("SELECT pg_try_advisory_lock({high}, {low})");
            let asked = match tokio::time::timeout(own.answer(), client.simple_query(&sql)).await {
                Ok(asked) => asked.map_err(|error| errors::fault(&error)),
                Err(_) => Err(errors::away()),
            };
            if asked.is_err() {
                // Whether it has the lock now, nobody knows.
                own.alone.close();
            }
            let mine = |message: &SimpleQueryMessage| {
                if let SimpleQueryMessage::Row(row) = message { row.get(0) == Some("t") } else { false }
            };
            Ok(asked?.iter().any(mine).then(|| Alone { client, handle: Handle::current(), lock: (high, low) }))
        })
    }

    async fn connect_alone(&self) -> Result<Arc<Client>, StoreError> {
        let (config, tls) = self.way();
        let connected = config.connect::<MakeRustlsConnect>(tls).await;
        let (client, connection) = connected.map_err(|error| errors::fault(&error))?;
        self.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "the connection that holds locks ended");
            }
        });
        let client = Arc::new(client);
        self.alone.set(Some(client.clone()));
        Ok(client)
    }
}
