//! What hosts tell each other over the database that they share (`LISTEN` and `NOTIFY`).
//!
//! It is told outside of the transactions it is about: a transaction with a NOTIFY in it commits alone, since Postgres
//! keeps notifications in the order of commits. So a word may be lost with its host; what it was about is found by those
//! who look now and then.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio_postgres::{AsyncMessage, Client, Connection, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::Server;
use super::server::told;

const CHANNEL: &str = "oncehost";
/// Bytes of one notification; Postgres takes less than 8,000.
const ROOM: usize = 7000;
/// How long after its connection is gone a listener tries to have another one.
const AGAIN: Duration = Duration::from_secs(1);

/// Words that wait to be told.
#[derive(Debug, Default)]
pub(super) struct Notices {
    waiting: Mutex<BTreeSet<String>>,
    more: Notify,
}

impl Notices {
    fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Notifications that begin with `me`, each with as many of the words as it has room for.
fn packed(me: &str, words: BTreeSet<String>) -> Vec<String> {
    let mut packed: Vec<String> = Vec::new();
    for word in words {
        match packed.last_mut() {
            Some(last) if last.len() + word.len() < ROOM => {
                last.push('\n');
                last.push_str(&word);
            }
            Some(_) | None => packed.push(format!("{me}\n{word}")),
        }
    }
    packed
}

impl Server {
    /// Tells the other hosts a word, soon; whoever does not hear it finds out by looking.
    pub fn tell(&self, word: String) {
        let mut waiting = self.notices.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.insert(word) {
            drop(waiting);
            self.notices.more.notify_one();
        }
    }

    /// Passes on what is to be told, as long as the server lives.
    pub(super) fn tell_on(self: &Arc<Self>) {
        let (notices, weak) = (self.notices.clone(), Arc::downgrade(self));
        self.spawn(async move {
            loop {
                notices.more.notified().await;
                let Some(server) = weak.upgrade() else { return };
                for text in packed(server.me(), notices.take()) {
                    let Ok(client) = server.connect().await else { break };
                    let sent = client.execute("SELECT pg_notify($1, $2)", &[&CHANNEL, &text]).await;
                    if let Err(error) = sent {
                        tracing::debug!(error = told(&error), "other hosts could not be told");
                    }
                }
            }
        });
    }

    /// Passes on what other hosts tell from now on.
    pub fn listen(self: &Arc<Self>, sender: UnboundedSender<String>) {
        let weak = Arc::downgrade(self);
        self.spawn(async move {
            while let Some(heard) = hear(&weak, &sender).await {
                if let Err(error) = heard {
                    tracing::debug!(error, "what other hosts tell is not heard at the moment");
                }
                tokio::time::sleep(AGAIN).await;
            }
        });
    }
}

/// Passes on what is told, until the connection ends; `None` when nobody wants to hear it any more.
async fn hear(weak: &Weak<Server>, sender: &UnboundedSender<String>) -> Option<Result<(), String>> {
    let (config, tls, me) = {
        let server = weak.upgrade()?;
        let (config, tls) = server.way();
        (config, tls, server.me().to_owned())
    };
    if sender.is_closed() {
        return None;
    }
    let (client, connection) = match config.connect::<MakeRustlsConnect>(tls).await {
        Ok(connected) => connected,
        Err(error) => return Some(Err(told(&error))),
    };
    Some(pass_on(&client, connection, &me, sender).await.map_err(|error| told(&error)))
}

async fn pass_on<S, T>(
    client: &Client,
    mut connection: Connection<S, T>,
    me: &str,
    sender: &UnboundedSender<String>,
) -> Result<(), Error>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let listen = async {
        client.batch_execute(&format!("LISTEN {CHANNEL}")).await?;
        std::future::pending().await
    };
    let pass = async {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(notice) = message? {
                let mut lines = notice.payload().lines();
                // What this host told itself.
                if lines.next() == Some(me) {
                    continue;
                }
                lines.for_each(|word| drop(sender.send(word.to_owned())));
            }
        }
        Ok(())
    };
    tokio::select! {
        failed = listen => failed,
        ended = pass => ended,
        () = sender.closed() => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_share_notifications_as_far_as_they_have_room() {
        let words: BTreeSet<String> = (0..3000).map(|number| format!("steps plugin-{number}")).collect();
        let packed = packed("me", words.clone());
        assert!(packed.len() > 1 && packed.iter().all(|text| text.len() < 8000 && text.starts_with("me\n")));
        let told: BTreeSet<String> = packed.iter().flat_map(|text| text.lines().skip(1)).map(str::to_owned).collect();
        assert_eq!(told, words);
    }
}
