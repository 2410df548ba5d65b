//! Errors as RFC 9457 problems, the same over HTTP and from the command line.

use serde_json::{Map, Value as Json, json};

use crate::failure::{Code, Failure};
use crate::invoke::InvokeError;
use crate::plugin::Registry;

/// The number of a handler's own refusal (spec §5).
const BUSINESS: u16 = 1000;

/// The contract's table: number, HTTP status and title of each error.
fn entry(code: Code) -> (u16, u16, &'static str) {
    match code {
        Code::Validation => (4000, 400, "The input is not valid"),
        Code::KeyRequired => (4001, 400, "An idempotency key is required"),
        Code::KeyInvalid => (4002, 400, "The idempotency key is malformed"),
        Code::Unauthenticated => (4010, 401, "Credentials are missing or not valid"),
        Code::Forbidden => (4030, 403, "This is not allowed"),
        Code::NotFound => (4040, 404, "There is nothing here"),
        Code::Method => (4050, 405, "The method does not fit this path"),
        Code::MediaType => (4150, 415, "The body is not JSON"),
        Code::KeyInProgress => (4090, 409, "The first call with this key still runs"),
        Code::Duplicate => (4091, 409, "Such a record is there already"),
        Code::Constraint => (4092, 409, "A rule of what is stored forbids this"),
        Code::KeyExpired => (4100, 410, "Done before; the reply is no longer kept"),
        Code::TooLarge => (4130, 413, "The request is too large"),
        Code::KeyReused => (4220, 422, "The key was used with another input"),
        Code::RateLimited => (4290, 429, "Too many requests"),
        Code::Contract => (5000, 500, "The plugin broke the contract"),
        Code::Script => (5001, 500, "The handler failed"),
        Code::Limit => (5002, 500, "The handler went over a limit"),
        Code::Schema => (5003, 500, "The database lacks something"),
        Code::Overloaded => (5030, 503, "Too much to do"),
        Code::Unavailable => (5031, 503, "Not available now"),
    }
}

/// The few words that are the same for every such error.
pub(super) fn title(code: Code) -> &'static str {
    entry(code).2
}

/// An error ready to be sent.
#[derive(Debug)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// Seconds for `Retry-After`.
    pub retry_after: Option<u32>,
    /// The members of the problem document.
    pub body: Json,
}

impl Problem {
    /// Renders an error. `explain` (in `dev`) adds what went wrong inside a script and where; otherwise only the log
    /// has that, under `request_id`.
    pub fn new(error: &InvokeError, request_id: &str, explain: bool) -> Self {
        match error {
            InvokeError::Business { name, message, status, details } => {
                let status = if (400..=499).contains(status) { *status } else { 400 };
                let mut body = document("business", "The plugin refused", status, message, BUSINESS, name);
                body.insert("retryable".to_owned(), json!(false));
                body.insert("requestId".to_owned(), json!(request_id));
                add_details(&mut body, details);
                Self { status, retry_after: None, body: Json::Object(body) }
            }
            InvokeError::Discard { .. } => {
                let failure = Failure::contract(
                    "an action threw Discard, which is for event handlers; to refuse a call, throw new BizError(name, text)",
                );
                Self::of_failure(&failure, request_id, explain)
            }
            InvokeError::Failure(failure) => Self::of_failure(failure, request_id, explain),
        }
    }

    /// The same with the line of TypeScript that the error comes from, where its position is shown.
    #[must_use]
    pub fn showing_code(mut self, error: &InvokeError, registry: &Registry) -> Self {
        if let InvokeError::Failure(Failure { position: Some(position), .. }) = error
            && let Some(shown) = self.body.get_mut("position")
            && let Some(line) = registry.plugins.values().find_map(|plugin| plugin.code.source_line(position))
        {
            shown["code"] = json!(line.trim());
        }
        self
    }

    fn of_failure(failure: &Failure, request_id: &str, explain: bool) -> Self {
        let (number, status, title) = entry(failure.code);
        let status = failure.status.unwrap_or(status);
        let hidden = failure.code == Code::Script && !explain;
        let position = failure.position.as_ref().filter(|_| explain);
        let detail = match position {
            _ if hidden => {
                format!("the handler threw an error; the host's log has it under the request id {request_id}")
            }
            Some(place) if !failure.detail.contains(&place.to_string()) => format!("{} ({place})", failure.detail),
            _ => failure.detail.clone(),
        };
        let name = failure.code.name();
        let mut body = document(name, title, status, &detail, number, name);
        body.insert("retryable".to_owned(), json!(failure.code.retryable()));
        body.insert("requestId".to_owned(), json!(request_id));
        if !failure.fields.is_empty() {
            let fields = failure.fields.iter();
            let fields: Vec<Json> = fields.map(|f| json!({ "pointer": f.pointer, "message": f.message })).collect();
            body.insert("fields".to_owned(), Json::Array(fields));
        }
        if !hidden {
            add_details(&mut body, &failure.details);
        }
        if let Some(place) = position {
            let place = json!({ "file": place.file, "line": place.line, "column": place.column });
            body.insert("position".to_owned(), place);
        }
        Self { status, retry_after: failure.retry_after, body: Json::Object(body) }
    }
}

fn document(kind: &str, title: &str, status: u16, detail: &str, code: u16, error: &str) -> Map<String, Json> {
    let mut body = Map::new();
    body.insert("type".to_owned(), json!(format!("urn:oncehost:error:{kind}")));
    body.insert("title".to_owned(), json!(title));
    body.insert("status".to_owned(), json!(status));
    body.insert("detail".to_owned(), json!(detail));
    body.insert("code".to_owned(), json!(code));
    body.insert("error".to_owned(), json!(error));
    body
}

fn add_details(body: &mut Map<String, Json>, details: &Json) {
    if !details.is_null() {
        body.insert("details".to_owned(), details.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{FieldFault, Position};

    fn thrown() -> InvokeError {
        let position = Some(Position { file: "orders/handlers/pay.ts".to_owned(), line: 7, column: 3 });
        let failure = Failure { position, ..Failure::new(Code::Script, "TypeError: x is undefined") };
        failure.with_details(json!({ "stack": "…" })).into()
    }

    #[test]
    fn every_error_has_the_number_and_status_of_the_contract() {
        let want = [
            (4000, 400),
            (4001, 400),
            (4002, 400),
            (4010, 401),
            (4030, 403),
            (4040, 404),
            (4050, 405),
            (4150, 415),
            (4090, 409),
            (4091, 409),
            (4092, 409),
            (4100, 410),
            (4130, 413),
            (4220, 422),
            (4290, 429),
            (5000, 500),
            (5001, 500),
            (5002, 500),
            (5003, 500),
            (5030, 503),
            (5031, 503),
        ];
        let got = Code::ALL.map(|code| (entry(code).0, entry(code).1));
        assert_eq!(got, want);
    }

    #[test]
    fn failure_has_every_member_of_the_contract() {
        let mut failure = Failure::new(Code::Validation, "two fields are wrong");
        failure.fields = vec![FieldFault { pointer: "/a".to_owned(), message: "must be a string".to_owned() }];
        let problem = Problem::new(&failure.into(), "r1", false);
        assert_eq!(problem.status, 400);
        let want = json!({
            "type": "urn:oncehost:error:VALIDATION", "title": "The input is not valid", "status": 400,
            "detail": "two fields are wrong", "code": 4000, "error": "VALIDATION", "retryable": false,
            "requestId": "r1", "fields": [{ "pointer": "/a", "message": "must be a string" }],
        });
        assert_eq!(problem.body, want);
    }

    #[test]
    fn what_a_script_threw_is_told_in_dev_only() {
        let told = Problem::new(&thrown(), "r1", true).body;
        assert_eq!(told["detail"], "TypeError: x is undefined (orders/handlers/pay.ts:7:3)");
        assert_eq!(told["position"], json!({ "file": "orders/handlers/pay.ts", "line": 7, "column": 3 }));
        let kept = Problem::new(&thrown(), "r1", false).body;
        assert!(!kept.to_string().contains("undefined"), "{kept}");
        assert!(!kept.to_string().contains("pay.ts"), "{kept}");
        assert!(!kept.to_string().contains('…'), "{kept}");
        assert!(kept["detail"].as_str().unwrap().contains("r1"));
    }

    #[test]
    fn business_refusal_keeps_its_name_status_and_details_under_code_1000() {
        let refusal = |status| InvokeError::Business {
            name: "REGION_CLOSED".to_owned(),
            message: "closed".to_owned(),
            status,
            details: json!({ "region": 3 }),
        };
        let problem = Problem::new(&refusal(409), "r1", false);
        assert_eq!((problem.status, &problem.body["status"]), (409, &json!(409)));
        assert_eq!(problem.body["code"], 1000);
        assert_eq!(problem.body["error"], "REGION_CLOSED");
        assert_eq!(problem.body["detail"], "closed");
        assert_eq!(problem.body["details"], json!({ "region": 3 }));
        assert_eq!(Problem::new(&refusal(200), "r1", false).status, 400);
    }

    #[test]
    fn retryable_failures_say_when_to_come_back() {
        assert_eq!(Problem::new(&Failure::new(Code::Overloaded, "full").into(), "r", false).retry_after, Some(1));
        assert_eq!(Problem::new(&Failure::new(Code::KeyReused, "other").into(), "r", false).retry_after, None);
    }

    #[test]
    fn failure_may_carry_a_status_of_its_own() {
        let failure = Failure { status: Some(400), ..Failure::contract("send Idempotency-Key") };
        let problem = Problem::new(&failure.into(), "r", false);
        assert_eq!((problem.status, &problem.body["status"], &problem.body["code"]), (400, &json!(400), &json!(5000)));
    }

    #[test]
    fn discard_in_an_action_breaks_the_contract() {
        let problem = Problem::new(&InvokeError::Discard { why: "old".to_owned() }, "r", false);
        assert_eq!((problem.status, &problem.body["error"]), (500, &json!("CONTRACT")));
        assert!(problem.body["detail"].as_str().unwrap().contains("BizError"));
    }
}
