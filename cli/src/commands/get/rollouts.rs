//! `get rollouts`: all workloads of a namespace with a rollout, one in each row.

use std::collections::BTreeMap;

use berth_api::kinds::{BROADCAST_JOB, UNITED_DEPLOYMENT};
use berth_api::names::label;
use berth_workload::objects::resource::{
    CLONE_SETS, DAEMON_SETS, Resource, SIDECAR_SETS, STATEFUL_SETS,
};
use jiff::Timestamp;
use kube::runtime::watcher::Config;
use serde_json::Value;

use super::health::state;
use super::watched::Watched;
use crate::exit::Exit;
use crate::objects::{name, namespace, text};
use crate::session::Session;
use crate::text::{age_of, clean, columns, note, table};

const HEADER: [&str; 8] = [
    "NAMESPACE",
    "KIND",
    "NAME",
    "UPDATED",
    "READY",
    "DESIRED",
    "STATUS",
    "AGE",
];

const KINDS: [Resource; 6] = [
    CLONE_SETS,
    STATEFUL_SETS,
    DAEMON_SETS,
    Resource::of(&UNITED_DEPLOYMENT),
    Resource::of(&BROADCAST_JOB),
    SIDECAR_SETS,
];

/// Which rollouts are listed, and how.
#[derive(Debug, Clone, Copy)]
pub struct Listed {
    /// Those of all namespaces.
    pub all_namespaces: bool,
    /// Again with each change.
    pub watch: bool,
    /// Without the names of columns.
    pub no_headers: bool,
}

/// Prints the table once, or with each change.
///
/// # Errors
/// The apiserver did not answer.
pub async fn run(listed: &Listed, session: &Session) -> anyhow::Result<Exit> {
    let namespace = match listed.all_namespaces {
        true => "",
        false => &session.namespace,
    };
    if listed.watch {
        return watch(listed, session, namespace).await;
    }
    let (mut rows, now, mut refused) = (Vec::new(), Timestamp::now(), Vec::new());
    for resource in KINDS {
        match session.list_if_allowed(resource, namespace, "").await? {
            Ok(all) => {
                let own = all.iter().filter(|one| is_of(one, namespace));
                rows.extend(own.map(|one| row(resource, one, now)));
            }
            Err(sentence) => refused.push(sentence),
        }
    }
    // SidecarSets are of the cluster, and no member of a team expects them here.
    let concerns = |sentence: &&String| namespace.is_empty() || !sentence.contains("sidecarsets");
    for sentence in refused.iter().filter(concerns) {
        note(sentence);
    }
    if rows.is_empty() {
        anstream::eprintln!("{}", none(namespace));
        return Ok(if refused.len() == KINDS.len() {
            Exit::Failed
        } else {
            Exit::Done
        });
    }
    anstream::println!("{}", table(header(listed), sorted(rows)));
    Ok(Exit::Done)
}

fn header(listed: &Listed) -> &'static [&'static str] {
    if listed.no_headers { &[] } else { &HEADER }
}

fn none(namespace: &str) -> String {
    match namespace {
        "" => "No rollouts found".to_owned(),
        namespace => format!("No rollouts found in {} namespace.", clean(namespace)),
    }
}

/// A row of the table.
pub fn row(resource: Resource, object: &Value, now: Timestamp) -> Vec<String> {
    let state = state(resource.plural, object);
    let counts = state.counts;
    let namespace = match namespace(object) {
        "" => "-",
        namespace => namespace,
    };
    vec![
        namespace.to_owned(),
        resource.kind.to_owned(),
        name(object).to_owned(),
        counts.updated.to_string(),
        counts.ready.to_string(),
        counts.desired.to_string(),
        state.short(),
        age_of(text(object, "/metadata/creationTimestamp"), now),
    ]
}

fn sorted(mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    rows.sort_by(|one, other| one.get(..3).cmp(&other.get(..3)));
    rows
}

/// Prints the table, and then the rows that change, as `kubectl get -w` does.
async fn watch(listed: &Listed, session: &Session, namespace: &str) -> anyhow::Result<Exit> {
    let mut watched = Watched::default();
    for resource in KINDS {
        watched.add(session.api_in(resource, namespace), Config::default(), None);
    }
    let mut printed: Option<BTreeMap<Vec<String>, Vec<String>>> = None;
    let (mut reported, mut at) = ((None, 0), [0; 8]);
    loop {
        watched.next().await?;
        if watched.trouble != reported.0 {
            reported.0.clone_from(&watched.trouble);
            watched.trouble.iter().for_each(|one| note(one));
        }
        for sentence in watched.refused.iter().skip(reported.1) {
            note(sentence);
        }
        reported.1 = watched.refused.len();
        if !watched.is_complete() {
            continue;
        }
        let rows = rows(&watched, namespace, Timestamp::now());
        if printed.is_none() {
            at = widths(rows.values());
        }
        match &printed {
            None if rows.is_empty() => anstream::eprintln!("{}", none(namespace)),
            None => anstream::println!("{}", table(header(listed), rows.values().cloned())),
            Some(old) => {
                for row in changed(old, &rows) {
                    anstream::println!("{}", aligned(&row, &at));
                }
            }
        }
        printed = Some(rows);
    }
}

/// The rows of all caches, by namespace, kind and name.
fn rows(watched: &Watched, namespace: &str, now: Timestamp) -> BTreeMap<Vec<String>, Vec<String>> {
    let mut rows = BTreeMap::new();
    for (kind, cache) in KINDS.iter().zip(&watched.caches) {
        for one in cache.objects().filter(|one| is_of(one, namespace)) {
            let row = row(*kind, one, now);
            rows.insert(row.get(..3).unwrap_or_default().to_vec(), row);
        }
    }
    rows
}

/// Whether an object belongs to a namespace, empty for all. A SidecarSet may belong to any, unless
/// it names another.
pub fn is_of(object: &Value, namespace: &str) -> bool {
    let labels = &object["spec"]["namespaceSelector"]["matchLabels"];
    let named = labels[label::NAMESPACE_NAME].as_str();
    namespace.is_empty() || named.is_none_or(|named| named == namespace)
}

/// The widths of the columns of a table.
pub fn widths<'a>(rows: impl Iterator<Item = &'a Vec<String>>) -> [usize; 8] {
    let mut widths = HEADER.map(columns);
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = columns(&clean(cell)).max(*width);
        }
    }
    widths
}

/// A row below a table that is already printed.
pub fn aligned(row: &[String], widths: &[usize; 8]) -> String {
    let cells = row.iter().zip(widths).map(|(cell, width)| {
        let cell = clean(cell);
        let blanks = width.saturating_sub(columns(&cell)) + 3;
        cell + &" ".repeat(blanks)
    });
    cells.collect::<String>().trim_end().to_owned()
}

/// Rows that are new or differ in more than their age, and rows that are gone.
pub fn changed(
    old: &BTreeMap<Vec<String>, Vec<String>>,
    new: &BTreeMap<Vec<String>, Vec<String>>,
) -> Vec<Vec<String>> {
    let without_age = |row: &Vec<String>| row.get(..7).map(<[String]>::to_vec);
    let is_changed = |(key, row): &(&Vec<String>, &Vec<String>)| {
        old.get(*key).and_then(without_age) != without_age(row)
    };
    let mut rows: Vec<_> = new
        .iter()
        .filter(is_changed)
        .map(|(_, row)| row.clone())
        .collect();
    for (_, row) in old.iter().filter(|(key, _)| !new.contains_key(*key)) {
        let mut row = row.clone();
        if let Some(status) = row.get_mut(6) {
            "Deleted".clone_into(status);
        }
        rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests;
