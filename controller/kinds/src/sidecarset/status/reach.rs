//! The namespaces that a SidecarSet selects, and in which of them pods get its containers.

use crate::sidecarset::Snapshot;

/// The namespaces that a SidecarSet selects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// Whether pods in at least one namespace get the containers.
    pub is_any: bool,
    /// Namespaces in which no pod gets them, each with the cause.
    pub left_out: Vec<(LeftOut, String)>,
}

/// The reason why no pod of a namespace gets the containers of a SidecarSet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// The chart protects the namespace, or the controller runs in it.
    Protected,
    /// A label of the namespace excludes its pods.
    Labelled,
    /// A selector that a user added to the webhook's entry does not match the namespace.
    Narrowed,
}

impl LeftOut {
    const fn cause(self) -> &'static str {
        match self {
            Self::Protected => {
                "by the value controller.protectedNamespaces of the chart, or for the controller runs there"
            }
            Self::Labelled => "by their label control-plane: openkruise",
            Self::Narrowed => {
                "by selectors that others added to kruise-mutating-webhook-configuration"
            }
        }
    }
}

/// The most namespaces that a message names for one cause.
const SHOWN: usize = 5;

/// The fields that select namespaces: a SidecarSet of v1alpha1 may have `namespace` in place of the
/// selector.
const FIELD: &str = "spec.namespaceSelector (v1alpha1: or spec.namespace)";

/// The reason and the message why no pod at all can get the containers; `None` if one can.
pub(in crate::sidecarset) fn nowhere(snapshot: &Snapshot) -> Option<(&'static str, String)> {
    if snapshot.reach.is_any {
        return None;
    }
    let set = format!("SidecarSet {}: {FIELD} matches", snapshot.name());
    Some(match words(&snapshot.reach.left_out) {
        None => (
            "NoNamespace",
            format!(
                "{set} no namespace, so no pod gets the containers: create or label a namespace, or change the field"
            ),
        ),
        Some(left_out) => (
            "NamespacesLeftOut",
            format!(
                "{set} only namespaces that are left out, so no pod gets the containers: {left_out}; select others, or end what leaves these out"
            ),
        ),
    })
}

/// The namespaces that the selector matches beside others, and in which no pod gets the containers.
pub(in crate::sidecarset) fn beside(snapshot: &Snapshot) -> Option<String> {
    // Without a selector a SidecarSet selects no particular namespace.
    snapshot
        .set
        .spec
        .namespace_selector
        .as_ref()
        .filter(|_| snapshot.reach.is_any)?;
    let left_out = words(&snapshot.reach.left_out)?;
    Some(format!(
        "{FIELD} matches namespaces whose pods do not get the containers: {left_out}"
    ))
}

/// By cause: the namespaces by name.
fn words(left_out: &[(LeftOut, String)]) -> Option<String> {
    let mut all: Vec<_> = left_out.iter().collect();
    all.sort();
    let of_cause = |all: &[&(LeftOut, String)]| {
        let names: Vec<_> = all
            .iter()
            .take(SHOWN)
            .map(|(_, name)| name.as_str())
            .collect();
        let more = if all.len() > SHOWN {
            format!(" and {} more", all.len() - SHOWN)
        } else {
            String::new()
        };
        format!("{}{more} ({})", names.join(", "), all[0].0.cause())
    };
    let causes: Vec<_> = all
        .chunk_by(|one, other| one.0 == other.0)
        .map(of_cause)
        .collect();
    (!causes.is_empty()).then(|| causes.join(", "))
}

#[cfg(test)]
mod tests;
