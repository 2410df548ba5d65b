//! One tenant's crowd does not keep another's call waiting.

use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};

use oncehost::failure::{Code, Failure};
use oncehost::idempotency::{self, Caller, Request};
use oncehost::invoke::{InvokeError, Outcome};

use crate::support::host::Host;
use crate::support::scenario::files;
use crate::support::shop::SHOP;

type Call = Pin<Box<dyn Future<Output = Result<Outcome, InvokeError>>>>;

fn shop(queue: usize) -> Host {
    Host::with(files(SHOP), |settings| {
        settings.queue = queue;
    })
}

/// A call of `shop/add`, for a tenant.
fn add(host: &Host, tenant: &str, code: &str) -> Call {
    let (app, caller) = (host.app.clone(), Caller { tenant: tenant.to_owned(), user: None });
    let body = format!(r#"{{"code":"{code}"}}"#).into_bytes();
    let origin = oncehost::trace::Origin::default();
    let request = Request { plugin: "shop".to_owned(), action: "add".to_owned(), key: Vec::new(), body, origin };
    Box::pin(async move { idempotency::call(&app, request, async { Ok(caller) }).await })
}

/// Lets calls come as far as the queue, in this order, while the writer is kept busy; then lets them all be done.
fn queued(host: &Host, mut calls: Vec<Call>) -> Vec<Result<Outcome, InvokeError>> {
    let lane = host.app.lane("shop");
    let (busy, is_busy) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let mut keeping = Box::pin(async move {
        lane.exclusive(move |_| {
            busy.send(()).unwrap();
            may_go_on.recv().unwrap();
        })
        .await
    });
    let mut context = Context::from_waker(Waker::noop());
    assert!(keeping.as_mut().poll(&mut context).is_pending());
    is_busy.recv().unwrap();
    let mut early: Vec<_> = calls
        .iter_mut()
        .map(|call| match call.as_mut().poll(&mut context) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        })
        .collect();
    go_on.send(()).unwrap();
    host.block_on(keeping).unwrap();
    calls
        .into_iter()
        .zip(early.iter_mut())
        .map(|(call, early)| early.take().unwrap_or_else(|| host.block_on(call)))
        .collect()
}

fn overloaded(done: &Result<Outcome, InvokeError>) -> bool {
    matches!(done, Err(InvokeError::Failure(Failure { code: Code::Overloaded, .. })))
}

#[test]
fn quiet_tenants_call_is_served_in_the_next_group_whatever_a_noisy_one_has_queued() {
    let host = shop(1024);
    let mut calls: Vec<_> = (0..1000).map(|number| add(&host, "noisy", &format!("n{number}"))).collect();
    calls.push(add(&host, "quiet", "q"));
    let done = queued(&host, calls);
    assert!(done.iter().all(Result::is_ok));
    // Ids rise in the order in which the rows were written.
    let database = host.database("shop");
    let before: i64 = database
        .query_row("SELECT count(*) FROM item WHERE id < (SELECT id FROM item WHERE tenant_id = 'quiet')", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(before, 1, "the noisy tenant's first call came before it, and then it was the quiet one's turn");
    assert_eq!(host.count("shop", "item"), 1001);
}

#[test]
fn full_queue_takes_a_quiet_tenants_call_and_sends_the_noisy_ones_last_away() {
    let host = shop(8);
    let mut calls: Vec<_> = (0..9).map(|number| add(&host, "noisy", &format!("n{number}"))).collect();
    calls.push(add(&host, "quiet", "q"));
    let done = queued(&host, calls);
    assert_eq!(done.iter().map(overloaded).collect::<Vec<_>>(), [vec![false; 7], vec![true, true, false]].concat());
    assert_eq!(host.count("shop", "item"), 8);
}
