//! A source file's types, taken out of the parser's tree into a form of our own: what the files say, nothing resolved.

#![expect(clippy::wildcard_enum_match_arm, reason = "of the many kinds of nodes only a few matter here")]

use std::collections::HashMap;

use oxc::allocator::Allocator;
use oxc::ast::ast::{
    Declaration, ExportDefaultDeclarationKind, Expression, ImportDeclarationSpecifier, PropertyKey, Statement,
    TSEnumDeclaration, TSEnumMemberName, TSInterfaceDeclaration, TSSignature, TSTupleElement, TSType,
    TSTypeAliasDeclaration, TSTypeAnnotation, TSTypeName, TSTypeOperatorOperator, TSTypeParameterDeclaration,
    TSTypeQueryExprName, TSUnionType,
};
use oxc::parser::Parser;
use oxc::span::{GetSpan, SourceType, Span};
use serde_json::Value as Json;

use super::comments::Comments;
use super::literals::{literal, literal_type, number_json};
use super::tags::Doc;

/// A type as the source writes it.
#[derive(Clone, Debug)]
pub(super) struct Ty {
    pub kind: Kind,
    /// Byte offset in its file.
    pub at: u32,
    /// The tags of a comment in front of it, wherever it stands: `type Id = /** @minLength 9 */ string`.
    pub doc: Doc,
}

impl Ty {
    pub(super) fn new(kind: Kind, at: u32) -> Self {
        Self { kind, at, doc: Doc::default() }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Any,
    Never,
    Undefined,
    Null,
    Boolean,
    Number,
    String,
    BigInt,
    Object,
    Literal(Json),
    Array(Box<Ty>),
    Tuple(Vec<Item>),
    Members(Members),
    Union(Vec<Ty>),
    Intersection(Vec<Ty>),
    Named(String, Vec<Ty>),
    Access(Box<Ty>, Box<Ty>),
    TypeOf(String),
    KeyOf(Box<Ty>),
    /// What no JSON value can be, or what is not understood; in words.
    Other(&'static str),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    pub named: Vec<Member>,
    /// The type of members with any other name.
    pub index: Option<Box<Ty>>,
}

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub name: String,
    pub ty: Ty,
    pub optional: bool,
    pub doc: Doc,
}

#[derive(Clone, Debug)]
pub(super) struct Item {
    pub ty: Ty,
    pub optional: bool,
    pub rest: bool,
}

/// A name that stands for a type.
#[derive(Clone, Debug)]
pub(super) struct Named {
    /// Each with what it is when it is not given.
    pub parameters: Vec<(String, Option<Ty>)>,
    pub extends: Vec<Ty>,
    pub ty: Ty,
    pub doc: Doc,
}

/// What `handle` takes and gives.
#[derive(Clone, Debug, Default)]
pub(super) struct Signature {
    pub takes: Option<Parameter>,
    pub gives: Option<Ty>,
    pub doc: Doc,
    /// The name of which it is another one: `const handle = run`.
    pub of: Option<String>,
    /// It has no body: others may follow, and at last what does it.
    pub overload: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Parameter {
    /// Or why there is none, in words.
    pub ty: Result<Ty, &'static str>,
    pub at: u32,
}

/// What one file says.
#[derive(Debug, Default)]
pub(super) struct File {
    pub types: HashMap<String, Named>,
    /// Constants whose type is their value.
    pub values: HashMap<String, Ty>,
    /// By their local names: specifier and name there, `None` for the namespace.
    pub imports: HashMap<String, (String, Option<String>)>,
    /// What exported names are called inside.
    pub exports: HashMap<String, String>,
    /// `export { name } from`, and (`None`) `export * from`.
    pub passed_on: Vec<(Option<(String, String)>, String)>,
    /// Whatever `handle` may be: functions, and constants that may be one.
    pub functions: HashMap<String, Signature>,
    /// Topics of `notify.publish` that are written out.
    pub topics: Vec<String>,
}

/// Reads a file that is known to compile; one that does not says nothing.
pub(super) fn file(source: &str) -> File {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, source, SourceType::ts()).parse();
    let mut reader = Reader { comments: Comments::new(source, &parsed.program.comments), file: File::default() };
    for statement in &parsed.program.body {
        reader.statement(statement);
    }
    reader.file.topics = super::topics::published(&parsed.program);
    reader.file
}

pub(super) struct Reader<'r> {
    pub(super) comments: Comments<'r>,
    pub(super) file: File,
}

impl Reader<'_> {
    fn statement(&mut self, statement: &Statement<'_>) {
        if let Statement::ImportDeclaration(import) = statement {
            let from = import.source.value.to_string();
            for specifier in import.specifiers.iter().flatten() {
                let (local, name) = match specifier {
                    ImportDeclarationSpecifier::ImportSpecifier(it) => {
                        (&it.local, Some(it.imported.name().to_string()))
                    }
                    ImportDeclarationSpecifier::ImportDefaultSpecifier(it) => (&it.local, Some("default".to_owned())),
                    ImportDeclarationSpecifier::ImportNamespaceSpecifier(it) => (&it.local, None),
                };
                self.file.imports.insert(local.name.to_string(), (from.clone(), name));
            }
        } else if let Statement::ExportFromDeclaration(export) = statement {
            for specifier in &export.specifiers {
                let names = (specifier.exported.name().to_string(), specifier.local.name().to_string());
                self.file.passed_on.push((Some(names), export.source.value.to_string()));
            }
        } else if let Statement::ExportAllDeclaration(export) = statement {
            if export.exported.is_none() {
                self.file.passed_on.push((None, export.source.value.to_string()));
            }
        } else if let Statement::ExportNamedDeclaration(export) = statement {
            for specifier in &export.specifiers {
                self.file.exports.insert(specifier.exported.name().to_string(), specifier.local.name().to_string());
            }
        } else if let Statement::ExportDeclaration(export) = statement {
            for name in self.declaration(&export.declaration, export.span.start) {
                self.file.exports.insert(name.clone(), name);
            }
        } else if let Statement::ExportDefaultDeclaration(export) = statement {
            let name = match &export.declaration {
                ExportDefaultDeclarationKind::TSInterfaceDeclaration(it) => {
                    self.interface(it, self.comments.before(export.span.start))
                }
                ExportDefaultDeclarationKind::Identifier(it) => it.name.to_string(),
                _ => return,
            };
            self.file.exports.insert("default".to_owned(), name);
        } else if let Some(declaration) = statement.as_declaration() {
            self.declaration(declaration, statement.span().start);
        }
    }

    /// Notes what is declared, and gives the names.
    fn declaration(&mut self, declaration: &Declaration<'_>, start: u32) -> Vec<String> {
        let doc = self.comments.before(start);
        if let Declaration::TSTypeAliasDeclaration(alias) = declaration {
            vec![self.alias(alias, doc)]
        } else if let Declaration::TSInterfaceDeclaration(interface) = declaration {
            vec![self.interface(interface, doc)]
        } else if let Declaration::TSEnumDeclaration(list) = declaration {
            vec![self.list(list, doc)]
        } else if let Declaration::FunctionDeclaration(function) = declaration {
            let Some(id) = &function.id else { return Vec::new() };
            let (name, signature) = (id.name.to_string(), self.function(function, doc));
            let signature = match self.file.functions.remove(&name) {
                Some(before) if before.overload => before.or(signature),
                Some(before) => before,
                None => signature,
            };
            self.file.functions.insert(name.clone(), signature);
            vec![name]
        } else if let Declaration::VariableDeclaration(variable) = declaration {
            self.variables(variable, &doc)
        } else {
            Vec::new()
        }
    }

    fn alias(&mut self, alias: &TSTypeAliasDeclaration<'_>, doc: Doc) -> String {
        let ty = self.ty(&alias.type_annotation);
        let ty = self.stray(alias.span).unwrap_or(ty);
        let parameters = self.parameters(alias.type_parameters.as_deref());
        let name = alias.id.name.to_string();
        self.file.types.insert(name.clone(), Named { parameters, extends: Vec::new(), ty, doc });
        name
    }

    fn interface(&mut self, interface: &TSInterfaceDeclaration<'_>, doc: Doc) -> String {
        let mut members = self.members(&interface.body.body);
        if let Some(ty) = self.stray(interface.body.span) {
            members.named.push(Member { name: String::new(), ty, optional: false, doc: Doc::default() });
        }
        let at = interface.id.span.start;
        let extends = interface.extends.iter().map(|it| {
            let arguments = it.type_arguments.iter().flat_map(|all| &all.params).map(|ty| self.ty(ty)).collect();
            named(&it.type_name, arguments, it.span.start)
        });
        let extends: Vec<Ty> = extends.collect();
        let parameters = self.parameters(interface.type_parameters.as_deref());
        let name = interface.id.name.to_string();
        // Interfaces of one name are one.
        if let Some(Named { ty: Ty { kind: Kind::Members(first), .. }, extends: all, .. }) =
            self.file.types.get_mut(&name)
        {
            first.named.extend(members.named);
            first.index = first.index.take().or(members.index);
            all.extend(extends);
        } else {
            let ty = Ty::new(Kind::Members(members), at);
            self.file.types.insert(name.clone(), Named { parameters, extends, ty, doc });
        }
        name
    }

    fn list(&mut self, list: &TSEnumDeclaration<'_>, doc: Doc) -> String {
        let mut next = 0.0;
        let mut options = Vec::new();
        for member in &list.body.members {
            let at = member.span.start;
            let value = match &member.initializer {
                Some(Expression::NumericLiteral(number)) => number_json(number.value),
                Some(initializer) => match literal(initializer) {
                    Some(value) => value,
                    None => return self.opaque(list, doc, "an enum whose values are computed"),
                },
                None => number_json(next),
            };
            next = value.as_f64().unwrap_or(next) + 1.0;
            let name = match &member.id {
                TSEnumMemberName::Identifier(it) => it.name.as_str(),
                TSEnumMemberName::String(it) | TSEnumMemberName::ComputedString(it) => it.value.as_str(),
                TSEnumMemberName::ComputedTemplateString(_) => "",
            };
            let ty = Ty::new(Kind::Literal(value), at);
            let full = format!("{}.{name}", list.id.name);
            let one = Named { parameters: Vec::new(), extends: Vec::new(), ty: ty.clone(), doc: Doc::default() };
            self.file.types.insert(full, one);
            options.push(ty);
        }
        let ty = Ty::new(Kind::Union(options), list.span.start);
        let name = list.id.name.to_string();
        self.file.types.insert(name.clone(), Named { parameters: Vec::new(), extends: Vec::new(), ty, doc });
        name
    }

    fn opaque(&mut self, list: &TSEnumDeclaration<'_>, doc: Doc, what: &'static str) -> String {
        let ty = Ty::new(Kind::Other(what), list.span.start);
        let name = list.id.name.to_string();
        self.file.types.insert(name.clone(), Named { parameters: Vec::new(), extends: Vec::new(), ty, doc });
        name
    }

    /// What a declaration is that holds a comment with tags which nothing hears.
    pub(super) fn stray(&self, within: Span) -> Option<Ty> {
        let what =
            "a comment whose tags stand where they count for nothing; write them in front of the member or the type";
        self.comments.unheard(within).map(|at| other(what, at))
    }

    pub(super) fn annotation(&self, annotation: &TSTypeAnnotation<'_>) -> Ty {
        self.ty(&annotation.type_annotation)
    }

    fn parameters(&self, all: Option<&TSTypeParameterDeclaration<'_>>) -> Vec<(String, Option<Ty>)> {
        let one = |it: &oxc::ast::ast::TSTypeParameter<'_>| {
            (it.name.name.to_string(), it.default.as_ref().map(|ty| self.ty(ty)))
        };
        all.iter().flat_map(|all| &all.params).map(one).collect()
    }

    fn members(&self, signatures: &[TSSignature<'_>]) -> Members {
        let mut members = Members::default();
        for signature in signatures {
            match signature {
                TSSignature::TSPropertySignature(it) => {
                    let at = it.span.start;
                    let name = match &it.key {
                        PropertyKey::StaticIdentifier(key) if !it.computed => Some(key.name.to_string()),
                        PropertyKey::StringLiteral(key) => Some(key.value.to_string()),
                        PropertyKey::NumericLiteral(key) => Some(number_json(key.value).to_string()),
                        _ => None,
                    };
                    let ty = it.type_annotation.as_ref().map(|it| self.annotation(it));
                    let ty = if name.is_none() { Some(other("a computed name", at)) } else { ty };
                    members.named.push(Member {
                        name: name.unwrap_or_default(),
                        ty: ty.unwrap_or_else(|| other("a member without a type", at)),
                        optional: it.optional,
                        doc: self.comments.before(at),
                    });
                }
                TSSignature::TSIndexSignature(it) => {
                    let key = &it.parameter.type_annotation.type_annotation;
                    let ty = if matches!(key, TSType::TSStringKeyword(_)) {
                        self.annotation(&it.type_annotation)
                    } else {
                        other("an index that is not of strings", it.span.start)
                    };
                    members.index = Some(Box::new(ty));
                }
                TSSignature::TSMethodSignature(it) => members.named.push(function_member(it.span.start)),
                TSSignature::TSCallSignatureDeclaration(it) => members.named.push(function_member(it.span.start)),
                TSSignature::TSConstructSignatureDeclaration(it) => members.named.push(function_member(it.span.start)),
            }
        }
        members
    }

    fn ty(&self, ty: &TSType<'_>) -> Ty {
        // What stands in front of a union is its first alternative's: narrow all of them by parentheses, or a `|` in front.
        let begins_with_it =
            |it: &TSUnionType<'_>| it.types.first().is_some_and(|first| first.span().start == it.span.start);
        let doc = match ty {
            TSType::TSUnionType(it) if begins_with_it(it) => Doc::default(),
            _ => self.comments.before_type(ty.span().start),
        };
        let mut read = self.bare(ty);
        // A text alone is for readers; what a member is, its own comment says.
        if !doc.tags.is_empty() {
            read.doc.tags.extend(doc.tags);
            read.doc.text = doc.text;
        }
        read
    }

    fn bare(&self, ty: &TSType<'_>) -> Ty {
        let at = ty.span().start;
        let list = |types: &[TSType<'_>]| types.iter().map(|ty| self.ty(ty)).collect::<Vec<_>>();
        let kind = match ty {
            TSType::TSAnyKeyword(_) | TSType::TSUnknownKeyword(_) => Kind::Any,
            TSType::TSNeverKeyword(_) => Kind::Never,
            TSType::TSUndefinedKeyword(_) | TSType::TSVoidKeyword(_) => Kind::Undefined,
            TSType::TSNullKeyword(_) => Kind::Null,
            TSType::TSBooleanKeyword(_) => Kind::Boolean,
            TSType::TSNumberKeyword(_) => Kind::Number,
            TSType::TSStringKeyword(_) => Kind::String,
            TSType::TSBigIntKeyword(_) => Kind::BigInt,
            TSType::TSObjectKeyword(_) => Kind::Object,
            TSType::TSParenthesizedType(it) => return self.ty(&it.type_annotation),
            TSType::TSArrayType(it) => Kind::Array(Box::new(self.ty(&it.element_type))),
            TSType::TSTupleType(it) => Kind::Tuple(it.element_types.iter().map(|it| self.item(it)).collect()),
            TSType::TSTypeLiteral(it) => Kind::Members(self.members(&it.members)),
            TSType::TSUnionType(it) => Kind::Union(list(&it.types)),
            TSType::TSIntersectionType(it) => Kind::Intersection(list(&it.types)),
            TSType::TSLiteralType(it) => literal_type(&it.literal),
            TSType::TSTypeReference(it) => {
                let arguments = it.type_arguments.iter().flat_map(|all| &all.params).map(|ty| self.ty(ty)).collect();
                return named(&it.type_name, arguments, at);
            }
            TSType::TSIndexedAccessType(it) => {
                Kind::Access(Box::new(self.ty(&it.object_type)), Box::new(self.ty(&it.index_type)))
            }
            TSType::TSTypeQuery(it) => match &it.expr_name {
                TSTypeQueryExprName::IdentifierReference(name) => Kind::TypeOf(name.name.to_string()),
                _ => Kind::Other("a `typeof` of more than a name"),
            },
            TSType::TSTypeOperatorType(it) => match it.operator {
                TSTypeOperatorOperator::Readonly => return self.ty(&it.type_annotation),
                TSTypeOperatorOperator::Keyof => Kind::KeyOf(Box::new(self.ty(&it.type_annotation))),
                TSTypeOperatorOperator::Unique => Kind::Other("a symbol"),
            },
            TSType::TSTemplateLiteralType(it) if it.types.is_empty() => {
                let text = it.quasis.iter().map(|part| part.value.cooked.as_ref().map_or("", |text| text.as_str()));
                Kind::Literal(Json::String(text.collect()))
            }
            TSType::TSTemplateLiteralType(_) => Kind::Other("a template of a string; use string with a @pattern"),
            TSType::TSFunctionType(_) | TSType::TSConstructorType(_) => Kind::Other("a function"),
            TSType::TSSymbolKeyword(_) => Kind::Other("a symbol"),
            TSType::TSConditionalType(_) | TSType::TSInferType(_) => Kind::Other("a conditional type"),
            TSType::TSMappedType(_) => Kind::Other("a mapped type; use Record, Partial, Pick or Omit"),
            TSType::TSImportType(_) => Kind::Other("an `import(…)`; import the type at the top"),
            TSType::TSThisType(_) => Kind::Other("`this`"),
            // What a rest is of: `...names: string[]`.
            TSType::TSNamedTupleMember(it) => return self.item(&it.element_type).ty,
            TSType::TSIntrinsicKeyword(_)
            | TSType::TSTypePredicate(_)
            | TSType::JSDocNullableType(_)
            | TSType::JSDocNonNullableType(_)
            | TSType::JSDocUnknownType(_) => Kind::Other("a type of a rare kind"),
        };
        Ty::new(kind, at)
    }

    fn item(&self, element: &TSTupleElement<'_>) -> Item {
        match element {
            TSTupleElement::TSOptionalType(it) => {
                Item { ty: self.ty(&it.type_annotation), optional: true, rest: false }
            }
            TSTupleElement::TSRestType(it) => Item { ty: self.ty(&it.type_annotation), optional: false, rest: true },
            TSTupleElement::TSNamedTupleMember(it) => Item { optional: it.optional, ..self.item(&it.element_type) },
            other_element => {
                let ty = other_element.as_ts_type().map(|ty| self.ty(ty));
                let ty = ty.unwrap_or_else(|| other("a tuple's element of a rare kind", element.span().start));
                Item { ty, optional: false, rest: false }
            }
        }
    }
}

fn other(what: &'static str, at: u32) -> Ty {
    Ty::new(Kind::Other(what), at)
}

fn function_member(at: u32) -> Member {
    Member { name: String::new(), ty: other("a function", at), optional: false, doc: Doc::default() }
}

fn named(name: &TSTypeName<'_>, arguments: Vec<Ty>, at: u32) -> Ty {
    let kind = match name {
        TSTypeName::IdentifierReference(it) => Kind::Named(it.name.to_string(), arguments),
        TSTypeName::QualifiedName(it) => match &it.left {
            TSTypeName::IdentifierReference(left) => Kind::Named(format!("{}.{}", left.name, it.right.name), arguments),
            TSTypeName::QualifiedName(_) | TSTypeName::ThisExpression(_) => Kind::Other("a name with several dots"),
        },
        TSTypeName::ThisExpression(_) => Kind::Other("`this`"),
    };
    Ty::new(kind, at)
}
