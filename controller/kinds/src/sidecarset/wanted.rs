//! What a pod that is created gets of a SidecarSet: its containers as they are now, or those of an older revision.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::commands;
use berth_api::names::SYSTEM_NAMESPACE;
use berth_api::v1beta1::sidecarset::{
    InjectRevisionPolicy, SidecarSet, SidecarSetInjectRevision, SidecarSetSpec,
};
use berth_workload::revision::Revision;
use berth_workload::selector::Selector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

use super::hash::{Hashes, hashes};
use super::names::{BASE, CANARY};
use super::revisions;

/// What is injected of one SidecarSet.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Its spec, of this revision.
    pub spec: Arc<SidecarSetSpec>,
    /// The revision.
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
        // What the revision's annotations say of them, whoever may annotate could have written.
        let hashes = hashes(&spec);
        Some(Self {
            spec: Arc::new(spec),
            revision: revision.metadata.name.to_string(),
            hashes,
        })
    }
}

/// What a pod with these labels gets of a SidecarSet that matches it. `history` is looked at only where an older revision is asked for,
/// `latest` is what it is now, `chance` a number from 0 to 1, `recorded` the revision that the
/// pod says it has.
///
/// # Errors
/// The revision that is asked for is not there.
pub fn wanted<'a>(
    set: &SidecarSet,
    history: impl FnOnce() -> Vec<Arc<Revision>>,
    latest: &Wanted,
    label: impl Fn(&str) -> Option<&'a str>,
    (chance, recorded): (f64, Option<&str>),
) -> Result<Wanted, String> {
    let Some(asked) = &set.spec.injection_strategy.revision else {
        return Ok(latest.clone());
    };
    let pinned = pinned(asked, &history());
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
    if asked.policy == InjectRevisionPolicy::Partial && is_updated_one(set, label, chance) {
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

/// Would an update reach a pod with these labels?
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

/// The revision that is asked for.
///
/// # Errors
/// It is not there.
pub(super) fn pinned(
    asked: &SidecarSetInjectRevision,
    history: &[Arc<Revision>],
) -> Result<Arc<Revision>, String> {
    let name = match (&asked.revision_name, &asked.custom_version) {
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
    found.ok_or_else(|| lost(asked))
}

fn lost(asked: &SidecarSetInjectRevision) -> String {
    match (&asked.revision_name, &asked.custom_version) {
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

/// Of the SidecarSets that match a pod, those that it gets: where a canary matches, its base does not.
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
mod tests {
    use berth_workload::revision::{hash, revision_name};
    use serde_json::json;

    use super::super::names::{HASH, HASH_WITHOUT_IMAGE};
    use super::*;

    fn of_image(image: &str, revision: &str) -> SidecarSet {
        let containers = json!([{"name": "agent", "image": image}]);
        let spec = json!({"containers": containers, "injectionStrategy": {"revision": {"revisionName": revision}}});
        serde_json::from_value(json!({"metadata": {"name": "log"}, "spec": spec})).unwrap()
    }

    /// A revision with the data of another spec, and its name with so many collisions.
    fn revision_of(set: &SidecarSet, collisions: i32, annotations: &Value) -> Arc<Revision> {
        let data = revisions::data(&set.spec);
        let name = revision_name("log", &hash(&data, collisions));
        let metadata = json!({"name": name, "namespace": "kruise-system", "uid": "r", "annotations": annotations});
        Arc::new(
            serde_json::from_value(json!({"metadata": metadata, "revision": 1, "data": data}))
                .unwrap(),
        )
    }

    #[test]
    fn the_hashes_of_a_pinned_revision_are_computed_whatever_its_annotations_say() {
        let old = of_image("agent:1", "");
        for annotations in [
            json!({}),
            json!({HASH: "believed", HASH_WITHOUT_IMAGE: "believed"}),
            json!({HASH: hashes(&old.spec).hash, HASH_WITHOUT_IMAGE: ""}),
        ] {
            let history = [revision_of(&old, 0, &annotations)];
            let name = history[0].metadata.name.to_string();
            let set = of_image("agent:2", &name);
            let latest = Wanted::latest(&set, &history);
            let wanted = wanted(&set, || history.to_vec(), &latest, |_| None, (0.5, None)).unwrap();
            assert_eq!(
                (&wanted.revision, &wanted.hashes),
                (&name, &hashes(&old.spec)),
                "{annotations}"
            );
            assert_ne!(wanted.hashes.hash, latest.hashes.hash);
        }
    }

    #[test]
    fn pinned_revision_with_other_data_is_not_given() {
        let (old, evil) = (of_image("agent:1", ""), of_image("evil:1", ""));
        for (what, data, collisions, of_status, is_given) in [
            ("as it was made", &old, 0, Value::Null, true),
            ("made after a collision", &old, 1, json!(1), true),
            ("a collision that was none", &old, 1, json!(0), false),
            (
                "a collision beyond all that are tried",
                &old,
                17,
                json!(i32::MAX),
                false,
            ),
            (
                "made anew with other containers",
                &evil,
                0,
                Value::Null,
                false,
            ),
        ] {
            let named = revision_of(&old, collisions, &json!({}));
            let replaced = Revision {
                metadata: named.metadata.clone(),
                ..(*revision_of(data, 0, &json!({}))).clone()
            };
            let mut set = of_image("agent:2", &named.metadata.name);
            set.status = serde_json::from_value(json!({"collisionCount": of_status})).unwrap();
            let history = [Arc::new(replaced)];
            let latest = Wanted::latest(&set, &history);
            let wanted = wanted(&set, || history.to_vec(), &latest, |_| None, (0.5, None));
            let says_why = |why: &String| why.contains("has other data than its name says");
            assert_eq!(
                (wanted.is_ok(), wanted.as_ref().is_err_and(says_why)),
                (is_given, !is_given),
                "{what}"
            );
        }
    }
}
