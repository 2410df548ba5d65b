//! Scopes: what credentials may do.

use crate::suggest;

/// Everything under `/admin`, of all tenants.
pub const OPERATOR: &str = "operator";
/// Sending events to `POST /events`.
pub const EVENTS_WRITE: &str = "events:write";

/// Whether one of `granted` covers `needed`: the same text, or `invoke:*` and `notifications:*` for all of a kind.
pub fn covers(granted: &[String], needed: &str) -> bool {
    granted.iter().any(|scope| {
        scope == needed
            || scope.strip_suffix('*').is_some_and(|kind| {
                kind.ends_with(':') && needed.strip_prefix(kind).is_some_and(|rest| !rest.is_empty())
            })
    })
}

/// Checks a scope that a token is to have.
///
/// # Errors
/// What is wrong, with the right form.
pub fn check(scope: &str) -> Result<(), String> {
    let wrong = |why: String| {
        Err(format!(
            "{scope:?} {why}; the scopes are invoke:PLUGIN, invoke:* (all plugins), events:write, notifications:TOPIC, \
             notifications:* (all topics) and operator (everything under /admin)"
        ))
    };
    if scope.bytes().any(|byte| byte.is_ascii_whitespace() || byte.is_ascii_control()) {
        return wrong("has a space or control character in it".to_owned());
    }
    match scope.split_once(':') {
        Some(("invoke", "*")) => Ok(()),
        Some(("invoke", plugin)) if is_plugin_id(plugin) => Ok(()),
        Some(("invoke", _)) => wrong("names no plugin: an id is a-z, then up to 39 of a-z, 0-9 and -".to_owned()),
        Some(("events", "write")) => Ok(()),
        Some(("notifications", topic)) if !topic.is_empty() && topic.len() <= 255 => Ok(()),
        _ if scope == OPERATOR => Ok(()),
        _ => wrong("is no scope".to_owned() + &near(scope)),
    }
}

fn is_plugin_id(text: &str) -> bool {
    let rest = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=40).contains(&text.len()) && text.as_bytes()[0].is_ascii_lowercase() && text.bytes().all(rest)
}

fn near(scope: &str) -> String {
    let (kind, rest) = scope.split_once(':').map_or((scope, ""), |(kind, rest)| (kind, rest));
    match suggest::nearest(kind, ["invoke", "events", "notifications", OPERATOR]) {
        None => String::new(),
        Some(OPERATOR) => format!(", did you mean {OPERATOR}?"),
        Some("events") => ", did you mean events:write?".to_owned(),
        Some(name) if !rest.is_empty() => format!(", did you mean {name}:{rest}?"),
        Some(name) => format!(", did you mean {name}:{}?", if name == "invoke" { "PLUGIN" } else { "TOPIC" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(scopes: &[&str]) -> Vec<String> {
        scopes.iter().map(|scope| (*scope).to_owned()).collect()
    }

    #[test]
    fn scope_covers_itself_and_a_star_covers_its_kind_only() {
        let orders = granted(&["invoke:orders"]);
        assert!(covers(&orders, "invoke:orders"));
        assert!(!covers(&orders, "invoke:orders2") && !covers(&orders, "invoke:order") && !covers(&orders, OPERATOR));
        let all = granted(&["invoke:*"]);
        assert!(covers(&all, "invoke:orders") && !covers(&all, "events:write") && !covers(&all, OPERATOR));
        assert!(!covers(&all, "invoke:"));
        for nothing in ["*", "", "inv*", "operator*"] {
            assert!(!covers(&granted(&[nothing]), "invoke:orders") && !covers(&granted(&[nothing]), OPERATOR));
        }
        assert!(!covers(&[], OPERATOR));
    }

    #[test]
    fn scopes_of_the_contract_are_taken() {
        for good in
            ["invoke:lane-change", "invoke:*", "events:write", "notifications:item.added", "notifications:*", OPERATOR]
        {
            assert_eq!(check(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn other_scopes_are_refused_with_the_near_one() {
        for bad in ["", "invoke", "invoke:", "invoke:Orders", "events:read", "notifications:", "operator:x", "a b"] {
            assert!(check(bad).unwrap_err().contains("the scopes are invoke:PLUGIN"), "{bad}");
        }
        assert!(check("invok:orders").unwrap_err().contains("did you mean invoke:orders?"));
        assert!(check("operater").unwrap_err().contains("did you mean operator?"));
        assert!(check("event:write").unwrap_err().contains("did you mean events:write?"));
    }
}
