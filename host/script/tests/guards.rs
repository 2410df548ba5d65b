//! Guarded built-ins give what the language says.

use super::*;

#[test]
fn guarded_built_ins_keep_name_length_and_form() {
    assert_eq!(
        once("() => [[].join, ''.indexOf, [].flatMap, JSON.stringify, Set, Map, [].concat, Object.keys, 'x'.replaceAll, Set.prototype.union].map((f) => [f.name, f.length, /\\[native code\\]/.test(String(f))].join())").unwrap(),
        r#"["join,1,true","indexOf,1,true","flatMap,1,true","stringify,3,true","Set,0,true","Map,0,true","concat,1,true","keys,1,true","replaceAll,2,true","union,1,true"]"#
    );
    assert_eq!(
        once("() => [() => new [].join(), () => [].join.call(null), () => ''.indexOf.call(undefined, 'x'), () => Set(), () => [].flat.call(null), () => ''.includes(/x/), () => 'x'.replaceAll(/x/, ''), () => [].flatMap(1), () => [].sort(5), () => new Map([1]), () => [Symbol()].join()].map((f) => { try { f(); return 'no' } catch (e) { return e.name } }).every((name) => name === 'TypeError')").unwrap(),
        "true"
    );
}

#[test]
fn guarded_built_ins_give_what_the_language_says() {
    for (code, gives) in [
        ("[1, [2, [3, [4]]]].flat()", "[1,2,[3,[4]]]"),
        ("[1, [2, [3, [4]]]].flat(Infinity)", "[1,2,3,4]"),
        ("[1, , [2, , 3]].flat()", "[1,2,3]"),
        ("[1, 2].flatMap((x, i) => [x, [i]])", "[1,[0],2,[1]]"),
        (
            "[1].concat(2, [3, [4]], 'ab', { length: 1, 0: 5, [Symbol.isConcatSpreadable]: true })",
            "[1,2,3,[4],\"ab\",5]",
        ),
        ("[].concat({ a: 1 })[0].a", "1"),
        (
            "((o, a) => [[].concat.call(o, 1)[0] === o, [].concat.call(a, 1)[0] === a, typeof [].concat.call('ab', [1])[0], [].concat.call({ __proto__: o, [Symbol.isConcatSpreadable]: true, length: 1, 0: o })[0] === o])({}, Object.assign([3], { [Symbol.isConcatSpreadable]: false, constructor: undefined }))",
            r#"[true,true,"object",true]"#,
        ),
        ("[10, 9, 1, undefined, 'b', 'a', null].sort()", r#"[1,10,9,"a","b",null,null]"#),
        ("[3, 1, 2].toSorted((a, b) => b - a)", "[3,2,1]"),
        ("[].join.call({ length: 3, 0: 'a', 2: 'c' }, '-')", r#""a--c""#),
        ("[].reverse.call({ length: 2, 0: 'a', 1: 'b' })", r#"{"0":"b","1":"a","length":2}"#),
        ("[].slice.call('abc', 1)", r#"["b","c"]"#),
        (
            "(() => { const a = [1, 2, 3]; const b = a.splice(1, 1); return [a, b, a.reverse() === a, a.fill(0) === a] })()",
            "[[0,0],[2],true,true]",
        ),
        (
            "(() => { const p = new Proxy([3, 1, 2], {}); p.sort(); return [p.join(), p.reverse() === p, p.includes(2), p.slice(1), p] })()",
            r#"["1,2,3",true,true,[2,1],[3,2,1]]"#,
        ),
        ("(class L extends Array {}).from([1, [2]]).flat().constructor.name", r#""L""#),
        (
            "['abcabc'.indexOf('c', 3), 'abc'.indexOf(''), 'abc'.indexOf('', 9), 'abcabc'.lastIndexOf('a'), 'abcabc'.lastIndexOf('a', 2), 'a1'.indexOf(1), 'null'.indexOf(null), 'undefined'.indexOf()]",
            "[5,0,3,3,0,1,0,0]",
        ),
        (
            "['a,b,c'.split(','), 'abc'.split(''), 'a,b,c'.split(',', 2), 'abc'.split(), 'a1b2c'.split(/\\d/), 'aXb'.split({ [Symbol.split]: () => ['own'] })]",
            r#"[["a","b","c"],["a","b","c"],["a","b"],["abc"],["a","b","c"],["own"]]"#,
        ),
        (
            "['aXbX'.replace('X', '[$&]'), 'aXbX'.replaceAll('X', (m, at) => at), 'aXbX'.replaceAll('X', '$$'), 'abc'.replace(/b/, '<$`|$\\'>'), 'abab'.replaceAll('ab', '')]",
            r#"["a[X]bX","a1b3","a$b$","a<a|c>c",""]"#,
        ),
        (
            "(() => { const big = 'a'.repeat(3e4); const needle = 'a'.repeat(1e3) + 'b'; const hay = big + needle + 'c' + needle; return [hay.indexOf(needle) === 3e4, hay.indexOf(needle, 3e4 + 1) === 3e4 + 1002, hay.lastIndexOf(needle) === 3e4 + 1002, hay.includes(needle), hay.split(needle).map((p) => p.length), hay.replace(needle, '$&$&').length - hay.length, hay.replaceAll(needle, () => 'x').length, hay.split(needle, 1).length] })()",
            "[true,true,true,true,[30000,1,0],1001,30003,1]",
        ),
    ] {
        assert_eq!(once(&format!("() => ({code})")).unwrap(), gives, "{code}");
    }
}

#[test]
fn guarded_proxies_are_what_the_language_says() {
    for (code, gives) in [
        // The handler is `this`, with its private parts, whenever it got its trap and from whom.
        (
            "class H { #n = 0; get(t, k) { return [k, this.#n++] } ownKeys() { return ['a', `n${this.#n}`] } getOwnPropertyDescriptor() { return { value: 1, enumerable: true, configurable: true } } } const h = new H(), p = new Proxy({}, h), q = new Proxy({}, Object.create(h)); return [p.x, p.x, Object.keys(p), Reflect.ownKeys(new Proxy({}, h)).length, q instanceof Object]",
            r#"[["x",0],["x",1],["a","n2"],2,true]"#,
        ),
        (
            "const h = {}, p = new Proxy({ a: 1 }, h), before = Reflect.ownKeys(p); h.ownKeys = () => ['a', 'b']; const during = Reflect.ownKeys(p); h.ownKeys = undefined; const list = { length: 1, 0: 'z' }; return [before, during, Reflect.ownKeys(p), Reflect.ownKeys(new Proxy({}, Object.freeze({ ownKeys: () => list })))]",
            r#"[["a"],["a","b"],["a"],["z"]]"#,
        ),
        (
            "const above = {}, p = new Proxy({}, Object.preventExtensions(Object.create(above))); above.ownKeys = () => ['late']; return [Reflect.ownKeys(p), Reflect.ownKeys(new Proxy({ r: 1 }, Reflect)), Reflect.ownKeys(new Proxy({}, new Proxy({}, { get: (t, trap) => (trap === 'ownKeys' ? () => ['meta'] : undefined) })))]",
            r#"[["late"],["r"],["meta"]]"#,
        ),
        (
            "class H { #t = 5; constructor() { Object.freeze(this) } get() { return this.#t } } const w = new WeakMap(), h = Object.freeze({ get() { return w.get(this) } }); w.set(h, 'w'); const m = new Proxy({}, {}); const meta = new Proxy({ get() { return this === meta } }, {}); const plain = {}; new Proxy({}, plain); return [new Proxy({}, new H()).x, new Proxy({}, h).x, new Proxy({}, meta).x, Object.getOwnPropertyNames(plain), delete plain.ownKeys, new Proxy(function (a) { return a + 1 }, {})(1), new (new Proxy(class { n = 2 }, {}))().n, 'x' in new Proxy({ x: 1 }, {}), Reflect.set(new Proxy({}, { set: () => false }), 'a', 1)]",
            r#"[5,"w",true,[],true,2,2,true,false]"#,
        ),
        (
            "const { proxy, revoke } = Proxy.revocable([1], { ownKeys: (t) => Reflect.ownKeys(t) }); const seen = [Array.isArray(proxy), Object.keys(proxy)]; revoke(); try { proxy.x } catch (e) { seen.push(e.name) } const made = [() => Proxy({}, {}), () => new Proxy(1, {}), () => new Proxy({}), () => Object.keys(new Proxy({}, { ownKeys: 1 })), () => Object.keys(new Proxy({}, { ownKeys: () => 1 })), () => class extends Proxy {}, () => Reflect.ownKeys(new Proxy({}, { ownKeys: () => ['a', 'a'] }))].map((f) => { try { f(); return 'no' } catch (e) { return e.name } }); return [...seen, ...new Set(made), Proxy.name, Proxy.length, typeof Proxy.prototype]",
            r#"[true,["0"],"TypeError","TypeError","Proxy",2,"undefined"]"#,
        ),
    ] {
        assert_eq!(once(&format!("() => {{ {code} }}")).unwrap(), gives, "{code}");
    }
}

#[test]
fn sources_of_an_object_are_copied_one_after_the_other() {
    for (code, gives) in [
        (
            "const t = {}; return [Object.assign(t, { a: 1 }, null, { a: 2, b: 3 }, 'x', undefined) === t, t]",
            r#"[true,{"0":"x","a":2,"b":3}]"#,
        ),
        (
            "const made = Object.assign(5, { a: 1 }, { b: 2 }, { c: 3 }); return [typeof made, made + 1, made.a, made.b, made.c]",
            r#"["object",6,1,2,3]"#,
        ),
        (
            "const p = new Proxy({}, {}); return [Object.assign(p, { a: 1 }, { b: 2 }, { c: 3 }) === p, p]",
            r#"[true,{"a":1,"b":2,"c":3}]"#,
        ),
        (
            "return [{ ...Object.assign(new Uint8Array(2), [1], [2, 3], { x: 1 }) }, Object.assign.length]",
            r#"[{"0":2,"1":3,"x":1},2]"#,
        ),
        (
            "const seen = []; try { Object.assign(null, { get a() { seen.push(1) } }, {}, {}) } catch (e) { return [e.name, seen] }",
            r#"["TypeError",[]]"#,
        ),
    ] {
        assert_eq!(once(&format!("() => {{ {code} }}")).unwrap(), gives, "{code}");
    }
}

#[test]
fn names_to_be_written_are_bounded_where_they_are_put_in_order() {
    let names = |first: &str, count: u32| {
        once(&format!(
            "() => {{ const names = [{first}, ...Array.from({{ length: {count} }}, (_, i) => `k${{i}}`)]; const o = Object.fromEntries(names.map((name) => [name, 1])); try {{ return JSON.stringify(o, names).length }} catch (e) {{ return `${{e}}` }} }}"
        ))
        .unwrap()
    };
    assert!(names("7", 120_000).contains("RangeError: JSON.stringify takes at most 16384 names here"));
    assert_eq!(names("7", 1_000), "8897");
    assert_eq!(names("'x'", 50_000), "538897");
}

#[test]
fn an_array_behind_a_proxy_is_changed_as_any_other() {
    let doing = "const did = [p.push(2, 3), p.pop(), p.unshift(0), p.shift(), p.splice(0, 1, 7, 8)]; p[5] = 6; p.length = 2; \
                 p.length += 1; delete p[0]; p.copyWithin(0, 1); p.reverse(); p.sort(); p.fill(4, 2); return [did, [...p], p.length]";
    let gives = "[[3,3,3,0,[1]],[8,null,4],3]";
    for proxy in [
        "[1]",
        "new Proxy([1], {})",
        "new Proxy(new Proxy([1], {}), {})",
        "Proxy.revocable([1], {}).proxy",
        "new Proxy([1], { set(t, k, v, r) { return Reflect.set(t, k, v, r) } })",
        "new Proxy([1], { get: (t, k, r) => Reflect.get(t, k, r), has: (t, k) => k in t, deleteProperty: (t, k) => delete t[k], ownKeys: Reflect.ownKeys })",
        "new Proxy([1], { set(t, k, v) { t[k] = v; return true }, deleteProperty: (t, k) => delete t[k] })",
        "new Proxy([1], { get: Reflect.get, set: Reflect.set, getOwnPropertyDescriptor: Reflect.getOwnPropertyDescriptor })",
    ] {
        assert_eq!(once(&format!("() => {{ const p = {proxy}; {doing} }}")).unwrap(), gives, "{proxy}");
    }
}

#[test]
fn an_object_behind_a_proxy_is_changed_as_any_other() {
    for (code, gives) in [
        ("const p = new Proxy(Object.seal({ a: 1 }), {}); p.a = 2; return [p.a, Reflect.set(p, 'b', 1)]", "[2,false]"),
        (
            "const p = Object.defineProperty(new Proxy({}, {}), 'x', { value: 1, writable: true }); p.x = 3; return [p.x, Object.getOwnPropertyDescriptor(p, 'x')]",
            r#"[3,{"value":3,"writable":true,"enumerable":false,"configurable":false}]"#,
        ),
        (
            "const p = new Proxy({}, { defineProperty: Reflect.defineProperty }); p.a = 1; p.a = 2; Object.defineProperty(p, 'b', { value: 1 }); return [p.a, p.b]",
            "[2,1]",
        ),
        // As immer has it: the target is a list of the state, and every trap is there.
        (
            "const traps = { get: (s, k) => s.copy[k], set(s, k, v) { s.copy[k] = v; return true }, has: (s, k) => k in s.copy, ownKeys: (s) => Reflect.ownKeys(s.copy), deleteProperty: (s, k) => delete s.copy[k], getOwnPropertyDescriptor(s, k) { const d = Reflect.getOwnPropertyDescriptor(s.copy, k); return d && { writable: true, configurable: k !== 'length', enumerable: d.enumerable, value: s.copy[k] } }, defineProperty() { throw new Error('no') }, getPrototypeOf: (s) => Object.getPrototypeOf(s.copy), setPrototypeOf() { throw new Error('no') } }; const lists = {}; for (const k of Object.keys(traps)) lists[k] = function () { arguments[0] = arguments[0][0]; return traps[k].apply(this, arguments) }; const s = { copy: [1, 2] }, p = new Proxy([s], lists); p.push(3); p.shift(); p.splice(0, 1, 9); return [s.copy, p, Array.isArray(p)]",
            "[[9,3],[9,3],true]",
        ),
        // Each trap is got anew, once for each time, and before anything else.
        (
            "const got = []; const h = new Proxy({}, { get(t, k) { got.push(k) } }); const p = new Proxy([1], h); p.push(2); Object.keys(p); return got",
            r#"["get","get","set","getOwnPropertyDescriptor","defineProperty","set","getOwnPropertyDescriptor","defineProperty","ownKeys","getOwnPropertyDescriptor","getOwnPropertyDescriptor","getOwnPropertyDescriptor"]"#,
        ),
    ] {
        assert_eq!(once(&format!("() => {{ {code} }}")).unwrap(), gives, "{code}");
    }
}

#[test]
fn keys_of_a_proxy_without_a_trap_for_them_are_given_however_many() {
    let mut bench = Bench::new();
    bench.limits.time = Duration::from_secs(30);
    let many = "const o = {}; for (let i = 0; i < 3e5; i++) o[`k${i}`] = i; const p = new Proxy(o, {});";
    let gave = bench.handle(&format!("() => {{ {many} return [Object.keys(p).length, Reflect.ownKeys(p).length] }}"));
    assert_eq!(gave.unwrap(), "[300000,300000]");
}

#[test]
fn keys_that_a_trap_gives_are_bounded() {
    let many = "const many = Array.from({ length: 1e5 }, (_, i) => `k${i}`);";
    for proxy in [
        "new Proxy({}, { ownKeys: () => many })",
        "Proxy.revocable({}, { ownKeys: () => many }).proxy",
        "(() => { const h = {}, p = new Proxy({}, h); h.ownKeys = () => many; return p })()",
        "(() => { const a = {}, h = Object.create(a), p = new Proxy({}, h); a.ownKeys = () => many; return p })()",
        "(() => { const a = {}, h = Object.create(a); new Proxy({}, a); const p = new Proxy({}, h); Object.setPrototypeOf(h, { ownKeys: () => many }); return p })()",
        "new Proxy({}, Object.freeze({ ownKeys: () => many }))",
        "new Proxy({}, { get ownKeys() { return () => many } })",
        "(() => { const h = {}, p = new Proxy({}, h); try { Object.defineProperty(h, 'ownKeys', { value: () => many }) } catch {} try { delete h.ownKeys } catch {} try { h.ownKeys = () => many } catch {} return p })()",
        "new Proxy({}, new Proxy({}, { get: () => () => many, defineProperty: () => true }))",
        "new Proxy({}, { ownKeys: () => ({ length: 1e6 }) })",
        "Reflect.construct(Proxy, [{}, { ownKeys: () => many }])",
        "new (new Proxy(Proxy, {}))({}, { ownKeys: () => many })",
        "new (Proxy.bind(null, {}))({ ownKeys: () => many })",
    ] {
        let code = format!(
            "() => {{ {many} try {{ return Reflect.ownKeys({proxy}).length }} catch (e) {{ return `${{e}}` }} }}"
        );
        let text = once(&code).unwrap();
        assert!(text.contains("an ownKeys trap gives at most 16384 keys here"), "{proxy}: {text}");
    }
}

#[test]
fn guarded_collections_and_json_give_what_the_language_says() {
    for (code, gives) in [
        (
            "JSON.stringify({ b: 1, a: { b: 2, c: 3 }, n: [{ a: 1, z: 2 }] }, ['n', 'a', 'b'])",
            r#""{\"n\":[{\"a\":1}],\"a\":{\"b\":2},\"b\":1}""#,
        ),
        (
            "JSON.stringify([undefined, () => 1, Symbol(), new Date(0), NaN, { toJSON: () => 5 }], null, 1).replaceAll('\\n', '')",
            r#""[ null, null, null, \"1970-01-01T00:00:00.000Z\", null, 5]""#,
        ),
        (
            "[JSON.stringify(undefined) === undefined, JSON.stringify('x'), JSON.stringify({ a: 1 }, (k, v) => (k === 'a' ? 2 : v))]",
            r#"[true,"\"x\"","{\"a\":2}"]"#,
        ),
        ("[...new Set([1, 2, 2]).union(new Set([3])), new Set([1]).isSubsetOf(new Map([[1, 2]]))]", "[1,2,3,true]"),
        (
            "[new Map([['a', 1]]).get('a'), new Map(new Map([[1, 2]])).size, new Set('aab').size, Map.groupBy([1, 2], (x) => x % 2).get(1), new Set() instanceof Set, Set[Symbol.species] === Set]",
            "[1,1,2,[1],true,true]",
        ),
        (
            "[Object.groupBy('abca', (x, at) => x + (at > 2)), Map.groupBy([1, 2, 3], Boolean).get(true), Object.groupBy.length]",
            r#"[{"afalse":["a"],"bfalse":["b"],"cfalse":["c"],"atrue":["a"]},[1,2,3],2]"#,
        ),
        (
            "[null, undefined, 1, {}].map((items) => { try { Object.groupBy(items, String) } catch (error) { return error.name } })",
            r#"["TypeError","TypeError","TypeError","TypeError"]"#,
        ),
        (
            "[Object.fromEntries([['a', 1]]), Object.fromEntries(new Map([['b', 2]])), [1, 2, 3].values().drop(2).toArray(), Math.sumPrecise([0.1, 0.2])]",
            "[{\"a\":1},{\"b\":2},[3],0.30000000000000004]",
        ),
        (
            "[String.raw`a\\n${1}b`, new Uint8Array([1, 2]).join('-'), 'abc'.at(-1), 'ß'.toUpperCase(), 'x'.padStart(3, 'ab'), [1, 2, 3].lastIndexOf(3)]",
            r#"["a\\n1b","1-2","c","SS","abx",2]"#,
        ),
        (
            "[parseInt('12px'), Number.parseInt === parseInt, [...'aXbX'.matchAll(/X/g)].length, /x/y.test('x'), 'x'.match(/x/).index, RegExp('a|b', 'g')[Symbol.replace]('cab', '-')]",
            r#"[12,true,2,true,0,"c--"]"#,
        ),
    ] {
        assert_eq!(once(&format!("() => ({code})")).unwrap(), gives, "{code}");
    }
}

#[test]
fn what_is_done_piece_by_piece_gives_what_the_language_says() {
    for code in [
        // The long text is done piece by piece, the short one by the engine.
        "['<$&>', '$1$2', '$3', '$01', '$10', '$`', \"$'\", '$$', '$', '$<a>', '$0', 'b$'].every((form) => { const pad = 'z'.repeat(2e4); return 'xaby'.replace(/(a)(b)/g, form) === ('xaby' + pad).replace(/(a)(b)/g, form).split(pad).join('') })",
        "['$<a>', '$<b>', '$<a', '$<c>'].every((form) => { const pad = 'z'.repeat(2e4); return 'xaby'.replace(/(?<a>a)(?<b>q)?/, form) === ('xaby' + pad).replace(/(?<a>a)(?<b>q)?/, form).split(pad).join('') })",
        "['$&', '$`', \"$'\", '$1', '$$', '$<a>'].every((form) => { const pad = 'z'.repeat(2e4); return 'xaay'.replaceAll('a', form) === ('xaay' + pad).replaceAll('a', form).split(pad).join('') })",
        // Cut anywhere, it would come out otherwise.
        "['NFC', 'NFD', 'NFKC', 'NFKD'].every((form) => ['e\\u0301\\u0323', '\\u1100\\u1161\\u11a8', '\\uff76\\uff9e', '\\u{16d63}\\u{16d67}\\u{16d67}', '\\u{1f600}\\ufb01', 'a'].every((part) => { const few = part.normalize(form); for (const count of [333, 500, 1001]) if ((part.repeat(count)).normalize(form) !== few.repeat(count)) return false; return true }))",
        "['abc', 'e\\u0301', 'z'.repeat(2000) + 'e\\u0301', '\\u00e9'.repeat(1500)].every((text) => text.localeCompare(text.normalize('NFD')) === 0 && text.localeCompare(text + 'a') < 0 && (text + 'b').localeCompare(text + 'a') > 0)",
        "[Float64Array, Int16Array, Int32Array, Uint8Array].every((Kind) => { const of = (i) => (i * 7919) % 250007 - 125000; const some = Kind.from({ length: 250_001 }, (_, i) => of(i)); const before = some.slice(); const sorted = some.toSorted(); for (let i = 1; i < sorted.length; i++) if (sorted[i - 1] > sorted[i]) return false; return some.every((x, i) => x === before[i]) && some.sort() === some && some.every((x, i) => x === sorted[i]) && sorted.constructor === Kind })",
        "(() => { const some = new Float64Array(150_000); some[0] = NaN; some[1] = 1; some[140_000] = -0; some[149_999] = -1; some.sort(); return some[0] === -1 && Object.is(some[1], -0) && Object.is(some[2], 0) && some[149_998] === 1 && Number.isNaN(some[149_999]) })()",
        "(() => { const long = '0'.repeat(2000) + '7'; return [Float64Array.from([long, 1]), new Float64Array([long, '1']), Float64Array.of(long, 1), new Float64Array(new Set([long, 1])), Float64Array.from([long, 1], (x) => (x === long ? 7 : x))].every((made) => made.length === 2 && made[0] === 7 && made[1] === 1) })()",
        "(() => { const long = '0'.repeat(2000) + '7', into = new Float64Array(3); into.set([long], 1); into.set({ length: 1, 0: '5' }); into.set(new Uint8Array([9]), 2); return into.join() === '5,7,9' })()",
        "[() => new Float64Array([1n]), () => new DataView(new ArrayBuffer(8)).setBigInt64(0, 1), () => new Float64Array(1).set([Symbol()])].every((f) => { try { f(); return false } catch (e) { return e instanceof TypeError } })",
        "(() => { const d = new DataView(new ArrayBuffer(16)); d.setBigInt64(0, '-5'); d.setBigUint64(8, 7n, true); d.setUint8(15, '3'); return d.getBigInt64(0) === -5n && d.getUint8(8) === 7 && d.getUint8(15) === 3 && d.setInt8.length === 2 })()",
        "(() => { class L extends Array {} const own = L.from([1, 2, 3]); own.x = 1; const seen = []; const made = own.map(function (item, index, all) { seen.push(this.y, index, all === own); return item * 2 }, { y: 5 }); return made instanceof L && made.join() === '2,4,6' && seen.join() === '5,0,true,5,1,true,5,2,true' && own.filter((x) => x > 1) instanceof L })()",
        "(() => { const long = '0'.repeat(2000) + '7', a = new Array(3).fill(long); a.constructor = { [Symbol.species]: Float64Array }; const into = Object.assign(new Float64Array(3), [long, 1], { 2: 4 }), two = Object.defineProperties(new Float64Array(2), { 0: { value: long, writable: true, enumerable: true, configurable: true } }); const made = a.map(String); return made instanceof Float64Array && made[0] === 7 && into.join() === '7,1,4' && two.join() === '7,0' && Array.of(long)[0] === long })()",
        "Math.max() === -Infinity && Math.min(3, 2) === 2 && Math.max(...Array.from({ length: 500 }, (_, i) => i)) === 499 && Math.max('3') === 3 && Math.max(...new Array(200).fill('9'.repeat(1001))) === Infinity && Number.isNaN(Math.max(1, NaN)) && Math.hypot(3, 4) === 5",
        "(() => { const big = 2n ** 3000n, some = [big, 'x'.repeat(2000), null, [1, [2]], undefined, 0]; return some.join() === [String(big), 'x'.repeat(2000), '', '1,2', '', '0'].join() && some.includes('x'.repeat(2000)) && some.indexOf('x'.repeat(2001)) === -1 && some.lastIndexOf('x'.repeat(2000)) === 1 && ''.concat(...new Array(200).fill(big)) === String(big).repeat(200) })()",
        "RegExp('a', 'g') instanceof RegExp && new RegExp(/a/g).flags === 'g' && new RegExp(/a/g, 'i').flags === 'i' && (() => { const r = /x/; return RegExp(r) === r && new RegExp(r) !== r })() && new RegExp({ toString: () => 'b+' }).source === 'b+' && new RegExp({ [Symbol.match]: true, source: 'c', flags: 'y' }).flags === 'y' && (class P extends RegExp {}).name === 'P' && new (class P extends RegExp {})('d').test('d') && RegExp[Symbol.species] === RegExp && /x/.constructor === RegExp && new RegExp().source === '(?:)' && 'a1b'.split(new RegExp('[0-9]')).join() === 'a,b' && 'aba'.match('b').index === 1 && RegExp.length === 2",
        "Object.fromEntries(Array.from({ length: 50 }, (_, i) => [i, i]))[49] === 49 && Object.fromEntries([['a', 1]]).a === 1",
        "'ab'.repeat(1000).replaceAll('', '.'.repeat(6000)).length === 2000 + 2001 * 6000",
        "[3, 7, 10, 36].every((radix) => { const n = -(3n ** 20_000n) - 12345n; const text = n.toString(radix); let back = 0n; for (const part of text.slice(1).match(/.{1,5}/g)) back = back * BigInt(radix) ** BigInt(part.length) + BigInt(parseInt(part, radix)); return text[0] === '-' && back === -n })",
        "(() => { const n = 7n ** 9_000n; return BigInt(n.toString()) === n && BigInt(' -' + n + ' ') === -n && BigInt('0x' + n.toString(16)) === n })()",
        "typeof BigInt(5) === 'bigint' && BigInt.asIntN(8, 255n) === -1n && BigInt.name === 'BigInt' && BigInt.length === 1 && Object(1n) instanceof BigInt",
        "JSON.stringify({ b: 1, 1: 2, 10: { 1: 3, b: [4, { b: 5, 1: 6, c: 7 }] } }, ['b', '1', 10, 'b']) === '{\"b\":1,\"1\":2,\"10\":{\"b\":[4,{\"b\":5,\"1\":6}],\"1\":3}}'",
        "JSON.stringify({ a: 1, toJSON() { return { a: 2, toJSON: () => 3 } } }, ['a', 'toJSON']) === '{\"a\":2}' && JSON.stringify({ a: () => 1, b: [() => 1], c: new Date(0) }, ['c', 'b', 'a']) === '{\"c\":\"1970-01-01T00:00:00.000Z\",\"b\":[null]}'",
        "(() => { try { BigInt('9'.repeat(6000) + 'x') } catch (e) { return e.name } })() === 'SyntaxError'",
        "[1, 2, 3, 4].values().map((x) => x * 2).filter((x) => x > 2).drop(1).take(1).flatMap((x) => [x, [x]]).toArray().join('|') === '6|6'",
        "[1, 2].values().flatMap((x, i) => [x, i].values()).toArray().join() === '1,0,2,1'",
        "(() => { let closed = 0; const own = { __proto__: Iterator.prototype, next: () => ({ value: 1, done: false }), return: () => { closed += 1; return {} } }; for (const x of own.map((x) => x).take(5)) break; return closed })() === 1",
        "(() => { try { [1].values().flatMap(() => 'ab').next() } catch (e) { return e.name } })() === 'TypeError'",
    ] {
        assert_eq!(once(&format!("() => ({code})")).unwrap(), "true", "{code}");
    }
}

#[test]
fn what_a_guarded_loop_writes_is_interrupted_too() {
    for function in [
        "() => [].fill.call({ length: 2 ** 53 - 1 }, 1, 2 ** 52)",
        "() => [].reverse.call({ length: 2 ** 53 - 1, 0: 1, 1: 1 })",
        "() => [].copyWithin.call({ length: 2 ** 53 - 1, 0: 1 }, 1, 0)",
    ] {
        let (send, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut bench = Bench::with(EngineLimits { memory: 2 << 30, ..EngineLimits::default() });
            bench.limits.time = Duration::from_millis(50);
            send.send(bench.handle(function))
        });
        // Where nothing looks at the clock, it goes on until the memory is full.
        let outcome =
            ended.recv_timeout(Duration::from_secs(5)).unwrap_or_else(|_| panic!("still running: {function}"));
        assert!(matches!(&outcome, Err(ScriptError::Limit { .. })), "{function}: {outcome:?}");
    }
}

#[test]
fn a_locale_is_refused_rather_than_ignored() {
    for code in [
        "'a'.localeCompare('b', 'de')",
        "'a'.localeCompare('b', undefined, { numeric: true })",
        "(1).toLocaleString('de')",
        "(1).toLocaleString('en-US', { style: 'percent' })",
        "new Date().toLocaleDateString('en-US')",
        "[1].toLocaleString('de')",
        "'i'.toLocaleUpperCase('tr')",
    ] {
        let outcome = once(&format!("() => {code}"));
        let said = matches!(&outcome, Err(ScriptError::Thrown { message, .. }) if message.contains("there is no Intl"));
        assert!(said, "{code}: {outcome:?}");
    }
    for (code, gives) in [
        ("['b', 'a', 'B'].sort((a, b) => a.localeCompare(b))", r#"["B","a","b"]"#),
        (
            "[1234.5, 0.0005, -1e21, 1e6, -0, NaN, -Infinity, 999].map((n) => n.toLocaleString())",
            r#"["1,234.5","0.001","-1,000,000,000,000,000,000,000","1,000,000","-0","NaN","-∞","999"]"#,
        ),
        (
            "[(1234567).toLocaleString('en-US'), (-12345n).toLocaleString('en'), [1000, 'a'].toLocaleString()]",
            r#"["1,234,567","-12,345","1,000,a"]"#,
        ),
        ("['ß'.toLocaleUpperCase('de'), 'I'.toLocaleLowerCase()]", r#"["SS","i"]"#),
    ] {
        assert_eq!(once(&format!("() => ({code})")).unwrap(), gives, "{code}");
    }
}
