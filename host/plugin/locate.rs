//! From the path of a member to its place in the text, in JSON files and in the `config` of a handler. JSON is a
//! part of JavaScript's expressions, so the one parser serves both.

#![expect(clippy::wildcard_enum_match_arm, reason = "of the many kinds of nodes only a few matter here")]

use std::collections::HashSet;

use oxc::allocator::Allocator;
use oxc::ast::ast::{
    ArrayExpressionElement, BindingPattern, Declaration, Expression, ObjectExpression, ObjectPropertyKind, Program,
    PropertyKind, Statement, VariableDeclaration,
};
use oxc::ast_visit::{Visit, walk};
use oxc::parser::Parser;
use oxc::span::{GetSpan, SourceType};

use super::Fault;
use super::compile::Flaw;
use super::derive::literal;
use super::fault::{bare, offset_of};
use super::read::Finding;
use serde_json::Value as Json;

/// Reads a JSON file; doubled member names are faults too.
///
/// # Errors
/// Where the text is not JSON: the one fault that says so.
pub(super) fn parse(file: &str, text: &str, faults: &mut Vec<Fault>) -> Option<Json> {
    let value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => {
            let offset = offset_of(text, error.line(), error.column());
            let mut message = format!("not JSON: {}", bare(&error));
            if message.ends_with("trailing comma") {
                message.push_str(", take the comma before it out");
            }
            faults.push(Fault::at(file, text, offset, message));
            return None;
        }
    };
    let allocator = Allocator::default();
    if let Ok(expression) = Parser::new(&allocator, text, SourceType::mjs()).parse_expression() {
        let mut doubled = Doubled(Vec::new());
        doubled.visit_expression(&expression);
        faults.extend(doubled.0.into_iter().map(|flaw| Fault::at(file, text, flaw.offset, flaw.message)));
    }
    Some(value)
}

struct Doubled(Vec<Flaw>);

impl<'a> Visit<'a> for Doubled {
    fn visit_object_expression(&mut self, it: &ObjectExpression<'a>) {
        let mut seen = HashSet::new();
        for property in &it.properties {
            let ObjectPropertyKind::ObjectProperty(property) = property else { continue };
            let Some(name) = property.key.static_name() else { continue };
            if !seen.insert(name.to_string()) {
                self.0.push(Flaw::new(property.key.span().start, format!("`{name}` is there twice: keep one")));
            }
        }
        walk::walk_object_expression(self, it);
    }
}

/// Findings in a JSON file as faults.
pub(super) fn in_json(file: &str, text: &str, findings: Vec<Finding>) -> Vec<Fault> {
    let allocator = Allocator::default();
    let parsed = if findings.is_empty() {
        None
    } else {
        Parser::new(&allocator, text, SourceType::mjs()).parse_expression().ok()
    };
    let place = |finding: Finding| match &parsed {
        Some(expression) => Fault::at(file, text, find(expression, &finding), finding.message),
        None => Fault::in_file(file, finding.message),
    };
    findings.into_iter().map(place).collect()
}

/// Findings in the value of `config` as faults of the handler's file; without a line where `config` is not an object
/// written out in that file.
pub(super) fn in_config(file: &str, source: &str, findings: Vec<Finding>) -> Vec<Fault> {
    if findings.is_empty() {
        return Vec::new();
    }
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, source, SourceType::ts()).parse();
    let config = config(&parsed.program);
    let place = |finding: Finding| match config {
        Some(expression) => Fault::at(file, source, find(expression, &finding), finding.message),
        None => Fault::in_file(file, finding.message),
    };
    findings.into_iter().map(place).collect()
}

/// The value of a `config` that is written out in a handler's file.
pub(super) fn config_value(source: &str) -> Option<Json> {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, source, SourceType::ts()).parse();
    config(&parsed.program).and_then(written_out)
}

/// The value of an expression of literals.
fn written_out(expression: &Expression<'_>) -> Option<Json> {
    match expression.get_inner_expression() {
        Expression::ObjectExpression(it) => {
            let members = it.properties.iter().map(|property| {
                let property = property.as_property().filter(|it| it.kind == PropertyKind::Init && !it.computed)?;
                Some((property.key.static_name()?.to_string(), written_out(&property.value)?))
            });
            members.collect::<Option<_>>().map(Json::Object)
        }
        Expression::ArrayExpression(it) => {
            let items = it.elements.iter().map(|element| written_out(element.as_expression()?));
            items.collect::<Option<_>>().map(Json::Array)
        }
        other => literal(other),
    }
}

fn config<'p, 'a>(program: &'p Program<'a>) -> Option<&'p Expression<'a>> {
    let declared = |declaration: &'p VariableDeclaration<'a>| {
        declaration.declarations.iter().find_map(|declarator| match &declarator.id {
            BindingPattern::BindingIdentifier(id) if id.name == "config" => declarator.init.as_ref(),
            _ => None,
        })
    };
    program.body.iter().find_map(|statement| match statement {
        Statement::VariableDeclaration(declaration) => declared(declaration),
        Statement::ExportDeclaration(export) => match &export.declaration {
            Declaration::VariableDeclaration(declaration) => declared(declaration),
            _ => None,
        },
        _ => None,
    })
}

/// The offset of the deepest part of a finding's path that is written out.
fn find(expression: &Expression<'_>, finding: &Finding) -> usize {
    let mut at = expression.without_parentheses();
    let mut last = at.get_inner_expression().span().start;
    for (depth, step) in finding.path.iter().enumerate() {
        match at.get_inner_expression() {
            Expression::ObjectExpression(object) => {
                // Of doubled names the last one counts, as everywhere.
                let member = object.properties.iter().rev().find_map(|property| match property {
                    ObjectPropertyKind::ObjectProperty(property)
                        if property.key.static_name().is_some_and(|name| name == step.as_str()) =>
                    {
                        Some(property)
                    }
                    _ => None,
                });
                let Some(member) = member else { break };
                at = &member.value;
                let key = finding.key && depth + 1 == finding.path.len();
                last = if key { member.key.span().start } else { at.span().start };
            }
            Expression::ArrayExpression(array) => {
                let element = step.parse().ok().and_then(|index: usize| array.elements.get(index));
                let Some(element) = element.and_then(ArrayExpressionElement::as_expression) else { break };
                at = element;
                last = at.span().start;
            }
            _ => break,
        }
    }
    last as usize
}
