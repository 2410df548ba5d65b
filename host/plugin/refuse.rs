//! What a source file may not contain, though the parser takes it: each with its place and the way out.

use oxc::allocator::Allocator;
use oxc::ast::ast::{
    AccessorProperty, ArrowFunctionExpression, AssignmentExpression, AssignmentTarget, AwaitExpression, BigIntLiteral,
    CallExpression, Decorator, ExportSpecifier, Expression, ForOfStatement, Function, IdentifierReference,
    ImportDeclaration, JSXElement, JSXFragment, ModuleExportName, Program, PropertyDefinition, RegExpLiteral,
    StaticBlock, TSExportAssignment, TSImportEqualsDeclaration, TSModuleReference, VariableDeclaration,
    VariableDeclarationKind,
};
use oxc::ast_visit::{Visit, walk};
use oxc::parser::Parser;
use oxc::semantic::{Scoping, SymbolFlags};
use oxc::span::{SourceType, Span};
use oxc::syntax::module_record::ModuleRecord;
use oxc::syntax::scope::ScopeFlags;

use super::compile::Flaw;
use super::pattern;

const NO_REQUIRE: &str = "`require` is not there: plugins are ES modules. Write `import name from './file'`";
const NO_CJS_EXPORT: &str =
    "`module.exports` and `exports.name` are not there: plugins are ES modules. Write `export const name = …`";
pub(super) const NO_DYNAMIC_IMPORT: &str = "`import(…)` is not possible here: all modules are known when the plugin loads. \
     Write `import { name } from './file'` at the top of the file";
const TOP_LEVEL_AWAIT: &str = "`await` outside of a function is not possible here: modules are evaluated at once, for each invocation. \
     Move it into `handle` or a function that `handle` calls";

/// Functions within functions: the engine's compiler calls itself for each.
const MAX_FUNCTIONS: u32 = 500;

/// Characters of a BigInt, and of a pattern: the engine takes a time for them that grows with their square.
const MAX_DIGITS: u32 = 20_000;
const MAX_PATTERN: u32 = 32 << 10;

/// All refused forms in a program, and whether it is nested too deeply for what else is done with programs.
pub(super) fn flaws(
    program: &Program<'_>,
    scoping: &Scoping,
    record: &ModuleRecord<'_>,
    package: bool,
) -> (Vec<Flaw>, bool) {
    let mut check = Check { scoping, flaws: Vec::new(), package, depth: 0, too_deep: false };
    check.visit_program(program);
    // In somebody else's code they are often on a way that is never gone: there they fail when they are come to.
    if !package {
        record.dynamic_imports.iter().for_each(|import| check.refuse(import.span, NO_DYNAMIC_IMPORT));
        record.import_metas.iter().for_each(|meta| {
            check.refuse(*meta, "`import.meta` is not there: a plugin's code has no place on the disk");
        });
    }
    (check.flaws, check.too_deep)
}

/// The first element of JSX in a source that parses only with it.
pub(super) fn jsx(source: &str, kind: SourceType) -> Option<Flaw> {
    struct First(Option<Span>);
    impl<'a> Visit<'a> for First {
        fn visit_jsx_element(&mut self, it: &JSXElement<'a>) {
            self.0.get_or_insert(it.span);
        }

        fn visit_jsx_fragment(&mut self, it: &JSXFragment<'a>) {
            self.0.get_or_insert(it.span);
        }
    }
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, source, kind.with_jsx(true)).parse();
    if parsed.panicked || !parsed.diagnostics.is_empty() {
        return None;
    }
    let mut first = First(None);
    first.visit_program(&parsed.program);
    let message = "JSX is not possible here: give data and let the client render it, or make the text with a template, \
                   `<b>${name}</b>` in backticks";
    Some(Flaw::new(first.0?.start, message))
}

/// Whether the file speaks CommonJS, given that it has no `import` or `export`.
pub(super) fn uses_commonjs(scoping: &Scoping) -> bool {
    let unresolved = scoping.root_unresolved_references();
    unresolved.keys().any(|name| matches!(name.as_str(), "require" | "module" | "exports"))
}

struct Check<'s> {
    scoping: &'s Scoping,
    flaws: Vec<Flaw>,
    package: bool,
    /// How many functions (or class parts that run on their own) are around.
    depth: u32,
    too_deep: bool,
}

impl Check<'_> {
    fn refuse(&mut self, span: Span, message: impl Into<String>) {
        self.flaws.push(Flaw::new(span.start, message));
    }

    fn is_global(&self, identifier: &IdentifierReference<'_>) -> bool {
        let reference = identifier.reference_id.get().map(|id| self.scoping.get_reference(id));
        reference.is_none_or(|reference| reference.symbol_id().is_none())
    }

    fn global<'e>(&self, expression: &'e Expression<'_>) -> Option<&'e str> {
        let Expression::Identifier(identifier) = expression else { return None };
        self.is_global(identifier).then(|| identifier.name.as_str())
    }

    fn nested(&mut self, at: Span, visit: impl FnOnce(&mut Self)) {
        self.depth += 1;
        if self.depth <= MAX_FUNCTIONS {
            visit(self);
        } else if self.depth == MAX_FUNCTIONS + 1 {
            self.too_deep = true;
            self.refuse(at, format!("more than {MAX_FUNCTIONS} functions within one another: nest less"));
        }
        self.depth -= 1;
    }
}

impl<'a> Visit<'a> for Check<'_> {
    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        let Some(id) = it.reference_id.get() else { return };
        let reference = self.scoping.get_reference(id);
        let Some(symbol) = reference.symbol_id().filter(|_| reference.is_write()) else { return };
        let flags = self.scoping.symbol_flags(symbol);
        let name = it.name.as_str();
        if flags.contains(SymbolFlags::ConstVariable) {
            self.refuse(it.span, format!("`{name}` is a `const` and cannot be assigned to: declare it with `let`"));
        } else if flags.contains(SymbolFlags::Import) {
            self.refuse(
                it.span,
                format!(
                    "`{name}` is imported and cannot be assigned to: only the module that exports it can change it"
                ),
            );
        }
    }

    fn visit_big_int_literal(&mut self, it: &BigIntLiteral<'a>) {
        if it.span.size() > MAX_DIGITS {
            self.refuse(
                it.span,
                format!("a BigInt of more than {MAX_DIGITS} characters: a BigInt has at most 65,536 bits"),
            );
        }
    }

    fn visit_reg_exp_literal(&mut self, it: &RegExpLiteral<'a>) {
        if it.span.size() > MAX_PATTERN {
            self.refuse(
                it.span,
                format!("a pattern of more than {MAX_PATTERN} characters: look for many words with a Set"),
            );
        } else if let Err(why) = pattern::stoppable(&it.regex.pattern.text, &it.regex.flags.to_string()) {
            self.refuse(it.span, why);
        }
    }

    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        if !self.package && self.global(&it.callee) == Some("require") {
            self.refuse(it.span, NO_REQUIRE);
        }
        walk::walk_call_expression(self, it);
    }

    fn visit_assignment_expression(&mut self, it: &AssignmentExpression<'a>) {
        if !self.package
            && let AssignmentTarget::StaticMemberExpression(member) = &it.left
        {
            let global = self.global(&member.object);
            if global == Some("exports") || (global == Some("module") && member.property.name == "exports") {
                self.refuse(it.span, NO_CJS_EXPORT);
            }
        }
        walk::walk_assignment_expression(self, it);
    }

    fn visit_await_expression(&mut self, it: &AwaitExpression<'a>) {
        if self.depth == 0 {
            self.refuse(it.span, TOP_LEVEL_AWAIT);
        }
        walk::walk_await_expression(self, it);
    }

    fn visit_for_of_statement(&mut self, it: &ForOfStatement<'a>) {
        if it.r#await && self.depth == 0 {
            self.refuse(it.span, TOP_LEVEL_AWAIT);
        }
        walk::walk_for_of_statement(self, it);
    }

    fn visit_variable_declaration(&mut self, it: &VariableDeclaration<'a>) {
        if it.kind == VariableDeclarationKind::AwaitUsing && self.depth == 0 {
            self.refuse(it.span, TOP_LEVEL_AWAIT);
        }
        walk::walk_variable_declaration(self, it);
    }

    fn visit_decorator(&mut self, it: &Decorator<'a>) {
        self.refuse(it.span, "decorators are not supported: call the function yourself, `name = decorate(name)`");
    }

    fn visit_accessor_property(&mut self, it: &AccessorProperty<'a>) {
        self.refuse(it.span, "`accessor` fields are not supported: write a `get` and a `set` method");
    }

    fn visit_import_declaration(&mut self, it: &ImportDeclaration<'a>) {
        if it.phase.is_some() {
            self.refuse(it.span, "`import defer` and `import source` are not supported: write a plain `import`");
        }
        walk::walk_import_declaration(self, it);
    }

    fn visit_export_specifier(&mut self, it: &ExportSpecifier<'a>) {
        if let ModuleExportName::IdentifierReference(local) = &it.local
            && self.is_global(local)
        {
            let name = local.name.as_str();
            self.refuse(it.span, format!("`{name}` is not declared in this file, so it cannot be exported"));
        }
    }

    fn visit_ts_export_assignment(&mut self, it: &TSExportAssignment<'a>) {
        self.refuse(it.span, "`export =` is CommonJS: write `export default …`");
    }

    fn visit_ts_import_equals_declaration(&mut self, it: &TSImportEqualsDeclaration<'a>) {
        if let TSModuleReference::ExternalModuleReference(reference) = &it.module_reference {
            let name = it.id.name.as_str();
            let from = reference.expression.value.as_str();
            self.refuse(it.span, format!("`import … = require(…)` is CommonJS: write `import {name} from '{from}'`"));
        }
    }

    fn visit_function(&mut self, it: &Function<'a>, flags: ScopeFlags) {
        self.nested(it.span, |check| walk::walk_function(check, it, flags));
    }

    fn visit_arrow_function_expression(&mut self, it: &ArrowFunctionExpression<'a>) {
        self.nested(it.span, |check| walk::walk_arrow_function_expression(check, it));
    }

    fn visit_property_definition(&mut self, it: &PropertyDefinition<'a>) {
        self.nested(it.span, |check| walk::walk_property_definition(check, it));
    }

    fn visit_static_block(&mut self, it: &StaticBlock<'a>) {
        self.nested(it.span, |check| walk::walk_static_block(check, it));
    }
}
