//! A host that is stopped for a while, as a frozen container is, and goes on.

use std::fs::File;
use std::time::Duration;

use rustix::process::Signal;

use crate::postgres::three::pause;
use crate::support::process::{Folders, Process};
use crate::support::scenario::files;

const SPIN: &str = r#"
//- /spin/plugin.json
{ "id": "spin", "version": "1.0.0", "permissions": [], "limits": { "handler": "3s" } }
//- /spin/handlers/spin.ts
export function handle() {
  console.info('it spins')
  for (;;) {}
}
"#;

#[test]
fn handler_whose_host_was_stopped_past_its_limit_may_be_tried_again() {
    let folders = Folders::new(files(SPIN));
    let path = folders.data().with_file_name("log");
    let log = File::create(&path).unwrap().into();
    let mut host = Process::logging(folders.command(&["dev", "--log", "script=info"]), log);
    let url = host.url.clone();
    let answer = std::thread::scope(|scope| {
        let call = scope.spawn(|| Process::calling(&url).post("spin", "spin", "k", "{}"));
        while !std::fs::read_to_string(&path).unwrap().contains("it spins") {
            assert!(!call.is_finished(), "it did not say that it runs");
        }
        host.send(Signal::STOP);
        pause(Duration::from_secs(5));
        host.send(Signal::CONT);
        call.join().unwrap()
    });
    assert_eq!((answer.status, answer.error().as_str()), (503, "UNAVAILABLE"), "{}", answer.body);
    assert!(answer.retry_after.is_some() && answer.body.contains("the host was stopped"), "{}", answer.body);
}
