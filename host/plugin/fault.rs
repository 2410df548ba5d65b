//! Faults with their place in the source, and the arithmetic of places.

use std::fmt;

use super::Fault;

impl Fault {
    /// A fault of a file as a whole.
    pub(super) fn in_file(file: impl Into<String>, message: impl Into<String>) -> Self {
        Self { file: file.into(), line: None, column: None, message: message.into(), snippet: None }
    }

    /// A fault at a byte offset of a file's text.
    pub(super) fn at(file: impl Into<String>, source: &str, offset: usize, message: impl Into<String>) -> Self {
        // What is missing at the end of a file is shown behind the last that stands there, not on the empty line below.
        let at_the_end = source.get(offset..).is_some_and(|rest| rest.trim().is_empty());
        let offset = if at_the_end { source.trim_end().len() } else { offset };
        let (line, column) = place_of(source, offset);
        Self {
            file: file.into(),
            line: Some(line),
            column: Some(column),
            message: message.into(),
            snippet: line_of(source, line).map(str::to_owned),
        }
    }

    /// Its members as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "file": self.file, "line": self.line, "column": self.column,
            "message": self.message, "snippet": self.snippet,
        })
    }
}

impl fmt::Display for Fault {
    /// `file:line:column: message`, then the line of the source with a caret under the place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
            if let Some(column) = self.column {
                write!(f, ":{column}")?;
            }
        }
        write!(f, ": {}", self.message)?;
        let (Some(line), Some(snippet)) = (self.line, &self.snippet) else { return Ok(()) };
        let number = line.to_string();
        write!(f, "\n  {number} | {snippet}")?;
        let Some(column) = self.column else { return Ok(()) };
        // Tabs stay tabs, so that the caret stands under its character however wide a tab is shown.
        let mut units = 0;
        let before = snippet.chars().take_while(|c| {
            units += c.len_utf16();
            units < column as usize
        });
        let padding: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        write!(f, "\n  {:width$} | {padding}^", "", width = number.len())
    }
}

/// Line and column of a byte offset, both from 1, the column in UTF-16 units as editors and source maps count.
pub(super) fn place_of(source: &str, offset: usize) -> (u32, u32) {
    let mut offset = offset.min(source.len());
    while !source.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = &source[..offset];
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = before[start..].encode_utf16().count() + 1;
    (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
}

/// The byte offset of a line and a column in bytes, both from 1, as `serde_json` counts them.
pub(super) fn offset_of(source: &str, line: usize, column: usize) -> usize {
    let start: usize = source.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    (start + column.saturating_sub(1)).min(source.len())
}

/// A line's text, by its number from 1.
pub(super) fn line_of(source: &str, line: u32) -> Option<&str> {
    let index = usize::try_from(line).ok()?.checked_sub(1)?;
    source.lines().nth(index)
}

/// What `serde_json` says, without the place that it repeats.
pub(super) fn bare(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}
