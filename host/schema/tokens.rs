//! The text of `schema.sql` in pieces: statements, the elements of a table, and the comments that rename.

use std::collections::{BTreeMap, BTreeSet};

use sqlparser::dialect::SQLiteDialect;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Whitespace};

use super::parse::Faults;

/// Tokens that one column or constraint may have, so that no nesting gets too deep for the stack.
const MAX_TOKENS: usize = 2_000;

/// What the parser may go down; our own writing of a CHECK stays far below.
const RECURSION: usize = 200;

/// A run of tokens without white space.
pub(super) type Tokens<'a> = &'a [TokenWithSpan];

/// All tokens of `sql`, white space and comments included.
///
/// # Errors
/// Line and cause, where the text cannot even be cut into tokens.
pub(super) fn tokens(sql: &str) -> Result<Vec<TokenWithSpan>, (u64, String)> {
    Tokenizer::new(&SQLiteDialect {}, sql)
        .tokenize_with_location()
        .map_err(|error| (error.location.line, error.message))
}

/// Line of the first token.
pub(super) fn line(tokens: Tokens) -> u64 {
    tokens.first().map_or(0, |token| token.span.start.line)
}

/// The keyword or bare word that stands at `at`, in capitals.
pub(super) fn word(tokens: Tokens, at: usize) -> Option<String> {
    let Token::Word(word) = &tokens.get(at)?.token else { return None };
    word.quote_style.is_none().then(|| word.value.to_ascii_uppercase())
}

/// Whether the bare words of `text` stand at `at`.
pub(super) fn words_at(tokens: Tokens, at: usize, text: &str) -> bool {
    text.split(' ').enumerate().all(|(nth, expected)| word(tokens, at + nth).as_deref() == Some(expected))
}

/// The text of some tokens, for messages.
pub(super) fn text(tokens: Tokens) -> String {
    let words: Vec<String> = tokens.iter().take(4).map(|token| token.token.to_string()).collect();
    words.join(" ")
}

/// The statements, without the semicolons. What stands between BEGIN and END (a trigger) is one statement.
pub(super) fn statements(tokens: &[TokenWithSpan]) -> Vec<Vec<TokenWithSpan>> {
    let mut all = vec![Vec::new()];
    let mut open = false;
    for token in tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF)) {
        let bare = word(std::slice::from_ref(token), 0);
        let trigger = all.last().is_some_and(|now| words_at(now, 0, "CREATE TRIGGER"));
        open = match bare.as_deref() {
            Some("BEGIN") if trigger => true,
            Some("END") => false,
            _ => open,
        };
        if token.token == Token::SemiColon && !open {
            all.push(Vec::new());
        } else if let Some(now) = all.last_mut() {
            now.push(token.clone());
        }
    }
    all.retain(|statement| !statement.is_empty());
    all
}

/// What stands within the parentheses that open at the start of `tokens`, cut at its commas, and what follows them.
/// `None` when they do not close.
pub(super) fn elements(tokens: Tokens) -> Option<(Vec<Tokens>, Tokens)> {
    let mut all = Vec::new();
    let (mut depth, mut start) = (0_u32, 1);
    for (at, token) in tokens.iter().enumerate() {
        if token.token == Token::LParen {
            depth += 1;
        } else if token.token == Token::RParen {
            depth = depth.saturating_sub(1);
        }
        if depth == 0 || (depth == 1 && token.token == Token::Comma) {
            all.push(tokens.get(start..at)?);
            start = at + 1;
        }
        if depth == 0 {
            return Some((all, tokens.get(at + 1..)?));
        }
    }
    None
}

/// Lets the SQL parser read `tokens` with `read`, to their end.
pub(super) fn read<T>(
    tokens: Tokens,
    faults: &mut Faults,
    read: impl FnOnce(&mut Parser) -> Result<T, ParserError>,
) -> Option<T> {
    if tokens.len() > MAX_TOKENS {
        faults.add(line(tokens), "this is too long: split it");
        return None;
    }
    let dialect = SQLiteDialect {};
    let mut parser = Parser::new(&dialect).with_recursion_limit(RECURSION).with_tokens_with_locations(tokens.to_vec());
    match read(&mut parser) {
        Ok(value) => {
            let next = parser.peek_token();
            if next.token == Token::EOF {
                return Some(value);
            }
            faults.add(next.span.start.line, format!("{} is not expected here", next.token));
        }
        Err(error) => {
            let (at, message) = place(&error.to_string());
            faults.add(at.unwrap_or_else(|| line(tokens)), message);
        }
    }
    None
}

/// Takes the line out of a message of the SQL parser, which writes it at the end.
fn place(message: &str) -> (Option<u64>, String) {
    let text = message.trim_start_matches("sql parser error: ");
    let Some((text, place)) = text.split_once(" at Line: ") else { return (None, text.to_owned()) };
    let line = place.split(',').next().and_then(|line| line.parse().ok()).filter(|line| *line > 0);
    (line, text.replace("found: EOF", "found: the end"))
}

/// The `-- was: old_name` comments, and `/* was: old_name */`.
#[derive(Debug, Default)]
pub(super) struct Renames {
    /// By the line on which they end: the old name, and whether nothing else stands on the line.
    comments: BTreeMap<u64, (String, bool)>,
}

impl Renames {
    /// Finds the comments that rename; those that only look so are faults, for a renaming that is overlooked loses data.
    pub(super) fn read(tokens: &[TokenWithSpan], faults: &mut Faults) -> Self {
        let mut comments = BTreeMap::new();
        let code = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_) | Token::EOF);
        let lines: BTreeSet<u64> = tokens.iter().filter(code).map(|token| token.span.start.line).collect();
        for token in tokens {
            let (text, lines_within) =
                if let Token::Whitespace(Whitespace::SingleLineComment { comment, .. }) = &token.token {
                    (comment, 0)
                } else if let Token::Whitespace(Whitespace::MultiLineComment(comment)) = &token.token {
                    (comment, comment.matches('\n').count())
                } else {
                    continue;
                };
            let line = token.span.start.line + u64::try_from(lines_within).unwrap_or_default();
            let old = match renaming(text) {
                None => continue,
                Some(Err(instead)) => {
                    faults.add(line, instead);
                    continue;
                }
                Some(Ok(old)) => old,
            };
            if comments.insert(line, (old, !lines.contains(&line))).is_some() {
                faults.add(line, "-- was: stands twice on this line: give each column a line of its own");
            }
        }
        Self { comments }
    }

    /// Whether such a comment stands on `line` itself.
    pub(super) fn is_on(&self, line: u64) -> bool {
        self.comments.contains_key(&line)
    }

    /// Takes the comment that belongs to what begins on `line`: on the line itself, or alone on the line above.
    pub(super) fn take(&mut self, line: u64) -> Option<String> {
        let above = self.comments.get(&(line.wrapping_sub(1))).is_some_and(|(_, alone)| *alone);
        let at = if self.comments.contains_key(&line) {
            line
        } else if above {
            line - 1
        } else {
            return None;
        };
        self.comments.remove(&at).map(|(old, _)| old)
    }

    /// The lines of comments that nothing took.
    pub(super) fn left(&self) -> impl Iterator<Item = u64> {
        self.comments.keys().copied()
    }
}

/// What people write who mean `was:`.
const ALIKE: [&str; 7] =
    ["renamed from", "formerly", "previously", "old name", "was called", "was named", "used to be called"];

/// The old name that a comment gives; `None` where it does not rename, an error with the right form where it looks as
/// if it did.
fn renaming(comment: &str) -> Option<Result<String, String>> {
    let text = comment.trim_matches(|one: char| one.is_whitespace() || one == '*');
    // Letters of ASCII alone change, so places in one text are places in the other.
    let small = text.to_ascii_lowercase();
    if let Some(rest) = small.strip_prefix("was") {
        let rest = text[text.len() - rest.len()..].trim_start();
        if let Some(name) = rest.strip_prefix([':', '=']) {
            return Some(old_name(name.trim()));
        }
        let apart = text.as_bytes().get(3).is_some_and(u8::is_ascii_whitespace);
        if apart && is_name(rest) {
            return Some(Err(format!(
                "if this is a renaming, write -- was: {rest} with a colon; otherwise use other words"
            )));
        }
    }
    let alike = ALIKE.iter().find_map(|words| small.strip_prefix(words));
    let within = small.split_once(" was:").map(|(_, rest)| rest);
    let rest = alike.or(within)?.trim_start_matches([':', ' ']);
    is_name(rest).then(|| Err(format!("if this is a renaming, write -- was: {rest} as a comment of its own")))
}

/// The name at the start of what stands behind `was:`; a remark may follow behind a punctuation mark.
fn old_name(text: &str) -> Result<String, String> {
    let end = text.find(|one: char| !one.is_ascii_alphanumeric() && one != '_' && one != '"').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let name = name.trim_matches('"');
    let remark = rest.trim_start();
    if name.is_empty() || !(remark.is_empty() || remark.starts_with([',', ';', '(', '.', '-'])) {
        return Err("behind -- was: stands one name, the old one: write -- was: old_name".to_owned());
    }
    Ok(name.to_owned())
}

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
