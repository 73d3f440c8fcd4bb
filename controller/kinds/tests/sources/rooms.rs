//! No ring of imports between the files of a crate, or between these and the folders beside them;
//! no kind that imports another kind; no long files and no full folders.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::imports::{Imports, Module, imports, imports_of_siblings, is_test, module, tangled};
use crate::{root, rust_files};

/// The crates of the product.
const CRATES: [&str; 11] = [
    "cli",
    "cni-hostlocal",
    "controller",
    "controller/kinds",
    "controller/runtime",
    "controller/webhook",
    "controller/workload",
    "daemon",
    "proto/api",
    "proto/grpc",
    "proto/http",
];

/// The most lines of a product file, and the most product files in a folder that has no file for
/// each kind.
const LINES: usize = 400;
const FILES: usize = 15;

/// How many product files outside its own name a kind. A number only gets smaller.
const NAMED_BY: [(&str, usize); 4] = [
    ("broadcastjob", 7),
    ("uniteddeployment", 9),
    ("daemonset", 28),
    ("sidecarset", 46),
];

#[test]
fn files_and_folders_import_each_other_in_no_ring() {
    let members = rust_files(&root().join("controller"))
        .into_iter()
        .chain(rust_files(&root().join("proto")));
    let members: BTreeSet<PathBuf> = members
        .filter(|file| file.ends_with("src/lib.rs"))
        .map(|file| file.parent().unwrap().canonicalize().unwrap())
        .collect();
    for name in CRATES {
        let source = root().join(name).join("src");
        let all = imports(&source);
        assert!(!all.is_empty(), "{name}: read");
        for (folder, siblings) in imports_of_siblings(&all) {
            let tangled = tangled(siblings);
            assert!(tangled.is_empty(), "{name}, {folder:?}: {tangled:#?}");
        }
        let tangled = tangled(all);
        let arrows: Vec<_> = tangled
            .iter()
            .flat_map(|(from, of)| {
                of.iter()
                    .map(|to| [from.join("::"), to.join("::")].join(" -> "))
            })
            .collect();
        assert!(tangled.is_empty(), "{name}: {arrows:#?}");
    }
    let listed = CRATES.map(|name| root().join(name).join("src").canonicalize().unwrap());
    let missing: Vec<_> = members
        .iter()
        .filter(|member| !listed.contains(member))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The imports between the kinds of a folder.
fn imports_of_kinds(folder: &str, others: &[&str]) -> Imports {
    let (name, below) = folder.split_once("/src").unwrap();
    let prefix: Module = below.split('/').skip(1).map(str::to_owned).collect();
    let kind = |module: &Module| {
        let name = module.strip_prefix(prefix.as_slice())?.first()?.clone();
        (!others.contains(&name.as_str())).then_some(vec![name])
    };
    let mut kinds = Imports::new();
    for (from, of) in imports(&root().join(name).join("src")) {
        let Some(from) = kind(&from) else { continue };
        let others = of.iter().filter_map(kind).filter(|to| *to != from);
        kinds.entry(from.clone()).or_default().extend(others);
    }
    assert!(kinds.len() > 10, "{folder}: read");
    kinds
}

#[test]
fn no_kind_imports_another_kind() {
    let mut kinds = imports_of_kinds("controller/kinds/src", &["lib", "model"]);
    kinds.retain(|_, of| !of.is_empty());
    assert!(kinds.is_empty(), "{kinds:?}");
    // The types of the API have fields of each other: ImageListPullJob has fields of ImagePullJob.
    let tangled = tangled(imports_of_kinds("proto/api/src/kinds", &["tests"]));
    assert!(tangled.is_empty(), "{tangled:?}");
}

/// Files of Rust and the chart's templates. A file is a kind's own if its path names the kind.
#[test]
fn kinds_are_named_by_no_more_files() {
    let mut product: Vec<PathBuf> = fs::read_dir(root().join("charts/berth/templates"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    // The plugin's commands differ by kind; a kind that they do not name has `why` all the same.
    for name in CRATES.into_iter().filter(|name| *name != "cli") {
        let source = root().join(name).join("src");
        let files = rust_files(&source).into_iter();
        product.extend(files.filter(|file| !is_test(&module(&source, file))));
    }
    let plain = |text: &str| text.to_lowercase().replace('_', "");
    let texts: Vec<(String, String)> = product
        .iter()
        .map(|file| {
            (
                plain(file.to_str().unwrap()),
                plain(&fs::read_to_string(file).unwrap()),
            )
        })
        .collect();
    for (kind, most) in NAMED_BY {
        let others = texts
            .iter()
            .filter(|(file, text)| !file.contains(kind) && text.contains(kind));
        let others: Vec<_> = others.map(|(file, _)| file).collect();
        assert_eq!(others.len(), most, "{kind}: {others:#?}");
    }
}

#[test]
fn files_and_folders_stay_within_their_limits() {
    let (mut long, mut folders) = (Vec::new(), BTreeMap::<PathBuf, usize>::new());
    for name in CRATES {
        let source = root().join(name).join("src");
        let product = rust_files(&source)
            .into_iter()
            .filter(|file| !is_test(&module(&source, file)));
        for file in product {
            let lines = fs::read_to_string(&file).unwrap().lines().count();
            if lines > LINES {
                long.push((lines, file.clone()));
            }
            *folders
                .entry(file.parent().unwrap().to_owned())
                .or_default() += 1;
        }
    }
    let is_by_kind = |folder: &Path| {
        ["controllers", "kinds/src", "src/kinds"]
            .iter()
            .any(|end| folder.ends_with(end))
    };
    folders.retain(|folder, count| *count > FILES && !is_by_kind(folder));
    assert!(long.is_empty(), "{long:#?}");
    assert!(folders.is_empty(), "{folders:#?}");
}
