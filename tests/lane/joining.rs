//! Calls that come while a group runs.

use super::*;

#[test]
fn what_a_dear_run_took_counts_before_its_tenant_has_another_turn() {
    let host = shop();
    let (lane, log, (gate, running, go_on)) = (host.app.lane("shop"), Log::default(), Gate::new());
    // Shorter than a group may last.
    let dear = of("dear", &host, Fake::Held("d0", log.clone(), gate, Duration::from_millis(8)));
    let logged = |tenant: &str, name| of(tenant, &host, Fake::Logged(name, log.clone()));
    let (warm, next) = (logged("cheap", "w"), [logged("dear", "d1"), logged("cheap", "c")]);
    host.block_on(async {
        // To make the engine takes time of a group's.
        lane.invoke(warm, Kind::Write, None).await.unwrap();
        let mut calls: Vec<Call> = vec![Box::pin(lane.invoke(dear, Kind::Write, None))];
        queue(&mut calls).await;
        running.recv().unwrap();
        let mut next: Vec<Call> = next.map(|call| Box::pin(lane.invoke(call, Kind::Write, None)) as _).into();
        queue(&mut next).await;
        go_on.send(()).unwrap();
        for call in calls.into_iter().chain(next) {
            call.await.unwrap();
        }
    });
    assert_eq!(seen(&log), ["w", "d0", "c", "d1"]);
}

/// Makes a call and, while it runs, another one that comes in then; gives their replies.
fn joined(
    host: &Host,
    first: Fake,
    second: Fake,
    running: &mpsc::Receiver<()>,
    go_on: impl FnOnce(),
) -> (Reply, Reply) {
    let lane = host.app.lane("shop");
    let (first, second) = (of("dev", host, first), of("dev", host, second));
    host.block_on(async {
        let mut first: [Call; 1] = [Box::pin(lane.invoke(first, Kind::Write, None))];
        queue(&mut first).await;
        running.recv().unwrap();
        let mut second: [Call; 1] = [Box::pin(lane.invoke(second, Kind::Write, None))];
        queue(&mut second).await;
        go_on();
        let ([first], [second]) = (first, second);
        (first.await, second.await)
    })
}

#[test]
fn call_that_comes_while_a_group_runs_shares_its_commit() {
    let host = shop();
    for round in 0.. {
        let (log, (gate, running, go_on)) = (Log::default(), Gate::new());
        let before = host.commits();
        let (first, second) = (Fake::Held("a", log.clone(), gate, Duration::ZERO), Fake::Logged("b", log.clone()));
        let replies = joined(&host, first, second, &running, || go_on.send(()).unwrap());
        assert!(replies.0.is_ok() && replies.1.is_ok(), "{replies:?}");
        assert_eq!(seen(&log), ["a", "b"]);
        let after = host.commits();
        assert_eq!(after.1, before.1 + 2.0);
        if after.0 == before.0 + 1.0 {
            break;
        }
        // On a busy machine it may have run for as long as a group may.
        assert!(round < 50, "never together");
    }
}

#[test]
fn group_that_is_lost_with_a_call_that_came_later_runs_again_without_it() {
    let host = shop();
    for round in 0.. {
        let (log, (gate, running, go_on)) = (Log::default(), Gate::new());
        let go_on_twice = || {
            go_on.send(()).unwrap();
            // Where they were not together, it runs once and may be gone.
            let _ = go_on.send(());
        };
        let held = Fake::Held("a", log.clone(), gate, Duration::ZERO);
        let (first, second) = joined(&host, held, Fake::Rollback, &running, go_on_twice);
        assert!(first.is_ok() && second.is_err(), "{first:?} {second:?}");
        if seen(&log) == ["a", "a"] {
            break;
        }
        assert!(seen(&log) == ["a"] && round < 50, "never together");
    }
}
