//! `GET /notifications?topics=…`: what plugins publish, as Server-Sent Events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, Uri};
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream;

use super::Shared;
use super::door::{self, RequestId};
use crate::events::stream::{Heard, Listener};
use crate::failure::{Code, Failure};
use crate::idempotency::Caller;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// A comment that often, so that neither end nor what is between takes a quiet connection for a dead one.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How long a client waits before it comes back.
const RETRY: Duration = Duration::from_secs(1);
/// How often a stream without messages looks whether its caller may still listen.
const LOOKS: Duration = Duration::from_secs(2);
/// Topics that one stream may have.
const TOPICS: usize = 50;

/// Streams the messages of some topics.
pub(super) async fn listen(
    State(shared): State<Arc<Shared>>,
    Extension(id): Extension<RequestId>,
    uri: Uri,
    headers: HeaderMap,
) -> Response<Body> {
    match begin(&shared, &uri, &headers).await {
        Ok(response) => response,
        Err(failure) => shared.problem(failure, &id),
    }
}

async fn begin(shared: &Arc<Shared>, uri: &Uri, headers: &HeaderMap) -> Result<Response<Body>, Failure> {
    let (topics, asked) = query(uri)?;
    let caller = door::caller(shared, headers).await?;
    let place = shared.streams.open(&caller.tenant);
    let right = Right { shared: shared.clone(), headers: headers.clone(), topics: topics.clone() };
    right.covers(&caller)?;
    let place = place?;
    // What the browser itself sends when it comes back is newer than the address that the page wrote.
    let last = headers.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok()).map(str::to_owned).or(asked);
    let last = last.filter(|last| !last.is_empty());
    let (listener, begin) = Listener::new(&shared.app, caller.tenant, topics, last.as_deref()).await?;
    // A block without data is no message, but its id is what a browser comes back with.
    let first = if begin.gone { resync() } else { Event::default().comment("listening") };
    let first = first.id(begin.id);
    let begun = Streaming::First(Box::new((first.retry(RETRY), listener)));
    let right = Arc::new((right, place));
    let events = stream::unfold(begun, move |state| {
        let right = right.clone();
        async move {
            let mut listener = match state {
                Streaming::First(first) => {
                    return Some((Ok::<_, Infallible>(first.0), Streaming::Listening(Box::new(first.1))));
                }
                Streaming::Listening(listener) => listener,
            };
            match while_allowed(&right.0, listener.next()).await? {
                Ok(heard) => heard.map(|heard| (Ok(event(heard)), Streaming::Listening(listener))),
                Err(failure) => {
                    // The client comes back, and goes on where it was.
                    tracing::warn!("a stream of notifications broke off: {failure}");
                    None
                }
            }
        }
    });
    let mut response = Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response();
    // Proxies that gather replies would hold messages back.
    response.headers_mut().insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    Ok(response)
}

/// What lets a stream go on.
struct Right {
    shared: Arc<Shared>,
    headers: HeaderMap,
    topics: Vec<String>,
}

impl Right {
    fn covers(&self, caller: &Caller) -> Result<(), Failure> {
        self.topics.iter().try_for_each(|topic| caller.need(&format!("notifications:{topic}")))
    }

    /// Whether the credentials that the stream began with still hold: they may be revoked, or their time is over.
    async fn holds(&self) -> bool {
        match door::known(&self.shared, &self.headers).await {
            Ok(caller) => self.covers(&caller).is_ok(),
            // A database that is away for a moment has revoked nothing.
            Err(failure) => failure.code == Code::Unavailable,
        }
    }
}

/// Waits for `next`; `None` as soon as the caller may not hear it any more.
async fn while_allowed<R>(right: &Right, next: impl Future<Output = R>) -> Option<R> {
    let mut next = std::pin::pin!(next);
    let found = loop {
        match tokio::time::timeout(LOOKS, next.as_mut()).await {
            Ok(found) => break found,
            Err(_) if right.holds().await => {}
            Err(_) => return None,
        }
    };
    right.holds().await.then_some(found)
}

enum Streaming {
    First(Box<(Event, Listener)>),
    Listening(Box<Listener>),
}

fn event(heard: Heard) -> Event {
    Event::default().id(heard.id).data(heard.message)
}

/// What came after the client's last message is not all there any more: it is to read its data anew, and goes on
/// behind the newest message there is.
fn resync() -> Event {
    Event::default().event("resync").data(r#"{"reason":"the history after your Last-Event-ID is no longer kept"}"#)
}

/// The topics, from `topics=a,b` or several of them, and `lastEventId`, for clients that cannot send the header.
fn query(uri: &Uri) -> Result<(Vec<String>, Option<String>), Failure> {
    let (mut topics, mut last) = (Vec::new(), None);
    for (name, value) in url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
        match name.as_ref() {
            "topics" => topics.extend(value.split(',').map(|topic| topic.trim().to_owned())),
            "lastEventId" if last.is_some() => {
                return Err(Failure::field("lastEventId", "is there twice; send it once"));
            }
            "lastEventId" => last = Some(value.into_owned()),
            other => {
                let other: String = other.chars().take(40).collect();
                return Err(Failure::field(&other, "is no parameter here; there are topics and lastEventId"));
            }
        }
    }
    let wrong = |text: String| Err(Failure::field("topics", text));
    let example = "topics=orders.order-paid,orders.order-created";
    if topics.is_empty() {
        return wrong(format!("must say what to listen to: /notifications?{example}"));
    }
    if topics.iter().any(String::is_empty) {
        return wrong(format!("has a topic without a name; write them with one comma between two: {example}"));
    }
    topics.sort();
    topics.dedup();
    if topics.len() > TOPICS || topics.iter().any(|topic| topic.len() > 255) {
        return wrong(format!("may be at most {TOPICS} topics of 255 bytes each; open another stream for more"));
    }
    Ok((topics, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_come_as_a_list_or_one_by_one() {
        let of = |text: &str| query(&text.parse().unwrap());
        let both = |topics: &[&str], last: Option<&str>| {
            Ok((topics.iter().map(|topic| (*topic).to_owned()).collect(), last.map(str::to_owned)))
        };
        assert_eq!(of("/notifications?topics=b,a&topics=a%2Cc"), both(&["a", "b", "c"], None));
        assert_eq!(of("/notifications?topics=a&lastEventId=3-ab"), both(&["a"], Some("3-ab")));
        for (wrong, field) in [
            ("", "/topics"),
            ("?topics=", "/topics"),
            ("?topics=,", "/topics"),
            ("?topics=a,,b", "/topics"),
            ("?topics=a,", "/topics"),
            ("?topic=a", "/topic"),
            ("?topics=a&lastEventId=1&lastEventId=2", "/lastEventId"),
        ] {
            let failure = of(&format!("/notifications{wrong}")).unwrap_err();
            assert_eq!((failure.code, failure.fields[0].pointer.as_str()), (Code::Validation, field), "{wrong}");
        }
    }
}
