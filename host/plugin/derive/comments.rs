//! The JSDoc comments of a file, and which of them were heard: one whose tags count for nothing is to be told.

use std::cell::RefCell;
use std::collections::HashSet;

use oxc::ast::ast::Comment;
use oxc::span::Span;

use super::tags::{self, Doc};

/// The comments, by the tokens that they stand in front of.
pub(super) struct Comments<'r> {
    source: &'r str,
    all: &'r [Comment],
    /// Where those begin that somebody asked for.
    heard: RefCell<HashSet<u32>>,
    /// Where types were found to begin.
    types: RefCell<HashSet<u32>>,
}

impl<'r> Comments<'r> {
    pub(super) fn new(source: &'r str, all: &'r [Comment]) -> Self {
        Self { source, all, heard: RefCell::default(), types: RefCell::default() }
    }

    /// The last one in front of a token.
    pub(super) fn before(&self, start: u32) -> Doc {
        // One behind the last token of a line is attached to none, which the parser writes as 0.
        let of_token = self.all.iter().filter(|it| it.attached_to == start && it.span.end <= start);
        let mut of_token = of_token.filter_map(|it| self.text(it));
        let Some((at, text)) = of_token.next_back() else { return Doc::default() };
        self.heard.borrow_mut().insert(at);
        tags::read(text)
    }

    /// The same in front of a type. Of types that begin at one place it is the outermost one's, which is the first to be
    /// read: `/** @minItems 1 */ string[]`.
    pub(super) fn before_type(&self, start: u32) -> Doc {
        if self.types.borrow_mut().insert(start) { self.before(start) } else { Doc::default() }
    }

    /// Where the first one within a declaration, or at the end of its line, is that would narrow a type, and that nobody asked for.
    pub(super) fn unheard(&self, within: Span) -> Option<u32> {
        let rest = self.source.get(within.end as usize..).unwrap_or_default().lines().next().unwrap_or_default();
        let line_end = within.end as usize + rest.len();
        // Behind it, too, unless it belongs to what follows.
        let behind = |it: &Comment| it.attached_to == 0 && it.span.end as usize <= line_end;
        let is_here = |it: &&Comment| within.start <= it.span.start && (it.span.end <= within.end || behind(it));
        let here = self.all.iter().filter(is_here);
        let texts = here.filter_map(|it| self.text(it)).filter(|(at, _)| !self.heard.borrow().contains(at));
        texts.filter(|(_, text)| tags::narrows(&tags::read(text))).map(|(at, _)| at).next()
    }

    /// Where a comment begins and what it says, if it is one of JSDoc.
    fn text(&self, comment: &Comment) -> Option<(u32, &'r str)> {
        let text = self.source.get(comment.span.start as usize..comment.span.end as usize)?;
        (comment.is_block() && text.starts_with("/**")).then_some((comment.span.start, text))
    }
}
