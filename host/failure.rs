//! The errors that users see: the names of the contract, one clear sentence, and the way out.

use std::fmt;

use serde_json::Value as Json;

/// The stable names of the contract's table of errors (spec §5). `http/problem.rs` gives each its number,
/// status and title.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    Validation,
    KeyRequired,
    KeyInvalid,
    Unauthenticated,
    Forbidden,
    NotFound,
    Method,
    MediaType,
    KeyInProgress,
    Duplicate,
    Constraint,
    KeyExpired,
    TooLarge,
    KeyReused,
    RateLimited,
    Contract,
    Script,
    Limit,
    Schema,
    Overloaded,
    Unavailable,
}

impl Code {
    /// All codes, in the order of the contract's table.
    pub const ALL: [Code; 21] = [
        Code::Validation,
        Code::KeyRequired,
        Code::KeyInvalid,
        Code::Unauthenticated,
        Code::Forbidden,
        Code::NotFound,
        Code::Method,
        Code::MediaType,
        Code::KeyInProgress,
        Code::Duplicate,
        Code::Constraint,
        Code::KeyExpired,
        Code::TooLarge,
        Code::KeyReused,
        Code::RateLimited,
        Code::Contract,
        Code::Script,
        Code::Limit,
        Code::Schema,
        Code::Overloaded,
        Code::Unavailable,
    ];

    /// The name as it stands in replies and in `error.code` of scripts.
    pub fn name(self) -> &'static str {
        match self {
            Code::Validation => "VALIDATION",
            Code::KeyRequired => "KEY_REQUIRED",
            Code::KeyInvalid => "KEY_INVALID",
            Code::Unauthenticated => "UNAUTHENTICATED",
            Code::Forbidden => "FORBIDDEN",
            Code::NotFound => "NOT_FOUND",
            Code::Method => "METHOD",
            Code::MediaType => "MEDIA_TYPE",
            Code::KeyInProgress => "KEY_IN_PROGRESS",
            Code::Duplicate => "DUPLICATE",
            Code::Constraint => "CONSTRAINT",
            Code::KeyExpired => "KEY_EXPIRED",
            Code::TooLarge => "TOO_LARGE",
            Code::KeyReused => "KEY_REUSED",
            Code::RateLimited => "RATE_LIMITED",
            Code::Contract => "CONTRACT",
            Code::Script => "SCRIPT",
            Code::Limit => "LIMIT",
            Code::Schema => "SCHEMA",
            Code::Overloaded => "OVERLOADED",
            Code::Unavailable => "UNAVAILABLE",
        }
    }

    /// The code with this name, if the contract has one.
    pub fn from_name(name: &str) -> Option<Code> {
        Code::ALL.into_iter().find(|code| code.name() == name)
    }

    /// Whether the very same call, sent again later, may succeed without anybody changing anything.
    pub fn retryable(self) -> bool {
        matches!(self, Code::KeyInProgress | Code::RateLimited | Code::Overloaded | Code::Unavailable)
    }
}

/// A place in a plugin's source; line and column count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The file, relative to the plugin's folder, with the plugin's id in front: `orders/lib/money.ts`.
    pub file: String,
    pub line: u32,
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// One faulty field of an input: a JSON Pointer (RFC 6901) and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldFault {
    pub pointer: String,
    pub message: String,
}

/// An error as a user meets it, in a script (`error.code`, `message`, `details`) or in a reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub code: Code,
    /// One sentence that says what is wrong and how to put it right.
    pub detail: String,
    /// Machine-readable facts, `null` where there are none.
    pub details: Json,
    pub fields: Vec<FieldFault>,
    /// Where in the TypeScript source, when it is known.
    pub position: Option<Position>,
    /// Seconds for `Retry-After`, when waiting helps.
    pub retry_after: Option<u32>,
    /// The HTTP status, where it is not the code's own (`CONTRACT` of `stableId` without a key is 400).
    pub status: Option<u16>,
}

impl Failure {
    /// A failure with a sentence and nothing else.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            details: Json::Null,
            fields: Vec::new(),
            position: None,
            retry_after: code.retryable().then_some(1),
            status: None,
        }
    }

    /// One parameter or member is wrong; `message` goes on where its name stands: `must be …`.
    pub fn field(name: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let detail = format!("{name} {message}");
        Self {
            fields: vec![FieldFault { pointer: format!("/{name}"), message }],
            ..Self::new(Code::Validation, detail)
        }
    }

    /// The plugin broke the contract; `detail` names the rule and the right form.
    pub fn contract(detail: impl Into<String>) -> Self {
        Self::new(Code::Contract, detail)
    }

    /// The same failure with what it is about in front of its sentence.
    #[must_use]
    pub fn of(mut self, what: impl fmt::Display) -> Self {
        self.detail = format!("{what}: {}", self.detail);
        self
    }

    /// The same failure with machine-readable facts.
    #[must_use]
    pub fn with_details(mut self, details: Json) -> Self {
        self.details = details;
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.detail)
    }
}

impl std::error::Error for Failure {}
