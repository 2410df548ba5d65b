//! The HTTP cause: an invocation under a caller's key. Also the way in of `oncehost invoke`.

use std::sync::Arc;

use crate::app::App;
use crate::clock::Millis;
use crate::failure::{Code, Failure};

/// Who calls.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    pub tenant: String,
    /// `None` in `dev`.
    pub user: Option<User>,
}

/// `ctx.user`.
#[derive(Clone, Debug, Default)]
pub struct User {
    pub subject: String,
    pub scopes: Vec<String>,
    pub claims: serde_json::Value,
}

/// A call as it came in: nothing is checked yet but the credentials' form.
pub struct Request {
    pub plugin: String,
    pub action: String,
    /// The lines of the `Idempotency-Key` header, as raw bytes; empty without one.
    pub key: Vec<Vec<u8>>,
    /// The body, expected to be I-JSON.
    pub body: Vec<u8>,
}

/// What a successful call answers.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The value of `data`, as JSON text.
    pub data: Arc<str>,
    /// From the record of an earlier call: `Idempotent-Replayed: true`.
    pub replayed: bool,
    /// Until when the reply is kept, for `Idempotency-Expires`; `None` where nothing was recorded.
    pub expires: Option<Millis>,
}

/// Why a call has no reply.
#[derive(Clone, Debug)]
pub enum CallError {
    /// The handler threw a `BizError`.
    Business { name: String, message: String, status: u16, details: serde_json::Value },
    /// An error of the contract's table.
    Failure(Failure),
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> Self {
        CallError::Failure(failure)
    }
}

/// Does one call: checks it in the contract's order, replays or runs it, and gives the reply once it is on disk.
/// `authenticate` runs after the body is parsed and before the action is looked up.
///
/// # Errors
/// See [`CallError`]; nothing was committed then, unless the failure says that the outcome is unknown.
pub async fn call(
    _app: &Arc<App>,
    _request: Request,
    _authenticate: impl FnOnce() -> Result<Caller, Failure>,
) -> Result<Reply, CallError> {
    Err(Failure::new(Code::Unavailable, "placeholder").into())
}
