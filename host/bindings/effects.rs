//! What a run changes, told call by call: for runs that are to be seen and not kept.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value as Json, json};

use crate::codec::{Value, json as codec};
use crate::script::Binding;

/// The calls of one run that changed something, in their order.
pub type Effects = Arc<Mutex<Vec<Json>>>;

/// Notes a call that succeeded, if it changed anything.
pub(super) fn note(effects: &Effects, binding: Binding, args: &[Value], result: &Value) {
    let result = codec::leaving(result).unwrap_or_default();
    let is = |name: &str, value: Json| result.get(name) == Some(&value);
    let (call, changed) = match binding {
        Binding::StoreCreateIfAbsent => ("store.createIfAbsent", is("created", json!(true))),
        Binding::StoreUpdate => ("store.update", !is("affected", json!(0))),
        Binding::StoreDelete => ("store.delete", !is("affected", json!(0))),
        Binding::FlowStart => ("flow.start", is("already", json!(false))),
        Binding::FlowCancel => ("flow.cancel", true),
        Binding::NotifyPublish => ("notify.publish", is("already", json!(false))),
        Binding::StoreGet | Binding::StoreList | Binding::StoreCount | Binding::FlowGet | Binding::StableId => return,
    };
    if changed {
        let args: Vec<Json> = args.iter().map(|arg| codec::leaving(arg).unwrap_or_default()).collect();
        let told = json!({ "call": call, "args": args, "result": result });
        effects.lock().unwrap_or_else(PoisonError::into_inner).push(told);
    }
}
