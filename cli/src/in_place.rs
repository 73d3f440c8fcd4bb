//! The way in which a change of a workload reaches its pods, by the controller's own decisions.

use std::collections::BTreeSet;
use std::fmt;

use berth_api::v1beta1::sidecarset::{SidecarSetSpec, SidecarSetUpdateStrategyType};
use berth_controller::settings::gates;
use berth_kinds::broadcastjob::BROADCAST_JOBS;
use berth_kinds::sidecarset::{hashes, sidecar};
use berth_kinds::uniteddeployment::{SubsetKind, UNITED_DEPLOYMENTS};
use berth_workload::feature_gates::{Gate, Gates};
use berth_workload::objects::resource::{DAEMON_SETS, DEPLOYMENTS, Resource, SIDECAR_SETS};
use berth_workload::plan::PodPatch;
use berth_workload::update::inplace::change::{self, Change};
use berth_workload::update::inplace::resize::Ability;
use berth_workload::update::podset::update_method::Policy;
use serde_json::Value;

use crate::objects;
use crate::pod_spec::{owner_pointer, subset_kind};
use crate::session::Session;
use crate::text;

/// The way of a change to the pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// No pod changes.
    Nothing,
    /// Running pods change, and these containers restart.
    InPlace(BTreeSet<String>),
    /// Resources of running pods change, and these containers restart.
    Resize(BTreeSet<String>),
    /// New pods replace the pods, for this reason.
    Recreate(String),
    /// No pod changes, because `podUpdatePolicy` is InPlaceOnly and these fields differ.
    Refused(String),
    /// Pods that exist stay as they are, for this reason.
    Later(String),
}

/// The facts of the cluster that decisions depend on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cluster {
    /// The controller's feature gates.
    pub gates: Gates,
    /// Whether the apiserver resizes pods.
    pub resize: Ability,
}

impl Cluster {
    /// Reads the facts. A note goes to standard error if the controller's settings are unknown.
    ///
    /// # Errors
    /// The apiserver did not answer, or the feature gates cannot be read.
    pub async fn read(session: &Session) -> anyhow::Result<Self> {
        let (settings, note) = session.settings().await;
        if let Some(note) = note {
            text::note(&note);
        }
        let gates = gates::parse(&settings.feature_gates).map_err(anyhow::Error::msg)?;
        if !gates.has(Gate::InPlaceWorkloadVerticalScaling) {
            return Ok(Self {
                gates,
                resize: Ability::Off,
            });
        }
        let served = session.client.list_core_api_resources("v1");
        let served = session.within(served).await??.resources;
        let has = served.iter().any(|one| one.name == "pods/resize");
        let resize = if has { Ability::On } else { Ability::Missing };
        Ok(Self { gates, resize })
    }
}

/// The way from one form of an object to another.
///
/// # Errors
/// The object has no pods, or cannot be read.
pub fn way(resource: Resource, old: &Value, new: &Value, cluster: &Cluster) -> anyhow::Result<Way> {
    if resource == SIDECAR_SETS {
        return way_of_sidecars(&old["spec"], &new["spec"]);
    }
    let at = owner_pointer(resource, new)?;
    let owner = |object: &Value| object.pointer(&at).cloned().unwrap_or_default();
    let (before, after) = (owner(old), owner(new));
    let change = change::between(&before["template"], &after["template"], cluster.resize)
        .gate_variables(cluster.gates)
        .gate_restarts(cluster.gates);
    if change == Change::InPlace(PodPatch::default()) {
        return Ok(Way::Nothing);
    }
    if resource == BROADCAST_JOBS {
        let why =
            "pods that exist stay as they are, and nodes whose turn comes later get the change";
        return Ok(Way::Later(why.to_owned()));
    }
    if resource == DEPLOYMENTS {
        let why = "a Deployment of Kubernetes changes no running pod";
        return Ok(Way::Recreate(why.to_owned()));
    }
    let kind = subset_kind(new).filter(|_| resource == UNITED_DEPLOYMENTS);
    if let Some(kind @ (SubsetKind::Deployment | SubsetKind::StatefulSet)) = kind {
        let why = format!("its subsets are {}s of Kubernetes", kind.title());
        return Ok(Way::Recreate(why));
    }
    if objects::text(&after, "/updateStrategy/type") == "OnDelete" {
        let field = at.replace('/', ".");
        let field = field.trim_start_matches('.');
        return Ok(Way::Later(format!(
            "a pod gets the change when it is deleted, because {field}.updateStrategy.type is OnDelete"
        )));
    }
    Ok(by_policy(
        change,
        policy(resource, &after),
        resource,
        &at,
        cluster,
    ))
}

fn by_policy(
    change: Change,
    policy: Policy,
    resource: Resource,
    at: &str,
    cluster: &Cluster,
) -> Way {
    match (change, policy) {
        (Change::InPlace(_), Policy::ReCreate) => {
            let field = match resource {
                DAEMON_SETS => "rollingUpdateType is Standard",
                _ => "podUpdatePolicy is ReCreate",
            };
            Way::Recreate(format!("{field}; with InPlaceIfPossible it goes in place"))
        }
        (Change::InPlace(patch), _) => in_place(&patch),
        (Change::Recreate { fields }, Policy::InPlaceOnly) => {
            Way::Refused(obstacle(&fields, at, cluster))
        }
        (Change::Recreate { fields }, _) => Way::Recreate(obstacle(&fields, at, cluster)),
    }
}

/// Which fields cannot change in a running pod, and why as far as the controller says so: its
/// fields have the reason in parentheses.
fn obstacle(fields: &[String], at: &str, cluster: &Cluster) -> String {
    let prefix = at.trim_start_matches('/').replace('/', ".");
    let parts = fields.iter().map(|field| {
        let (field, why) = field.split_once(" (").unwrap_or((field, ""));
        (format!("{prefix}.{field}"), why.trim_end_matches(')'))
    });
    let (names, mut whys): (Vec<_>, Vec<_>) = parts.unzip();
    let is_resized = names.iter().all(|name| name.ends_with(".resources"));
    if cluster.resize == Ability::Off && is_resized {
        whys.push("feature gate InPlaceWorkloadVerticalScaling is off");
    }
    whys.retain(|why| !why.is_empty());
    whys.dedup();
    let why = match whys.is_empty() {
        true => String::new(),
        false => format!(", because {}", whys.join(", and ")),
    };
    format!("{} cannot change in a running pod{why}", names.join(", "))
}

fn in_place(patch: &PodPatch) -> Way {
    let resized = patch.resources.iter().filter(|(_, resize)| resize.restarts);
    let mut restarted: BTreeSet<_> = resized.map(|(name, _)| name.clone()).collect();
    if patch.changes_images() || patch.env.changes() || !patch.restarted.is_empty() {
        restarted.extend(patch.all_images().map(|(name, _)| name.clone()));
        restarted.extend(patch.env.containers().cloned());
        restarted.extend(patch.restarted.iter().cloned());
    } else if !patch.resources.is_empty() {
        return Way::Resize(restarted);
    }
    Way::InPlace(restarted)
}

/// The policy of a workload with this spec.
fn policy(resource: Resource, spec: &Value) -> Policy {
    let rolling = &spec["updateStrategy"]["rollingUpdate"];
    let field = if resource == DAEMON_SETS {
        "rollingUpdateType"
    } else {
        "podUpdatePolicy"
    };
    match rolling[field].as_str() {
        Some("InPlaceIfPossible") => Policy::InPlaceIfPossible,
        Some("InPlaceOnly") => Policy::InPlaceOnly,
        _ => Policy::ReCreate,
    }
}

fn way_of_sidecars(old: &Value, new: &Value) -> anyhow::Result<Way> {
    let read = |spec: &Value| serde_json::from_value::<SidecarSetSpec>(spec.clone());
    let (old, new) = (read(old)?, read(new)?);
    let (before, after) = (hashes(&old), hashes(&new));
    if before == after {
        return Ok(Way::Nothing);
    }
    if before.without_image != after.without_image {
        return Ok(Way::Later(
            "pods that exist keep their containers, because only images of sidecars change in a running pod; \
             new pods get the change"
                .to_owned(),
        ));
    }
    if new.update_strategy.type_ == SidecarSetUpdateStrategyType::NotUpdate {
        return Ok(Way::Later(
            "pods that exist keep their containers, because spec.updateStrategy.type is NotUpdate; \
             new pods get the change"
                .to_owned(),
        ));
    }
    let images = |spec: &SidecarSetSpec| {
        let of = sidecar::lasting(spec).map(|(one, list)| {
            let image = one.container.get("image").cloned().unwrap_or_default();
            (sidecar::names_in_pod(one, list), image)
        });
        of.collect::<Vec<_>>()
    };
    let before = images(&old);
    let changed = images(&new).into_iter().filter(|one| !before.contains(one));
    Ok(Way::InPlace(changed.flat_map(|(names, _)| names).collect()))
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let restarts = |names: &BTreeSet<String>| match names.len() {
            0 => "no container restarts".to_owned(),
            1 => format!("container {} restarts", joined(names)),
            _ => format!("containers {} restart", joined(names)),
        };
        match self {
            Self::Nothing => f.write_str("no pod changes"),
            Self::InPlace(names) => write!(
                f,
                "in place: the pods stay, with their nodes and addresses; {}",
                restarts(names)
            ),
            Self::Resize(names) => write!(
                f,
                "in place: the pods are resized, with their nodes and addresses; {}",
                restarts(names)
            ),
            Self::Recreate(why) => write!(f, "by new pods: {why}"),
            Self::Refused(fields) => write!(
                f,
                "not at all: {fields}, and podUpdatePolicy is InPlaceOnly; take the change back, or set \
                 podUpdatePolicy to InPlaceIfPossible"
            ),
            Self::Later(why) => write!(f, "later: {why}"),
        }
    }
}

fn joined(names: &BTreeSet<String>) -> String {
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests;
