//! What every request passes first: its id, whose page may ask, and who asks.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::{Extension, Router};
use serde_json::Value as Json;
use tower_service::Service;

use super::problem::Problem;
use super::reply::{self, EXPIRES, KEY, REPLAYED, REQUEST_ID, TENANT};
use super::watch::Watched;
use super::{Door, Shared};
use crate::auth::scope::OPERATOR;
use crate::auth::{Caller, is_tenant};
use crate::failure::{Code, Failure};
use crate::invoke::InvokeError;

/// The id of one request, in its reply and in the log.
#[derive(Clone, Debug)]
pub(super) struct RequestId(pub Arc<str>);

/// Gives the request its id, turns away whom the door does not let in, and finishes the reply's headers.
pub(super) async fn pass(shared: &Shared, paths: Router, mut request: Request) -> Response<Body> {
    let id = RequestId(request_id(request.headers(), shared));
    let watched = Watched::begin(&request, &id, &shared.app);
    request.extensions_mut().insert(watched.origin.clone());
    let asking = request.headers().get(header::ORIGIN).cloned();
    let other = asking.filter(|origin| listed(origin, &shared.app.settings.origins));
    request.extensions_mut().insert(id.clone());
    let mut response = match admit(shared, request.uri(), request.headers(), other.is_some()) {
        Err(failure) => shared.problem(failure, &id),
        Ok(()) if request.method() == Method::OPTIONS => options(request, paths).await,
        Ok(()) => ask(paths, request).await,
    };
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::try_from(id.0.as_ref()) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if !shared.app.settings.origins.is_empty() {
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
    }
    if let Some(origin) = other {
        share(headers, origin);
    }
    watched.end(response.status());
    response
}

async fn ask(mut paths: Router, request: Request) -> Response<Body> {
    let Ok(response) = paths.call(request).await;
    response
}

/// The caller's own id where it is sane (up to 128 visible ASCII characters, one header line), otherwise a new one.
fn request_id(headers: &HeaderMap, shared: &Shared) -> Arc<str> {
    let mut lines = headers.get_all(REQUEST_ID).iter();
    if let (Some(line), None) = (lines.next(), lines.next()) {
        let sane = (1..=128).contains(&line.len()) && line.as_bytes().iter().all(u8::is_ascii_graphic);
        if let (true, Ok(text)) = (sane, line.to_str()) {
            return text.into();
        }
    }
    shared.app.ids.rising(shared.app.clock.now()).to_string().into()
}

/// In `dev` there are no credentials, so what protects the host from web pages is who they are: the request must be
/// addressed to a loopback name with this port (else a foreign name was made to point here), and must come from no
/// page, a page of this host, or one that the setting `origins` lists.
fn admit(shared: &Shared, uri: &Uri, headers: &HeaderMap, listed: bool) -> Result<(), Failure> {
    let port = match shared.door {
        Door::Local | Door::Serve => return Ok(()),
        Door::Dev { port } => port,
    };
    let forbidden = |text: String| Err(Failure::new(Code::Forbidden, text));
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok()).unwrap_or_default();
    let addressed = uri.authority().map_or(host, |authority| authority.as_str());
    if hosts.next().is_some() || !is_loopback(host, port) || !is_loopback(addressed, port) {
        return forbidden(format!(
            "dev answers only to loopback names; call http://127.0.0.1:{port} or http://localhost:{port}"
        ));
    }
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let Some(origin) = origins.next() else { return Ok(()) };
    let own = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://"));
    if origins.next().is_none() && (listed || own.is_some_and(|own| own.eq_ignore_ascii_case(host))) {
        return Ok(());
    }
    forbidden(
        "a web page of another origin may not call dev; list its origin in the setting origins, \
         such as ONCEHOST_ORIGINS=http://localhost:5173"
            .to_owned(),
    )
}

/// Whether `authority` is a loopback name or address with `port` (left out: 80).
fn is_loopback(authority: &str, port: u16) -> bool {
    let (name, given) = match authority.rsplit_once(':') {
        Some((name, digits)) if !digits.ends_with(']') => (name, digits.parse().ok()),
        _ => (authority, Some(80)),
    };
    let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let loopback = match inner {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback()),
        None => {
            name.eq_ignore_ascii_case("localhost")
                || name.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4() && address.is_loopback())
        }
    };
    loopback && given == Some(port)
}

fn listed(origin: &HeaderValue, origins: &[String]) -> bool {
    origins.iter().any(|known| origin.as_bytes().eq_ignore_ascii_case(known.as_bytes()))
}

/// `OPTIONS`: which methods a path takes, and to a listed origin what its page may send.
async fn options(request: Request, paths: Router) -> Response<Body> {
    let mut response = ask(paths, request).await;
    if response.status() != StatusCode::METHOD_NOT_ALLOWED {
        return response;
    }
    let allowed = response.headers().get(header::ALLOW).and_then(|allow| allow.to_str().ok()).unwrap_or_default();
    let allowed = HeaderValue::try_from(format!("{allowed},OPTIONS"));
    response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    if let Ok(allowed) = allowed {
        response.headers_mut().insert(header::ALLOW, allowed.clone());
        response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_METHODS, allowed);
    }
    let names = [header::CONTENT_TYPE, header::AUTHORIZATION, KEY, REQUEST_ID, TENANT];
    response
        .headers_mut()
        .insert(header::ACCESS_CONTROL_ALLOW_HEADERS, joined(&names, ", last-event-id, traceparent, tracestate"));
    response.headers_mut().insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// Lets a page of a listed origin read the reply. Without this header the browser keeps it from the page, so the
/// rest of the CORS headers may stand in any reply.
fn share(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    let names = [REPLAYED, EXPIRES, header::RETRY_AFTER, REQUEST_ID];
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, joined(&names, ""));
}

fn joined(names: &[HeaderName], more: &str) -> HeaderValue {
    let names: Vec<&str> = names.iter().map(HeaderName::as_str).collect();
    HeaderValue::try_from(names.join(", ") + more).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Who calls. In `serve` that is for the credentials to say, and `X-Tenant-Id` is not looked at.
///
/// # Errors
/// `UNAUTHENTICATED`; `RATE_LIMITED`; `VALIDATION` when `X-Tenant-Id` is no tenant.
pub(super) async fn caller(shared: &Shared, headers: &HeaderMap) -> Result<Caller, Failure> {
    let caller = known(shared, headers).await?;
    if shared.door == Door::Serve {
        shared.app.auth.count(&caller.tenant)?;
    }
    Ok(caller)
}

/// The same, without counting it against a rate.
///
/// # Errors
/// As [`caller`], less `RATE_LIMITED`.
pub(super) async fn known(shared: &Shared, headers: &HeaderMap) -> Result<Caller, Failure> {
    if shared.door != Door::Serve {
        return tenant(headers).map(|tenant| Caller { tenant, user: None });
    }
    let mut lines = headers.get_all(header::AUTHORIZATION).iter();
    let first = lines.next().map(HeaderValue::as_bytes);
    if lines.next().is_some() {
        return Err(Failure::new(Code::Unauthenticated, "there are several Authorization headers; send one"));
    }
    shared.app.auth.caller(first).await
}

/// Whether the setting `public` lists this path.
pub(super) fn is_public(shared: &Shared, uri: &Uri) -> bool {
    shared.app.settings.public.iter().any(|path| path == uri.path())
}

/// Lets through what an operator asks: everybody in `dev` and over the local socket, in `serve` callers with the
/// scope `operator`, and to the paths of the setting `public` everybody.
pub(super) async fn guard(
    State(shared): State<Arc<Shared>>,
    Extension(id): Extension<RequestId>,
    request: Request,
    next: Next,
) -> Response<Body> {
    if is_public(&shared, request.uri()) || request.method() == Method::OPTIONS {
        return next.run(request).await;
    }
    match known(&shared, request.headers()).await.and_then(|caller| caller.need(OPERATOR)) {
        Ok(()) => next.run(request).await,
        Err(failure) => shared.problem(failure, &id),
    }
}

/// In `dev` and over the local socket, where nobody is a stranger: the tenant of `X-Tenant-Id`, or `dev`.
fn tenant(headers: &HeaderMap) -> Result<String, Failure> {
    let mut lines = headers.get_all(TENANT).iter();
    match (lines.next(), lines.next()) {
        (None, _) => Ok("dev".to_owned()),
        (Some(line), None) if is_tenant(line.as_bytes()) => Ok(line.to_str().unwrap_or_default().to_owned()),
        (Some(_), _) => {
            let text =
                "X-Tenant-Id is no tenant; send one line of 1 to 64 letters, digits, dots, underscores or hyphens";
            Err(Failure::new(Code::Validation, text))
        }
    }
}

impl Shared {
    /// The reply to an operator: what was done, with this status, or the error.
    pub(super) fn answer(&self, id: &RequestId, status: StatusCode, done: Result<Json, Failure>) -> Response<Body> {
        match done {
            Ok(done) => reply::json(status, &done),
            Err(failure) => self.problem(failure, id),
        }
    }

    /// The reply to an error; what the caller could not have put right is logged.
    pub(super) fn problem(&self, error: impl Into<InvokeError>, RequestId(id): &RequestId) -> Response<Body> {
        let error = error.into();
        let problem = Problem::new(&error, id, self.app.settings.dev).showing_code(&error, &self.app.registry());
        if let (500.., InvokeError::Failure(failure)) = (problem.status, &error) {
            let (code, detail) = (failure.code.name(), &failure.detail);
            let place = failure.position.as_ref().map(ToString::to_string);
            let line = problem.body["position"]["code"].as_str();
            let details = (!failure.details.is_null()).then(|| failure.details.to_string());
            if failure.code == Code::Overloaded {
                // One line a refused call would make a rush worse.
                tracing::debug!(request_id = %id, error = code, "{detail}");
            } else {
                tracing::error!(request_id = %id, error = code, position = place, line, details, "{detail}");
            }
        }
        reply::problem(&problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_with_the_port_are_ours() {
        for good in ["localhost:7070", "LocalHost:7070", "127.0.0.1:7070", "127.8.9.1:7070", "[::1]:7070"] {
            assert!(is_loopback(good, 7070), "{good}");
        }
        let bad = [
            "",
            "localhost",
            "127.0.0.1",
            "[::1]",
            "localhost:7071",
            "localhost:",
            "evil.example:7070",
            "10.0.0.1:7070",
            "localhost.evil.example:7070",
            "127.0.0.1.evil.example:7070",
            "[::2]:7070",
            "::1:7070",
            "a@localhost:7070",
            "0.0.0.0:7070",
            "localhost:070707070",
            "localhost:7070:7070",
        ];
        for bad in bad {
            assert!(!is_loopback(bad, 7070), "{bad}");
        }
        assert!(is_loopback("localhost", 80) && is_loopback("[::1]", 80));
    }

    #[test]
    fn tenant_comes_from_one_header_line_or_is_dev() {
        let mut headers = HeaderMap::new();
        assert_eq!(tenant(&headers).unwrap(), "dev");
        headers.append(TENANT, HeaderValue::from_static("acme"));
        assert_eq!(tenant(&headers).unwrap(), "acme");
        headers.append(TENANT, HeaderValue::from_static("acme"));
        assert_eq!(tenant(&headers).unwrap_err().code, Code::Validation);
    }
}
