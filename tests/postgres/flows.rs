//! Workflows on hosts that share a database: each is there once, and goes on whatever becomes of a host.

use oncehost::config::Store;
use serde_json::json;

use crate::flows::load::SLEEPER;
use crate::flows::stored::SLOW;
use crate::flows::{files, look, until};
use crate::support::host::Host;
use crate::support::postgres;
use crate::support::server::Server;

fn pair(files: &[(String, String)]) -> [Host; 2] {
    let url = postgres::database();
    [(); 2].map(|()| Host::with(files.to_vec(), |settings| settings.store = Store::Postgres(url.clone())))
}

#[test]
fn workflow_that_both_hosts_start_is_there_once_and_so_is_its_effect() {
    let hosts = pair(&files(SLEEPER, 0));
    let ids = 20;
    let already: usize = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..4)
            .map(|caller| {
                let host = &hosts[caller % 2];
                scope.spawn(move || {
                    let start = |id| host.read("sleeper", "start", &format!(r#"{{"flow":"once","id":"{id}"}}"#)).data();
                    (0..ids).filter(|id| start(*id)["already"] == true).count()
                })
            })
            .collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).sum()
    });
    assert_eq!(already, 3 * ids);
    let open = "SELECT count(*) FROM _oncehost_workflows WHERE status <> 'completed'";
    until(|| hosts[0].rows("sleeper", open)[0][0].clone(), |open| *open == 0);
    let counts = ["_oncehost_workflows", "mark"].map(|table| hosts[1].count("sleeper", table));
    assert_eq!(counts, [20, 20]);
}

#[test]
fn step_of_a_host_that_is_no_longer_heard_of_is_taken_over_and_its_late_end_is_fenced() {
    let (go, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let server = Server::new(move |seen| {
        if seen.path == "/1" {
            let _ = held.lock().unwrap().recv();
        }
        (200, Vec::new(), format!("answer to {}", seen.path))
    });
    let [slow, other] = pair(&files(SLOW, server.port));
    slow.post("slow", "start", "k", r#"{"id":"x"}"#).data();
    until(|| server.seen().len(), |seen| *seen == 1);
    let step = || other.rows("slow", "SELECT state, attempt FROM _oncehost_steps")[0].clone();
    other.block_on(other.app.flows.look(&other.app, "slow"));
    assert_eq!(step(), [json!("running"), json!(1)], "its claim holds");
    other.clock.advance(11_000);
    other.block_on(other.app.flows.look(&other.app, "slow"));
    until(|| look(&other, "slow", "slow-x").data()["status"].clone(), |status| status == "completed");
    go.send(()).unwrap();
    until(|| slow.app.flows.in_flight(), |left| *left == 0);
    let second = json!({ "attempt": 2, "said": "answer to /2", "version": 1 });
    assert_eq!(look(&slow, "slow", "slow-x").data()["steps"]["ask"], second, "the later result stands");
    assert_eq!(step(), [json!("done"), json!(2)]);
}
