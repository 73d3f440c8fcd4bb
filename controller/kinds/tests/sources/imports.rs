//! The imports between the modules of a crate, read from its sources.
//!
//! An import is a path of a module: in a `use`, or in the code. A use of a re-exported
//! item counts as an import of the file that defines the item. Tests are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::rust_files;

/// A module of a crate: the names on its path, none for the crate's root.
pub(crate) type Module = Vec<String>;
/// For each module, the modules that it imports.
pub(crate) type Imports = BTreeMap<Module, BTreeSet<Module>>;

pub(crate) fn module(source: &Path, file: &Path) -> Module {
    let path = file.strip_prefix(source).unwrap().with_extension("");
    let mut names: Module = path
        .iter()
        .map(|name| name.to_str().unwrap().to_owned())
        .collect();
    if matches!(
        names.last().map(String::as_str),
        Some("mod" | "lib" | "main")
    ) {
        names.pop();
    }
    names
}

pub(crate) fn is_test(module: &Module) -> bool {
    let of_tests = ["tests", "simulation", "properties", "model"];
    module
        .iter()
        .any(|name| of_tests.contains(&name.as_str()) || name.ends_with("_tests"))
}

/// The names, `::` and other signs of a text, without comments and without its module of tests.
fn tokens(text: &str) -> Vec<String> {
    let text = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default();
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    let text = lines.collect::<Vec<_>>().join("\n");
    let mut tokens: Vec<String> = Vec::new();
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            'a'..='z' | 'A'..='Z' | '_' => rest
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            _ => first.len_utf8(),
        };
        if !first.is_whitespace() {
            tokens.push(rest[..length].to_owned());
        }
        rest = &rest[length..];
    }
    tokens
}

/// The paths of a text, and whether `pub use` has them.
fn paths(tokens: &[String]) -> Vec<(bool, Module)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let before = at
            .checked_sub(1)
            .map_or(";", |before| tokens[before].as_str());
        // `pub(in PATH)` imports nothing.
        if tokens[at] == "in" && before == "(" {
            while tokens.get(at).is_some_and(|token| token != ")") {
                at += 1;
            }
            continue;
        }
        let is_name = tokens[at].starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if tokens[at] == "use" && [";", "}", "{", "]", ")", "pub"].contains(&before) {
            at += 1;
            let mut listed = Vec::new();
            tree(tokens, &mut at, &Module::new(), &mut listed);
            let is_shown = before == "pub" || before == ")";
            found.extend(listed.into_iter().map(|path| (is_shown, path)));
        } else if is_name && tokens.get(at + 1).is_some_and(|next| next == "::") {
            let mut path = vec![tokens[at].clone()];
            while tokens.get(at + 1).is_some_and(|next| next == "::") && at + 2 < tokens.len() {
                at += 2;
                path.push(tokens[at].clone());
            }
            found.push((false, path));
        }
        at += 1;
    }
    found
}

/// Reads the tree of a `use` up to its end.
fn tree(tokens: &[String], at: &mut usize, prefix: &Module, found: &mut Vec<Module>) {
    let mut path = prefix.clone();
    while let Some(token) = tokens.get(*at) {
        match token.as_str() {
            "{" => {
                *at += 1;
                while tokens.get(*at).is_some_and(|token| token != "}") {
                    tree(tokens, at, &path, found);
                    *at += usize::from(tokens.get(*at).is_some_and(|token| token == ","));
                }
                *at += 1;
                return;
            }
            "," | ";" | "}" => break,
            "as" => *at += 1,
            "::" | "*" => {}
            "self" if !path.is_empty() => {}
            name => path.push(name.to_owned()),
        }
        *at += 1;
    }
    found.push(path);
}

/// The path from the crate's root, if it begins in a module of the crate.
fn absolute(all: &BTreeSet<Module>, here: &Module, path: &Module) -> Option<Module> {
    let (mut base, mut rest) = (here.clone(), path.as_slice());
    match path.first()?.as_str() {
        "crate" => (base, rest) = (Module::new(), &rest[1..]),
        "self" | "super" => {
            while let Some("self" | "super") = rest.first().map(String::as_str) {
                if rest[0] == "super" {
                    base.pop();
                }
                rest = &rest[1..];
            }
        }
        first => {
            let child = [base.as_slice(), &[first.to_owned()]].concat();
            all.contains(&child).then_some(())?;
        }
    }
    Some([base.as_slice(), rest].concat())
}

/// The file that has the item of the path.
fn owner(
    all: &BTreeSet<Module>,
    shown: &BTreeMap<(Module, String), Module>,
    mut path: Module,
) -> Module {
    for _ in 0..8 {
        let length = (0..=path.len())
            .rev()
            .find(|n| all.contains(&path[..*n]))
            .unwrap_or(0);
        let Some(name) = path.get(length) else { break };
        let Some(target) = shown.get(&(path[..length].to_vec(), name.clone())) else {
            path.truncate(length);
            break;
        };
        path = [target.as_slice(), &path[length + 1..]].concat();
    }
    path
}

pub(crate) fn imports(source: &Path) -> Imports {
    let texts = rust_files(source).into_iter().map(|file| {
        let tokens = tokens(&fs::read_to_string(&file).unwrap());
        (module(source, &file), paths(&tokens))
    });
    let texts: BTreeMap<Module, Vec<(bool, Module)>> = texts.collect();
    let all: BTreeSet<Module> = texts.keys().cloned().collect();
    let mut shown = BTreeMap::new();
    for (here, paths) in &texts {
        for path in paths
            .iter()
            .filter(|(is_shown, _)| *is_shown)
            .map(|(_, path)| path)
        {
            if let Some((name, path)) = path.last().zip(absolute(&all, here, path)) {
                shown.insert((here.clone(), name.clone()), path);
            }
        }
    }
    let imported = |here: &Module, paths: &[(bool, Module)]| {
        let paths = paths.iter().filter(|(is_shown, _)| !is_shown);
        let owners =
            paths.filter_map(|(_, path)| Some(owner(&all, &shown, absolute(&all, here, path)?)));
        owners
            .filter(|owner| owner != here && !is_test(owner))
            .collect::<BTreeSet<_>>()
    };
    let product = texts.iter().filter(|(here, _)| !is_test(here));
    product
        .map(|(here, paths)| (here.clone(), imported(here, paths)))
        .collect()
}

/// The imports between the files and folders of each folder: `foo.rs` and `foo/` are one.
pub(crate) fn imports_of_siblings(all: &Imports) -> BTreeMap<Module, Imports> {
    let mut folders = BTreeMap::<Module, Imports>::new();
    for (from, of) in all {
        for to in of {
            let shared = from.iter().zip(to).take_while(|(a, b)| a == b).count();
            if let (Some(from_name), Some(to_name)) = (from.get(shared), to.get(shared)) {
                let siblings = folders.entry(from[..shared].to_vec()).or_default();
                let of_from = siblings.entry(vec![from_name.clone()]).or_default();
                of_from.insert(vec![to_name.clone()]);
            }
        }
    }
    folders
}

/// The rest when files that import no other, or that no other imports, are removed repeatedly.
pub(crate) fn tangled(mut imports: Imports) -> Imports {
    loop {
        let importing: BTreeSet<Module> = imports.keys().cloned().collect();
        let imported: BTreeSet<Module> = imports.values().flatten().cloned().collect();
        let before = importing.len();
        imports.retain(|module, of| {
            of.retain(|other| importing.contains(other));
            !of.is_empty() && imported.contains(module)
        });
        if imports.len() == before {
            return imports;
        }
    }
}
