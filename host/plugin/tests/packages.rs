//! Packages from the plugin's own `node_modules`.

use super::{Folder, bundle_of, faults, first_lines};

fn plugin(entry: &str, files: &[(&str, &str)]) -> Folder {
    let folder = Folder::with(files);
    folder.write("a.ts", entry);
    folder
}

#[test]
fn an_exports_map_is_followed_with_the_import_condition() {
    let folder = plugin(
        "import d, { one } from 'pkg'\nimport { deep } from 'pkg/deep'\nimport { s } from '@scope/s'\nexport const handle = () => [d, one, deep, s]",
        &[
            (
                "node_modules/pkg/package.json",
                r#"{"name":"pkg","exports":{".":{"require":"./no.cjs","import":"./esm/index.mjs"},"./deep":{"default":"./esm/deep.mjs"}}}"#,
            ),
            (
                "node_modules/pkg/esm/index.mjs",
                "export * from './deep.mjs'\nexport const one = 1\nexport { default } from 'dep'",
            ),
            ("node_modules/pkg/esm/deep.mjs", "export const deep = 2"),
            ("node_modules/dep/package.json", r#"{"name":"dep","type":"module","main":"main.js"}"#),
            ("node_modules/dep/main.js", "export default 3"),
            ("node_modules/@scope/s/package.json", r#"{"name":"@scope/s","main":"cjs.js","module":"esm.js"}"#),
            ("node_modules/@scope/s/esm.js", "export const s = 4"),
            ("node_modules/@scope/s/cjs.js", "exports.s = 4"),
        ],
    );
    let bundle = bundle_of(&folder, "a.ts");
    assert_eq!(first_lines(&bundle), [""; 0]);
    let paths: Vec<&str> = bundle.code.modules.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "p/a.ts",
            "p/node_modules/pkg/esm/index.mjs",
            "p/node_modules/pkg/esm/deep.mjs",
            "p/node_modules/@scope/s/esm.js",
            "p/node_modules/dep/main.js"
        ]
    );
    assert_eq!(bundle.code.modules[0].imports, [1, 2, 3]);
}

#[test]
fn what_a_package_has_without_node_is_taken() {
    let folder = plugin(
        "import { id } from 'ids'\nimport { name } from 'names'\nimport { path } from 'paths'\nexport const handle = () => [id, name, path]",
        &[
            (
                "node_modules/ids/package.json",
                r#"{"name":"ids","type":"module","exports":{".":{"browser":"./browser.js","default":"./node.js"}}}"#,
            ),
            ("node_modules/ids/node.js", "import { randomBytes } from 'node:crypto'\nexport const id = randomBytes"),
            ("node_modules/ids/browser.js", "export const id = 1"),
            (
                "node_modules/names/package.json",
                r#"{"name":"names","type":"module","exports":{"worker":"./plain.js","browser":"./dom.js","default":"./plain.js"}}"#,
            ),
            ("node_modules/names/dom.js", "export const name = document.createElement('i')"),
            ("node_modules/names/plain.js", "export const name = 2"),
            (
                "node_modules/paths/package.json",
                r##"{"name":"paths","type":"module","main":"i.js","imports":{"#path":{"node":"./node.js","default":"./own.js"}}}"##,
            ),
            ("node_modules/paths/i.js", "export { path } from '#path'"),
            ("node_modules/paths/node.js", "export { default as path } from 'node:path'"),
            ("node_modules/paths/own.js", "export const path = 3"),
        ],
    );
    let bundle = bundle_of(&folder, "a.ts");
    assert_eq!(first_lines(&bundle), [""; 0]);
    assert_eq!(super::modules::run(bundle.code).unwrap(), "[1,2,3]");
}

#[test]
fn what_bundlers_put_into_packages_is_put_in() {
    let folder = plugin(
        "import { mode, other } from 'pkg'\nexport const handle = () => [mode, other()]",
        &[
            ("node_modules/pkg/package.json", r#"{"name":"pkg","type":"module","main":"i.js"}"#),
            (
                "node_modules/pkg/i.js",
                "export const mode = process.env.NODE_ENV !== 'production' ? 'slow' : process.env.NODE_ENV\nexport const other = () => { try { return process.env.HOME } catch (e) { return e.name } }",
            ),
        ],
    );
    let bundle = bundle_of(&folder, "a.ts");
    assert_eq!(first_lines(&bundle), [""; 0]);
    assert_eq!(super::modules::run(bundle.code).unwrap(), r#"["production","ReferenceError"]"#);
}

#[test]
fn files_that_a_package_has_for_browsers_are_taken() {
    let manifest =
        r#"{"name":"pkg","main":"node.cjs","module":"node.mjs","browser":{"./node.mjs":"./browser.mjs","fs":false}}"#;
    let package = |browser| {
        [
            ("node_modules/pkg/package.json", manifest),
            ("node_modules/pkg/node.mjs", "import fs from 'fs'\nexport const x = fs"),
            ("node_modules/pkg/browser.mjs", browser),
        ]
    };
    let entry = "import { x } from 'pkg'\nexport const handle = () => x";
    let bundle = bundle_of(&plugin(entry, &package("export const x = 1")), "a.ts");
    assert_eq!(first_lines(&bundle), [""; 0]);
    assert_eq!(super::modules::run(bundle.code).unwrap(), "1");
    let folder = plugin(entry, &package("import fs from 'fs'\nexport const x = fs"));
    let found = first_lines(&bundle_of(&folder, "a.ts"));
    assert!(found.len() == 1 && found[0].contains("`fs` is a module of Node.js"), "{found:?}");
}

/// What a handler gives that does this with a package of one file.
fn with_package(source: &str, handle: &str) -> String {
    let entry = format!("import * as pkg from 'pkg'\nexport const handle = {handle}");
    let manifest = r#"{"name":"pkg","type":"module","main":"i.js"}"#;
    let folder = plugin(&entry, &[("node_modules/pkg/package.json", manifest), ("node_modules/pkg/i.js", source)]);
    let bundle = bundle_of(&folder, "a.ts");
    assert_eq!(first_lines(&bundle), [""; 0]);
    super::modules::run(bundle.code).unwrap()
}

#[test]
fn import_meta_of_a_package_is_what_bundlers_put_in() {
    let source = "export const mode = (import.meta.env ? import.meta.env.MODE : void 0) !== 'production'\n\
                  export const more = [{ ...import.meta?.env }.DEV, import.meta.url, typeof import.meta]";
    assert_eq!(with_package(source, "() => [pkg.mode, ...pkg.more]"), r#"[false,false,null,"object"]"#);
}

#[test]
fn dynamic_import_of_a_package_fails_where_it_is_come_to() {
    let source = "export const load = () => import('node:fs')";
    let handle =
        "async () => { const p = pkg.load(); return [p instanceof Promise, await p.catch((e: Error) => `${e}`)] }";
    let gave = with_package(source, handle);
    assert!(gave.starts_with("[true,\"TypeError: `import(…)` is not possible here"), "{gave}");
}

#[test]
fn what_is_bundled_into_the_plugin_is_taken_as_a_package_is() {
    let bundled =
        "export const all = { '%eval%': eval, self, mode: process.env.NODE_ENV }\nexport const run = () => eval('1')";
    let entry = "import { all, run } from './lib/pkg.js'\nexport const handle = () => { try { run() } catch (e: any) \
                 { return [typeof all['%eval%'], all.self === globalThis, all.mode, e.message] } }";
    let bundle = bundle_of(&plugin(entry, &[("lib/pkg.js", bundled)]), "a.ts");
    assert_eq!(first_lines(&bundle), [""; 0]);
    let gave = super::modules::run(bundle.code).unwrap();
    assert!(gave.starts_with(r#"["function",true,"production","no code is made from strings here"#), "{gave}");
}

#[test]
fn commonjs_is_refused_with_what_to_do() {
    let folder = plugin(
        "import old from 'old'\nimport older from 'older'\nold, older",
        &[
            ("node_modules/old/package.json", r#"{"name":"old","main":"index.js"}"#),
            ("node_modules/old/index.js", "const x = require('x')\nmodule.exports = x"),
            ("node_modules/older/package.json", r#"{"name":"older","main":"index.cjs"}"#),
            ("node_modules/older/index.cjs", "exports.a = 1"),
        ],
    );
    let found = first_lines(&bundle_of(&folder, "a.ts"));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("p/a.ts:1:17: `old` is CommonJS (node_modules/old/index.js)"), "{found:?}");
    assert!(found[0].contains("npx esbuild old --bundle --format=esm --outfile=lib/old.js"), "{found:?}");
    assert!(found[1].starts_with("p/a.ts:2:19: `older` is CommonJS"), "{found:?}");
}

#[test]
fn commonjs_that_a_package_needs_says_which_package_to_bundle() {
    let folder = plugin(
        "import { x } from 'top'\nexport const handle = () => x",
        &[
            ("node_modules/top/package.json", r#"{"name":"top","type":"module","main":"i.js"}"#),
            ("node_modules/top/i.js", "export { x } from '@in/ner'\nimport './own.cjs'"),
            ("node_modules/top/own.cjs", "exports.a = 1"),
            ("node_modules/@in/ner/package.json", r#"{"name":"@in/ner","type":"module","main":"i.js"}"#),
            ("node_modules/@in/ner/i.js", "import old from 'old'\nexport const x = old"),
            ("node_modules/old/package.json", r#"{"name":"old","main":"index.js"}"#),
            ("node_modules/old/index.js", "module.exports = 1"),
        ],
    );
    let found = first_lines(&bundle_of(&folder, "a.ts"));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("`top` needs `./own.cjs`, which is CommonJS (node_modules/top/own.cjs)"), "{found:?}");
    assert!(
        found[1].starts_with("p/node_modules/@in/ner/i.js:1:17: `top` needs `old`, which is CommonJS"),
        "{found:?}"
    );
    for fault in found {
        assert!(fault.contains("`npx esbuild top --bundle --format=esm --outfile=lib/top.js`"), "{fault}");
    }
}

#[test]
fn commonjs_beside_which_a_package_has_es_modules_says_where_they_are() {
    let folder = plugin(
        "import old from 'old'\nimport part from 'old/plugin/part.js'\nold, part",
        &[
            ("node_modules/old/package.json", r#"{"name":"old","main":"index.js"}"#),
            ("node_modules/old/index.js", "module.exports = 1"),
            ("node_modules/old/plugin/part.js", "module.exports = 2"),
            ("node_modules/old/esm/index.js", "export default 1"),
            ("node_modules/old/esm/plugin/part/index.js", "export default 2"),
        ],
    );
    let found = first_lines(&bundle_of(&folder, "a.ts"));
    assert!(found[0].ends_with("so import `old/esm`"), "{found:?}");
    assert!(found[1].ends_with("so import `old/esm/plugin/part`"), "{found:?}");
}

#[test]
fn commonjs_of_the_plugin_s_own_is_to_be_written_anew() {
    let folder = plugin("import old from './old.cjs'\nold", &[("old.cjs", "exports.a = 1")]);
    let found = first_lines(&bundle_of(&folder, "a.ts"));
    assert!(found[0].contains("`./old.cjs` is CommonJS (old.cjs)") && found[0].contains("`import`"), "{found:?}");
    assert!(!found[0].contains("npx"), "{found:?}");
}

#[test]
fn a_missing_package_says_how_to_get_it() {
    for (specifier, way_out) in [
        ("left-pad", "run `npm install --prefix . left-pad`"),
        ("lib/money", "write a relative path, `./lib/money`"),
        ("known-packag", "did you mean \"known-package\"?"),
        ("npm:zod", "run `npm install --prefix . zod` in the plugin's folder, and write `zod`"),
        ("jsr:@std/path", "run `npx jsr add @std/path` in the plugin's folder, and write `@std/path`"),
        ("@/lib/money", "\"paths\" of a tsconfig.json are not followed: write a relative path"),
        ("#money", "there is no `#money` among the \"imports\" of package.json"),
        ("node:fs", "module of Node.js, which is not there: keep data in the store"),
        ("node:crypto", "`crypto` is a global"),
        ("stream", "module of Node.js"),
        ("https://x.test/a.js", "relative to this file"),
    ] {
        let files = [
            ("a.ts", format!("import '{specifier}'")),
            ("lib/money.ts", String::new()),
            ("package.json", r##"{ "imports": { "#other": "./lib/money.ts" } }"##.to_owned()),
            ("node_modules/known-package/package.json", "{}".to_owned()),
        ];
        let found = faults(&files.each_ref().map(|(path, text)| (*path, text.as_str())));
        assert!(found.len() == 1 && found[0].contains(way_out), "{specifier}: {found:?}");
    }
}

#[test]
fn packages_above_the_plugin_are_not_its_own() {
    let folder = Folder::with(&[
        ("node_modules/up/package.json", r#"{"name":"up","type":"module","main":"i.js"}"#),
        ("node_modules/up/i.js", "export const x = 1"),
        ("plugin/a.ts", "import { x } from 'up'\nx"),
    ]);
    let mut bundler = crate::plugin::bundle::Bundler::new("p", "p", folder.path("plugin"));
    bundler.entry(&folder.path("plugin/a.ts"));
    let found = first_lines(&bundler.finish());
    assert!(found[0].contains("run `npm install --prefix . up` in its folder"), "{found:?}");
}

#[test]
fn what_a_package_does_not_export_cannot_be_imported() {
    let folder = plugin(
        "import 'pkg/hidden.js'",
        &[
            ("node_modules/pkg/package.json", r#"{"name":"pkg","exports":{".":"./i.js"}}"#),
            ("node_modules/pkg/hidden.js", ""),
        ],
    );
    let found = first_lines(&bundle_of(&folder, "a.ts"));
    assert!(found[0].contains("the package `pkg` does not export `./hidden.js`"), "{found:?}");
}

/// A package whose entry only passes names on; a module that is instantiated says so.
fn barrel(side_effects: &str, entry: &str) -> (Vec<String>, String) {
    let package = format!(r#"{{"name":"pkg","type":"module","main":"i.js","sideEffects":{side_effects}}}"#);
    let part = |name: &str| {
        format!(
            "(globalThis.made ??= []).push('{name}')\nexport default function {name}() {{ return '{name}' }}\nexport const {name}2 = 2"
        )
    };
    let folder = plugin(
        entry,
        &[
            ("lib.ts", "export { b } from 'pkg'"),
            ("node_modules/pkg/package.json", &package),
            (
                "node_modules/pkg/i.js",
                "export { default as a } from './a.js'\nexport { default as b } from './b.js'\nexport * from './more.js'\nexport * as whole from './d.js'",
            ),
            ("node_modules/pkg/more.js", "export * from './c.js'\nexport * from './b.js'"),
            ("node_modules/pkg/a.js", &part("a")),
            ("node_modules/pkg/b.js", &part("b")),
            ("node_modules/pkg/c.js", &part("c")),
            ("node_modules/pkg/d.js", &part("d")),
        ],
    );
    let bundle = bundle_of(&folder, "a.ts");
    (first_lines(&bundle), super::modules::run(bundle.code).unwrap_or_else(|error| format!("{error:?}")))
}

#[test]
fn a_package_without_effects_is_instantiated_as_far_as_it_is_used() {
    let handle = "export const handle = () => [globalThis.made, ";
    for (imports, uses, gives) in [
        ("import { a } from 'pkg'", "a()]", r#"[["a"],"a"]"#),
        ("import { c2 } from 'pkg'", "c2]", r#"[["c"],2]"#),
        ("import { whole } from 'pkg'", "whole.d2]", r#"[["d"],2]"#),
        ("import { a } from 'pkg'\nimport { b } from './lib'", "b(), a()]", r#"[["a","b"],"b","a"]"#),
        ("import * as all from 'pkg'", "Object.keys(all).join()]", r#"[["a","b","c","d"],"a,b,b2,c2,whole"]"#),
        ("import 'pkg'", "1]", "[null,1]"),
    ] {
        let (found, gave) = barrel("false", &format!("{imports}\n{handle}{uses}"));
        assert_eq!((found, gave.as_str()), (Vec::new(), gives), "{imports}");
    }
}

#[test]
fn a_package_that_may_have_effects_is_instantiated_whole() {
    let entry = "import { a } from 'pkg'\nexport const handle = () => [globalThis.made, a()]";
    for side_effects in ["true", "[\"./b.js\"]", "null"] {
        let (found, gave) = barrel(side_effects, entry);
        assert_eq!((found, gave.as_str()), (Vec::new(), r#"[["a","b","c","d"],"a"]"#), "{side_effects}");
    }
}

#[test]
fn a_name_that_a_package_lacks_is_still_a_fault() {
    let (found, _) = barrel("false", "import { zz } from 'pkg'\nexport const handle = () => zz");
    assert!(found.len() == 1 && found[0].contains("does not export `zz`"), "{found:?}");
}
