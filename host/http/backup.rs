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
use super::members::{self, Takes};
use super::{Shared, reply};
use crate::backup::BackupError;
use crate::failure::{Code, Failure};

#[derive(Deserialize)]
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
    let Wanted { to } = members::read(shared, headers, body, &[("to", Takes::RequiredText)]).await?;
    if !to.is_absolute() {
        return Err(Failure::field("to", "must be an absolute path"));
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
