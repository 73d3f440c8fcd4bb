//! The form of a SidecarSet that a new pod gets: its containers as they are now, or those of an
//! older revision.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::commands;
use berth_api::names::SYSTEM_NAMESPACE;
use berth_api::v1beta1::sidecarset::{
    InjectRevisionPolicy, SidecarSet, SidecarSetInjectRevision, SidecarSetSpec,
};
use berth_workload::objects::selector::Selector;
use berth_workload::update::revision::Revision;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

use super::hash::{Hashes, hashes};
use super::revisions;
use crate::sidecarset::names::{BASE, CANARY};

/// The form of one SidecarSet that is injected.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The spec of this revision.
    pub spec: Arc<SidecarSetSpec>,
    /// The name of the revision.
    pub revision: String,
    /// The hashes of this spec.
    pub hashes: Hashes,
}

impl Wanted {
    /// The SidecarSet as it is now.
    pub fn latest(set: &SidecarSet, history: &[Arc<Revision>]) -> Self {
        let collisions = set
            .status
            .as_ref()
            .and_then(|status| status.collision_count)
            .unwrap_or(0);
        let name = set.metadata.name.as_deref().unwrap_or_default();
        let (revision, _) =
            revisions::name_of(name, &revisions::data(&set.spec), history, collisions);
        Self {
            spec: Arc::new(set.spec.clone()),
            revision,
            hashes: hashes(&set.spec),
        }
    }

    /// An older revision of it.
    fn older(set: &SidecarSet, revision: &Revision) -> Option<Self> {
        let mut spec = serde_json::to_value(&set.spec).ok()?;
        let data = revision.data.value();
        for field in revisions::KEPT {
            let old = data["spec"][field].clone();
            let fields = spec.as_object_mut()?;
            match old {
                Value::Null => fields.remove(field),
                old => fields.insert(field.to_owned(), old),
            };
        }
        let spec: SidecarSetSpec = serde_json::from_value(spec).ok()?;
        // Users that may annotate revisions can write the hashes in the annotations, so these count
        // for nothing.
        let hashes = hashes(&spec);
        Some(Self {
            spec: Arc::new(spec),
            revision: revision.metadata.name.to_string(),
            hashes,
        })
    }
}

/// The form of a SidecarSet that a pod with these labels gets. `history` is called only if an older
/// revision is wanted, `latest` is the present form, `chance` a number from 0 to 1, and `recorded`
/// the revision in the pod's record.
///
/// # Errors
/// The wanted revision does not exist.
pub fn wanted<'a>(
    set: &SidecarSet,
    history: impl FnOnce() -> Vec<Arc<Revision>>,
    latest: &Wanted,
    label: impl Fn(&str) -> Option<&'a str>,
    (chance, recorded): (f64, Option<&str>),
) -> Result<Wanted, String> {
    let Some(pin) = &set.spec.injection_strategy.revision else {
        return Ok(latest.clone());
    };
    let pinned = pinned(pin, &history());
    let has = |name: &str| recorded == Some(name);
    let is_pinned_one = pinned
        .as_ref()
        .is_ok_and(|pinned| has(&pinned.metadata.name));
    // A pod keeps the revision that chance gave it when the webhook is called again. The pod's
    // creator may have written the record, so the record decides no more than chance does.
    let chance = if has(&latest.revision) {
        1.0_f64.next_down()
    } else {
        chance
    };
    let chance = if is_pinned_one { 0.0 } else { chance };
    if pin.policy == InjectRevisionPolicy::Partial && is_updated_one(set, label, chance) {
        return Ok(latest.clone());
    }
    let pinned = pinned?;
    if *pinned.metadata.name == *latest.revision {
        return Ok(latest.clone());
    }
    if !revisions::is_genuine(set, &pinned) {
        return Err(format!(
            "spec.injectionStrategy.revision: ControllerRevision {} has other data than its name says, so another writer replaced \
             it; name another revision",
            pinned.metadata.name
        ));
    }
    Wanted::older(set, &pinned).ok_or_else(|| {
        format!(
            "spec.injectionStrategy.revision: ControllerRevision {} cannot be read; name another",
            pinned.metadata.name
        )
    })
}

/// Whether an update would reach a pod with these labels.
fn is_updated_one<'a>(
    set: &SidecarSet,
    label: impl Fn(&str) -> Option<&'a str>,
    chance: f64,
) -> bool {
    let strategy = &set.spec.update_strategy;
    let selector = strategy.selector.as_ref().map(Selector::new);
    let is_selected = match selector {
        None => true,
        Some(Ok(selector)) => selector.matches(label),
        Some(Err(_)) => false,
    };
    let share = match &strategy.partition {
        Some(IntOrString::String(text)) => {
            text.trim_end_matches('%').parse::<f64>().unwrap_or(0.0) / 100.0
        }
        _ => 0.0,
    };
    !strategy.paused && is_selected && chance >= share
}

/// The revision that the SidecarSet pins.
///
/// # Errors
/// The revision does not exist.
pub(in crate::sidecarset) fn pinned(
    pin: &SidecarSetInjectRevision,
    history: &[Arc<Revision>],
) -> Result<Arc<Revision>, String> {
    let name = match (&pin.revision_name, &pin.custom_version) {
        (Some(name), _) => Some(name.clone()),
        (None, Some(version)) => revisions::of_version(history, version),
        (None, None) => None,
    };
    let found = name.and_then(|name| {
        history
            .iter()
            .find(|revision| *revision.metadata.name == *name)
            .cloned()
    });
    found.ok_or_else(|| lost(pin))
}

fn lost(pin: &SidecarSetInjectRevision) -> String {
    match (&pin.revision_name, &pin.custom_version) {
        (Some(name), _) => format!(
            "spec.injectionStrategy.revision.revisionName: the SidecarSet has no ControllerRevision {name}; see {}",
            commands::list("controllerrevisions", SYSTEM_NAMESPACE)
        ),
        (None, Some(version)) => {
            format!(
                "spec.injectionStrategy.revision.customVersion: no revision of the SidecarSet had the version {version}"
            )
        }
        (None, None) => {
            "spec.injectionStrategy.revision: name a revision by revisionName or customVersion, or remove it".to_owned()
        }
    }
}

/// The SidecarSet that a canary is based on.
pub fn base_of(set: &SidecarSet) -> Option<&String> {
    let annotations = set.metadata.annotations.as_ref()?;
    annotations
        .get(BASE)
        .filter(|_| annotations.get(CANARY).is_some_and(|is| is == "true"))
}

/// The SidecarSets, without the base of each canary in the list: a pod that a canary matches does
/// not get the canary's base.
pub fn without_bases(sets: Vec<Arc<SidecarSet>>) -> Vec<Arc<SidecarSet>> {
    let bases: BTreeSet<_> = sets
        .iter()
        .filter_map(|set| base_of(set).cloned())
        .collect();
    sets.into_iter()
        .filter(|set| {
            set.metadata
                .name
                .as_ref()
                .is_none_or(|name| !bases.contains(name))
        })
        .collect()
}

#[cfg(test)]
mod tests;
