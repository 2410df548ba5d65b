//! Expressions whose evaluation nobody can notice: literals and imported constants. A handler's `config` is one as a
//! rule, and a run has no use for it, so it is evaluated only when somebody asks.

#![expect(clippy::wildcard_enum_match_arm, reason = "of the many kinds of nodes only a few matter here")]

use oxc::ast::ast::{ArrayExpressionElement, Declaration, Expression, ObjectPropertyKind, PropertyKind, UnaryOperator};
use oxc::codegen::{Codegen, CodegenOptions};
use oxc::semantic::Scoping;

/// The value of `const NAME = …` where it is plain and nothing in the module refers to `NAME`. `imported` says of an
/// expression whether it is an imported name.
pub(super) fn unused_constant<'a, 'd>(
    declaration: &'d mut Declaration<'a>,
    name: &str,
    scoping: &Scoping,
    imported: &dyn Fn(&Expression<'a>) -> bool,
) -> Option<&'d mut Expression<'a>> {
    if !is_unused_constant(declaration, name, scoping, imported) {
        return None;
    }
    let Declaration::VariableDeclaration(declaration) = declaration else { return None };
    declaration.declarations.first_mut()?.init.as_mut()
}

/// Whether there is such a value.
pub(super) fn is_unused_constant<'a>(
    declaration: &Declaration<'a>,
    name: &str,
    scoping: &Scoping,
    imported: &dyn Fn(&Expression<'a>) -> bool,
) -> bool {
    let Declaration::VariableDeclaration(declaration) = declaration else { return false };
    let [declarator] = declaration.declarations.as_slice() else { return false };
    let Some(binding) = declarator.id.get_binding_identifier() else { return false };
    let unused = binding.symbol_id.get().is_some_and(|symbol| scoping.symbol_is_unused(symbol));
    let fits = declaration.kind.is_const() && binding.name == name && unused;
    fits && declarator.init.as_ref().is_some_and(|value| is_plain(value, imported))
}

fn is_plain<'a>(expression: &Expression<'a>, imported: &dyn Fn(&Expression<'a>) -> bool) -> bool {
    match expression {
        Expression::StringLiteral(_)
        | Expression::NumericLiteral(_)
        | Expression::BooleanLiteral(_)
        | Expression::NullLiteral(_) => true,
        Expression::Identifier(_) => imported(expression),
        Expression::ParenthesizedExpression(it) => is_plain(&it.expression, imported),
        Expression::UnaryExpression(it) => {
            it.operator == UnaryOperator::UnaryNegation && matches!(it.argument, Expression::NumericLiteral(_))
        }
        Expression::ArrayExpression(it) => it.elements.iter().all(|element| match element {
            ArrayExpressionElement::SpreadElement(_) | ArrayExpressionElement::Elision(_) => false,
            element => element.as_expression().is_some_and(|element| is_plain(element, imported)),
        }),
        Expression::ObjectExpression(it) => it.properties.iter().all(|property| match property {
            ObjectPropertyKind::SpreadProperty(_) => false,
            ObjectPropertyKind::ObjectProperty(it) => {
                it.kind == PropertyKind::Init && !it.method && !it.computed && is_plain(&it.value, imported)
            }
        }),
        _ => false,
    }
}

/// The expression on one line.
pub(super) fn print(expression: &Expression<'_>) -> String {
    let mut codegen = Codegen::new().with_options(CodegenOptions { indent_width: 0, ..CodegenOptions::default() });
    codegen.print_expression(expression);
    // No line ends within a string.
    format!("({})", codegen.into_source_text().replace(['\n', '\r'], " "))
}
