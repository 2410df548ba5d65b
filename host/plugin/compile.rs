//! One source file: TypeScript in, the body of a factory out.
//!
//! Types are stripped, not checked. A compiled module is a JavaScript *expression* that evaluates to a factory
//! `(function (__import, __exports, __global, __tick) { "use strict"; … })`. `__import(i)` gives the namespace object of the
//! module in import slot `i`, evaluating it first if nobody has; exports are live getters on `__exports`, in place
//! before anything of the module runs, so that modules in a cycle see each other's functions, or plain values put there
//! at the end where nobody can tell the difference; `__global` is what the module sees as `globalThis`, an object of this
//! run, where it is given; `__tick` is for `ticks.rs`. This file makes the body and says what it imports and exports; `bundle.rs` joins the files and
//! adds the exports.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use oxc::allocator::Allocator;
use oxc::ast::ast::Program;
use oxc::codegen::{Codegen, CodegenOptions, CommentOptions};
use oxc::diagnostics::{OxcDiagnostic, Severity};
use oxc::parser::{ParseOptions, Parser};
use oxc::semantic::{Scoping, SemanticBuilder};
use oxc::span::SourceType;
use oxc::syntax::module_record::{ExportExportName, ModuleRecord};
use oxc::transformer::{TransformOptions, Transformer};
use oxc_sourcemap::{SourceMap, Token};

use super::refuse;
use super::rewrite;
use super::still::{self, Still};
use super::ticks;

/// Something wrong at a byte offset of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flaw {
    pub offset: usize,
    pub message: String,
}

impl Flaw {
    pub(super) fn new(offset: u32, message: impl Into<String>) -> Self {
        Self { offset: offset as usize, message: message.into() }
    }
}

/// One compiled file, not yet joined with the others.
#[derive(Debug)]
pub(super) struct Unit {
    /// The statements, with imported names already written as members of their slot.
    pub body: String,
    /// Positions of `body` in the source.
    pub map: SourceMap<'static>,
    /// The specifiers it imports from, in the order of their first appearance; the index is the import slot.
    pub requests: Vec<Request>,
    /// Names it takes from other modules, for the check that they are there.
    pub imports: Vec<Import>,
    pub exports: Vec<Export>,
    /// Slots of `export * from`.
    pub stars: Vec<usize>,
    /// Slots of which it holds the namespace object itself.
    pub whole: BTreeSet<usize>,
    /// Names that are exported as types only.
    pub types: BTreeSet<String>,
    pub names: Names,
    /// Names under which it reaches for the global object.
    pub globals: Vec<&'static str>,
    /// It counts heavy operations (see `ticks.rs`).
    pub ticks: bool,
    /// Whether a run could change anything of it.
    pub still: Still,
    /// It has no module syntax and uses `require`, `module` or `exports`.
    pub commonjs: bool,
}

/// A file as far as it could be compiled, with everything that is wrong with it.
#[derive(Debug, Default)]
pub(super) struct Compiled {
    /// Also of a file with flaws, so that what it imports and exports is checked with the rest; such a unit never runs.
    /// `None` where the parser gave up.
    pub unit: Option<Unit>,
    /// In their order.
    pub flaws: Vec<Flaw>,
    /// What it imports, as far as the parser came, where there is no unit; perhaps for types only.
    pub requests: Vec<Request>,
}

impl Compiled {
    fn refused(flaws: Vec<Flaw>) -> Self {
        Self { flaws, ..Self::default() }
    }
}

/// One specifier and where it stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub specifier: String,
    pub offset: usize,
}

/// One imported name.
#[derive(Debug)]
pub(super) struct Import {
    pub slot: usize,
    pub name: String,
    pub offset: usize,
}

/// One exported name and where its value comes from.
#[derive(Debug)]
pub(super) struct Export {
    pub name: String,
    pub from: Source,
    pub offset: usize,
}

/// Where an export's value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A binding of the module; a `constant` one is never assigned to after its declaration.
    Local { name: String, constant: bool },
    /// A name of the module in a slot.
    Imported { slot: usize, name: String },
    /// The namespace object of the module in a slot.
    Namespace { slot: usize },
}

/// Names that the factory uses and the source does not.
#[derive(Debug)]
pub(super) struct Names {
    pub import: String,
    pub exports: String,
    /// The global object of one run.
    pub global: String,
    pub define: String,
    /// Followed by the slot's number.
    pub slot: String,
    /// Holds the value of `export default`.
    pub default: String,
    /// Holds the value of a `config` once somebody asked.
    pub config: String,
    /// Gives how many heavy operations may go by, and what is left of them.
    pub tick: String,
    pub left: String,
    /// Holds what may be a BigInt while it is looked at.
    pub big: String,
}

impl Names {
    fn for_source(source: &str) -> Self {
        // A name may also be written with escapes.
        let unescaped = source.contains("\\u").then(|| unescaped(source));
        let unused = |base: &str| {
            let mut name = base.to_owned();
            while source.contains(&name) || unescaped.as_ref().is_some_and(|text| text.contains(&name)) {
                name.push('_');
            }
            name
        };
        Self {
            import: unused("__import"),
            exports: unused("__exports"),
            global: unused("__global"),
            define: unused("__define"),
            slot: unused("__m"),
            default: unused("__default"),
            config: unused("__config"),
            tick: unused("__tick"),
            left: unused("__left"),
            big: unused("__big"),
        }
    }
}

/// The text with what each `\u0061` and `\u{61}` stands for.
fn unescaped(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((before, escape)) = rest.split_once("\\u") {
        text.push_str(before);
        let (digits, after) = match escape.strip_prefix('{').and_then(|braced| braced.split_once('}')) {
            Some(braced) => braced,
            None => escape.split_at_checked(4).unwrap_or(("", escape)),
        };
        match u32::from_str_radix(digits, 16).ok().and_then(char::from_u32) {
            Some(character) => {
                text.push(character);
                rest = after;
            }
            None => rest = escape,
        }
    }
    text.push_str(rest);
    text
}

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dialect {
    typescript: bool,
    /// From `node_modules`: somebody else's code, in which CommonJS is found out rather than explained line by line.
    package: bool,
}

impl Dialect {
    /// Whether it may be what a bundler made of a package, or makes something of.
    fn of_bundlers(self) -> bool {
        self.package || !self.typescript
    }
}

/// Bytes of a file that are still compiled.
const MAX_SOURCE: usize = 4 << 20;
/// Brackets within brackets: the parser calls itself for each, and must not run out of stack.
const MAX_NESTING: usize = 5_000;

/// Compiles a file of a plugin; `shown` is its path within the plugin.
pub(super) fn compile_file(path: &Path, shown: &str, source: &str) -> Compiled {
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    let dialect = Dialect {
        typescript: matches!(ending.as_ref(), "ts" | "mts"),
        package: shown.split('/').any(|part| part == "node_modules"),
    };
    match ending.as_ref() {
        "json" => compile_json(source),
        _ => compile(source, dialect),
    }
}

/// Compiles one text. To be called on a thread with a [large stack](super::registry::STACK).
fn compile(source: &str, dialect: Dialect) -> Compiled {
    let refused = |flaw| Compiled::refused(vec![flaw]);
    if source.len() > MAX_SOURCE {
        return refused(Flaw::new(0, format!("has {} bytes, and the most is {MAX_SOURCE}: split it", source.len())));
    }
    if let Some(offset) = too_deep(source) {
        let message = format!("more than {MAX_NESTING} brackets within one another: nest less");
        return refused(Flaw { offset, message });
    }
    // A file that trips the compiler is a fault of that file's plugin, not the end of the host.
    catch_unwind(|| compile_any(source, dialect)).unwrap_or_else(|_| {
        refused(Flaw::new(0, "the host's compiler failed on this file: please report it with the file"))
    })
}

/// Where brackets are nested too deeply; those in strings and comments count as well, which seldom matters.
fn too_deep(source: &str) -> Option<usize> {
    let mut depth = 0_usize;
    source.bytes().position(|byte| {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > MAX_NESTING
    })
}

fn compile_any(source: &str, dialect: Dialect) -> Compiled {
    let allocator = Allocator::default();
    let source_type = if dialect.typescript { SourceType::ts() } else { SourceType::mjs() };
    let options = ParseOptions { parse_regular_expression: true, ..ParseOptions::default() };
    let parsed = Parser::new(&allocator, source, source_type).with_options(options).parse();
    let mut flaws = syntax_errors(&parsed.diagnostics);
    if let Some(flaw) = (!flaws.is_empty()).then(|| refuse::jsx(source, source_type)).flatten() {
        return Compiled::refused(vec![flaw]);
    }
    let record = &parsed.module_record;
    if parsed.panicked {
        return Compiled { unit: None, flaws: sorted(flaws), requests: requests(record) };
    }
    let program = parsed.program;
    let checked = SemanticBuilder::new().with_check_syntax_error(true).with_enum_eval(true).build(&program);
    flaws.extend(syntax_errors(&checked.diagnostics));
    let scoping = checked.semantic.into_scoping();
    let (refused, too_deep) = refuse::flaws(&program, &scoping, record, dialect.package);
    flaws.extend(refused);
    if too_deep {
        return Compiled { unit: None, flaws: sorted(flaws), requests: requests(record) };
    }
    let build = AssertUnwindSafe(|| build(&allocator, source, dialect, program, record, scoping));
    let unit = match catch_unwind(build) {
        Ok((unit, more)) => {
            // What was refused before is refused there in other words.
            if flaws.is_empty() {
                flaws = more;
            }
            Some(unit)
        }
        // No compiler needs to get along with what is wrong.
        Err(_) if !flaws.is_empty() => None,
        Err(panic) => resume_unwind(panic),
    };
    let requests = if unit.is_none() { requests(record) } else { Vec::new() };
    Compiled { unit, flaws: sorted(flaws), requests }
}

/// The unit of a program, and what the transformer does not take.
fn build<'a>(
    allocator: &'a Allocator,
    source: &str,
    dialect: Dialect,
    mut program: Program<'a>,
    record: &ModuleRecord<'a>,
    scoping: Scoping,
) -> (Unit, Vec<Flaw>) {
    let commonjs = !record.has_module_syntax && refuse::uses_commonjs(&scoping);
    let globals = globals(&scoping, dialect);
    let types = exported_names(record);
    let options = TransformOptions::default();
    let done = Transformer::new(allocator, Path::new("module.ts"), &options).build_with_scoping(scoping, &mut program);
    let flaws = syntax_errors(&done.diagnostics);
    let names = Names::for_source(source);
    let still = still::look(&program, &done.scoping);
    let joints = rewrite::rewrite(allocator, &mut program, &done.scoping, &names, dialect.of_bundlers());
    let ticks = ticks::mark(allocator, &mut program, &names);
    let (body, map) = print(&program);
    let values: BTreeSet<&String> = joints.exports.iter().map(|export| &export.name).collect();
    let types = types.into_iter().filter(|name| !values.contains(name)).collect();
    let unit = Unit {
        body,
        map,
        requests: joints.requests,
        imports: joints.imports,
        exports: joints.exports,
        stars: joints.stars,
        whole: joints.whole,
        types,
        names,
        globals,
        ticks,
        still,
        commonjs,
    };
    (unit, flaws)
}

/// What a module imports, other than types that are marked as such.
fn requests(record: &ModuleRecord<'_>) -> Vec<Request> {
    let values = record.requested_modules.iter().filter_map(|(specifier, places)| {
        let place = places.iter().find(|place| !place.is_type)?;
        Some(Request { specifier: specifier.to_string(), offset: place.span.start as usize })
    });
    let mut requests: Vec<Request> = values.collect();
    requests.sort_by_key(|request| request.offset);
    requests
}

/// Packages know the global object as `self` too, which is its name in a browser's workers.
fn globals(scoping: &Scoping, dialect: Dialect) -> Vec<&'static str> {
    let names: &[&str] = if dialect.of_bundlers() { &["globalThis", "self"] } else { &["globalThis"] };
    let unresolved = scoping.root_unresolved_references();
    names.iter().copied().filter(|name| unresolved.keys().any(|it| it.as_str() == *name)).collect()
}

/// A JSON file as a module whose default export is its value.
fn compile_json(source: &str) -> Compiled {
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(source) {
        let offset = super::fault::offset_of(source, error.line(), error.column());
        let flaw = Flaw { offset, message: format!("not JSON: {}", super::fault::bare(&error)) };
        return Compiled::refused(vec![flaw]);
    }
    // `JSON.parse` of the text, since `{"__proto__": …}` as an expression would set a prototype.
    let quoted = serde_json::to_string(source).unwrap_or_default();
    let body = format!("const __default = JSON.parse({quoted});\n");
    let from = Source::Local { name: "__default".to_owned(), constant: true };
    let default = Export { name: "default".to_owned(), from, offset: 0 };
    let unit = Unit {
        body,
        map: SourceMap::new(None, Vec::new(), None, Vec::new(), Vec::new(), Box::default(), None),
        requests: Vec::new(),
        imports: Vec::new(),
        exports: vec![default],
        stars: Vec::new(),
        whole: BTreeSet::new(),
        types: BTreeSet::new(),
        names: Names::for_source(""),
        globals: Vec::new(),
        ticks: false,
        still: Still::default(),
        commonjs: false,
    };
    Compiled { unit: Some(unit), ..Compiled::default() }
}

fn print(program: &Program<'_>) -> (String, SourceMap<'static>) {
    let options = CodegenOptions {
        comments: CommentOptions::disabled(),
        source_map_path: Some("module.ts".into()),
        // Indentation would make the output of deeply nested code grow with the square of its size.
        indent_width: 0,
        ..CodegenOptions::default()
    };
    let printed = Codegen::new().with_options(options).build(program);
    let map = printed.map.map(SourceMap::into_owned).unwrap_or_default();
    let mut parts = map.into_parts();
    // The module keeps its source itself.
    parts.source_contents.clear();
    (printed.code, SourceMap::from_parts(parts))
}

/// The same positions one line further down.
pub(super) fn one_line_down(map: SourceMap<'static>) -> SourceMap<'static> {
    let mut parts = map.into_parts();
    let down = |token: &Token| {
        let (source, name) = (token.get_source_id(), token.get_name_id());
        let line = token.get_dst_line() + 1;
        Token::new(line, token.get_dst_col(), token.get_src_line(), token.get_src_col(), source, name)
    };
    parts.tokens = parts.tokens.iter().map(down).collect();
    parts.token_chunks = None;
    SourceMap::from_parts(parts)
}

/// All names that the source exports, types and values alike.
fn exported_names(record: &ModuleRecord<'_>) -> BTreeSet<String> {
    let entries = record.local_export_entries.iter().chain(&record.indirect_export_entries);
    entries
        .filter_map(|entry| match &entry.export_name {
            ExportExportName::Name(name) => Some(name.name.to_string()),
            ExportExportName::Default(_) => Some("default".to_owned()),
            ExportExportName::Null => None,
        })
        .collect()
}

fn syntax_errors<'d>(diagnostics: impl IntoIterator<Item = &'d OxcDiagnostic>) -> Vec<Flaw> {
    let errors = diagnostics.into_iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
    errors.map(syntax_error).collect()
}

fn syntax_error(diagnostic: &OxcDiagnostic) -> Flaw {
    let offset = diagnostic.labels.first().map_or(0, |label| label.offset());
    let mut message = format!("syntax error: {}", diagnostic.message.trim_end_matches('.'));
    if let Some(help) = &diagnostic.help {
        message.push_str(". ");
        message.push_str(help);
    }
    Flaw { offset: offset as usize, message }
}

fn sorted(mut flaws: Vec<Flaw>) -> Vec<Flaw> {
    flaws.sort_by(|a, b| (a.offset, &a.message).cmp(&(b.offset, &b.message)));
    flaws.dedup();
    flaws
}
