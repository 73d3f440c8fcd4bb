//! The language of the sources and documents: words that a reader has to guess at, comment lines
//! that are too long, and long names of functions.

use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::{files, root};

/// Each hides the subject of a sentence, or is another word for a term of Kubernetes.
const WORDS: [&str; 13] = [
    "whoever",
    "whatever",
    "nobody",
    "is told",
    "are told",
    "is asked",
    "are asked",
    "is looked at",
    "in vain",
    "of whom",
    "who is",
    "who has",
    "told of",
];
/// The most columns of a comment line.
const COLUMNS: usize = 100;
/// The most characters of a function's name.
const NAME: usize = 60;

/// Texts of others, which contain such a word.
const ALLOWED: [&str; 1] = ["nobody:x:65534:65534:nobody:/:/bin/sh"];

/// What is read, below the root: folders, and files beside them.
const READ: [&str; 12] = [
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "Makefile",
    "README.md",
    "charts",
    "cli",
    "cni-hostlocal",
    "controller",
    "daemon",
    "docs",
    "proto",
    "tests",
];

fn is_read(file: &Path) -> bool {
    let end = file.extension().and_then(OsStr::to_str);
    // Inputs of the fuzz targets, and definitions, which come from the types.
    let is_left_out = |folder: &Component<'_>| {
        ["corpus", "crds"]
            .map(OsStr::new)
            .contains(&folder.as_os_str())
    };
    end.is_none_or(|end| ["rs", "md", "yaml", "tpl", "proto"].contains(&end))
        && !file.components().any(|folder| is_left_out(&folder))
}

/// The lines of all files, each with its file and number.
fn lines() -> Vec<(String, String)> {
    let found = READ.iter().flat_map(|path| files(&root().join(path)));
    let of_this_test = |file: &PathBuf| !file.ends_with("sources/words.rs");
    let mut lines = Vec::new();
    for file in found.filter(|file| is_read(file)).filter(of_this_test) {
        let Ok(text) = fs::read_to_string(&file) else {
            continue;
        };
        let name = file.strip_prefix(root()).unwrap().to_str().unwrap();
        let numbered = text.lines().enumerate();
        lines.extend(numbered.map(|(at, line)| (format!("{name}:{}", at + 1), line.to_owned())));
    }
    lines
}

fn has_word(line: &str) -> bool {
    let mut line = line.to_lowercase();
    for allowed in ALLOWED {
        line = line.replace(allowed, "");
    }
    let is_apart =
        |sign: Option<char>| !sign.is_some_and(|sign| sign.is_alphanumeric() || sign == '_');
    WORDS.iter().any(|word| {
        line.match_indices(word).any(|(at, _)| {
            let (before, after) = (&line[..at], &line[at + word.len()..]);
            is_apart(before.chars().next_back()) && is_apart(after.chars().next())
        })
    })
}

fn is_long_comment(line: &str) -> bool {
    line.trim_start().starts_with("//") && line.chars().count() > COLUMNS
}

fn has_long_name(line: &str) -> bool {
    let name = line.split_once("fn ").map_or("", |(_, rest)| rest);
    let length = name.find(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_');
    length.is_some_and(|length| length > NAME)
}

#[test]
fn sources_say_what_they_mean() {
    let lines = lines();
    assert!(lines.len() > 100_000, "{} lines read", lines.len());
    for (what, is_it) in [
        ("words", has_word as fn(&str) -> bool),
        ("long comments", is_long_comment),
        ("long names", has_long_name),
    ] {
        let found = lines.iter().filter(|(_, line)| is_it(line));
        let found: Vec<_> = found
            .map(|(place, line)| format!("{place}: {}", line.trim()))
            .collect();
        assert!(found.is_empty(), "{what}: {found:#?}");
    }
}
