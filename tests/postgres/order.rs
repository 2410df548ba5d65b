//! Three hosts, killed in turn: each subject's events take effect in their order, once each.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use super::three::{Dice0, Fleet, pause};
use crate::support::{long, postgres};

#[test]
fn events_of_a_subject_keep_their_order_while_hosts_are_killed() {
    let (fleet, hosts) = Fleet::new(&postgres::database(), 3);
    let (hosts, stop) = (Mutex::new(hosts), AtomicBool::new(false));
    let lasts = Duration::from_secs(long(10, 90));
    let sent: Vec<i64> = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..3_u64)
            .map(|subject| {
                let (fleet, stop) = (&fleet, &stop);
                scope.spawn(move || {
                    let (route, mut n) = (Dice0::new(subject), 0);
                    while n < 2 || !stop.load(Ordering::SeqCst) {
                        let input = json!({ "subject": format!("s{subject}"), "n": n });
                        let told = fleet.ask(&route, "step", &format!("s{subject}:{n}"), &input);
                        assert!(told.is_some(), "no answer for long");
                        n += 1;
                    }
                    n
                })
            })
            .collect();
        let began = Instant::now();
        for at in (0..3).cycle().take_while(|_| began.elapsed() < lasts) {
            pause(Duration::from_secs(2));
            hosts.lock().unwrap()[at].kill();
            let started = fleet.start(at);
            hosts.lock().unwrap()[at] = started;
        }
        stop.store(true, Ordering::SeqCst);
        senders.into_iter().map(|sender| sender.join().unwrap()).collect()
    });
    fleet.settle();
    assert_eq!(fleet.rows("SELECT told FROM astray ORDER BY id"), Vec::<Vec<serde_json::Value>>::new());
    let reached = fleet.rows("SELECT n FROM place ORDER BY subject");
    assert_eq!(reached, sent.iter().map(|n| vec![json!(n - 1)]).collect::<Vec<_>>());
}
