//! The shipped payment: an order is charged once, and what it came to, whatever is lost on the way.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use oncehost::flow::operate::{self, Named};
use serde_json::{Value as Json, json};

use super::drain;
use crate::support::host::Host;
use crate::support::server::Server;

fn host(server: &Server) -> Host {
    let given = format!("[settings.orders]\npayment_url = \"http://127.0.0.1:{}/charges\"\n", server.port);
    Host::with([("", ""); 0], |settings| {
        settings.plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("plugins");
        let made = oncehost::config::Settings::merge(Some((Path::new("oncehost.toml"), &given)), &[], &[]);
        settings.given_settings = made.unwrap().given_settings;
    })
}

/// An order of 200 cents that is on its way to be charged.
fn order(host: &Host) -> String {
    let post = |action: &str, input: Json| host.post("orders", action, action, &input.to_string()).data();
    post("orders.stock-product", json!({ "sku": "a", "name": "A", "price_cents": 100, "quantity": 5 }));
    let wanted = json!({ "order_number": "1", "customer": "ann", "lines": [{ "sku": "a", "quantity": 2 }] });
    let id = post("orders.create-order", wanted)["order_id"].as_str().unwrap().to_owned();
    post("orders.start-payment", json!({ "order_id": id }));
    id
}

fn look(host: &Host, id: &str) -> Json {
    host.read("orders", "orders.get-order", &json!({ "order_id": id }).to_string()).data()
}

#[test]
fn order_takes_no_changes_while_it_is_charged_so_that_each_try_charges_the_same() {
    let asked = AtomicUsize::new(0);
    // The first charge is made, and its answer lost.
    let server = Server::new(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => (500, Vec::new(), String::new()),
        _ => (200, Vec::new(), json!({ "charge_id": "c1" }).to_string()),
    });
    let host = host(&server);
    let id = order(&host);
    drain(&host);
    assert_eq!((server.seen().len(), look(&host, &id)["status"].clone()), (1, json!("open")));
    for (action, input) in [
        ("orders.add-line", json!({ "order_id": id, "sku": "a", "quantity": 1 })),
        ("orders.cancel", json!({ "order_id": id })),
        ("orders.pay", json!({ "order_id": id, "amount_cents": 200 })),
    ] {
        let answer = host.post("orders", action, &format!("now {action}"), &input.to_string());
        assert_eq!((answer.status, answer.error()), (409, "PAYMENT_UNDER_WAY".to_owned()), "{action}");
    }
    host.clock.advance(1000);
    drain(&host);
    let paid = look(&host, &id);
    assert_eq!(
        (&paid["status"], &paid["total_cents"], &paid["charging_cents"]),
        (&json!("paid"), &json!(200), &Json::Null)
    );
    let seen = server.seen();
    let sent: Vec<_> = seen.iter().map(|seen| (seen.header("idempotency-key").to_owned(), seen.body.clone())).collect();
    assert_eq!(sent[0], sent[1]);
    assert_eq!(serde_json::from_str::<Json>(&sent[0].1).unwrap()["amount_cents"], 200);
}

#[test]
fn declined_order_is_cancelled_with_its_goods_back_in_stock() {
    let server = Server::new(|_| (402, Vec::new(), String::new()));
    let host = host(&server);
    let id = order(&host);
    drain(&host);
    assert_eq!(look(&host, &id)["status"], "cancelled");
    assert_eq!(host.rows("orders", "SELECT on_hand FROM product")[0][0], 5);
}

#[test]
fn payment_that_was_cancelled_is_resolved_by_hand_and_no_other() {
    for charged in [false, true] {
        let server = Server::new(|_| (500, Vec::new(), String::new()));
        let host = host(&server);
        let id = order(&host);
        let resolve = |key: &str| {
            host.post(
                "orders",
                "orders.resolve-payment",
                key,
                &json!({ "order_id": id, "charged": charged }).to_string(),
            )
        };
        drain(&host);
        let early = resolve("early");
        assert_eq!((early.status, early.error()), (409, "PAYMENT_UNDER_WAY".to_owned()), "it could still charge");
        let named = Named { workflow_id: format!("order-payment-{id}"), ..Named::default() };
        host.block_on(operate::change(&host.app, operate::Verb::Cancel, named)).unwrap();
        let soon = resolve("soon");
        assert_eq!((soon.status, soon.error()), (409, "PAYMENT_UNDER_WAY".to_owned()), "a try may be on its way");
        host.clock.advance(30_000);
        assert_eq!(resolve("now").data()["status"], if charged { "paid" } else { "open" });
        assert_eq!(look(&host, &id)["charging_cents"], Json::Null);
        let again = resolve("again");
        assert_eq!((again.status, again.error()), (409, "NO_PAYMENT".to_owned()));
        let input = json!({ "order_id": id, "amount_cents": 200 }).to_string();
        assert_eq!(host.post("orders", "orders.pay", "in hand", &input).data()["paid"], !charged);
    }
}
