//! The headers `traceparent` and `tracestate` (W3C Trace Context, level 1, sections 3.2 and 3.3).

/// Members of `tracestate`, and its bytes, that are passed on.
const STATE_MEMBERS: usize = 32;
const STATE_BYTES: usize = 512;

/// The caller's place in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    pub trace: [u8; 16],
    pub span: [u8; 8],
    pub sampled: bool,
    pub state: Option<String>,
}

impl Parent {
    /// Reads the lines of both headers; `None` unless there is exactly one well-formed `traceparent`, and then
    /// `tracestate` does not count either.
    pub fn parse<'l>(
        parents: impl IntoIterator<Item = &'l [u8]>,
        states: impl IntoIterator<Item = &'l [u8]>,
    ) -> Option<Self> {
        let mut parents = parents.into_iter();
        let (Some(line), None) = (parents.next(), parents.next()) else { return None };
        let (trace, span, sampled) = parent(line)?;
        Some(Self { trace, span, sampled, state: state(states) })
    }
}

fn parent(line: &[u8]) -> Option<([u8; 16], [u8; 8], bool)> {
    let text = std::str::from_utf8(line).ok()?;
    let mut parts = text.splitn(5, '-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let version = one(version)?;
    // A later version may add something behind; 255 is none.
    if version == 0xff || (version == 0 && parts.next().is_some()) {
        return None;
    }
    let (trace, span) = (bytes::<16>(trace)?, bytes::<8>(span)?);
    let flags = one(flags)?;
    (trace != [0; 16] && span != [0; 8]).then_some((trace, span, flags & 1 == 1))
}

fn one(text: &str) -> Option<u8> {
    bytes::<1>(text).map(|[byte]| byte)
}

/// Exactly `N` bytes in lower-case hex.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != 2 * N || !text.bytes().all(lower) {
        return None;
    }
    let mut out = [0; N];
    for (index, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(out)
}

/// All lines as one list; nothing of it where it is malformed or too long.
fn state<'l>(lines: impl IntoIterator<Item = &'l [u8]>) -> Option<String> {
    let mut members = Vec::new();
    for line in lines {
        let text = std::str::from_utf8(line).ok()?;
        members.extend(text.split(',').map(str::trim).filter(|member| !member.is_empty()));
    }
    let printable = |text: &str| text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let whole = |member: &&str| member.split_once('=').is_some_and(|(key, _)| !key.is_empty()) && printable(member);
    let joined = members.join(",");
    let fits = (1..=STATE_MEMBERS).contains(&members.len()) && joined.len() <= STATE_BYTES;
    (fits && members.iter().all(whole)).then_some(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn read(line: &str) -> Option<Parent> {
        Parent::parse([line.as_bytes()], [])
    }

    #[test]
    fn well_formed_parents_are_taken() {
        let parent = read(GOOD).unwrap();
        assert_eq!((parent.trace[0], parent.span[1], parent.sampled), (0x4b, 0xf0, true));
        assert!(!read(&GOOD.replace("-01", "-00")).unwrap().sampled);
        assert!(read(&GOOD.replace("-01", "-03")).unwrap().sampled);
        assert!(read(&format!("{}-what-comes-later", GOOD.replacen("00", "cc", 1))).is_some());
        assert!(read(&GOOD.replacen("00", "cc", 1)).is_some());
    }

    #[test]
    fn malformed_parents_are_no_parents() {
        let zero_trace = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        let zero_span = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", "0".repeat(16));
        for line in [
            "",
            "00",
            &GOOD.to_uppercase(),
            &GOOD.replacen("00", "ff", 1),
            &format!("{GOOD}-more"),
            &format!("{GOOD}-"),
            &format!(" {GOOD}"),
            &format!("{GOOD} "),
            &GOOD.replace("-01", "-1"),
            &GOOD.replace("-01", "-0x"),
            &GOOD.replace("-01", ""),
            &GOOD.replace("4bf9", "4bf"),
            &GOOD.replace("4bf9", "+bf9"),
            &format!("{}-", GOOD.replacen("00", "c", 1)),
            &zero_trace,
            &zero_span,
        ] {
            assert_eq!(read(line), None, "{line}");
        }
        assert_eq!(Parent::parse([GOOD.as_bytes(), GOOD.as_bytes()], []), None, "two lines");
        assert_eq!(Parent::parse([], [b"a=1".as_slice()]), None);
    }

    #[test]
    fn state_is_passed_on_in_order_and_dropped_when_malformed() {
        let of = |lines: &[&str]| Parent::parse([GOOD.as_bytes()], lines.iter().map(|l| l.as_bytes())).unwrap().state;
        assert_eq!(of(&["rojo=00f067,congo=t61", " b=2 "]).as_deref(), Some("rojo=00f067,congo=t61,b=2"));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["novalue"]), None);
        assert_eq!(of(&["a=\u{e9}"]), None);
        assert_eq!(of(&[&"a=1,".repeat(33)]), None);
        assert_eq!(of(&[&format!("a={}", "x".repeat(600))]), None);
    }
}
