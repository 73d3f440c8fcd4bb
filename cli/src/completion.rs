//! Completion as kubectl asks for it: it runs the program `kubectl_complete-berth` with the words
//! after `kubectl berth`, of which the last is incomplete, and reads one candidate in each line and
//! a line `:N` with cobra's directive.

use std::time::Duration;

use clap::{Arg, Command, FromArgMatches};
use tokio::time::timeout;

use crate::flags::Global;
use crate::kinds;
use crate::objects::name;
use crate::session::Session;
use crate::text::clean;

/// The start of the names under which kubectl calls this program for completion.
pub const PROGRAM: &str = "kubectl_complete-";

/// Cobra's directive: no names of files.
const NO_FILES: u8 = 4;
/// Cobra's directive: no space after the word.
const NO_SPACE: u8 = 2;
/// How long the shell may wait for names from the cluster.
const PATIENCE: Duration = Duration::from_secs(2);

/// What can stand at the incomplete word.
#[derive(Debug, PartialEq, Eq)]
enum Candidates {
    /// One of these words, each with its meaning.
    Words(Vec<(String, String)>),
    /// A kind, followed by a slash.
    Kinds,
    /// The name of an object of a kind, after a prefix.
    Names { kind: String, prefix: String },
    /// A value that only the user knows, perhaps a file.
    Any,
}

/// The lines that kubectl reads.
pub async fn answer(root: &Command, words: &[String]) -> String {
    let current = words.last().map_or("", String::as_str);
    let (candidates, directive) = match candidates(root.clone(), words) {
        Candidates::Words(words) => (words, NO_FILES),
        Candidates::Kinds => (kinds_with_slash(current), NO_FILES | NO_SPACE),
        Candidates::Names { kind, prefix } => {
            (names(root, words, (&kind, &prefix)).await, NO_FILES)
        }
        Candidates::Any => (Vec::new(), 0),
    };
    let lines = candidates
        .iter()
        .filter(|(word, _)| word.starts_with(current));
    let lines = lines.map(|(word, meaning)| format!("{}\t{meaning}\n", clean(word)));
    lines.chain([format!(":{directive}\n")]).collect()
}

fn candidates(mut root: Command, words: &[String]) -> Candidates {
    let Some((current, before)) = words.split_last() else {
        return Candidates::Any;
    };
    root.build();
    let mut command = &root;
    let mut awaits_value = false;
    for word in before {
        awaits_value = !awaits_value && flag(command, word).is_some_and(takes_value);
        if let Some(next) = command.find_subcommand(word) {
            command = next;
        }
    }
    if awaits_value {
        return Candidates::Any;
    }
    if current.starts_with('-') {
        return Candidates::Words(flags(command));
    }
    if command.has_subcommands() {
        let all = command.get_subcommands();
        let visible = all.filter(|command| !command.is_hide_set());
        return Candidates::Words(
            visible
                .map(|command| (command.get_name().to_owned(), about(command.get_about())))
                .collect(),
        );
    }
    positional(command, current)
}

/// What can stand where the command takes an object.
fn positional(command: &Command, current: &str) -> Candidates {
    let takes = |part: &str| {
        let names = command.get_positionals().filter_map(Arg::get_value_names);
        names.flatten().any(|name| name.contains(part))
    };
    match current.split_once('/') {
        Some((kind, _)) if takes("TYPE/NAME") => Candidates::Names {
            kind: kind.to_owned(),
            prefix: format!("{kind}/"),
        },
        None if takes("TYPE/NAME") => Candidates::Kinds,
        None if takes("NODE") => Candidates::Names {
            kind: "nodes".to_owned(),
            prefix: String::new(),
        },
        _ => Candidates::Any,
    }
}

fn flag<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let mut arguments = command.get_arguments();
    match word.strip_prefix("--") {
        Some(long) => arguments.find(|argument| argument.get_long() == Some(long)),
        None => {
            let short = word.strip_prefix('-')?;
            arguments.find(|argument| {
                let own = argument.get_short().map(String::from);
                own.is_some_and(|own| own == short)
            })
        }
    }
}

fn takes_value(argument: &Arg) -> bool {
    let least = argument
        .get_num_args()
        .map_or(0, |number| number.min_values());
    argument.get_action().takes_values() && least > 0
}

fn flags(command: &Command) -> Vec<(String, String)> {
    let visible = command.get_arguments().filter(|flag| !flag.is_hide_set());
    visible
        .filter_map(|flag| Some((format!("--{}", flag.get_long()?), about(flag.get_help()))))
        .collect()
}

/// The first line of a help text.
fn about(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

/// All names of kinds; without a letter, one of each.
fn kinds_with_slash(current: &str) -> Vec<(String, String)> {
    let most = if current.is_empty() { 1 } else { usize::MAX };
    let all = kinds::all();
    let names = all.iter().flat_map(|kind| {
        let names = kind.names.iter().take(most);
        names.map(|name| (format!("{name}/"), kind.resource.kind.to_owned()))
    });
    names.collect()
}

/// The names of objects, each after the prefix; none if the cluster does not answer in time.
async fn names(
    root: &Command,
    words: &[String],
    (kind, prefix): (&str, &str),
) -> Vec<(String, String)> {
    let listed = timeout(PATIENCE, list(root, words, kind)).await;
    let names = listed.ok().and_then(Result::ok).unwrap_or_default();
    let names = names.into_iter();
    names
        .map(|name| (format!("{prefix}{name}"), String::new()))
        .collect()
}

async fn list(root: &Command, words: &[String], kind: &str) -> anyhow::Result<Vec<String>> {
    let kind = kinds::parse(kind)?;
    let program = ["kubectl-berth".to_owned()];
    let given = program.iter().chain(words);
    let matches = root
        .clone()
        .ignore_errors(true)
        .try_get_matches_from(given)?;
    let global = Global::from_arg_matches(&matches)?;
    let session = Session::connect(&global).await?;
    let found = session.list(kind.resource, &session.namespace, "").await?;
    Ok(found.iter().map(|object| name(object).to_owned()).collect())
}

#[cfg(test)]
mod tests;
