//! `fetch` of scripts: only hosts that the plugin's permissions name, each redirect checked again, and the addresses
//! that were checked are the ones that are connected to.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use url::{Host, Url};

use crate::codec::Value;
use crate::failure::{Code, Failure};

/// Redirects that are followed.
const MOST_REDIRECTS: usize = 10;
/// Bytes of a response's body.
const MOST_BODY: usize = 8 << 20;
/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(10);
/// Headers that say how a message travels; the host writes those.
const TRAVEL: [&str; 11] = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "upgrade",
    "te",
    "trailer",
    "keep-alive",
    "expect",
    "proxy-authorization",
    "proxy-connection",
];

/// A request as the script asked for it.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    url: Url,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
    redirect: Redirect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Redirect {
    Follow,
    Manual,
    Refuse,
}

impl Wanted {
    /// Reads the arguments: url, method, pairs of headers, `[body, redirect]`.
    ///
    /// # Errors
    /// `CONTRACT` for what is no request.
    pub fn read(args: &[Value]) -> Result<Self, Failure> {
        let wrong = |what: String| Failure::contract(format!("fetch: {what}"));
        let [Value::Text(url), Value::Text(method), Value::Array(pairs), Value::Array(rest)] = args else {
            return Err(wrong("takes a URL and an object, fetch(url, { method, headers, body })".to_owned()));
        };
        let url = Url::parse(url).map_err(|error| wrong(format!("{url:?} is no URL: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong(format!("only http and https are spoken here, not {}", url.scheme())));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("credentials do not belong into a URL: send a header `authorization`".to_owned()));
        }
        let upper = method.to_ascii_uppercase();
        let method = match Method::from_bytes(upper.as_bytes()) {
            Ok(method) if !matches!(upper.as_str(), "CONNECT" | "TRACE" | "TRACK") => method,
            Ok(_) | Err(_) => return Err(wrong(format!("{method:?} is no method that can be used here"))),
        };
        let mut headers = HeaderMap::new();
        for pair in pairs {
            let Value::Array(pair) = pair else { continue };
            let [Value::Text(name), Value::Text(value)] = pair.as_slice() else { continue };
            let parsed = HeaderName::from_bytes(name.as_bytes()).ok();
            let name = parsed.ok_or_else(|| wrong(format!("{name:?} is no name of a header")))?;
            if TRAVEL.contains(&name.as_str()) {
                return Err(wrong(format!("the header {name} is the host's own; leave it out")));
            }
            let value = HeaderValue::from_bytes(value.as_bytes())
                .map_err(|_| wrong(format!("the value of the header {name} holds what no header can")))?;
            headers.append(name, value);
        }
        let given = rest.first().unwrap_or(&Value::Undefined);
        let body = if let Value::Text(text) = given {
            let plain = HeaderValue::from_static("text/plain;charset=UTF-8");
            headers.entry(header::CONTENT_TYPE).or_insert(plain);
            Some(Bytes::from(text.clone()))
        } else if let Value::Blob(bytes) = given {
            Some(Bytes::from(bytes.clone()))
        } else if matches!(given, Value::Undefined | Value::Null) {
            None
        } else {
            return Err(wrong(format!(
                "body is a string or a Uint8Array, it is {}; for JSON write JSON.stringify(value)",
                given.kind()
            )));
        };
        if body.is_some() && matches!(method, Method::GET | Method::HEAD) {
            return Err(wrong(format!("{method} takes no body")));
        }
        let redirect = match rest.get(1).and_then(Value::as_text) {
            Some("follow") => Redirect::Follow,
            Some("manual") => Redirect::Manual,
            Some("error") => Redirect::Refuse,
            _ => return Err(wrong("redirect is 'follow', 'manual' or 'error'".to_owned())),
        };
        let agent = HeaderValue::from_static(concat!("oncehost/", env!("CARGO_PKG_VERSION")));
        headers.entry(header::USER_AGENT).or_insert(agent);
        Ok(Self { url, method, headers, body: body.unwrap_or_default(), redirect })
    }
}

/// The hosts that a plugin may reach, as its permissions name them.
#[derive(Clone, Debug)]
pub(super) struct Named(Arc<[String]>);

impl Named {
    pub fn new(permissions: &[String]) -> Self {
        Self(permissions.into())
    }

    /// Refuses a URL whose host and port no permission names.
    fn check(&self, url: &Url) -> Result<(), Failure> {
        let (host, port) = (url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or(0));
        let with_port = format!("{host}:{port}");
        if self.0.iter().any(|named| named == host || *named == with_port) {
            return Ok(());
        }
        let text = format!(
            "fetch of {host}:{port} needs the permission \"http:{host}\" or \"http:{with_port}\" in plugin.json"
        );
        Err(Failure::new(Code::Forbidden, text))
    }

    fn names(&self, address: IpAddr) -> bool {
        let text = match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        self.0.iter().any(|named| *named == text || named.strip_prefix(&text).is_some_and(|rest| rest.starts_with(':')))
    }

    /// Whether a name may stand for this address: a public one; a private one only of a name that no stranger can own,
    /// or where the address is named too. Otherwise whoever owns a public name could send requests into the house.
    fn lets(&self, name: &str, address: IpAddr) -> bool {
        if is_public(address) || self.names(address) {
            return true;
        }
        let last = name.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
        let house = !name.contains('.') || ["localhost", "local", "internal", "lan", "test", "arpa"].contains(&last);
        house && is_of_the_house(address)
    }
}

/// Whether an address is one that anybody on the internet can have.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(ip) => {
            let [a, b, c, _] = ip.octets();
            !(ip.is_private()
                || ip.is_loopback()
                || ip.is_link_local()
                || ip.is_broadcast()
                || ip.is_documentation()
                || ip.is_multicast()
                || a == 0
                || a >= 240
                || (a == 100 && (64..128).contains(&b))
                || (a == 192 && b == 0 && c == 0)
                || (a == 198 && (18..20).contains(&b)))
        }
        IpAddr::V6(ip) => match embedded(ip) {
            Some(inner) => is_public(inner),
            None => {
                // 2000::/3 less documentation and the ways to IPv4 that `embedded` does not know.
                let first = ip.segments()[0];
                (first & 0xe000) == 0x2000 && !(first == 0x2001 && matches!(ip.segments()[1], 0x0db8 | 0x0000))
            }
        },
    }
}

/// The IPv4 address that an IPv6 one stands for: mapped, compatible, NAT64, 6to4.
fn embedded(ip: Ipv6Addr) -> Option<IpAddr> {
    let s = ip.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(IpAddr::from([a, b, c, d]))
    };
    match s {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => v4(high, low),
        [0x2002, high, low, ..] => v4(high, low),
        _ => None,
    }
}

/// Private and loopback: what a name of the house may stand for. Link-local ones are where clouds keep credentials.
fn is_of_the_house(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(ip) => ip.is_private() || ip.is_loopback(),
        IpAddr::V6(ip) => ip.is_loopback() || (ip.segments()[0] & 0xfe00) == 0xfc00,
    }
}

/// Resolves names to addresses that a plugin may reach.
#[derive(Clone)]
pub(super) struct Resolver(Named);

impl tower_service::Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let named = self.0.clone();
        Box::pin(async move {
            let name = name.as_str();
            let all: Vec<SocketAddr> = tokio::net::lookup_host((name, 0)).await?.collect();
            let (open, closed): (Vec<_>, Vec<_>) = all.into_iter().partition(|it| named.lets(name, it.ip()));
            match closed.first() {
                Some(closed) if open.is_empty() => Err(io::Error::other(format!(
                    "{name} is at {0}, which is no public address; where that is meant, add the permission \"http:{0}\"",
                    closed.ip()
                ))),
                Some(_) | None => Ok(open.into_iter()),
            }
        })
    }
}

/// A client for one plugin; connections are its own.
#[derive(Clone)]
pub(super) struct Fetcher {
    named: Named,
    client: Client<HttpsConnector<HttpConnector<Resolver>>, Full<Bytes>>,
}

impl Fetcher {
    /// A client that reaches what `named` names.
    ///
    /// # Errors
    /// When the machine's list of certificate authorities cannot be read.
    pub fn new(named: Named) -> Result<Self, Failure> {
        let mut http = HttpConnector::new_with_resolver(Resolver(named.clone()));
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(CONNECT));
        let no_roots = |error| Failure::new(Code::Unavailable, format!("fetch cannot speak TLS: {error}"));
        let https = hyper_rustls::HttpsConnectorBuilder::new()
            .try_with_platform_verifier()
            .map_err(no_roots)?
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(15))
            .build(https);
        Ok(Self { named, client })
    }

    /// Does a request, with its redirects. Gives `[status, url, pairs of headers, bytes]`.
    ///
    /// # Errors
    /// `FORBIDDEN` where it leads to a place that no permission names, `LIMIT` for a body over the limit, `UNAVAILABLE`
    /// where no response came.
    pub async fn fetch(&self, mut wanted: Wanted) -> Result<Value, Failure> {
        for _ in 0..=MOST_REDIRECTS {
            self.named.check(&wanted.url)?;
            if let Some(ip) = literal(&wanted.url)
                && !is_public(ip)
                && !self.named.names(ip)
            {
                let text = format!("fetch of {ip}: no permission names this address");
                return Err(Failure::new(Code::Forbidden, text));
            }
            let response = self.send(&wanted).await?;
            let (head, body) = response.into_parts();
            let location = head.headers.get(header::LOCATION).filter(|_| head.status.is_redirection());
            match (location, wanted.redirect) {
                (Some(location), Redirect::Follow) => {
                    wanted = redirected(wanted, head.status, location)?;
                    continue;
                }
                (Some(_), Redirect::Refuse) => {
                    let text = format!("{} answered with a redirect, and redirect is 'error'", wanted.url);
                    return Err(Failure::new(Code::Unavailable, text));
                }
                (Some(_) | None, _) => {}
            }
            let bytes = Limited::new(body, MOST_BODY).collect().await.map_err(|error| cut_off(&wanted.url, &*error))?;
            let pairs = head.headers.iter().map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                Value::Array(vec![Value::Text(name.as_str().to_owned()), Value::Text(value)])
            });
            return Ok(Value::Array(vec![
                Value::Int(i64::from(head.status.as_u16())),
                Value::Text(wanted.url.to_string()),
                Value::Array(pairs.collect()),
                Value::Blob(bytes.to_bytes().to_vec()),
            ]));
        }
        let text = format!("more than {MOST_REDIRECTS} redirects, the last one to {}", wanted.url);
        Err(Failure::new(Code::Unavailable, text))
    }

    async fn send(&self, wanted: &Wanted) -> Result<hyper::Response<hyper::body::Incoming>, Failure> {
        let mut request = Request::builder().method(wanted.method.clone()).uri(wanted.url.as_str());
        if let Some(headers) = request.headers_mut() {
            headers.clone_from(&wanted.headers);
        }
        let request = request
            .body(Full::new(wanted.body.clone()))
            .map_err(|error| Failure::contract(format!("fetch: {} cannot be requested: {error}", wanted.url)))?;
        self.client.request(request).await.map_err(|error| {
            Failure::new(Code::Unavailable, format!("no answer from {}: {}", place(&wanted.url), whole(&error)))
        })
    }
}

/// The address in a URL that has one instead of a name.
fn literal(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(ip) => Some(ip.into()),
        Host::Ipv6(ip) => Some(ip.into()),
        Host::Domain(_) => None,
    }
}

/// The next request of a redirect (RFC 9110, section 15.4, as the web's fetch does it).
fn redirected(from: Wanted, status: StatusCode, location: &HeaderValue) -> Result<Wanted, Failure> {
    let wrong = || Failure::new(Code::Unavailable, format!("{} redirects to what is no address", from.url));
    let text = std::str::from_utf8(location.as_bytes()).map_err(|_| wrong())?;
    let url = from.url.join(text).map_err(|_| wrong())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong());
    }
    let mut next = Wanted { url, ..from.clone() };
    let becomes_get = match status {
        StatusCode::SEE_OTHER => next.method != Method::HEAD,
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => next.method == Method::POST,
        _ => false,
    };
    if becomes_get {
        next.method = Method::GET;
        next.body = Bytes::new();
        next.headers.remove(header::CONTENT_TYPE);
    }
    if next.url.origin() != from.url.origin() {
        // What is meant for one place is no other's business.
        next.headers.remove(header::AUTHORIZATION);
        next.headers.remove(header::COOKIE);
    }
    Ok(next)
}

fn place(url: &Url) -> String {
    format!("{}:{}", url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or(0))
}

fn cut_off(url: &Url, error: &(dyn std::error::Error + 'static)) -> Failure {
    if error.is::<http_body_util::LengthLimitError>() {
        let text = format!("the answer of {} has more than {} MiB", place(url), MOST_BODY >> 20);
        return Failure::new(Code::Limit, text);
    }
    Failure::new(Code::Unavailable, format!("the answer of {} broke off: {}", place(url), whole(error)))
}

/// An error with what caused it.
fn whole(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(list: &[&str]) -> Named {
        Named::new(&list.iter().map(|&host| host.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn hosts_and_ports_are_those_that_are_named() {
        let named = named(&["api.example.com", "127.0.0.1:9099", "[::1]"]);
        let allowed = |url: &str| named.check(&Url::parse(url).unwrap()).is_ok();
        assert!(allowed("https://api.example.com/x") && allowed("http://api.example.com:8080/"));
        assert!(allowed("http://127.0.0.1:9099/") && allowed("http://2130706433:9099/") && allowed("http://[::1]:7/"));
        assert!(
            !allowed("http://127.0.0.1/") && !allowed("http://127.0.0.1:90990/x".replace("90990", "9098").as_str())
        );
        assert!(!allowed("https://example.com/") && !allowed("https://api.example.com.evil.org/"));
    }

    #[test]
    fn addresses_that_are_not_public_are_known_in_all_their_forms() {
        for text in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "2002:7f00:1::",
            "2001:db8::1",
            "ff02::1",
        ] {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
        for text in ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1"] {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn public_name_cannot_stand_for_an_address_of_the_house() {
        let only = named(&["api.example.com", "localhost", "payments.internal"]);
        let ip = |text: &str| text.parse().unwrap();
        assert!(only.lets("api.example.com", ip("93.184.216.34")));
        assert!(!only.lets("api.example.com", ip("127.0.0.1")) && !only.lets("api.example.com", ip("10.0.0.1")));
        assert!(only.lets("localhost", ip("127.0.0.1")) && only.lets("payments.internal", ip("10.0.0.1")));
        assert!(!only.lets("payments.internal", ip("169.254.169.254")));
        assert!(named(&["api.example.com", "10.0.0.1:443"]).lets("api.example.com", ip("10.0.0.1")));
    }

    #[test]
    fn redirect_to_another_place_leaves_credentials_behind() {
        let args = [
            Value::Text("https://a.example/x".to_owned()),
            Value::Text("post".to_owned()),
            Value::Array(vec![Value::Array(vec![
                Value::Text("Authorization".to_owned()),
                Value::Text("secret".to_owned()),
            ])]),
            Value::Array(vec![Value::Text("body".to_owned()), Value::Text("follow".to_owned())]),
        ];
        let wanted = Wanted::read(&args).unwrap();
        let to =
            |text: &'static str, status| redirected(wanted.clone(), status, &HeaderValue::from_static(text)).unwrap();
        let next = to("/y", StatusCode::FOUND);
        assert_eq!((next.method, next.body.len(), next.url.as_str()), (Method::GET, 0, "https://a.example/y"));
        assert!(next.headers.contains_key(header::AUTHORIZATION));
        let next = to("https://b.example/", StatusCode::TEMPORARY_REDIRECT);
        assert_eq!((next.method, next.body.len()), (Method::POST, 4));
        assert!(!next.headers.contains_key(header::AUTHORIZATION));
    }
}
