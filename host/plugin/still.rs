//! Modules of which no run can change anything: functions that are only ever called, and constants that are texts,
//! numbers and the like. To instantiate one for each run gives the same each time, so an engine does it once.

#![expect(clippy::wildcard_enum_match_arm, reason = "of the many kinds of nodes only a few matter here")]

use std::collections::{BTreeSet, HashMap};

use oxc::ast::ast::{
    BindingPattern, CallExpression, Declaration, ExportDefaultDeclarationKind, ExportSpecifier, Expression, Function,
    ImportDeclarationSpecifier, ModuleExportName, Program, Statement, VariableDeclaration,
};
use oxc::ast_visit::{Visit, walk};
use oxc::semantic::{Scoping, SymbolId};
use oxc::syntax::operator::{BinaryOperator, UnaryOperator};

use super::bundle::{Bundler, Found};
use super::plain;
use super::rewrite::CONFIG;

/// Bytes that the constants of one module may hold: they stay in the engine, whose memory all runs share.
const MOST: usize = 16 << 10;

/// What there is to say of one module by itself.
#[derive(Debug, Default)]
pub(super) struct Still {
    /// Nothing but such functions and constants is in it.
    pub own: bool,
    /// Its constants, and about how many bytes each holds at most.
    constants: HashMap<String, usize>,
    /// What it imports and does more with than call it: specifier and name.
    held: Vec<(String, String)>,
}

/// Looks at a program that has been through the TypeScript transform.
pub(super) fn look(program: &Program<'_>, scoping: &Scoping) -> Still {
    let mut called = Called { scoping, times: HashMap::new() };
    called.visit_program(program);
    let mut still = Still { own: true, ..Still::default() };
    for statement in &program.body {
        still.own &= still.takes(statement, &called);
    }
    still
}

impl Still {
    fn takes(&mut self, statement: &Statement<'_>, called: &Called<'_>) -> bool {
        match statement {
            Statement::EmptyStatement(_)
            | Statement::ExportNamedDeclaration(_)
            | Statement::ExportFromDeclaration(_)
            | Statement::ExportAllDeclaration(_) => true,
            Statement::ImportDeclaration(import) => {
                let named = import.specifiers.iter().flatten().filter_map(|specifier| match specifier {
                    ImportDeclarationSpecifier::ImportSpecifier(it) => {
                        Some((it.imported.name().to_string(), &it.local))
                    }
                    ImportDeclarationSpecifier::ImportDefaultSpecifier(it) => Some(("default".to_owned(), &it.local)),
                    // Whose namespace is held is known otherwise.
                    ImportDeclarationSpecifier::ImportNamespaceSpecifier(_) => None,
                });
                let held = named.filter(|(_, local)| !called.only(local.symbol_id.get()));
                self.held.extend(held.map(|(name, _)| (import.source.value.to_string(), name)));
                true
            }
            Statement::FunctionDeclaration(function) => is_called(function, called),
            Statement::VariableDeclaration(variables) => self.takes_constants(variables, called.scoping),
            Statement::ExportDeclaration(export) => match &export.declaration {
                Declaration::FunctionDeclaration(function) => is_called(function, called),
                Declaration::VariableDeclaration(variables) => {
                    let imported = |expression: &Expression<'_>| is_imported(expression, called.scoping);
                    plain::is_unused_constant(&export.declaration, CONFIG, called.scoping, &imported)
                        || self.takes_constants(variables, called.scoping)
                }
                _ => false,
            },
            Statement::ExportDefaultDeclaration(export) => match &export.declaration {
                ExportDefaultDeclarationKind::FunctionDeclaration(function) => is_called(function, called),
                _ => false,
            },
            _ => false,
        }
    }

    fn takes_constants(&mut self, variables: &VariableDeclaration<'_>, scoping: &Scoping) -> bool {
        variables.kind.is_const()
            && variables.declarations.iter().all(|declarator| {
                let BindingPattern::BindingIdentifier(name) = &declarator.id else { return false };
                let size = declarator.init.as_ref().and_then(|value| self.size(value, scoping));
                self.constants.insert(name.name.to_string(), size.unwrap_or(MOST));
                size.is_some() && self.constants.values().sum::<usize>() <= MOST
            })
    }

    /// About how many bytes the value holds at most, where it is a text, a number or the like, given that all that the
    /// module imports is, or is a function.
    fn size(&self, expression: &Expression<'_>, scoping: &Scoping) -> Option<usize> {
        match expression {
            Expression::StringLiteral(it) => Some(it.value.len()),
            Expression::BigIntLiteral(it) => Some(it.value.len()),
            Expression::NumericLiteral(_) | Expression::BooleanLiteral(_) | Expression::NullLiteral(_) => Some(8),
            Expression::ParenthesizedExpression(it) => self.size(&it.expression, scoping),
            Expression::TemplateLiteral(it) => {
                let texts = it.quasis.iter().map(|part| Some(part.value.raw.len()));
                texts.chain(it.expressions.iter().map(|value| self.part(value, scoping))).sum()
            }
            Expression::BinaryExpression(it) if !it.operator.is_in() && !it.operator.is_instance_of() => {
                // `**` and `<<` make much of little.
                let little = matches!(it.operator, BinaryOperator::Exponential | BinaryOperator::ShiftLeft);
                let both = self.part(&it.left, scoping)? + self.part(&it.right, scoping)?;
                Some(if little { both.max(MOST + 1) } else { both })
            }
            Expression::UnaryExpression(it) if it.operator != UnaryOperator::Delete => self.size(&it.argument, scoping),
            Expression::Identifier(it) => {
                let symbol = it.reference_id.get().and_then(|id| scoping.get_reference(id).symbol_id());
                let own = symbol.is_some_and(|symbol| scoping.symbol_flags(symbol).is_const_variable());
                match self.constants.get(it.name.as_str()).filter(|_| own) {
                    Some(size) => Some(*size),
                    None => is_imported(expression, scoping).then_some(8),
                }
            }
            _ => None,
        }
    }

    /// The same for a part of a greater one: nobody knows here how much is imported.
    fn part(&self, expression: &Expression<'_>, scoping: &Scoping) -> Option<usize> {
        let size = self.size(expression, scoping)?;
        Some(if is_imported(expression, scoping) { MOST + 1 } else { size.max(8) })
    }
}

/// A function that has no state, since nothing but calls gets hold of it. What a generator gives leads to an object
/// of its own.
fn is_called(function: &Function<'_>, called: &Called<'_>) -> bool {
    !function.generator && function.id.as_ref().is_none_or(|id| called.only(id.symbol_id.get()))
}

/// Whether it is an imported name.
fn is_imported(expression: &Expression<'_>, scoping: &Scoping) -> bool {
    let Expression::Identifier(it) = expression else { return false };
    let symbol = it.reference_id.get().and_then(|id| scoping.get_reference(id).symbol_id());
    symbol.is_some_and(|symbol| scoping.symbol_flags(symbol).is_import())
}

/// How often each name is called, or passed on by an export.
struct Called<'s> {
    scoping: &'s Scoping,
    times: HashMap<SymbolId, usize>,
}

impl Called<'_> {
    /// Whether nothing else is done with it.
    fn only(&self, symbol: Option<SymbolId>) -> bool {
        symbol.is_some_and(|symbol| {
            self.scoping.get_resolved_references(symbol).count() == self.times.get(&symbol).copied().unwrap_or(0)
        })
    }

    fn note(&mut self, reference: &oxc::ast::ast::IdentifierReference<'_>) {
        let symbol = reference.reference_id.get().and_then(|id| self.scoping.get_reference(id).symbol_id());
        if let Some(symbol) = symbol {
            *self.times.entry(symbol).or_default() += 1;
        }
    }
}

impl<'a> Visit<'a> for Called<'_> {
    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        if let Expression::Identifier(callee) = &it.callee {
            self.note(callee);
        }
        walk::walk_call_expression(self, it);
    }

    fn visit_export_specifier(&mut self, it: &ExportSpecifier<'a>) {
        if let ModuleExportName::IdentifierReference(local) = &it.local {
            self.note(local);
        }
    }
}

impl Bundler<'_> {
    /// The modules that need to be instantiated once only: they import none but such, and nobody else holds what would
    /// let it be changed.
    pub(super) fn still(&self, whole: &BTreeSet<usize>) -> Vec<bool> {
        let alone = |index: usize| {
            let unit = self.files[index].unit.as_ref();
            unit.is_some_and(|unit| unit.still.own && unit.globals.is_empty())
                && !whole.contains(&index)
                && !self.is_in_cycle(index)
        };
        let mut still: Vec<bool> = (0..self.files.len()).map(alone).collect();
        for (index, file) in self.files.iter().enumerate() {
            let Some(unit) = &file.unit else { continue };
            let configs = unit.imports.iter().filter(|import| import.name == CONFIG);
            let configs = configs.map(|import| (import.slot, import.name.as_str()));
            let held = unit.still.held.iter().filter_map(|(specifier, name)| {
                let slot = unit.requests.iter().position(|request| request.specifier == *specifier)?;
                Some((slot, name.as_str()))
            });
            for (slot, name) in configs.chain(held) {
                if let Some(target) = self.slot(index, slot) {
                    self.holds(target, name, &mut still);
                }
            }
        }
        for index in whole {
            // Through a namespace object all that it leads to can be held, from whichever module that is.
            for name in self.names_of(*index) {
                self.holds(*index, &name, &mut still);
            }
        }
        loop {
            let moved = |index: &usize| {
                let mut targets = self.files[*index].slots.iter().flatten();
                still[*index] && targets.any(|target| !still[*target])
            };
            let moved: Vec<usize> = (0..still.len()).filter(moved).collect();
            if moved.is_empty() {
                return still;
            }
            moved.into_iter().for_each(|index| still[index] = false);
        }
    }

    /// Somebody holds this name of a module: where that is no constant, it could be changed.
    fn holds(&self, index: usize, name: &str, still: &mut [bool]) {
        match self.find(index, name, &mut Default::default()) {
            Found::Value(of, Some(local)) => {
                let unit = self.files[of].unit.as_ref();
                still[of] &= unit.is_some_and(|unit| unit.still.constants.contains_key(&local));
            }
            Found::Value(of, None) => still[of] = false,
            Found::Type | Found::Missing => {}
            // Whatever it is.
            Found::Ambiguous | Found::Unknown => still.fill(false),
        }
    }
}
