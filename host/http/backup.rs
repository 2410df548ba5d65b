//! Taking a backup in the running host: one line of JSON for each bit of progress, and one for the outcome.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response};
use serde::Deserialize;
use serde_json::{Value as Json, json};
use tokio::sync::mpsc;

use super::door::RequestId;
use super::{Shared, body, reply};
use crate::backup::BackupError;
use crate::failure::{Code, Failure};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// An absolute path.
    to: PathBuf,
}

/// `POST /admin/backup`, over the local socket only: `{ "to": PATH }`.
pub(super) async fn take(
    State(shared): State<Arc<Shared>>,
    Extension(id): Extension<RequestId>,
    headers: HeaderMap,
    body: Body,
) -> Response<Body> {
    match begin(&shared, &headers, body).await {
        Ok(lines) => reply::lines(reply::received(lines)),
        Err(failure) => shared.problem(failure, &id),
    }
}

async fn begin(shared: &Shared, headers: &HeaderMap, body: Body) -> Result<mpsc::UnboundedReceiver<Json>, Failure> {
    body::check_type(headers)?;
    let body = body::read(headers, body, shared.app.settings.body_limit).await?;
    let wrong = |why: String| Failure::new(Code::Validation, format!("the body is not what backup takes: {why}"));
    let Wanted { to } = serde_json::from_slice(&body).map_err(|error| wrong(error.to_string()))?;
    if !to.is_absolute() {
        return Err(wrong("`to` is no absolute path".to_owned()));
    }
    let failed = |BackupError(why)| Failure::new(Code::Unavailable, why);
    let held = shared.app.hold().await.map_err(failed)?;
    let (lines, receiver) = mpsc::unbounded_channel();
    tokio::task::spawn_blocking(move || {
        let written = held.write(&to, &mut |progress| lines.send(json!({ "progress": progress })).is_ok());
        let last = match written {
            Ok(manifest) => json!({ "manifest": manifest }),
            Err(BackupError(why)) => {
                tracing::error!("a backup to {} was not taken: {why}", to.display());
                json!({ "error": why })
            }
        };
        // Whoever asked may have gone away; the backup is there all the same.
        let _ = lines.send(last);
    });
    Ok(receiver)
}
