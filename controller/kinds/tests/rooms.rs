//! Who may know whom among the modules of decisions: kinds know what is shared, and never each other. That what is shared knows
//! no kind, the crates see to.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "reads the sources, and fails by panicking"
)]

use std::fs;
use std::path::{Path, PathBuf};

/// Each decides for one kind of object.
const KINDS: [&str; 13] = [
    "broadcastjob",
    "cloneset",
    "containerrecreaterequest",
    "daemonset",
    "foreignpod",
    "imagelistpulljob",
    "imagepulljob",
    "joiningnode",
    "nodeimage",
    "persistentpodstate",
    "sidecarset",
    "statefulset",
    "uniteddeployment",
];

/// What is shared, by floors: a module knows none of its own floor or of one above.
const FLOORS: [&[&str]; 4] = [&["podset"], &["stuck"], &["predownload", "prepull"], &KINDS];

/// Where the sources are: of what is shared, and of the kinds.
fn sources() -> [PathBuf; 2] {
    ["../workload/src", "src"].map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder))
}

/// The module that a file belongs to, and the file's text without its tests. `None` for a file of tests.
fn module_and_text(file: &Path) -> Option<(String, String)> {
    let path = sources()
        .iter()
        .find_map(|folder| file.strip_prefix(folder).ok())?
        .to_str()?
        .trim_end_matches(".rs");
    let is_test = path
        .split('/')
        .any(|part| ["tests", "simulation", "properties", "model"].contains(&part));
    let module = path.split('/').next().unwrap_or_default().to_owned();
    let text = fs::read_to_string(file).unwrap();
    let text = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default()
        .to_owned();
    (!is_test).then_some((module, text))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

/// The modules of its own crate that a text names, as `crate::name` or in `use crate::{name, …}`.
fn imports(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for rest in text.split("crate::").skip(1) {
        let list = rest
            .strip_prefix('{')
            .and_then(|list| list.split('}').next());
        for item in
            list.unwrap_or(rest)
                .split(',')
                .take(if list.is_some() { usize::MAX } else { 1 })
        {
            let name = item
                .trim()
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .next()
                .unwrap_or_default();
            found.push(name.to_owned());
        }
    }
    found
}

fn floor(module: &str) -> usize {
    FLOORS
        .iter()
        .position(|floor| floor.contains(&module))
        .map_or(0, |floor| floor + 1)
}

#[test]
fn no_module_imports_one_of_its_own_floor_or_above() {
    let mut wrong = Vec::new();
    let mut read = 0;
    for (module, text) in sources()
        .iter()
        .flat_map(|folder| files(folder))
        .filter_map(|file| module_and_text(&file))
    {
        read += 1;
        let above =
            |name: &String| floor(name) > 0 && floor(name) >= floor(&module) && *name != module;
        let names = imports(&text)
            .into_iter()
            .filter(|name| module != "lib" && above(name));
        wrong.extend(names.map(|name| format!("{module} imports {name}")));
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(
        read > 60 && KINDS.iter().all(|kind| sources()[1].join(kind).is_dir()),
        "the sources are read"
    );
}
