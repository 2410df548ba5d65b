//! Groups that are lost, and who runs again: what was decided stays decided.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::time::Duration;

use oncehost::bindings::Scope;
use oncehost::clock::Millis;
use oncehost::failure::Failure;
use oncehost::ids::SystemIds;
use oncehost::invoke::{Cause, Claim, Invocation, Outcome};
use oncehost::plugin::Kind;
use oncehost::script::{EngineLimits, RunLimits};
use oncehost::store::Tx;
use oncehost::trace::Origin;

use crate::support::host::Host;
use crate::support::shop::host as shop;

/// Causes that are served in their claim, so that no script is needed.
#[derive(Debug)]
enum Fake {
    Insert,
    /// Hangs at its second run until the test lets go.
    StuckSecond(AtomicUsize, Mutex<mpsc::Receiver<()>>),
    /// Takes the group's whole transaction with it.
    Rollback,
}

impl Cause for Fake {
    fn claim(&self, tx: &Tx, _now: Millis) -> Result<Claim, Failure> {
        match self {
            Fake::Insert => {
                tx.execute("INSERT INTO loose (tenant_id, id) VALUES ('dev', lower(hex(randomblob(8))))")?
            }
            Fake::StuckSecond(runs, let_go) => {
                if runs.fetch_add(1, Ordering::SeqCst) == 1 {
                    let _ = let_go.lock().unwrap().recv();
                }
            }
            Fake::Rollback => tx.execute("ROLLBACK")?,
        }
        Ok(Claim::Done(Outcome { data: "1".into(), replayed: false, expires: None }))
    }

    fn settle(&self, _tx: &Tx, data: &str, _now: Millis) -> Result<Outcome, Failure> {
        Ok(Outcome { data: data.into(), replayed: false, expires: None })
    }

    fn is_recorded(&self) -> bool {
        false
    }
}

fn invocation(host: &Host, cause: Fake) -> Arc<Invocation> {
    Arc::new(Invocation {
        entry: 0,
        input: "{}".to_owned(),
        input_fault: None,
        limits: RunLimits { time: Duration::from_millis(100), ..RunLimits::default() },
        engine: EngineLimits::default(),
        payload_limit: 1 << 20,
        cause: Box::new(cause),
        scope: Scope {
            action: "x".to_owned(),
            user: serde_json::Value::Null,
            tenant: "dev".to_owned(),
            operation: "shop/x".to_owned(),
            key: None,
            invocation: "i".to_owned(),
            origin: Origin::default(),
            now: 0,
            may_write: true,
            ids: Arc::new(SystemIds::default()),
            plugin: host.app.registry().plugins["shop"].clone(),
        },
    })
}

#[test]
fn keyless_call_that_was_run_again_alone_is_not_run_a_third_time() {
    let host = shop();
    host.post("shop", "quiet", "warm", r#"{"code":"warm"}"#).data();
    let lane = host.app.lane("shop");
    let (let_go, stuck) = mpsc::channel();
    let (release, busy) = mpsc::channel::<()>();
    let insert = invocation(&host, Fake::Insert);
    let hang = invocation(&host, Fake::StuckSecond(AtomicUsize::new(0), Mutex::new(stuck)));
    let rollback = invocation(&host, Fake::Rollback);
    let (inserted, hung, rolled) = host.block_on(async {
        let mut hold = pin!(lane.exclusive(move |_| busy.recv().is_ok()));
        let mut insert = pin!(lane.invoke(insert, Kind::Write, None));
        let mut hang = pin!(lane.invoke(hang, Kind::Write, None));
        let mut rollback = pin!(lane.invoke(rollback, Kind::Write, None));
        // All are in the queue behind the work that holds the writer, and so become one group.
        poll_fn(|context| {
            assert!(hold.as_mut().poll(context).is_pending());
            assert!(insert.as_mut().poll(context).is_pending());
            assert!(hang.as_mut().poll(context).is_pending());
            assert!(rollback.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        release.send(()).unwrap();
        let (_, inserted, hung, rolled) = tokio::join!(hold, insert, hang, rollback);
        (inserted, hung, rolled)
    });
    let_go.send(()).unwrap();
    assert!(inserted.is_ok(), "{inserted:?}");
    assert!(format!("{hung:?}").contains("Limit"), "{hung:?}");
    assert!(rolled.is_err());
    assert_eq!(host.count("shop", "loose"), 1);
    // The lane goes on.
    host.post("shop", "quiet", "after", r#"{"code":"after"}"#).data();
}
