//! Kinds by all the names that kubectl knows for them.

use berth_api::kinds::KINDS;
use berth_controller::plugin::explained_kinds;
use berth_workload::objects::resource::{
    DEPLOYMENTS, NODES, POD_DISRUPTION_BUDGETS, PODS, Resource,
};

use crate::exit::WrongUsage;

/// A kind, and its names in commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedKind {
    /// The kind.
    pub resource: Resource,
    /// Singular, plural and short names, in lower case.
    pub names: Vec<String>,
    /// Whether the controller makes a plan for its objects.
    pub has_plan: bool,
}

impl NamedKind {
    fn of(resource: Resource, short: &[&str]) -> Self {
        let names = [resource.kind.to_lowercase(), resource.plural.to_owned()];
        let short = short.iter().map(|name| (*name).to_owned());
        Self {
            resource,
            names: names.into_iter().chain(short).collect(),
            has_plan: false,
        }
    }

    /// The shortest name that is no other kind's, for output: `cloneset`.
    pub fn singular(&self) -> String {
        self.resource.kind.to_lowercase()
    }
}

/// All kinds of Berth, pods, nodes, Deployments and PodDisruptionBudgets.
pub fn all() -> Vec<NamedKind> {
    let explained: Vec<_> = explained_kinds().collect();
    let of_berth = KINDS.iter().map(|kind| {
        let resource = Resource::of(kind);
        let with_plan = explained.iter().find(|(of, _)| *of == resource);
        match with_plan {
            Some((_, names)) => NamedKind {
                resource,
                names: names.clone(),
                has_plan: true,
            },
            None => NamedKind::of(resource, &[]),
        }
    });
    let native = [
        NamedKind::of(PODS, &["po"]),
        NamedKind::of(NODES, &["no"]),
        NamedKind::of(DEPLOYMENTS, &["deploy"]),
        NamedKind::of(POD_DISRUPTION_BUDGETS, &["pdb"]),
    ];
    of_berth.chain(native).collect()
}

/// The kind with this name; a version and a group may follow: `clonesets.v1beta1.apps.kruise.io`.
///
/// # Errors
/// No kind has the name; the message names the nearest one.
pub fn parse(name: &str) -> Result<NamedKind, WrongUsage> {
    let lower = name.to_lowercase();
    let (first, rest) = lower.split_once('.').unwrap_or((&lower, ""));
    let all = all();
    let is_of_group = |kind: &&NamedKind| {
        let group = kind.resource.group;
        rest.is_empty() || rest == group || rest.ends_with(&format!(".{group}"))
    };
    let named = |kind: &&NamedKind| kind.names.iter().any(|known| known == first);
    if let Some(kind) = all.iter().filter(is_of_group).find(named) {
        return Ok(kind.clone());
    }
    let names = all.iter().flat_map(|kind| &kind.names);
    let nearest = names.min_by_key(|known| distance(known, first));
    let nearest = nearest.filter(|known| distance(known, first) <= 3);
    Err(WrongUsage(match nearest {
        Some(known) => format!("there is no kind {name:?}; do you mean {known:?}?"),
        None => {
            let kinds: Vec<_> = all.iter().map(NamedKind::singular).collect();
            format!(
                "there is no kind {name:?}; the kinds are {}",
                kinds.join(", ")
            )
        }
    }))
}

/// A kind and a name, from `TYPE/NAME` or `TYPE NAME`.
///
/// # Errors
/// The words are neither.
pub fn object(words: &[String]) -> Result<(NamedKind, String), WrongUsage> {
    match words {
        [one] => match one.split_once('/') {
            Some((kind, name)) if !name.is_empty() => Ok((parse(kind)?, name.to_owned())),
            _ => Err(WrongUsage(format!(
                "{one:?} names no object: write TYPE/NAME"
            ))),
        },
        [kind, name] if !kind.contains('/') => Ok((parse(kind)?, name.clone())),
        _ => Err(WrongUsage("name one object: TYPE/NAME".to_owned())),
    }
}

/// How many characters differ between two words: insertions, deletions and replacements.
pub fn distance(one: &str, other: &str) -> usize {
    let other: Vec<_> = other.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, left) in one.chars().take(64).enumerate() {
        let mut diagonal = at;
        row[0] = at + 1;
        for (column, right) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(left != *right);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests;
