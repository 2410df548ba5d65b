//! What functions take and give, as a file writes it.

#![expect(clippy::wildcard_enum_match_arm, reason = "of the many kinds of nodes only a few matter here")]

use oxc::ast::ast::{
    BindingPattern, Expression, FormalParameters, Function, VariableDeclaration, VariableDeclarationKind,
};
use oxc::span::GetSpan;

use super::literals::constant;
use super::read::{Kind, Parameter, Reader, Signature, Ty};
use super::shapes::promised;
use super::tags::Doc;

pub(super) const UNTYPED: &str = "the first parameter of `handle` has no type";
pub(super) const UNSEEN: &str = "`handle` is not written out as a function, and what makes it is not looked into: write \
                                 `export function handle(input: …) { … }`";

impl Signature {
    /// This overload and the next one: it takes and gives what either does. What has a body is not for callers.
    pub(super) fn or(self, next: Self) -> Self {
        if !next.overload {
            return Self { overload: false, ..self };
        }
        let takes = self.takes.zip(next.takes).map(|(one, other)| {
            let ty = one.ty.and_then(|one| other.ty.map(|other| either(one, other)));
            Parameter { ty, at: one.at }
        });
        let gives =
            self.gives.zip(next.gives).map(|(one, other)| either(promised(&one).clone(), promised(&other).clone()));
        let doc = if self.doc.text.is_empty() { next.doc } else { self.doc };
        Self { takes, gives, doc, of: None, overload: true }
    }
}

/// A union, with the options of unions in one list.
fn either(one: Ty, other: Ty) -> Ty {
    let at = one.at;
    let options = |ty: Ty| match ty.kind {
        Kind::Union(options) if ty.doc.tags.is_empty() => options,
        _ => vec![ty],
    };
    Ty::new(Kind::Union([options(one), options(other)].concat()), at)
}

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
                Signature { takes, gives, doc, of: None, overload: false }
            }
            Expression::FunctionExpression(function) => self.function(function, doc),
            other => {
                let of = other.get_identifier_reference().filter(|_| fixed).map(|it| it.name.to_string());
                let takes = Some(Parameter { ty: Err(UNSEEN), at: value.span().start });
                Signature { takes, gives: None, doc, of, overload: false }
            }
        }
    }

    pub(super) fn function(&self, function: &Function<'_>, doc: Doc) -> Signature {
        let gives = function.return_type.as_ref().map(|it| self.annotation(it));
        let overload = function.body.is_none();
        Signature { takes: self.takes(&function.params), gives, doc, of: None, overload }
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
