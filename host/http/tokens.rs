//! `/admin/tokens`, and the same for the commands.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::Shared;
use super::door::RequestId;
use super::members::{self, Takes};
use crate::app::blocking;
use crate::auth::token::{NewToken, Tokens, status};
use crate::clock::{Clock, Millis};
use crate::codec::time::shown;
use crate::config::duration;
use crate::failure::{Code, Failure};
use crate::ids::Ids;
use crate::store::host_db::TokenRow;

/// What `token create` asks for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TokenRequest {
    pub tenant: String,
    pub subject: String,
    pub scopes: Vec<String>,
    /// A length of time such as `90d`; `None`: until it is revoked.
    #[serde(default)]
    pub expires: Option<String>,
}

const TAKES: [(&str, Takes); 4] = [
    ("tenant", Takes::RequiredText),
    ("subject", Takes::RequiredText),
    ("scopes", Takes::RequiredTexts),
    ("expires", Takes::Text),
];

/// Makes a token; only this answer has its secret.
///
/// # Errors
/// `VALIDATION`; when the database fails.
pub fn make(tokens: &Tokens, request: TokenRequest, clock: &dyn Clock, ids: &dyn Ids) -> Result<Json, Failure> {
    let TokenRequest { tenant, subject, scopes, expires } = request;
    let wrong = |why: String| Failure::new(Code::Validation, format!("expires: {why}"));
    let expires: Option<Duration> = expires.as_deref().map(duration).transpose().map_err(wrong)?;
    let (secret, row) = tokens.create(NewToken { tenant, subject, scopes, expires }, clock, ids)?;
    let mut made = json!({ "token": secret });
    if let (Json::Object(made), Json::Object(row)) = (&mut made, show(&row, clock.now())) {
        made.extend(row);
    }
    Ok(made)
}

/// All tokens, without their secrets.
///
/// # Errors
/// When the database fails.
pub fn all(tokens: &Tokens, now: Millis) -> Result<Json, Failure> {
    Ok(json!({ "tokens": tokens.list()?.iter().map(|row| show(row, now)).collect::<Vec<_>>() }))
}

/// Ends a token.
///
/// # Errors
/// `NOT_FOUND`; when the database fails.
pub fn end(tokens: &Tokens, id: &str, clock: &dyn Clock) -> Result<Json, Failure> {
    tokens.revoke(id, clock).map(|row| show(&row, clock.now()))
}

fn show(row: &TokenRow, now: Millis) -> Json {
    json!({
        "id": row.id,
        "tail": row.tail,
        "tenant": row.tenant,
        "subject": row.subject,
        "scopes": row.scopes,
        "status": status(row, now),
        "created": shown(row.created_at),
        "expires": row.expires_at.map(shown),
        "revoked": row.revoked_at.map(shown),
    })
}

/// Does what waits for the disk on a thread that may wait.
async fn on_a_thread(
    shared: Arc<Shared>,
    work: impl FnOnce(&Shared) -> Result<Json, Failure> + Send + 'static,
) -> Result<Json, Failure> {
    blocking("work on tokens", move || work(&shared)).await?
}

pub(super) async fn list(State(shared): State<Arc<Shared>>, Extension(id): Extension<RequestId>) -> Response<Body> {
    let listed = on_a_thread(shared.clone(), |shared| all(&shared.app.auth.tokens, shared.app.clock.now())).await;
    shared.answer(&id, StatusCode::OK, listed)
}

pub(super) async fn create(
    State(shared): State<Arc<Shared>>,
    Extension(id): Extension<RequestId>,
    headers: HeaderMap,
    body: Body,
) -> Response<Body> {
    let made = async {
        let request = members::read(&shared, &headers, body, &TAKES).await?;
        on_a_thread(shared.clone(), |shared| {
            let app = &shared.app;
            make(&app.auth.tokens, request, app.clock.as_ref(), app.ids.as_ref())
        })
        .await
    };
    let made = made.await;
    shared.answer(&id, StatusCode::CREATED, made)
}

pub(super) async fn revoke(
    State(shared): State<Arc<Shared>>,
    Extension(id): Extension<RequestId>,
    Path(token): Path<String>,
) -> Response<Body> {
    let ended =
        on_a_thread(shared.clone(), move |shared| end(&shared.app.auth.tokens, &token, shared.app.clock.as_ref()));
    let ended = ended.await;
    shared.answer(&id, StatusCode::OK, ended)
}
