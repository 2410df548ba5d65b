//! `ctx`: who calls, what runs, and the ids derived from that.

use serde_json::Value as Json;

use super::{Bindings, Scope};
use crate::codec::{Value, time};
use crate::failure::Failure;
use crate::ids;
use crate::script::Facts;

/// The parts of `ctx` that are written for a run.
pub struct Written {
    now: String,
    user: Option<String>,
    settings: Option<String>,
}

impl Written {
    /// For a run in this scope.
    pub fn new(scope: &Scope) -> Self {
        let settings = &scope.plugin.settings;
        let none = settings.as_object().is_none_or(serde_json::Map::is_empty);
        Self {
            now: time::shown(scope.now),
            user: (scope.user != Json::Null).then(|| scope.user.to_string()),
            settings: (!none).then(|| settings.to_string()),
        }
    }

    /// The plain members of `ctx`.
    pub fn facts<'a>(&'a self, scope: &'a Scope) -> Facts<'a> {
        Facts {
            tenant: &scope.tenant,
            plugin: &scope.plugin.id,
            action: &scope.action,
            invocation: &scope.invocation,
            now: &self.now,
            key: scope.key.as_deref(),
            user: self.user.as_deref(),
            settings: self.settings.as_deref(),
        }
    }
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
