//! Reading a request's body, never more of it than the limit.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, header};
use http_body_util::BodyExt;

use crate::failure::{Code, Failure};

/// How long a client may take to send its whole body.
const TIME: Duration = Duration::from_secs(30);
/// How much of a body that is refused is read and thrown away, so that a client that sends first and reads then
/// sees the answer instead of a broken connection; and for how long.
const DRAINED: u64 = 8 << 20;
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// Refuses a body that is not declared as plain JSON.
///
/// # Errors
/// `MEDIA_TYPE`.
pub(super) fn check_type(headers: &HeaderMap) -> Result<(), Failure> {
    let wrong = |what: String| Failure::new(Code::MediaType, format!("{what}; send Content-Type: application/json"));
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let Some(value) = types.next() else { return Err(wrong("the header Content-Type is missing".to_owned())) };
    if types.next().is_some() {
        return Err(wrong("there are several Content-Type headers".to_owned()));
    }
    let text = value.to_str().unwrap_or_default();
    let essence = text.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        return Err(wrong(format!("the body is declared as {:?}", shortened(essence))));
    }
    if let Some(other) = other_charset(text) {
        return Err(wrong(format!("the body is declared as {:?}, and JSON is UTF-8", shortened(&other))));
    }
    check_coding(headers)
}

/// The character set that a Content-Type names, where it is neither UTF-8 nor a part of it.
pub(super) fn other_charset(content_type: &str) -> Option<String> {
    let mut parameters = content_type.split(';').skip(1).filter_map(|part| part.split_once('='));
    parameters.find_map(|(name, value)| {
        let charset = value.trim().trim_matches('"').to_ascii_lowercase();
        let other =
            name.trim().eq_ignore_ascii_case("charset") && !["utf-8", "utf8", "us-ascii"].contains(&charset.as_str());
        other.then_some(charset)
    })
}

/// Refuses a compressed body.
///
/// # Errors
/// `MEDIA_TYPE`.
pub(super) fn check_coding(headers: &HeaderMap) -> Result<(), Failure> {
    let coded = |value: &axum::http::HeaderValue| !value.as_bytes().eq_ignore_ascii_case(b"identity");
    if headers.get_all(header::CONTENT_ENCODING).iter().any(coded) {
        return Err(Failure::new(Code::MediaType, "the body is compressed; send it without Content-Encoding"));
    }
    Ok(())
}

fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Reads a body of at most `limit` bytes.
///
/// # Errors
/// `TOO_LARGE`, also where `Content-Length` is absent or smaller than what comes; `VALIDATION` where the body is
/// broken off or malformed; `UNAVAILABLE` where it does not arrive in time. Nothing has run then.
pub(super) async fn read(headers: &HeaderMap, body: Body, limit: usize) -> Result<Vec<u8>, Failure> {
    read_within(TIME, headers, body, limit).await
}

async fn read_within(time: Duration, headers: &HeaderMap, body: Body, limit: usize) -> Result<Vec<u8>, Failure> {
    // Who waits for `100 Continue` has sent nothing yet, and reading would ask for it.
    let waits = headers.contains_key(header::EXPECT);
    let Ok(read) = tokio::time::timeout(time, collect(body, limit, waits)).await else {
        let seconds = time.as_secs();
        return Err(Failure::new(
            Code::Unavailable,
            format!("the request body did not arrive within {seconds} s; nothing was done, send it again"),
        ));
    };
    read
}

async fn collect(mut body: Body, limit: usize, waits: bool) -> Result<Vec<u8>, Failure> {
    let declared = body.size_hint();
    if declared.lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
        if !waits {
            drain(body).await;
        }
        return Err(too_large(limit));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(declared.lower()).unwrap_or(0).min(limit));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            Failure::new(Code::Validation, format!("the request body broke off or is malformed: {error}"))
        })?;
        // Trailers carry nothing that is read here.
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            drain(body).await;
            return Err(too_large(limit));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

/// Reads and forgets, within bounds.
async fn drain(mut body: Body) {
    if body.size_hint().lower() > DRAINED {
        return;
    }
    let mut left = DRAINED;
    let reading = async {
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, |data| u64::try_from(data.len()).unwrap_or(u64::MAX));
            left = left.saturating_sub(length);
            if left == 0 {
                break;
            }
        }
    };
    let _late = tokio::time::timeout(DRAIN_TIME, reading).await;
}

fn too_large(limit: usize) -> Failure {
    Failure::new(
        Code::TooLarge,
        format!("the request body is larger than {limit} bytes; send less, or raise the setting body_limit"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(lines: &[(&'static str, &'static str)]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        check_type(&headers).err().map(|failure| failure.to_string())
    }

    #[test]
    fn json_is_taken_with_parameters_and_in_any_case() {
        for text in [
            "application/json",
            "Application/JSON",
            "application/json; charset=utf-8",
            "application/json ;x=y",
            "application/json; x=y; Charset=\"UTF-8\"",
            "application/json;charset=us-ascii",
        ] {
            assert_eq!(refused(&[("content-type", text)]), None, "{text}");
        }
        assert_eq!(refused(&[("content-type", "application/json"), ("content-encoding", "identity")]), None);
    }

    #[test]
    fn other_types_and_codings_are_refused_with_the_right_form() {
        for text in [
            "text/plain",
            "application/jsonp",
            "application/cloudevents+json",
            "",
            "json",
            "application/json; charset=latin1",
            "application/json; x=y; Charset = \"UTF-16\"",
        ] {
            let why = refused(&[("content-type", text)]).unwrap();
            assert!(why.starts_with("MEDIA_TYPE") && why.contains("Content-Type: application/json"), "{why}");
        }
        assert!(refused(&[]).unwrap().contains("missing"));
        assert!(refused(&[("content-type", "application/json"), ("content-type", "text/plain")]).is_some());
        let zipped = refused(&[("content-type", "application/json"), ("content-encoding", "gzip")]);
        assert!(zipped.unwrap().contains("without Content-Encoding"));
    }

    #[tokio::test]
    async fn body_of_the_limit_is_read_and_one_byte_more_is_not() {
        let none = HeaderMap::new();
        assert_eq!(read(&none, Body::from("12345"), 5).await.unwrap(), b"12345");
        assert_eq!(read(&none, Body::from("123456"), 5).await.unwrap_err().code, Code::TooLarge);
        assert_eq!(read(&none, Body::empty(), 5).await.unwrap(), b"");
    }

    /// A body that is promised and never comes.
    struct Never;

    impl HttpBody for Never {
        type Data = axum::body::Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<hyper::body::Frame<Self::Data>, Self::Error>>> {
            std::task::Poll::Pending
        }
    }

    #[tokio::test]
    async fn body_that_does_not_come_is_given_up() {
        let got = read_within(Duration::from_millis(1), &HeaderMap::new(), Body::new(Never), 5).await;
        assert_eq!(got.unwrap_err().code, Code::Unavailable);
    }
}
