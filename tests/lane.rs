//! Groups that are lost, and who runs again: what was decided stays decided.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::time::Duration;

use oncehost::clock::Millis;
use oncehost::failure::Failure;
use oncehost::invoke::{Cause, Claim, Invocation, Outcome, Run};
use oncehost::lane::{Lane, Reply};
use oncehost::plugin::Kind;
use oncehost::script::{EngineLimits, RunLimits};
use oncehost::store::Tx;

use crate::support::host::Host;
use crate::support::scenario::files;
use crate::support::shop::{SHOP, host as shop};

mod joining;

/// Causes that are served in their claim, so that no script is needed.
#[derive(Debug)]
enum Fake {
    Insert,
    /// Hangs at its second run until the test lets go.
    StuckSecond(AtomicUsize, Mutex<mpsc::Receiver<()>>),
    /// Takes the group's whole transaction with it.
    Rollback,
    /// Hangs until the test lets go, and then breaks the thread off.
    Break(Mutex<mpsc::Receiver<()>>),
    /// Notes that it ran.
    Logged(&'static str, Log),
    /// The same, and then runs its module.
    Run(&'static str, Log),
    /// The same as `Logged`, and takes until the test lets go and so long then.
    Held(&'static str, Log, Gate, Duration),
}

/// Says that it runs, and waits until it may go on.
#[derive(Debug)]
struct Gate(Mutex<(mpsc::Sender<()>, mpsc::Receiver<()>)>);

impl Gate {
    /// With who hears of a run, and who lets it go on.
    fn new() -> (Self, mpsc::Receiver<()>, mpsc::Sender<()>) {
        let ((runs, running), (go_on, may_go_on)) = (mpsc::channel(), mpsc::channel());
        (Self(Mutex::new((runs, may_go_on))), running, go_on)
    }

    fn pass(&self, and_then: Duration) {
        let gate = self.0.lock().unwrap();
        gate.0.send(()).unwrap();
        gate.1.recv().unwrap();
        if !and_then.is_zero() {
            // Nothing comes.
            let _ = gate.1.recv_timeout(and_then);
        }
    }
}

type Log = Arc<Mutex<Vec<&'static str>>>;

impl Cause for Fake {
    fn claim(&self, tx: &Tx, _now: Millis) -> Result<Claim, Failure> {
        match self {
            Fake::Logged(name, log) => log.lock().unwrap().push(name),
            Fake::Run(name, log) => {
                log.lock().unwrap().push(name);
                return Ok(Claim::Run);
            }
            Fake::Held(name, log, gate, and_then) => {
                log.lock().unwrap().push(name);
                gate.pass(*and_then);
            }
            Fake::Insert => {
                tx.execute("INSERT INTO loose (tenant_id, id) VALUES ('dev', lower(hex(randomblob(8))))")?
            }
            Fake::StuckSecond(runs, let_go) => {
                if runs.fetch_add(1, Ordering::SeqCst) == 1 {
                    let _ = let_go.lock().unwrap().recv();
                }
            }
            Fake::Rollback => tx.execute("ROLLBACK")?,
            Fake::Break(let_go) => {
                let _ = let_go.lock().unwrap().recv();
                panic!("a fault of the host");
            }
        }
        Ok(Claim::Done(Outcome::new("1")))
    }

    fn settle(&self, _tx: &Tx, data: &str, _now: Millis) -> Result<Outcome, Failure> {
        Ok(Outcome::new(data))
    }

    fn is_recorded(&self) -> bool {
        false
    }
}

fn invocation(host: &Host, cause: Fake) -> Arc<Invocation> {
    within(Duration::from_millis(100), host, cause)
}

fn within(time: Duration, host: &Host, cause: Fake) -> Arc<Invocation> {
    Arc::new(made(time, host, cause))
}

fn made(time: Duration, host: &Host, cause: Fake) -> Invocation {
    Invocation {
        run: Run::Entry(0),
        input: "{}".to_owned(),
        input_fault: None,
        limits: RunLimits { time, ..RunLimits::default() },
        engine: EngineLimits::default(),
        payload_limit: 1 << 20,
        cause: Box::new(cause),
        scope: host.scope("shop"),
    }
}

/// An invocation for a tenant, with a limit that it does not reach.
fn of(tenant: &str, host: &Host, cause: Fake) -> Arc<Invocation> {
    let mut invocation = made(LONG, host, cause);
    tenant.clone_into(&mut invocation.scope.tenant);
    Arc::new(invocation)
}

type Call<'a> = Pin<Box<dyn Future<Output = Reply> + 'a>>;

/// Has them come as far as the queue.
async fn queue(calls: &mut [Call<'_>]) {
    poll_fn(|context| {
        assert!(calls.iter_mut().all(|call| call.as_mut().poll(context).is_pending()));
        Poll::Ready(())
    })
    .await;
}

/// Queues calls that write while the writer is held, in this order; then lets it go on.
async fn queued<'a>(lane: &'a Arc<Lane>, calls: Vec<Arc<Invocation>>) -> Vec<Call<'a>> {
    let (release, busy) = mpsc::channel::<()>();
    let mut hold = pin!(lane.exclusive(move |_| busy.recv().is_ok()));
    poll_fn(|context| {
        assert!(hold.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
    let mut calls: Vec<Call> =
        calls.into_iter().map(|call| Box::pin(lane.invoke(call, Kind::Write, None)) as _).collect();
    queue(&mut calls).await;
    release.send(()).unwrap();
    hold.await.unwrap();
    calls
}

fn seen(log: &Log) -> Vec<&'static str> {
    log.lock().unwrap().clone()
}

#[test]
fn call_that_comes_while_a_group_runs_is_served_before_what_is_cut_off() {
    let host = shop();
    let (lane, log) = (host.app.lane("shop"), Log::default());
    let (gate, running, go_on) = Gate::new();
    // Longer than a group may last.
    let slow = Fake::Held("n0", log.clone(), gate, Duration::from_millis(30));
    let mut calls = vec![of("noisy", &host, slow)];
    let logged = |tenant: &str, name| of(tenant, &host, Fake::Logged(name, log.clone()));
    calls.extend(["n1", "n2", "n3"].map(|name| logged("noisy", name)));
    let quiet = logged("quiet", "q");
    let replies = host.block_on(async {
        let mut calls = queued(&lane, calls).await;
        running.recv().unwrap();
        let mut quiet: [Call; 1] = [Box::pin(lane.invoke(quiet, Kind::Write, None))];
        queue(&mut quiet).await;
        go_on.send(()).unwrap();
        calls.extend(quiet);
        let mut replies = Vec::new();
        for call in calls {
            replies.push(call.await);
        }
        replies
    });
    assert!(replies.iter().all(Result::is_ok), "{replies:?}");
    assert_eq!(seen(&log), ["n0", "q", "n1", "n2", "n3"]);
}

#[test]
fn what_waits_behind_a_stuck_call_is_done_once_while_it_hangs() {
    let host = shop();
    let (lane, log) = (host.app.lane("shop"), Log::default());
    let (let_go, stuck) = mpsc::channel();
    // As if it had run once before.
    let hang = invocation(&host, Fake::StuckSecond(AtomicUsize::new(1), Mutex::new(stuck)));
    let mut calls = vec![hang];
    calls.extend(["a", "b", "c"].map(|name| of("dev", &host, Fake::Logged(name, log.clone()))));
    let (hung, replies, exclusive) = host.block_on(async {
        let mut calls = queued(&lane, calls).await;
        let exclusive = lane.exclusive(|_| ()).await;
        let hung = calls.remove(0).await;
        let mut replies = Vec::new();
        for call in calls {
            replies.push(call.await);
        }
        (hung, replies, exclusive)
    });
    assert!(format!("{hung:?}").contains("given up"), "{hung:?}");
    assert!(replies.iter().all(Result::is_ok) && exclusive.is_ok(), "{replies:?}");
    assert_eq!(seen(&log), ["a", "b", "c"]);
    let_go.send(()).unwrap();
    host.block_on(async {
        while lane.stuck() > 0 {
            tokio::task::yield_now().await;
        }
    });
    assert_eq!((seen(&log).len(), lane.threads()), (3, 1));
}

/// The shop with one handler more; gives its module's place, too.
fn shop_with(handler: &str, text: &str) -> (Host, usize) {
    let path = format!("shop/handlers/{handler}.ts");
    let host = Host::new(files(SHOP).into_iter().chain([(path.clone(), text.to_owned())]));
    let modules = &host.scope("shop").plugin.code.modules;
    let entry = modules.iter().position(|module| module.path == path).unwrap();
    (host, entry)
}

#[test]
fn engine_that_a_tenants_run_spends_counts_as_its_time() {
    let deep = "function down(n: number): number { return 1 + down(n) }\nexport function handle() { return down(0) }";
    let (host, deep) = shop_with("deep", deep);
    let (lane, log) = (host.app.lane("shop"), Log::default());
    let spending = |name| {
        let mut invocation = made(LONG, &host, Fake::Run(name, log.clone()));
        "evil".clone_into(&mut invocation.scope.tenant);
        invocation.run = Run::Entry(deep);
        Arc::new(invocation)
    };
    let mut calls: Vec<_> = ["e0", "e1", "e2"].map(spending).into();
    calls.extend(["g0", "g1", "g2", "g3"].map(|name| of("good", &host, Fake::Logged(name, log.clone()))));
    host.block_on(async {
        for call in queued(&lane, calls).await {
            let _ = call.await;
        }
    });
    assert_eq!(seen(&log), ["e0", "g0", "g1", "g2", "g3", "e1", "e2"]);
}

#[test]
fn one_reader_is_enough_for_reads_one_after_the_other() {
    let host = shop();
    let lane = host.app.lane("shop");
    for _ in 0..300 {
        let mut read = made(LONG, &host, Fake::Insert);
        read.run = Run::Ended(Ok("1".to_owned()));
        host.block_on(lane.invoke(Arc::new(read), Kind::Read, None)).unwrap();
    }
    assert_eq!(lane.standing().threads[1], 1);
}

#[test]
fn read_beside_one_that_runs_has_a_reader_of_its_own() {
    let text = "export const config = { kind: 'read' }\nexport function handle() { for (;;) {} }";
    let (host, endless) = shop_with("endless", text);
    let lane = host.app.lane("shop");
    let reads = || {
        let mut read = made(Duration::from_millis(500), &host, Fake::Insert);
        read.run = Run::Entry(endless);
        Box::pin(lane.invoke(Arc::new(read), Kind::Read, None)) as Call
    };
    let mut calls = vec![reads(), reads()];
    host.block_on(async {
        queue(&mut calls).await;
        assert_eq!(lane.standing().threads[1], 2);
        for call in calls {
            assert!(call.await.is_err());
        }
        // Those that have ended do not count as busy.
        assert!(reads().await.is_err());
        assert_eq!(lane.standing().threads[1], 2);
    });
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

/// A limit that no run here reaches, so that the watchdog stays away.
const LONG: Duration = Duration::from_secs(3600);

/// A call that breaks its thread off as soon as the sender is used.
fn breaking(host: &Host, time: Duration) -> (mpsc::Sender<()>, Arc<Invocation>) {
    let (let_go, stuck) = mpsc::channel();
    (let_go, within(time, host, Fake::Break(Mutex::new(stuck))))
}

#[test]
fn call_that_breaks_its_thread_is_answered_and_the_lane_goes_on() {
    let host = shop();
    host.post("shop", "quiet", "warm", r#"{"code":"warm"}"#).data();
    let lane = host.app.lane("shop");
    let (let_go, broken) = breaking(&host, LONG);
    let_go.send(()).unwrap();
    let reply = host.block_on(lane.invoke(broken, Kind::Write, None));
    assert!(format!("{reply:?}").contains("outcome is unknown"), "{reply:?}");
    host.post("shop", "quiet", "after", r#"{"code":"after"}"#).data();
    assert_eq!((lane.threads(), host.count("shop", "item")), (1, 2));
}

#[test]
fn thread_that_breaks_off_after_it_was_relieved_leaves_its_successor_alone() {
    let host = shop();
    host.post("shop", "quiet", "warm", r#"{"code":"warm"}"#).data();
    let lane = host.app.lane("shop");
    let (let_go, broken) = breaking(&host, Duration::from_millis(100));
    let reply = host.block_on(lane.invoke(broken, Kind::Write, None));
    assert!(format!("{reply:?}").contains("given up"), "{reply:?}");
    assert_eq!(lane.threads(), 1, "the successor");
    // The successor's own work holds it while the relieved thread breaks off.
    let (release, busy) = mpsc::channel::<()>();
    let done = host.block_on(async {
        let mut hold = pin!(lane.exclusive(move |_| busy.recv().is_ok()));
        poll_fn(|context| {
            assert!(hold.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        let_go.send(()).unwrap();
        while lane.stuck() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(lane.threads(), 1, "counted off once");
        release.send(()).unwrap();
        hold.await
    });
    assert!(done.unwrap());
    host.post("shop", "quiet", "after", r#"{"code":"after"}"#).data();
    assert_eq!(lane.threads(), 1);
}

/// Closes the lane while a call of that kind is under way, and has the call break off its thread after `meanwhile`.
fn close_over(kind: Kind, meanwhile: impl AsyncFnOnce(&Host)) {
    let host = shop();
    let lane = host.app.lane("shop");
    let (let_go, broken) = breaking(&host, LONG);
    let closed = host.block_on(async {
        let mut call = pin!(lane.invoke(broken, kind, None));
        let far = std::time::Instant::now() + Duration::from_secs(3600);
        let mut close = pin!(lane.close(far));
        poll_fn(|context| {
            assert!(call.as_mut().poll(context).is_pending());
            assert!(close.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        meanwhile(&host).await;
        let_go.send(()).unwrap();
        assert!(call.await.is_err());
        // The bound is for a failure only: it ends long before.
        tokio::time::timeout(Duration::from_secs(20), close).await
    });
    assert!(closed.is_ok(), "told without waiting for the deadline");
    assert_eq!(lane.threads(), 0);
}

#[test]
fn closing_lane_hears_of_a_thread_that_breaks_off() {
    close_over(Kind::Write, async |_| {});
}

#[test]
fn closing_lane_takes_no_writes_while_a_read_ends() {
    close_over(Kind::Read, async |host| {
        let (_, other) = breaking(host, LONG);
        let refused = format!("{:?}", host.app.lane("shop").invoke(other, Kind::Write, None).await);
        assert!(refused.contains("shutting down"), "{refused}");
    });
}

#[test]
fn database_that_another_process_holds_refuses_all_that_waits_at_once() {
    let host = shop();
    host.post("shop", "quiet", "warm", r#"{"code":"warm"}"#).data();
    let lane = host.app.lane("shop");
    // Waits for the lock for a moment only.
    let impatient = |shared: &oncehost::store::Shared| {
        let oncehost::store::Shared::Sqlite(shared) = shared else { panic!("no SQLite") };
        shared.lock().pragma_update(None, "busy_timeout", 50).unwrap();
    };
    host.block_on(lane.exclusive(impatient)).unwrap();
    let other = host.database("shop");
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (release, busy) = mpsc::channel::<()>();
    let replies = host.block_on(async {
        let mut hold = pin!(lane.exclusive(move |_| busy.recv().is_ok()));
        // More than one group of them.
        let calls = (0..600).map(|_| lane.invoke(invocation(&host, Fake::Insert), Kind::Write, None));
        let mut calls: Vec<_> = calls.map(Box::pin).collect();
        poll_fn(|context| {
            assert!(hold.as_mut().poll(context).is_pending());
            assert!(calls.iter_mut().all(|call| call.as_mut().poll(context).is_pending()));
            Poll::Ready(())
        })
        .await;
        release.send(()).unwrap();
        let mut replies = vec![calls.remove(0).await];
        // Whatever began after the first refusal would succeed now.
        other.execute_batch("ROLLBACK").unwrap();
        for call in calls {
            replies.push(call.await);
        }
        replies
    });
    for reply in replies {
        let text = format!("{reply:?}");
        assert!(text.contains("Unavailable") && text.contains("in use by another process"), "{text}");
    }
    host.post("shop", "quiet", "after", r#"{"code":"after"}"#).data();
    assert_eq!((host.count("shop", "item"), host.count("shop", "loose")), (2, 0));
}
