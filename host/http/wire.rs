//! What a connection needs beneath the HTTP library: a body for the refusals that the library sends by itself, and a
//! refusal of requests whose end two readers could see at different places.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::problem::Problem;
use super::seats::Seat;
use crate::app::App;
use crate::failure::{Code, Failure};

/// A connection's bytes on their way in and out.
pub(super) struct Wire<I> {
    io: I,
    app: Arc<App>,
    seat: Arc<Seat>,
    lines: Lines,
    /// What is written in the place of the library's own refusal, and how much of that is done.
    instead: Option<Instead>,
}

struct Instead {
    bytes: Vec<u8>,
    written: usize,
    /// Bytes of what the library believes to have written.
    stands_for: usize,
}

impl<I> Wire<I> {
    pub(super) fn new(io: I, app: Arc<App>, seat: Arc<Seat>) -> Self {
        Self { io, app, seat, lines: Lines::default(), instead: None }
    }

    /// A whole answer for a head that could not be read, if `written` is the bare one of the library: all answers of
    /// ours have a request id and a body.
    fn replacement(&self, written: &[u8]) -> Option<Vec<u8>> {
        let head = std::str::from_utf8(written.strip_suffix(b"\r\n\r\n")?).ok()?;
        let status = head.strip_prefix("HTTP/1.1 ")?.split(' ').next()?;
        let bare = head.contains("content-length: 0") && !head.contains("x-request-id");
        let failure = match status {
            "400" if self.lines.both => Failure::new(
                Code::Validation,
                "the request has Content-Length and Transfer-Encoding, so where it ends is unclear; send one of them",
            ),
            "400" => Failure::new(
                Code::Validation,
                "this is no HTTP/1.1 request: its first line, a header or the length of its body is malformed",
            ),
            "414" => Failure { status: Some(414), ..Failure::new(Code::TooLarge, "the path is too long") },
            "431" => Failure {
                status: Some(431),
                ..Failure::new(
                    Code::TooLarge,
                    "the request's headers are too large together; send fewer or shorter ones",
                )
            },
            _ => return None,
        };
        bare.then(|| self.answer(failure))
    }

    fn answer(&self, failure: Failure) -> Vec<u8> {
        let id = self.app.ids.rising(self.app.clock.now()).to_string();
        let problem = Problem::new(&failure.into(), &id, self.app.settings.dev);
        let reason = StatusCode::from_u16(problem.status).ok().and_then(|status| status.canonical_reason());
        let (status, reason, body) = (problem.status, reason.unwrap_or_default(), problem.body.to_string());
        let length = body.len();
        format!(
            "HTTP/1.1 {status} {reason}\r\ncontent-type: application/problem+json\r\nx-request-id: {id}\r\n\
             cache-control: no-store\r\nx-content-type-options: nosniff\r\nconnection: close\r\n\
             content-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }
}

/// Looks for heads with `Content-Length` beside `Transfer-Encoding`, which a proxy in front may read otherwise than we
/// do (RFC 9112, section 6.3). The library drops the one silently. Lines are looked at wherever they stand, so that
/// nothing has to be known about where bodies end: no line of JSON begins like these headers.
#[derive(Default)]
struct Lines {
    /// The beginning of the present line, as far as it may be one of the two names.
    start: Vec<u8>,
    length: bool,
    encoding: bool,
    /// A head has come to its end.
    head: bool,
    /// A head had both.
    both: bool,
}

const LENGTH: &[u8] = b"content-length:";
const ENCODING: &[u8] = b"transfer-encoding:";

impl Lines {
    /// Looks at bytes that came in, and spoils the head that has both headers, so that it is refused.
    fn look(&mut self, bytes: &mut [u8]) {
        let mut rest = bytes.iter_mut();
        while let Some(byte) = rest.next() {
            match *byte {
                b'\n' => {
                    if self.start.iter().all(|byte| *byte == b'\r') {
                        (self.length, self.encoding, self.head) = (false, false, true);
                    }
                    self.start.clear();
                }
                // One byte more than the longer name tells a longer line from an empty one. Of such a line only the end
                // matters.
                _ if self.start.len() > ENCODING.len() => {
                    let ends = rest.as_slice().iter().position(|byte| *byte == b'\n');
                    let Some(skipped) = ends.unwrap_or(rest.len()).checked_sub(1) else { continue };
                    rest.nth(skipped);
                }
                other => {
                    self.start.push(other.to_ascii_lowercase());
                    if other == b':' {
                        self.length |= self.start == LENGTH;
                        self.encoding |= self.start == ENCODING;
                        if self.length && self.encoding {
                            self.both = true;
                            // No name of a header holds this.
                            *byte = 0;
                        }
                    }
                }
            }
        }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Wire<I> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.io).poll_read(cx, buf))?;
        if let Some(new) = buf.filled_mut().get_mut(before..) {
            this.lines.look(new);
        }
        this.seat.hear(this.lines.head);
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Wire<I> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.instead.is_none() {
            let stands_for = buf.len();
            this.instead = this.replacement(buf).map(|bytes| Instead { bytes, written: 0, stands_for });
        }
        let Some(instead) = &mut this.instead else { return Pin::new(&mut this.io).poll_write(cx, buf) };
        while let Some(rest) = instead.bytes.get(instead.written..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut this.io).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => instead.written += written,
            }
        }
        let stood_for = instead.stands_for;
        this.instead = None;
        Poll::Ready(Ok(stood_for))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        // The library's own refusals have no body, so they are one piece.
        match bufs {
            [one] => Pin::new(this).poll_write(cx, one),
            many => Pin::new(&mut this.io).poll_write_vectored(cx, many),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spoiled(parts: &[&str]) -> bool {
        let mut lines = Lines::default();
        parts.iter().for_each(|part| lines.look(&mut part.as_bytes().to_vec()));
        lines.both
    }

    #[test]
    fn both_headers_in_one_head_are_seen_however_they_are_written_and_cut() {
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-ENCODING: chunked\r\ncontent-Length:5\r\n\r\n";
        for at in 0..head.len() {
            assert!(spoiled(&[&head[..at], &head[at..]]), "{at}");
        }
        assert!(spoiled(&["{}GET / HTTP/1.1\nContent-Length: 0\nTransfer-Encoding: chunked\n\n"]));
    }

    #[test]
    fn one_of_them_in_each_head_and_mentions_elsewhere_are_no_fault() {
        let one = "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}";
        let two = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
        assert!(!spoiled(&[one, two, one]));
        assert!(!spoiled(&[
            "GET / HTTP/1.1\r\nX: content-length:\r\nTransfer-Encoding: chunked\r\nX-Content-Length: 5\r\n\r\n"
        ]));
    }
}
