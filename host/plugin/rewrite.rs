//! Takes the module syntax out of a program: imported names become members of their slot (`__m0.name`), `export`
//! falls away, and what was imported and exported is given back as a list.

#![expect(clippy::wildcard_enum_match_arm, reason = "of the many kinds of nodes only a few matter here")]

use std::collections::{BTreeSet, HashMap};

use oxc::allocator::{Allocator, ArenaBox, ArenaVec, TakeIn};
use oxc::ast::ast::{
    Argument, BindingIdentifier, BindingPattern, CallExpression, ClassType, Declaration, ExportAllDeclaration,
    ExportDefaultDeclarationKind, ExportSpecifier, Expression, FunctionType, IdentifierName, ImportDeclaration,
    ImportDeclarationSpecifier, NewExpression, NumberBase, ObjectProperty, ObjectPropertyKind, Program, PropertyKey,
    PropertyKind, Statement, StringLiteral, TaggedTemplateExpression, UnaryExpression, UnaryOperator,
    VariableDeclarationKind, VariableDeclarator,
};
use oxc::ast::builder::AstBuilder;
use oxc::ast_visit::{VisitMut, walk_mut};
use oxc::parser::Parser;
use oxc::semantic::{Scoping, SymbolId};
use oxc::span::{GetSpan, SPAN, SourceType, Span};
use oxc::syntax::identifier::is_identifier_name;

use super::absent;
use super::compile::{Export, Import, Names, Request, Source};
use super::plain;
use super::refuse;

/// The export by which a handler says what kind of action it is.
pub(super) const CONFIG: &str = "config";

/// What joins a module to others.
#[derive(Debug, Default)]
pub(super) struct Joints {
    pub requests: Vec<Request>,
    pub imports: Vec<Import>,
    pub exports: Vec<Export>,
    pub stars: Vec<usize>,
    pub whole: BTreeSet<usize>,
}

/// Rewrites a program that has been through the TypeScript transform (so that type imports are gone). Of a `package`, what
/// bundlers put in for it is put in.
pub(super) fn rewrite<'a>(
    allocator: &'a Allocator,
    program: &mut Program<'a>,
    scoping: &Scoping,
    names: &Names,
    package: bool,
) -> Joints {
    let ast = AstBuilder::new(allocator);
    let mut rewriter = Rewriter {
        ast,
        allocator,
        scoping,
        names,
        package,
        joints: Joints::default(),
        bound: HashMap::new(),
        local: HashMap::new(),
        config: None,
    };
    program.hashbang = None;
    let body = program.body.take_in(&allocator);
    let mut kept = ArenaVec::with_capacity_in(body.len(), &allocator);
    // Imports are hoisted: their names are known before the first export that passes one on.
    let mut rest = Vec::with_capacity(body.len());
    for statement in body {
        rewriter.request_of(&statement);
        match statement {
            Statement::ImportDeclaration(import) => rewriter.import(&import),
            other => rest.push(other),
        }
    }
    for statement in rest {
        rewriter.statement(statement, &mut kept);
    }
    program.body = kept;
    rewriter.visit_program(program);
    if let Some((mut value, span)) = rewriter.config.take() {
        rewriter.visit_expression(&mut value);
        // Whoever imports it sees one object.
        let name = format!("({} ??= {})", rewriter.names.config, plain::print(&value));
        let from = Source::Local { name, constant: false };
        rewriter.export(CONFIG, from, span);
    }
    rewriter.joints
}

struct Rewriter<'a, 's> {
    ast: AstBuilder<'a>,
    allocator: &'a Allocator,
    scoping: &'s Scoping,
    names: &'s Names,
    /// Somebody else's code, written for bundlers.
    package: bool,
    joints: Joints,
    /// Imported bindings: their slot and name there, `None` for the namespace.
    bound: HashMap<SymbolId, (usize, Option<String>)>,
    /// The same by their local name.
    local: HashMap<String, (usize, Option<String>)>,
    /// The value of a `config` that is evaluated only when somebody asks.
    config: Option<(Expression<'a>, Span)>,
}

impl<'a> Rewriter<'a, '_> {
    /// Slots are given in the order of the source, whatever kind of statement asks.
    fn request_of(&mut self, statement: &Statement<'a>) {
        match statement {
            Statement::ImportDeclaration(it) => self.slot(&it.source),
            Statement::ExportFromDeclaration(it) => self.slot(&it.source),
            Statement::ExportAllDeclaration(it) => self.slot(&it.source),
            _ => return,
        };
    }

    fn slot(&mut self, source: &StringLiteral<'_>) -> usize {
        let specifier = source.value.as_str();
        let requests = &mut self.joints.requests;
        requests.iter().position(|request| request.specifier == specifier).unwrap_or_else(|| {
            requests.push(Request { specifier: specifier.to_owned(), offset: source.span.start as usize });
            requests.len() - 1
        })
    }

    fn import(&mut self, import: &ImportDeclaration<'a>) {
        let slot = self.slot(&import.source);
        for specifier in import.specifiers.iter().flatten() {
            let (local, name, span): (&BindingIdentifier<'_>, Option<String>, Span) = match specifier {
                ImportDeclarationSpecifier::ImportSpecifier(it) => {
                    (&it.local, Some(it.imported.name().to_string()), it.span)
                }
                ImportDeclarationSpecifier::ImportDefaultSpecifier(it) => {
                    (&it.local, Some("default".to_owned()), it.span)
                }
                ImportDeclarationSpecifier::ImportNamespaceSpecifier(it) => (&it.local, None, it.span),
            };
            match &name {
                Some(name) => {
                    self.joints.imports.push(Import { slot, name: name.clone(), offset: span.start as usize });
                }
                None => drop(self.joints.whole.insert(slot)),
            }
            if let Some(symbol) = local.symbol_id.get() {
                self.bound.insert(symbol, (slot, name.clone()));
            }
            self.local.insert(local.name.to_string(), (slot, name));
        }
    }

    fn statement(&mut self, statement: Statement<'a>, kept: &mut ArenaVec<'a, Statement<'a>>) {
        match statement {
            Statement::ExportDeclaration(export) => {
                let mut export = export.unbox();
                let imported = |it: &Expression<'a>| self.imported(it).is_some();
                match plain::unused_constant(&mut export.declaration, CONFIG, self.scoping, &imported) {
                    Some(value) => {
                        self.config = Some((value.take_in(&self.allocator), export.span));
                        kept.push(self.variable(&self.names.config, None, VariableDeclarationKind::Let, SPAN));
                    }
                    None => {
                        self.export_declaration(&export.declaration);
                        kept.push(Statement::from(export.declaration));
                    }
                }
            }
            Statement::ExportNamedDeclaration(export) => {
                for specifier in &export.specifiers {
                    let local = specifier.local.name();
                    let from = match self.local.get(local.as_str()) {
                        Some((slot, Some(name))) => Source::Imported { slot: *slot, name: name.clone() },
                        Some((slot, None)) => Source::Namespace { slot: *slot },
                        None => self.own(local.as_str()),
                    };
                    self.export_specifier(specifier, from);
                }
            }
            Statement::ExportFromDeclaration(export) => {
                let slot = self.slot(&export.source);
                for specifier in &export.specifiers {
                    let name = specifier.local.name().to_string();
                    self.export_specifier(specifier, Source::Imported { slot, name });
                }
            }
            Statement::ExportAllDeclaration(export) => self.export_all(&export),
            Statement::ExportDefaultDeclaration(export) => {
                let export = export.unbox();
                kept.extend(self.export_default(export.declaration, export.span));
            }
            other => kept.push(other),
        }
    }

    fn export(&mut self, name: impl Into<String>, from: Source, span: Span) {
        self.joints.exports.push(Export { name: name.into(), from, offset: span.start as usize });
    }

    /// A binding of the module's top level.
    fn own(&self, name: &str) -> Source {
        let root = self.scoping.root_scope_id();
        let symbol = self.scoping.get_binding(root, name.into());
        let constant = symbol.is_some_and(|symbol| !self.scoping.symbol_is_mutated(symbol));
        Source::Local { name: name.to_owned(), constant }
    }

    fn export_specifier(&mut self, specifier: &ExportSpecifier<'a>, from: Source) {
        self.export(specifier.exported.name().as_str(), from, specifier.span);
    }

    fn export_declaration(&mut self, declaration: &Declaration<'a>) {
        let mut bound: Vec<(String, Span)> = Vec::new();
        match declaration {
            Declaration::VariableDeclaration(it) => {
                for declarator in &it.declarations {
                    for binding in declarator.id.get_binding_identifiers() {
                        bound.push((binding.name.to_string(), binding.span));
                    }
                }
            }
            Declaration::FunctionDeclaration(it) => bound.extend(it.id.iter().map(|id| (id.name.to_string(), id.span))),
            Declaration::ClassDeclaration(it) => bound.extend(it.id.iter().map(|id| (id.name.to_string(), id.span))),
            _ => {}
        }
        for (name, span) in bound {
            let from = self.own(&name);
            self.export(name, from, span);
        }
    }

    fn export_all(&mut self, export: &ExportAllDeclaration<'a>) {
        let slot = self.slot(&export.source);
        match &export.exported {
            Some(name) => {
                self.joints.whole.insert(slot);
                self.export(name.name().as_str(), Source::Namespace { slot }, export.span);
            }
            None => self.joints.stars.push(slot),
        }
    }

    fn export_default(&mut self, declaration: ExportDefaultDeclarationKind<'a>, span: Span) -> Option<Statement<'a>> {
        let default: &str = self.allocator.alloc_str(&self.names.default);
        let binding = || BindingIdentifier::new(SPAN, default, &self.ast);
        let (local, statement) = match declaration {
            ExportDefaultDeclarationKind::FunctionDeclaration(mut function) => {
                let id = function.id.get_or_insert_with(binding);
                let local = id.name.to_string();
                function.r#type = FunctionType::FunctionDeclaration;
                (local, Statement::FunctionDeclaration(function))
            }
            ExportDefaultDeclarationKind::ClassDeclaration(mut class) if class.id.is_none() => {
                class.r#type = ClassType::ClassExpression;
                let value = Some(self.named_default(Expression::ClassExpression(class)));
                (self.names.default.clone(), self.variable(default, value, VariableDeclarationKind::Const, span))
            }
            ExportDefaultDeclarationKind::ClassDeclaration(mut class) => {
                let id = class.id.get_or_insert_with(binding);
                let local = id.name.to_string();
                class.r#type = ClassType::ClassDeclaration;
                (local, Statement::ClassDeclaration(class))
            }
            ExportDefaultDeclarationKind::TSInterfaceDeclaration(_) => return None,
            expression => {
                let value = Some(self.named_default(expression.into_expression()));
                let statement = self.variable(default, value, VariableDeclarationKind::Const, span);
                (self.names.default.clone(), statement)
            }
        };
        let from =
            if local == self.names.default { Source::Local { name: local, constant: true } } else { self.own(&local) };
        self.export("default", from, span);
        Some(statement)
    }

    /// `{ default: value }.default`, by which functions and classes have that name.
    fn named_default(&self, value: Expression<'a>) -> Expression<'a> {
        let anonymous = match value.get_inner_expression() {
            Expression::ArrowFunctionExpression(_) => true,
            Expression::FunctionExpression(it) => it.id.is_none(),
            Expression::ClassExpression(it) => it.id.is_none(),
            _ => false,
        };
        if !anonymous {
            return value;
        }
        let name = || IdentifierName::new(SPAN, "default", &self.ast);
        let key = PropertyKey::StaticIdentifier(ArenaBox::new_in(name(), &self.allocator));
        let property = ObjectPropertyKind::new_object_property(
            SPAN,
            PropertyKind::Init,
            key,
            value,
            false,
            false,
            false,
            &self.ast,
        );
        let object = Expression::new_object_expression(SPAN, [property], &self.ast);
        Expression::new_static_member_expression(SPAN, object, name(), false, &self.ast)
    }

    fn variable(
        &self,
        name: &str,
        value: Option<Expression<'a>>,
        kind: VariableDeclarationKind,
        span: Span,
    ) -> Statement<'a> {
        let name: &str = self.allocator.alloc_str(name);
        let pattern = BindingPattern::new_binding_identifier(SPAN, name, &self.ast);
        let declarator = VariableDeclarator::new(SPAN, pattern, None, value, false, &self.ast);
        Statement::from(Declaration::new_variable_declaration(span, kind, [declarator], false, &self.ast))
    }

    /// What an imported identifier stands for, if it is one.
    fn imported(&self, expression: &Expression<'a>) -> Option<Expression<'a>> {
        let Expression::Identifier(identifier) = expression else { return None };
        let symbol = self.scoping.get_reference(identifier.reference_id.get()?).symbol_id()?;
        let (slot, name) = self.bound.get(&symbol)?;
        let object: &str = self.allocator.alloc_str(&format!("{}{slot}", self.names.slot));
        let object = Expression::new_identifier(identifier.span, object, &self.ast);
        let Some(name) = name else { return Some(object) };
        let name: &str = self.allocator.alloc_str(name);
        Some(if is_identifier_name(name) {
            let property = IdentifierName::new(identifier.span, name, &self.ast);
            Expression::new_static_member_expression(identifier.span, object, property, false, &self.ast)
        } else {
            let property = Expression::new_string_literal(identifier.span, name, None, &self.ast);
            Expression::new_computed_member_expression(identifier.span, object, property, false, &self.ast)
        })
    }

    /// `"production"` for `process.env.NODE_ENV`.
    fn bundled(&self, expression: &Expression<'a>) -> Option<Expression<'a>> {
        let Expression::StaticMemberExpression(member) = expression else { return None };
        let Expression::StaticMemberExpression(env) = &member.object else { return None };
        let Expression::Identifier(process) = &env.object else { return None };
        let named = member.property.name == "NODE_ENV" && env.property.name == "env" && process.name == "process";
        let production = || Expression::new_string_literal(member.span, "production", None, &self.ast);
        (self.package && named && self.absent(&env.object).is_some()).then(production)
    }

    /// `__tick("NAME is not defined (…)", 0)`, which throws that, for a global that is not there.
    fn absent(&self, expression: &Expression<'a>) -> Option<Expression<'a>> {
        let Expression::Identifier(identifier) = expression else { return None };
        let reference = self.scoping.get_reference(identifier.reference_id.get()?);
        let sentence = reference.symbol_id().is_none().then(|| absent::sentence(&identifier.name))??;
        let sentence: &str = self.allocator.alloc_str(&sentence);
        let tick: &str = self.allocator.alloc_str(&self.names.tick);
        let sentence = Expression::new_string_literal(SPAN, sentence, None, &self.ast);
        let zero = Expression::new_numeric_literal(SPAN, 0.0, None, NumberBase::Decimal, &self.ast);
        let callee = Expression::new_identifier(identifier.span, tick, &self.ast);
        let arguments = [Argument::from(sentence), Argument::from(zero)];
        Some(Expression::new_call_expression(identifier.span, callee, None, arguments, false, &self.ast))
    }

    /// What stands in a package for `import.meta`, of which bundlers put `env` in, for `import(…)`, a promise that is
    /// rejected, and for `eval`.
    fn elsewhere(&self, expression: &Expression<'a>) -> Option<Expression<'a>> {
        let text = match expression {
            _ if !self.package => return None,
            Expression::ImportMeta(_) => "({ env: { MODE: 'production', PROD: true, DEV: false } })".to_owned(),
            Expression::ImportExpression(_) => {
                let why = serde_json::to_string(refuse::NO_DYNAMIC_IMPORT).unwrap_or_default();
                format!("{}({why}, 0, 0)", self.names.tick)
            }
            // What makes no code of strings, and says so. Packages list it among the built-ins, and call it nowhere.
            Expression::Identifier(it) if it.name == "eval" => {
                self.absent(expression)?;
                "(() => {}).constructor".to_owned()
            }
            _ => return None,
        };
        let text: &str = self.allocator.alloc_str(&text);
        let mut made = Parser::new(self.allocator, text, SourceType::mjs()).parse_expression().ok()?;
        At(expression.span()).visit_expression(&mut made);
        Some(made)
    }

    /// `(0, __m0.f)`, so that what is called does not see the namespace as `this`.
    fn detached(&self, callee: &Expression<'a>) -> Option<Expression<'a>> {
        let value = self.imported(callee.get_inner_expression())?;
        if matches!(value, Expression::Identifier(_)) {
            return Some(value);
        }
        let zero = Expression::new_numeric_literal(SPAN, 0.0, None, NumberBase::Decimal, &self.ast);
        Some(Expression::new_sequence_expression(SPAN, [zero, value], &self.ast))
    }
}

/// Whether it is printed with `new` in front: the printer leaves out parentheses that the language does not need.
fn begins_with_new(callee: &Expression<'_>) -> bool {
    match callee {
        Expression::NewExpression(_) => true,
        Expression::ParenthesizedExpression(it) => begins_with_new(&it.expression),
        Expression::StaticMemberExpression(it) => begins_with_new(&it.object),
        Expression::ComputedMemberExpression(it) => begins_with_new(&it.object),
        Expression::PrivateFieldExpression(it) => begins_with_new(&it.object),
        Expression::TaggedTemplateExpression(it) => begins_with_new(&it.tag),
        _ => false,
    }
}

/// Puts all of an expression at one place.
struct At(Span);

impl VisitMut<'_> for At {
    fn visit_span(&mut self, it: &mut Span) {
        *it = self.0;
    }
}

impl<'a> VisitMut<'a> for Rewriter<'a, '_> {
    fn visit_expression(&mut self, it: &mut Expression<'a>) {
        let told = self.imported(it).or_else(|| self.elsewhere(it)).or_else(|| self.absent(it));
        if let Some(value) = told.or_else(|| self.bundled(it)) {
            *it = value;
            return;
        }
        walk_mut::walk_expression(self, it);
    }

    fn visit_unary_expression(&mut self, it: &mut UnaryExpression<'a>) {
        let asks = it.operator == UnaryOperator::Typeof && self.absent(it.argument.get_inner_expression()).is_some();
        if !asks {
            walk_mut::walk_unary_expression(self, it);
        }
    }

    fn visit_call_expression(&mut self, it: &mut CallExpression<'a>) {
        if let Some(callee) = self.detached(&it.callee) {
            it.callee = callee;
        }
        walk_mut::walk_call_expression(self, it);
    }

    // The engine takes both pairs of parentheses of `new new X()()` for those of the inner one.
    fn visit_new_expression(&mut self, it: &mut NewExpression<'a>) {
        walk_mut::walk_new_expression(self, it);
        if begins_with_new(&it.callee) {
            let callee = it.callee.take_in(&self.allocator);
            let zero = Expression::new_numeric_literal(SPAN, 0.0, None, NumberBase::Decimal, &self.ast);
            it.callee = Expression::new_sequence_expression(callee.span(), [zero, callee], &self.ast);
        }
    }

    fn visit_tagged_template_expression(&mut self, it: &mut TaggedTemplateExpression<'a>) {
        if let Some(tag) = self.detached(&it.tag) {
            it.tag = tag;
        }
        walk_mut::walk_tagged_template_expression(self, it);
    }

    fn visit_object_property(&mut self, it: &mut ObjectProperty<'a>) {
        if self.imported(&it.value).or_else(|| self.absent(&it.value)).is_some() {
            it.shorthand = false;
        }
        walk_mut::walk_object_property(self, it);
    }
}
