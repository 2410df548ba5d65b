//! CHECK conditions: typed, so that both databases take them and mean the same, and written anew.

use sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, InTarget, Spanned, UnaryOperator,
};

use super::constants::{self, Plain};
use super::{ColumnType, TENANT, Table};

/// Parentheses within parentheses go down to here, so that the parser can read back what was written.
const MAX_DEPTH: u32 = 24;

const LANGUAGE: &str = "a CHECK takes the row's columns, constants, comparisons, AND, OR, NOT, IN, BETWEEN, IS NULL, \
                        length() and + - * on numbers";

/// What a part of a condition gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number,
    Text,
    Boolean,
    Blob,
    Json,
    Time,
}

impl Kind {
    fn of(ty: ColumnType) -> Self {
        match ty {
            ColumnType::Integer | ColumnType::Real => Kind::Number,
            ColumnType::Boolean => Kind::Boolean,
            ColumnType::Text => Kind::Text,
            ColumnType::Blob => Kind::Blob,
            ColumnType::Json => Kind::Json,
            ColumnType::Timestamp => Kind::Time,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Kind::Number => "a number",
            Kind::Text => "text",
            Kind::Boolean => "true or false",
            Kind::Blob => "a BLOB",
            Kind::Json => "JSON",
            Kind::Time => "a TIMESTAMP",
        }
    }
}

/// A faulty part: its line, 0 where the parser does not know it, and what to write instead.
pub(super) type Fault = (u64, String);

/// The condition `expr` over the columns of `table`, in the host's own writing.
///
/// # Errors
/// The first part that is outside the language or compares things that cannot be compared.
pub(super) fn condition(expr: &Expr, table: &Table) -> Result<String, Fault> {
    Walk { table, depth: 0 }.truth(expr).map(|sql| strip(&sql))
}

#[derive(Clone, Copy)]
struct Walk<'a> {
    table: &'a Table,
    depth: u32,
}

fn fault<T>(at: &Expr, message: impl Into<String>) -> Result<T, Fault> {
    Err((at.span().start.line, message.into()))
}

impl Walk<'_> {
    fn deeper(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }

    /// A part that has to be true or false.
    fn truth(self, expr: &Expr) -> Result<String, Fault> {
        match self.part(expr)? {
            (Kind::Boolean, sql) => Ok(sql),
            (kind, _) => fault(expr, format!("{expr} is {}, where a condition is needed", kind.words())),
        }
    }

    fn number(self, expr: &Expr) -> Result<String, Fault> {
        match self.part(expr)? {
            (Kind::Number, sql) => Ok(sql),
            (kind, _) => fault(expr, format!("{expr} is {}, where a number is needed", kind.words())),
        }
    }

    fn part(self, expr: &Expr) -> Result<(Kind, String), Fault> {
        if self.depth > MAX_DEPTH {
            return fault(expr, "this CHECK is nested too deeply: write it as several CHECKs");
        }
        if let Some(literal) = constants::literal(expr) {
            return self.literal(expr, literal);
        }
        if let Expr::Nested(inner) = expr {
            return self.part(inner);
        }
        if let Expr::Identifier(name) = expr {
            return self.column(name);
        }
        if let Expr::UnaryOp { op, expr: inner } = expr {
            return self.unary(expr, *op, inner);
        }
        if let Expr::BinaryOp { left, op, right } = expr {
            return self.binary(expr, left, op, right);
        }
        if let Expr::IsNull(inner) = expr {
            return Ok((Kind::Boolean, format!("({} IS NULL)", self.deeper().part(inner)?.1)));
        }
        if let Expr::IsNotNull(inner) = expr {
            return Ok((Kind::Boolean, format!("({} IS NOT NULL)", self.deeper().part(inner)?.1)));
        }
        if let Expr::Between { expr: inner, negated, low, high } = expr {
            let parts = self.comparable(expr, &[inner, low, high], true)?;
            let not = if *negated { "NOT " } else { "" };
            return Ok((Kind::Boolean, format!("({} {not}BETWEEN {} AND {})", parts[0], parts[1], parts[2])));
        }
        if let Expr::In { expr: inner, target: InTarget::List(list), negated, global: false } = expr {
            return self.in_list(expr, inner, list, *negated);
        }
        self.length(expr)
    }

    fn in_list(self, whole: &Expr, inner: &Expr, list: &[Expr], negated: bool) -> Result<(Kind, String), Fault> {
        if list.is_empty() {
            return fault(whole, "IN () holds for nothing: write at least one value into it");
        }
        let all: Vec<&Expr> = std::iter::once(inner).chain(list).collect();
        let mut parts = self.comparable(whole, &all, false)?;
        let first = parts.remove(0);
        let not = if negated { "NOT " } else { "" };
        Ok((Kind::Boolean, format!("({first} {not}IN ({}))", parts.join(", "))))
    }

    fn literal(self, expr: &Expr, literal: Plain) -> Result<(Kind, String), Fault> {
        let sql = match literal {
            Plain::Null => return fault(expr, "nothing equals NULL: write IS NULL or IS NOT NULL"),
            Plain::Bool(value) => return Ok((Kind::Boolean, if value { "TRUE" } else { "FALSE" }.into())),
            Plain::Hex(_) => return fault(expr, format!("BLOB constants cannot stand in a CHECK; {LANGUAGE}")),
            Plain::Text(text) => constants::without_nul(text).map(|text| (Kind::Text, super::ddl::text_literal(&text))),
            Plain::Number(text) if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') => text
                .parse::<i64>()
                .map(|number| (Kind::Number, number.to_string()))
                .map_err(|_| format!("{text} does not fit into 64 bits")),
            Plain::Number(text) => constants::float(&text).map(|number| (Kind::Number, format!("{number:?}"))),
        };
        sql.map_err(|message| (expr.span().start.line, message))
    }

    fn column(self, name: &Ident) -> Result<(Kind, String), Fault> {
        let line = name.span.start.line;
        if name.value == TENANT {
            return Err((line, format!("{TENANT} belongs to the host: leave it out of CHECKs")));
        }
        match self.table.column(&name.value) {
            Some(column) => Ok((Kind::of(column.ty), super::ddl::quote(&column.name))),
            None => {
                let names = self.table.columns.iter().map(|column| column.name.as_str());
                let hint = super::did_you_mean(&name.value, names);
                Err((line, format!("{} has no column {name}{hint}", self.table.name)))
            }
        }
    }

    fn unary(self, whole: &Expr, op: UnaryOperator, inner: &Expr) -> Result<(Kind, String), Fault> {
        let below = self.deeper();
        if op == UnaryOperator::Not {
            return Ok((Kind::Boolean, format!("(NOT {})", below.truth(inner)?)));
        }
        if op == UnaryOperator::Minus {
            // The space keeps two signs from becoming a comment.
            return Ok((Kind::Number, format!("(- {})", below.number(inner)?)));
        }
        fault(whole, format!("{whole} is not part of schema.sql; {LANGUAGE}"))
    }

    fn binary(self, whole: &Expr, left: &Expr, op: &BinaryOperator, right: &Expr) -> Result<(Kind, String), Fault> {
        let Some((word, group)) = operator(op) else {
            return fault(whole, format!("{op} in {whole} is not part of schema.sql; {LANGUAGE}"));
        };
        let below = self.deeper();
        let (kind, left, right) = match group {
            Group::Logic => (Kind::Boolean, self.chained(left, op, Walk::truth)?, below.truth(right)?),
            Group::Arithmetic => (Kind::Number, self.chained(left, op, Walk::number)?, below.number(right)?),
            Group::Equality | Group::Order => {
                let mut parts = self.comparable(whole, &[left, right], matches!(group, Group::Order))?;
                let right = parts.pop().unwrap_or_default();
                (Kind::Boolean, parts.pop().unwrap_or_default(), right)
            }
        };
        Ok((kind, format!("({left} {word} {right})")))
    }

    /// The left side of `a AND b AND c`, without parentheses of its own, so that long chains stay flat.
    fn chained(
        self,
        left: &Expr,
        op: &BinaryOperator,
        read: fn(Self, &Expr) -> Result<String, Fault>,
    ) -> Result<String, Fault> {
        let mut inner = left;
        while let Expr::Nested(expr) = inner {
            inner = expr;
        }
        if matches!(inner, Expr::BinaryOp { op: same, .. } if same == op) {
            return read(self, inner).map(|sql| strip(&sql));
        }
        read(self.deeper(), left)
    }

    /// The parts of a comparison, which have to be of one kind; text beside a TIMESTAMP is read as a time.
    fn comparable(self, whole: &Expr, parts: &[&Expr], ordered: bool) -> Result<Vec<String>, Fault> {
        let below = self.deeper();
        let mut kinds = Vec::new();
        for part in parts {
            kinds.push(below.part(part)?);
        }
        let time = kinds.iter().any(|(kind, _)| *kind == Kind::Time);
        for (part, slot) in parts.iter().zip(&mut kinds) {
            if let (true, Some(Plain::Text(text))) = (time, constants::literal(part)) {
                let text = constants::canonical_time(&text).map_err(|why| (part.span().start.line, why))?;
                *slot = (Kind::Time, super::ddl::text_literal(&text));
            }
        }
        let first = kinds.first().map_or(Kind::Json, |(kind, _)| *kind);
        if let Some((other, _)) = kinds.iter().find(|(kind, _)| *kind != first) {
            let (one, two) = (first.words(), other.words());
            return fault(whole, format!("{whole} compares {one} with {two}: both sides have to be of one type"));
        }
        if first == Kind::Json {
            return fault(whole, format!("{whole} compares JSON; only IS NULL can be asked of a JSON column"));
        }
        if ordered && matches!(first, Kind::Boolean | Kind::Blob) {
            return fault(whole, format!("{whole}: {} has no order; write = or <>", first.words()));
        }
        Ok(kinds.into_iter().map(|(_, sql)| sql).collect())
    }

    fn length(self, expr: &Expr) -> Result<(Kind, String), Fault> {
        let unknown = || fault(expr, format!("{expr} is not part of schema.sql; {LANGUAGE}"));
        let Expr::Function(call) = expr else { return unknown() };
        let FunctionArguments::List(arguments) = &call.args else { return unknown() };
        let [FunctionArg::Unnamed(FunctionArgExpr::Expr(inner))] = arguments.args.as_slice() else { return unknown() };
        let plain = format!("{}({inner})", call.name);
        if !call.name.to_string().eq_ignore_ascii_case("length") || expr.to_string() != plain {
            return unknown();
        }
        match self.deeper().part(inner)? {
            (Kind::Text | Kind::Blob, sql) => Ok((Kind::Number, format!("length({sql})"))),
            (kind, _) => fault(expr, format!("length() takes text or a BLOB, and {inner} is {}", kind.words())),
        }
    }
}

/// `sql` without its outermost parentheses, which every operation has.
fn strip(sql: &str) -> String {
    sql.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(sql).to_owned()
}

enum Group {
    Logic,
    Arithmetic,
    Equality,
    Order,
}

fn operator(op: &BinaryOperator) -> Option<(&'static str, Group)> {
    [
        (BinaryOperator::And, "AND", Group::Logic),
        (BinaryOperator::Or, "OR", Group::Logic),
        (BinaryOperator::Plus, "+", Group::Arithmetic),
        (BinaryOperator::Minus, "-", Group::Arithmetic),
        (BinaryOperator::Multiply, "*", Group::Arithmetic),
        (BinaryOperator::Eq, "=", Group::Equality),
        (BinaryOperator::NotEq, "<>", Group::Equality),
        (BinaryOperator::Lt, "<", Group::Order),
        (BinaryOperator::LtEq, "<=", Group::Order),
        (BinaryOperator::Gt, ">", Group::Order),
        (BinaryOperator::GtEq, ">=", Group::Order),
    ]
    .into_iter()
    .find_map(|(known, word, group)| (known == *op).then_some((word, group)))
}
