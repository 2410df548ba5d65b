//! What functions take and give, as a file writes it.

#![expect(clippy::wildcard_enum_match_arm, reason = "of the many kinds of nodes only a few matter here")]

use oxc::ast::ast::{
    BindingPattern, Expression, FormalParameters, Function, VariableDeclaration, VariableDeclarationKind,
};
use oxc::span::GetSpan;

use super::literals::constant;
use super::read::{Parameter, Reader, Signature};
use super::tags::Doc;

pub(super) const UNTYPED: &str = "the first parameter of `handle` has no type";
pub(super) const UNSEEN: &str = "`handle` is not written out as a function, and what makes it is not looked into: write \
                                 `export function handle(input: …) { … }`";

impl Reader<'_> {
    pub(super) fn variables(&mut self, variable: &VariableDeclaration<'_>, doc: &Doc) -> Vec<String> {
        let mut names = Vec::new();
        let fixed = variable.kind == VariableDeclarationKind::Const;
        for declarator in &variable.declarations {
            let BindingPattern::BindingIdentifier(id) = &declarator.id else { continue };
            let name = id.name.to_string();
            names.push(name.clone());
            let Some(value) = &declarator.init else { continue };
            if fixed
                && declarator.type_annotation.is_none()
                && let Some(ty) = constant(value)
            {
                self.file.values.insert(name.clone(), ty);
            }
            let signature = self.signature(value, fixed, doc.clone());
            self.file.functions.insert(name, signature);
        }
        names
    }

    /// Of what a variable begins as, `fixed` if it stays that.
    fn signature(&self, value: &Expression<'_>, fixed: bool, doc: Doc) -> Signature {
        match value.get_inner_expression() {
            Expression::ArrowFunctionExpression(arrow) => {
                let takes = self.takes(&arrow.params);
                let gives = arrow.return_type.as_ref().map(|it| self.annotation(it));
                Signature { takes, gives, doc, of: None }
            }
            Expression::FunctionExpression(function) => self.function(function, doc),
            other => {
                let of = other.get_identifier_reference().filter(|_| fixed).map(|it| it.name.to_string());
                let takes = Some(Parameter { ty: Err(UNSEEN), at: value.span().start });
                Signature { takes, gives: None, doc, of }
            }
        }
    }

    pub(super) fn function(&self, function: &Function<'_>, doc: Doc) -> Signature {
        let gives = function.return_type.as_ref().map(|it| self.annotation(it));
        Signature { takes: self.takes(&function.params), gives, doc, of: None }
    }

    fn takes(&self, parameters: &FormalParameters<'_>) -> Option<Parameter> {
        let Some(first) = parameters.items.first() else {
            // `...all` is a parameter, too.
            return parameters.rest.as_ref().map(|rest| Parameter { ty: Err(UNTYPED), at: rest.span().start });
        };
        let doc = self.comments.before(first.span.start);
        let mut ty = first.type_annotation.as_ref().map(|it| self.annotation(it)).ok_or(UNTYPED);
        if let Ok(ty) = &mut ty {
            ty.doc.tags.extend(doc.tags);
        }
        if let Some(stray) = self.stray(parameters.span) {
            ty = Ok(stray);
        }
        Some(Parameter { ty, at: first.span.start })
    }
}
