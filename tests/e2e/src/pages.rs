//! The commands and the manifests of the pages, for a test that runs them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A command that contains this text is not run by the test of the pages.
pub const NOT_RUN: &[(&str, &str)] = &[
    ("helm ", "helm: the test's release has its own values"),
    ("set-last-applied -f FILE", "FILE is the reader's"),
    (
        "kubectl drain",
        "it takes every pod of a node away; the tests of the budgets drain",
    ),
    (
        "kubectl rollout restart",
        "it is named as what Kubernetes' own kinds have",
    ),
    ("kubectl delete crd", "it ends the release"),
    (
        "create secret generic clusters",
        "it needs the kubeconfig of other clusters; tests/across_clusters has them",
    ),
    (
        "kubectl get daemonset.apps log -o json",
        "the test of Advanced DaemonSets goes this way",
    ),
    (
        "kubectl get statefulset.apps db -o json",
        "the test of Advanced StatefulSets goes this way",
    ),
    (
        "delete daemonsets.apps.kruise.io log --cascade=orphan",
        "it needs a manifest of the reader's",
    ),
    (
        "delete asts db --cascade=orphan",
        "it needs a manifest of the reader's",
    ),
    (
        "kruise-mutating-webhook-configuration",
        "it is about OpenKruise's own objects",
    ),
    (
        "secret/kruise-webhook-certs",
        "it takes away what the release has",
    ),
    ("kubectl -n NAMESPACE", "NAMESPACE is the reader's"),
    (
        "annotate --overwrite sidecarset NAME",
        "NAME is the reader's",
    ),
    (
        "annotate --overwrite containerrecreaterequest NAME",
        "NAME is the reader's",
    ),
    ("why dpdb/foo -n default", "foo is the reader's"),
    ("kubectl get nodeimage <node>", "<node> is the reader's"),
    (
        "kubectl berth man --dir",
        "it writes outside of the test's directory",
    ),
    ("<TAB>", "the shell completes it"),
    ("kubectl berth images", "it needs an image of the reader's"),
    ("kubectl berth top", "the cluster measures no pods"),
    ("kubectl berth set", "its container is the reader's"),
    (
        "kubectl berth rollout",
        "plugin::team_member_uses_each_command does it",
    ),
    (
        "kubectl berth scaledown",
        "plugin::team_member_uses_each_command does it",
    ),
    (
        "kubectl berth expose",
        "plugin::team_member_uses_each_command does it",
    ),
    ("kubectl berth autoscale", "it cannot run twice"),
    ("kubectl berth exec", "its pod is the reader's"),
    ("kubectl berth create", "its pod is the reader's"),
    ("kubectl berth migrate", "its Deployment is the reader's"),
    ("clusterrolebinding devs-why", "it cannot run twice"),
];

/// The reason why a command of a page is not run.
pub fn why_not_run(command: &str) -> Option<&'static str> {
    if ["kubectl berth", "kubectl berth why"].contains(&command) {
        return Some("a sentence names the command");
    }
    NOT_RUN
        .iter()
        .find(|(text, _)| command.contains(text))
        .map(|(_, why)| *why)
}

/// A page with commands.
#[derive(Debug)]
pub struct Page {
    /// Its path in the repository.
    pub name: String,
    /// Its parts, in order.
    pub parts: Vec<Part>,
}

/// A manifest or a command that a page gives its readers.
#[derive(Debug, PartialEq, Eq)]
pub enum Part {
    /// Whole objects in YAML.
    Manifest(String),
    /// Lines for a shell.
    Command {
        /// The lines.
        text: String,
        /// The page shows that the apiserver refuses it.
        is_refused: bool,
    },
}

/// All pages: README, the documents, the chart's pages, and the definitions, because their
/// descriptions have commands too.
///
/// # Errors
/// A page cannot be read.
pub fn all() -> Result<Vec<Page>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![root.join("README.md")];
    for (folder, ending) in [
        ("docs", "md"),
        ("charts/berth", "md"),
        ("charts/berth/files/crds", "yaml"),
    ] {
        files.extend(files_in(&root.join(folder), ending)?);
    }
    let page = |file: &PathBuf| {
        let text =
            fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let parts = if file.extension().is_some_and(|ending| ending == "yaml") {
            inline(&text)
        } else {
            parts(&text)
        };
        let name = file
            .strip_prefix(&root)
            .unwrap_or(file)
            .display()
            .to_string();
        Ok(Page { name, parts })
    };
    files.iter().map(page).collect()
}

fn files_in(folder: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    files.retain(|file| file.extension().is_some_and(|has| has == ending));
    files.sort();
    Ok(files)
}

/// The parts of a page in Markdown.
pub fn parts(text: &str) -> Vec<Part> {
    let (mut parts, mut prose) = (Vec::new(), String::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else {
            prose.push_str(line);
            prose.push('\n');
            continue;
        };
        parts.append(&mut inline(&std::mem::take(&mut prose)));
        let indent = line.len() - line.trim_start().len();
        let block = lines.by_ref().take_while(|line| line.trim() != "```");
        let block: Vec<&str> = block
            .map(|line| line.get(indent..).unwrap_or_default())
            .collect();
        parts.append(&mut of_block(language.trim(), &block));
    }
    parts.append(&mut inline(&prose));
    parts
}

fn of_block(language: &str, lines: &[&str]) -> Vec<Part> {
    let text = lines.join("\n");
    let has = |start: &str| lines.iter().any(|line| line.starts_with(start));
    match language {
        "yaml" if has("apiVersion:") && has("kind:") => vec![Part::Manifest(text)],
        "sh" if text.contains("kubectl ") => vec![Part::Command {
            text,
            is_refused: false,
        }],
        "console" => of_console(lines),
        _ => Vec::new(),
    }
}

/// A line with a prompt is a command, and the lines after it are its output. A command continues
/// after a backslash.
fn of_console(lines: &[&str]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut goes_on = false;
    for line in lines {
        let prompted = line.strip_prefix("$ ");
        match (prompted, parts.last_mut()) {
            (Some(command), _) => parts.push(Part::Command {
                text: command.to_owned(),
                is_refused: false,
            }),
            (None, Some(Part::Command { text, .. })) if goes_on => {
                text.push('\n');
                text.push_str(line);
            }
            (None, Some(Part::Command { is_refused, .. })) => {
                *is_refused |= line.starts_with("Error from server")
            }
            (None, _) => {}
        }
        goes_on = (prompted.is_some() || goes_on) && line.ends_with('\\');
    }
    parts.retain(|part| matches!(part, Part::Command { text, .. } if text.contains("kubectl ")));
    parts
}

/// The commands between backticks. Two words, such as `kubectl drain`, only name a command.
fn inline(text: &str) -> Vec<Part> {
    let mut found: Vec<Part> = Vec::new();
    for paragraph in text.split("\n\n") {
        for code in paragraph.split('`').skip(1).step_by(2) {
            let words: Vec<_> = code.split_whitespace().collect();
            let command = Part::Command {
                text: words.join(" "),
                is_refused: false,
            };
            if words.len() > 2 && words[0] == "kubectl" && !found.contains(&command) {
                found.push(command);
            }
        }
    }
    found
}

/// The commands that a message has between backticks.
pub fn commands(message: &str) -> Vec<String> {
    let command = |part| match part {
        Part::Command { text, .. } => Some(text),
        Part::Manifest(_) => None,
    };
    inline(message).into_iter().filter_map(command).collect()
}

/// The commands of the chart's notes: lines with two spaces before them, a command for each
/// paragraph.
pub fn of_notes(text: &str) -> Vec<Part> {
    let mut scripts = vec![String::new()];
    for line in text.lines() {
        match (line.strip_prefix("  "), scripts.last_mut()) {
            (Some(line), Some(script)) => {
                script.push_str(line);
                script.push('\n');
            }
            _ => scripts.push(String::new()),
        }
    }
    scripts.retain(|script| !script.is_empty());
    scripts
        .into_iter()
        .map(|text| Part::Command {
            text,
            is_refused: false,
        })
        .collect()
}

#[cfg(test)]
#[path = "pages_tests.rs"]
mod tests;
