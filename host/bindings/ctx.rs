//! `ctx`: who calls, what runs, and the ids derived from that.

use serde_json::json;

use super::{Bindings, Scope};
use crate::codec::Value;
use crate::failure::Failure;
use crate::ids;

/// The plain members of `ctx`, as the text of a JSON object.
pub fn members(scope: &Scope) -> String {
    let mut members = json!({
        "tenantId": scope.tenant,
        "user": scope.user,
        "pluginId": scope.plugin.id,
        "action": scope.action,
        "invocationId": scope.invocation,
        "settings": scope.plugin.settings,
        "now": crate::codec::time::shown(scope.now),
    });
    if let Some(key) = &scope.key {
        members["idempotencyKey"] = json!(key);
    }
    members.to_string()
}

/// What `Math.random` is seeded from: the same for each try of one intent (spec §4).
pub fn seed(scope: &Scope) -> [u8; 32] {
    ids::digest(&[&scope.tenant, &scope.operation, scope.key.as_ref().unwrap_or(&scope.invocation)])
}

/// `ctx.stableId(scope)`
pub(super) fn stable_id(host: &Bindings, args: &[Value]) -> Result<Value, Failure> {
    stable_id_of(&host.scope, args)
}

/// The same, which needs no transaction.
///
/// # Errors
/// `CONTRACT` without a key, or for what is no name.
pub fn stable_id_of(scope: &Scope, args: &[Value]) -> Result<Value, Failure> {
    let [Value::Text(name)] = args else {
        let got = args.first().map_or("nothing", Value::kind);
        return Err(Failure::contract(format!(
            "ctx.stableId takes one string that names what the id is for, as in ctx.stableId('order'); it got {got}"
        )));
    };
    let Some(key) = &scope.key else {
        let mut failure = Failure::contract(
            "ctx.stableId needs an idempotency key to derive the id from; send Idempotency-Key, or say \
             `key: 'required'` in the action's config",
        );
        failure.status = Some(400);
        return Err(failure);
    };
    Ok(Value::Text(ids::derived(&[&scope.tenant, &scope.operation, key, name]).to_string()))
}

/// Says that the plugin's manifest lacks a permission: the plugin's fault, not its caller's.
pub(super) fn lacks(host: &Bindings, permission: &str, call: &str) -> Failure {
    Failure::contract(format!(
        "{call} needs the permission \"{permission}\"; add it to \"permissions\" in {}/plugin.json",
        host.scope.plugin.id
    ))
}
