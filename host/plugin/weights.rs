//! How much time an expression may take: what `ticks` counts to know where the next one stands.

#![expect(clippy::wildcard_enum_match_arm, reason = "of the many kinds of nodes only a few matter here")]

use oxc::ast::ast::{
    AssignmentExpression, AssignmentOperator, AssignmentTarget, BinaryExpression, BinaryOperator, ChainElement,
    ComputedMemberExpression, Expression, FunctionBody, Statement, UnaryOperator,
};
use oxc::span::GetSpan;

/// Expressions in a row that make something, until one of them gets a tick: an object weighs one.
pub(super) const ROW: u32 = 256;
/// What a sum of texts weighs: the engine copies up to 16 KiB for it at once.
pub(super) const SUM: u32 = 8;
/// What an operation on numbers weighs: what it is given may be a text of all the digits that the heap holds. Where that is
/// all that it is for, it weighs far more.
pub(super) const NUMBER: u32 = 8;
const DIGITS: u32 = ROW / 4;
/// What a call weighs: a built-in may make numbers of what it is given, too.
const CALL: u32 = 16;
/// What the look for a member weighs, along prototypes as many as the heap holds.
const MEMBER: u32 = 2;

fn is_constant(expression: &Expression<'_>) -> bool {
    match expression {
        Expression::NumericLiteral(_)
        | Expression::StringLiteral(_)
        | Expression::BooleanLiteral(_)
        | Expression::NullLiteral(_) => true,
        Expression::Identifier(it) => it.name == "undefined",
        Expression::UnaryExpression(it) => it.operator == UnaryOperator::Typeof || is_constant(&it.argument),
        _ => false,
    }
}

/// Whether this can only be a number.
fn is_number(expression: &Expression<'_>) -> bool {
    match expression {
        Expression::NumericLiteral(_) => true,
        Expression::UnaryExpression(it) => match it.operator {
            UnaryOperator::UnaryPlus => true,
            UnaryOperator::UnaryNegation | UnaryOperator::BitwiseNot => is_number(&it.argument),
            _ => false,
        },
        // A BigInt and a number do not mix.
        Expression::BinaryExpression(it) if it.operator == BinaryOperator::Addition => {
            is_number(&it.left) && is_number(&it.right)
        }
        Expression::BinaryExpression(it) => {
            it.operator == BinaryOperator::ShiftRightZeroFill
                || ((it.operator.is_arithmetic() || it.operator.is_bitwise())
                    && (is_number(&it.left) || is_number(&it.right)))
        }
        Expression::ParenthesizedExpression(it) => is_number(&it.expression),
        _ => false,
    }
}

/// Whether the operation may make a BigInt of many more bits than its operands have.
pub(super) fn grows(operator: BinaryOperator, left: Option<&Expression<'_>>, right: &Expression<'_>) -> bool {
    matches!(
        operator,
        BinaryOperator::Multiplication
            | BinaryOperator::Exponential
            | BinaryOperator::ShiftLeft
            | BinaryOperator::ShiftRight
    ) && !left.is_some_and(is_number)
        && !is_number(right)
}

/// The weight of what this expression itself makes or compares.
pub(super) fn weighs(expression: &Expression<'_>) -> u32 {
    match expression {
        Expression::ArrayExpression(_)
        | Expression::ObjectExpression(_)
        | Expression::FunctionExpression(_)
        | Expression::ArrowFunctionExpression(_)
        | Expression::RegExpLiteral(_) => 1,
        Expression::CallExpression(_) | Expression::NewExpression(_) | Expression::TaggedTemplateExpression(_) => CALL,
        Expression::ClassExpression(_) => SUM,
        Expression::TemplateLiteral(it) if !it.expressions.is_empty() => SUM,
        Expression::StaticMemberExpression(_) => MEMBER,
        Expression::ComputedMemberExpression(it) => member(it),
        Expression::ChainExpression(it) => match &it.expression {
            ChainElement::CallExpression(_) => CALL,
            ChainElement::ComputedMemberExpression(it) => member(it),
            _ => MEMBER,
        },
        Expression::UnaryExpression(it) if is_constant(&it.argument) || is_number(&it.argument) => 0,
        Expression::UnaryExpression(it) => match it.operator {
            UnaryOperator::UnaryPlus => DIGITS,
            UnaryOperator::UnaryNegation | UnaryOperator::BitwiseNot => NUMBER,
            _ => 0,
        },
        Expression::BinaryExpression(it) => compares(it),
        Expression::AssignmentExpression(it) => assigns(it).max(match &it.left {
            AssignmentTarget::ComputedMemberExpression(it) => member(it),
            AssignmentTarget::StaticMemberExpression(_) => MEMBER,
            _ => 0,
        }),
        Expression::UpdateExpression(_) => DIGITS,
        _ => 0,
    }
}

/// The weight of what an assignment makes of what it assigns.
fn assigns(it: &AssignmentExpression<'_>) -> u32 {
    match it.operator {
        AssignmentOperator::Addition => SUM,
        // An element of a typed array is a number.
        AssignmentOperator::Assign => match it.left {
            AssignmentTarget::ComputedMemberExpression(_) if !is_plain(&it.right) => ROW / 8,
            // So is what an array takes as its length.
            AssignmentTarget::StaticMemberExpression(ref to)
                if to.property.name == "length" && !is_plain(&it.right) =>
            {
                ROW / 8
            }
            _ => 0,
        },
        _ if is_number(&it.right) => 0,
        _ => NUMBER,
    }
}

/// The weight of the look for a member, whose name may have to be made of a huge BigInt.
fn member(it: &ComputedMemberExpression<'_>) -> u32 {
    if is_short(&it.expression) || is_number(&it.expression) { MEMBER } else { NUMBER }
}

/// The weight of what an operator with two operands makes of them.
fn compares(it: &BinaryExpression<'_>) -> u32 {
    let plain = is_constant(&it.left) || is_constant(&it.right);
    let big = [&it.left, &it.right].iter().any(|side| matches!(side, Expression::BigIntLiteral(_)));
    match it.operator {
        BinaryOperator::Addition => SUM,
        BinaryOperator::StrictEquality | BinaryOperator::StrictInequality => {
            if plain {
                0
            } else {
                SUM
            }
        }
        BinaryOperator::Equality | BinaryOperator::Inequality if !plain => ROW,
        operator if operator.is_compare() && big => ROW,
        operator if operator.is_compare() && !plain => ROW / 4,
        BinaryOperator::In | BinaryOperator::Instanceof => ROW / 4,
        _ if is_number(&it.left) && is_number(&it.right) => 0,
        _ => NUMBER,
    }
}

/// Whether it can only be an object, or nothing that has members.
pub(super) fn is_object(expression: &Expression<'_>) -> bool {
    matches!(
        expression,
        Expression::ArrayExpression(_)
            | Expression::ObjectExpression(_)
            | Expression::NewExpression(_)
            | Expression::NumericLiteral(_)
            | Expression::BooleanLiteral(_)
            | Expression::NullLiteral(_)
    )
}

pub(super) fn is_name(expression: &Expression<'_>) -> bool {
    matches!(expression, Expression::Identifier(_) | Expression::ThisExpression(_))
}

/// Whether it makes no text.
fn is_plain(expression: &Expression<'_>) -> bool {
    is_short(expression)
        || is_number(expression)
        || matches!(
            expression,
            Expression::ArrayExpression(_)
                | Expression::ObjectExpression(_)
                | Expression::FunctionExpression(_)
                | Expression::ArrowFunctionExpression(_)
                | Expression::NewExpression(_)
        )
}

/// Whether it is a constant that nothing can be made of that takes long.
pub(super) fn is_short(expression: &Expression<'_>) -> bool {
    is_constant(expression) && expression.span().size() < 1_000
}

/// Whether a function does nothing but give a constant.
pub(super) fn is_idle(body: &FunctionBody<'_>) -> bool {
    match body.statements.as_slice() {
        [] => true,
        [Statement::ReturnStatement(it)] => it.argument.as_ref().is_none_or(is_short),
        _ => false,
    }
}
