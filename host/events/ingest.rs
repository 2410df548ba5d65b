//! Events that come in over HTTP: once for each tenant, source and id, and answered when they are on disk.

use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use super::cloudevent::CloudEvent;
use super::{HOST, lock};
use crate::app::App;
use crate::failure::{Code, Failure};
use crate::store::StoreError;
use crate::store::host_db::{Accepted, Incoming};

/// Events that wait for a commit. What comes in while one is under way shares the next.
#[derive(Default)]
pub(super) struct Accepting(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    waiting: Vec<Arriving>,
    /// Whether somebody commits what waits.
    served: bool,
}

struct Arriving {
    events: Vec<Incoming>,
    reply: oneshot::Sender<Result<Vec<Accepted>, Failure>>,
}

/// What became of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The host's id of the event.
    pub event_id: String,
    /// Whether the same event had come before.
    pub already: bool,
}

/// Accepts events of a tenant; each has a result of its own.
///
/// # Errors
/// When the database fails; the sender may send them again.
pub async fn accept(
    app: &Arc<App>,
    tenant: &str,
    events: Vec<CloudEvent>,
) -> Result<Vec<Result<Receipt, Failure>>, Failure> {
    let incoming: Vec<Incoming> = events.into_iter().map(|event| event.incoming(tenant)).collect();
    let ids: Vec<String> = incoming.iter().map(|event| event.event_id.clone()).collect();
    let (reply, answer) = oneshot::channel();
    let serve = {
        let mut queue = lock(&app.events.accepting.0);
        queue.waiting.push(Arriving { events: incoming, reply });
        !std::mem::replace(&mut queue.served, true)
    };
    if serve {
        let app = app.clone();
        // It ends by itself, when nothing waits any more.
        drop(tokio::task::spawn_blocking(move || commit_waiting(&app)));
    }
    let unknown = || Failure::new(Code::Unavailable, "the outcome is unknown; send the same events again");
    let accepted = answer.await.map_err(|_| unknown())??;
    let receipts = ids.into_iter().zip(accepted).map(|(event_id, accepted)| receipt(event_id, accepted));
    Ok(receipts.inspect(|it| it.iter().for_each(|it| app.metrics.accepted(!it.already))).collect())
}

fn receipt(event_id: String, accepted: Accepted) -> Result<Receipt, Failure> {
    match accepted {
        Accepted::Now => Ok(Receipt { event_id, already: false }),
        Accepted::Already => Ok(Receipt { event_id, already: true }),
        Accepted::Other => Err(Failure::new(
            Code::KeyReused,
            "another event with this source and id was accepted before, and it differs in type, subject or data; give a \
             new event a new id",
        )),
    }
}

fn commit_waiting(app: &App) {
    // Where this breaks off, the next event must find nobody serving.
    let _unserved = Unserved(&app.events.accepting);
    loop {
        let waiting = {
            let mut queue = lock(&app.events.accepting.0);
            if queue.waiting.is_empty() {
                queue.served = false;
                return;
            }
            std::mem::take(&mut queue.waiting)
        };
        let (mut events, mut parts) = (Vec::new(), Vec::new());
        for arriving in waiting {
            parts.push((arriving.events.len(), arriving.reply));
            events.extend(arriving.events);
        }
        let accepted = app.host_db.accept(&events, app.clock.now());
        crate::crash_point!("event-accepted");
        app.events.published.nudge(HOST);
        answer(parts, accepted);
    }
}

type Part = (usize, oneshot::Sender<Result<Vec<Accepted>, Failure>>);

fn answer(parts: Vec<Part>, accepted: Result<Vec<Accepted>, StoreError>) {
    match accepted {
        Ok(mut accepted) => {
            for (length, reply) in parts {
                let rest = accepted.split_off(length.min(accepted.len()));
                // Who sent it may have gone away.
                let _ = reply.send(Ok(std::mem::replace(&mut accepted, rest)));
            }
        }
        Err(error) => {
            let failure = Failure::from(error);
            for (_, reply) in parts {
                let _ = reply.send(Err(failure.clone()));
            }
        }
    }
}

struct Unserved<'a>(&'a Accepting);

impl Drop for Unserved<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(&self.0.0).served = false;
        }
    }
}
