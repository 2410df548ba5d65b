//! "Did you mean": one rule for every name that somebody may have mistyped.

/// The known name that was probably meant: within one slip and one more for each four letters of the shorter one, the
/// writing (capitals, `_`, `-`, `$`) aside; otherwise the first that begins with what was written.
///
/// `None` where none is near. Names of any length are taken, long ones at some cost: hand in what an author wrote.
pub fn nearest<'n>(written: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    if written.len() > LONGEST {
        return None;
    }
    let sought = plain(written);
    let mut close: Option<(usize, &str)> = None;
    let mut longer = None;
    for name in known.into_iter().filter(|name| name.len() <= LONGEST) {
        let candidate = plain(name);
        let (one, other) = (sought.chars().count(), candidate.chars().count());
        let (shorter, longest) = (one.min(other), one.max(other));
        let distance = strsim::osa_distance(&sought, &candidate);
        if distance <= 1 + shorter / 4 && distance * 2 <= longest && close.is_none_or(|(best, _)| distance < best) {
            close = Some((distance, name));
        }
        if shorter >= 3 && longer.is_none() && candidate.starts_with(&sought) {
            longer = Some(name);
        }
    }
    close.map(|(_, name)| name).or(longer)
}

/// A text as one word of a shell's line, for commands that are suggested.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./:@%+=,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// `, did you mean "total"?`, or nothing where no name is near.
pub fn hint<'n>(written: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    nearest(written, known).map_or_else(String::new, |name| format!(", did you mean \"{name}\"?"))
}

/// Names longer than this in bytes are no slips of a pen.
const LONGEST: usize = 128;

fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-' | '$')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name() {
        for (written, known, meant) in [
            ("totl", vec!["id", "total"], Some("total")),
            ("crossedAt", vec!["crossed_at", "created"], Some("crossed_at")),
            ("handlr", vec!["read", "handler"], Some("handler")),
            ("lane-chnage", vec!["orders", "lane-change"], Some("lane-change")),
            ("$GTE", vec!["gt", "gte"], Some("gte")),
            ("tt", vec!["t"], Some("t")),
            ("x", vec!["t"], None),
            ("idd", vec!["id"], Some("id")),
            ("create", vec!["list-events", "create-event"], Some("create-event")),
            ("status", vec!["total", "id"], None),
            ("service_host", vec!["store", "memory", "key_wait"], None),
        ] {
            assert_eq!(nearest(written, known), meant, "{written}");
        }
        assert_eq!(hint("x".repeat(200).as_str(), ["x"]), "");
    }
}
