//! `notify.publish`: an event goes to the outbox, in the invocation's transaction.

use super::{Bindings, ctx, leaving};
use crate::codec::Value;
use crate::failure::Failure;
use crate::ids;
use crate::store::outbox::{self, Event, Published};
use crate::suggest;

const FORM: &str = "notify.publish(topic, payload, { eventKey?, subject? })";

/// Bytes that a topic, a subject or an event key may have.
const NAME_LIMIT: usize = 255;

/// `notify.publish(topic, payload, options)` gives `{ eventId, already }`.
pub(super) fn publish(host: &mut Bindings, args: &[Value]) -> Result<Value, Failure> {
    if !host.scope.plugin.permissions.notify_publish {
        return Err(ctx::lacks(host, "notify:publish", "notify.publish"));
    }
    host.scope.must_write("notify.publish")?;
    if args.len() > 3 {
        return Err(Failure::contract(format!("{FORM} takes at most three arguments, it got {}", args.len())));
    }
    let topic = name(args.first(), "topic")?
        .ok_or_else(|| Failure::contract(format!("{FORM}: the topic is missing; it names the event's type")))?;
    let payload = args.get(1).unwrap_or(&Value::Undefined);
    if *payload == Value::Undefined {
        return Err(Failure::contract(format!("{FORM}: the payload is missing; pass null if there is nothing to say")));
    }
    let payload = leaving::text(payload, "payload", host.payload_limit)?;
    let (event_key, subject) = options(args.get(2))?;

    let scope = &host.scope;
    let nth = host.published.entry(topic.clone()).or_default();
    *nth += 1;
    let plugin = scope.plugin.id.as_str();
    let event_id = match (&event_key, &scope.key) {
        (Some(given), _) => ids::derived(&["event", &scope.tenant, plugin, "given", given]),
        (None, Some(key)) => {
            let (nth, intent) = (nth.to_string(), host.intent.map(|intent| intent.to_string()));
            let mut parts = vec!["event", &scope.tenant, plugin, "derived", &scope.operation, key, &topic, &nth];
            // The event of a later intent under the same key is another event, whether the first is still kept or not.
            parts.extend(intent.as_deref());
            ids::derived(&parts)
        }
        (None, None) => scope.ids.rising(scope.now),
    }
    .to_string();
    let event_key = event_key.unwrap_or_else(|| event_id.clone());
    let event = Event { event_id, tenant: scope.tenant.clone(), topic, subject, event_key, payload };
    let already = match outbox::publish(&host.tx, &event, scope.now)? {
        Published::Now => false,
        Published::Already => true,
        Published::Other => {
            return Err(Failure::contract(format!(
                "{FORM}: the eventKey \"{}\" was published before with another topic, subject or payload; use a key \
                 that is made from what the event says",
                event.event_key
            )));
        }
    };
    Ok(Value::Object(vec![
        ("eventId".to_owned(), Value::Text(event.event_id)),
        ("already".to_owned(), Value::Bool(already)),
    ]))
}

fn options(options: Option<&Value>) -> Result<(Option<String>, Option<String>), Failure> {
    match options {
        None | Some(Value::Undefined) => Ok((None, None)),
        Some(Value::Object(members)) => {
            if let Some((other, _)) = members.iter().find(|(name, _)| name != "eventKey" && name != "subject") {
                let hint = suggest::hint(other, ["eventKey", "subject"]);
                return Err(Failure::contract(format!(
                    "{FORM}: there is no option \"{other}\"{hint}; the options are eventKey and subject"
                )));
            }
            let of = |name: &str| members.iter().find(|(member, _)| member == name).map(|(_, value)| value);
            Ok((name(of("eventKey"), "eventKey")?, name(of("subject"), "subject")?))
        }
        Some(other) => {
            Err(Failure::contract(format!("{FORM}: the options must be an object, they are {}", other.kind())))
        }
    }
}

fn name(value: Option<&Value>, what: &str) -> Result<Option<String>, Failure> {
    match value {
        None | Some(Value::Undefined) => Ok(None),
        Some(Value::Text(text)) if text.is_empty() || text.len() > NAME_LIMIT || text.chars().any(char::is_control) => {
            Err(Failure::contract(format!(
                "{FORM}: {what} must have 1 to {NAME_LIMIT} bytes and no control characters; it has {}",
                text.len()
            )))
        }
        Some(Value::Text(text)) => Ok(Some(text.clone())),
        Some(other) => Err(Failure::contract(format!("{FORM}: {what} must be a string, it is {}", other.kind()))),
    }
}
