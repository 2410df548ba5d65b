//! A database that is away: whose data are there wait, the others go on.

use serde_json::json;

use super::place;
use crate::events::EAR;
use crate::flows::until;
use crate::support::host::{Host, answer, ureq_agent};
use crate::support::scenario::files;
use crate::support::shop::SHOP;

/// Nobody listens there.
const NOWHERE: &str = "postgres://me:s3cret@127.0.0.1:1/none";

#[test]
fn host_serves_the_others_while_a_database_is_away() {
    let host = Host::with(files(&format!("{SHOP}{EAR}")), |settings| place(settings, "shop", NOWHERE));
    let refused = host.post("shop", "add", "k", r#"{"code":"a"}"#);
    assert_eq!((refused.status, refused.error().as_str()), (503, "UNAVAILABLE"), "{}", refused.body);
    let event = json!({ "specversion": "1.0", "type": "heard", "source": "s", "id": "1", "data": { "text": "x" } });
    assert_eq!(host.send_event("dev", &event).status, 202);
    // Workflows of the shop may wait for it: it is kept until they were asked.
    let waits = host.block_on(oncehost::events::drain(&host.app)).unwrap_err();
    assert!(waits.detail.starts_with("shop: "), "{}", waits.detail);
    until(|| host.count("ear", "heard"), |heard| *heard == 1);
    let ready = answer(ureq_agent().get(format!("{}/readyz", host.url)).call().unwrap());
    assert_eq!(ready.status, 503);
    let why = ready.json()["reasons"][0].as_str().unwrap().to_owned();
    assert!(why.starts_with("postgres://127.0.0.1:1/none, where shop is: "), "{why}");
    assert!(!why.contains("s3cret"));
}
