//! The objects of `set`: by name, by labels, or from files.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde_json::Value;

use crate::exit::WrongUsage;
use crate::kinds::{self, NamedKind};
use crate::objects::{self, text};

/// Flags that choose objects.
#[derive(Debug, Clone, Default, Args)]
pub struct Targets {
    /// All objects of the kinds in the namespace: `set image clonesets,asts --all app=web:2`.
    #[arg(long)]
    pub all: bool,
    /// The objects of the kinds with these labels, such as app=web,tier!=test.
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "all")]
    pub selector: Option<String>,
    /// Change the objects of --filename only, and send nothing to the apiserver.
    #[arg(long, requires = "filename", conflicts_with_all = ["all", "selector"])]
    pub local: bool,
    /// A file with objects in YAML or JSON, or - for standard input. With --local.
    #[arg(short, long, requires = "local", value_name = "FILE")]
    pub filename: Vec<PathBuf>,
}

/// The objects of the cluster that a command line names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Chosen {
    /// Objects by name.
    Named(Vec<(NamedKind, String)>),
    /// All objects of these kinds that the selector selects.
    Selected(Vec<NamedKind>, String),
}

/// The objects that the words and the flags name: `TYPE/NAME…`, `TYPE NAME…`, or `TYPE,TYPE` with
/// `--all` or `-l`.
///
/// # Errors
/// The words name no objects.
pub(super) fn chosen(words: &[String], flags: &Targets) -> Result<Chosen, WrongUsage> {
    let labels = match (&flags.selector, flags.all) {
        (Some(labels), _) => Some(labels.clone()),
        (None, true) => Some(String::new()),
        (None, false) => None,
    };
    let names_objects = words.iter().any(|word| word.contains('/'));
    match (words, labels) {
        ([], _) => Err(WrongUsage(
            "name an object, TYPE/NAME, or a kind with --all or -l".to_owned(),
        )),
        ([all], Some(labels)) if !names_objects => {
            let kinds: Result<_, _> = all.split(',').map(kinds::parse).collect();
            Ok(Chosen::Selected(kinds?, labels))
        }
        (_, Some(_)) => Err(WrongUsage(
            "--all and -l choose the objects of a kind: write the kind without names".to_owned(),
        )),
        (words, None) if names_objects => {
            let one = |word: &String| kinds::object(std::slice::from_ref(word));
            let all: Result<_, _> = words.iter().map(one).collect();
            Ok(Chosen::Named(all?))
        }
        ([kind], None) => Err(WrongUsage(format!(
            "{kind:?} names no object: write TYPE/NAME, or use --all or -l"
        ))),
        ([kind, names @ ..], None) => {
            let kind = kinds::parse(kind)?;
            let named = names.iter().map(|name| (kind.clone(), name.clone()));
            Ok(Chosen::Named(named.collect()))
        }
    }
}

/// The objects of files.
///
/// # Errors
/// A file cannot be read, or is no YAML.
pub(super) fn read(files: &[PathBuf]) -> anyhow::Result<Vec<Value>> {
    let mut all = Vec::new();
    for file in files {
        let text = if file == Path::new("-") {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            text
        } else {
            std::fs::read_to_string(file)
                .with_context(|| format!("cannot read {}", file.display()))?
        };
        let objects = objects_of(&text);
        all.extend(objects.with_context(|| format!("{} is no YAML", file.display()))?);
    }
    Ok(all)
}

/// The objects of YAML documents, the items of lists among them.
fn objects_of(yaml: &str) -> anyhow::Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml)?;
    let mut all = Vec::new();
    for document in documents {
        match document.get("items").and_then(Value::as_array) {
            Some(items) if text(&document, "/kind").ends_with("List") => {
                all.extend(items.iter().cloned());
            }
            _ if document.is_null() => {}
            _ => all.push(document),
        }
    }
    Ok(all)
}

/// The kind of an object from a file.
///
/// # Errors
/// The object has no kind, or the kind is none of this plugin's.
pub(super) fn kind_of(object: &Value) -> Result<NamedKind, WrongUsage> {
    let (api_version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
    if kind.is_empty() || objects::name(object).is_empty() {
        return Err(WrongUsage(
            "an object of the file has no kind or no metadata.name".to_owned(),
        ));
    }
    let named = match api_version.split_once('/') {
        Some((group, version)) => kinds::parse(&format!("{kind}.{version}.{group}")),
        None => kinds::parse(kind),
    };
    let unknown =
        || format!("a {kind} of {api_version} has no pod template that this plugin knows");
    named.map_err(|_| WrongUsage(unknown()))
}

#[cfg(test)]
mod tests;
