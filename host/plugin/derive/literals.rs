//! Types that are values: literals, and constants that are written out.

#![expect(clippy::wildcard_enum_match_arm, reason = "of the many kinds of nodes only a few matter here")]

use oxc::ast::ast::{Expression, TSLiteral, TSType, TSTypeName, UnaryOperator};
use oxc::span::GetSpan;
use serde_json::{Value as Json, json};

use super::read::{Item, Kind, Member, Members, Ty};
use super::tags::Doc;

/// The type that a literal in a type's place is.
pub(super) fn literal_type(literal: &TSLiteral<'_>) -> Kind {
    match literal {
        TSLiteral::BooleanLiteral(it) => Kind::Literal(json!(it.value)),
        TSLiteral::NumericLiteral(it) => Kind::Literal(number_json(it.value)),
        TSLiteral::StringLiteral(it) => Kind::Literal(json!(it.value.as_str())),
        TSLiteral::UnaryExpression(it) if it.operator == UnaryOperator::UnaryNegation => match &it.argument {
            Expression::NumericLiteral(number) => Kind::Literal(number_json(-number.value)),
            _ => Kind::Other("a literal of a rare kind"),
        },
        TSLiteral::TemplateLiteral(it) if it.expressions.is_empty() => {
            let text = it.quasis.iter().map(|part| part.value.cooked.as_ref().map_or("", |text| text.as_str()));
            Kind::Literal(Json::String(text.collect()))
        }
        TSLiteral::BigIntLiteral(_) | TSLiteral::TemplateLiteral(_) | TSLiteral::UnaryExpression(_) => {
            Kind::Other("a literal of a rare kind")
        }
    }
}

/// A number as JSON, whole ones without a fraction.
pub(super) fn number_json(value: f64) -> Json {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        // The text of a whole number is one that JSON reads.
        return serde_json::from_str(&format!("{value:.0}")).unwrap_or(json!(value));
    }
    json!(value)
}

/// The value of a literal expression.
pub(in crate::plugin) fn literal(expression: &Expression<'_>) -> Option<Json> {
    match expression.get_inner_expression() {
        Expression::StringLiteral(it) => Some(json!(it.value.as_str())),
        Expression::NumericLiteral(it) => Some(number_json(it.value)),
        Expression::BooleanLiteral(it) => Some(json!(it.value)),
        Expression::NullLiteral(_) => Some(Json::Null),
        Expression::TemplateLiteral(it) if it.expressions.is_empty() => {
            it.quasis.first()?.value.cooked.as_ref().map(|text| json!(text.as_str()))
        }
        Expression::UnaryExpression(it) if it.operator == UnaryOperator::UnaryNegation => {
            literal(&it.argument)?.as_f64().map(|number| number_json(-number))
        }
        _ => None,
    }
}

/// The type of a constant: that of a literal, or of what is written `as const`.
pub(super) fn constant(expression: &Expression<'_>) -> Option<Ty> {
    let at = expression.span().start;
    if let Some(value) = literal(expression) {
        return Some(Ty::new(Kind::Literal(value), at));
    }
    let it = match expression {
        Expression::TSAsExpression(it) => it,
        Expression::TSSatisfiesExpression(it) => return constant(&it.expression),
        Expression::ParenthesizedExpression(it) => return constant(&it.expression),
        _ => return None,
    };
    let TSType::TSTypeReference(reference) = &it.type_annotation else { return None };
    let TSTypeName::IdentifierReference(name) = &reference.type_name else { return None };
    if name.name == "const" { fixed(&it.expression) } else { None }
}

fn fixed(expression: &Expression<'_>) -> Option<Ty> {
    let at = expression.span().start;
    if let Some(value) = literal(expression) {
        return Some(Ty::new(Kind::Literal(value), at));
    }
    match expression {
        Expression::ArrayExpression(it) => {
            let items = it.elements.iter().map(|element| {
                let ty = fixed(element.as_expression()?)?;
                Some(Item { ty, optional: false, rest: false })
            });
            Some(Ty::new(Kind::Tuple(items.collect::<Option<_>>()?), at))
        }
        Expression::ObjectExpression(it) => {
            let named = it.properties.iter().map(|property| {
                let property = property.as_property().filter(|property| !property.computed)?;
                let ty = fixed(&property.value)?;
                Some(Member { name: property.key.static_name()?.to_string(), ty, optional: false, doc: Doc::default() })
            });
            Some(Ty::new(Kind::Members(Members { named: named.collect::<Option<_>>()?, index: None }), at))
        }
        _ => None,
    }
}
