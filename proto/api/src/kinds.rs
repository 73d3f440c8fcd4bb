//! The kinds that there are: one table, and everything that is listed by kind comes from it or is tested against it.
//!
//! A kind comes in with a [`Kind`] and its line in [`TABLE`]. Columns, defaults and validation of its fields are in a file of
//! its own below `kinds/`, its types in the files of its versions. Then
//! `WRITE_CRDS=1 cargo test -p berth-api --test manifests` writes its definition and the chart's list of kinds, and the tests
//! name what else lacks the kind: the rights of the controller, its place among the controllers.

mod broadcastjob;
mod cloneset;
mod containerrecreaterequest;
mod daemonset;
mod distributedpoddisruptionbudget;
mod imagelistpulljob;
mod imagepulljob;
mod nodeimage;
mod persistentpodstate;
mod podunavailablebudget;
mod sidecarset;
mod statefulset;
mod uniteddeployment;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::conversion::{self, Mapping};
use crate::crd::Schema;
use crate::names::{GROUP, POLICY_GROUP, V1ALPHA1, V1BETA1};
use crate::validation::{self, Violation};
use crate::weight::Limits;
use crate::{v1alpha1, v1beta1};

/// A kind, as far as the running programs ask about it.
#[derive(Clone, Copy)]
pub struct Kind {
    /// API group.
    pub group: &'static str,
    /// Name of the kind, as manifests have it. Our kinds have different ones, whatever their groups.
    pub kind: &'static str,
    /// Name in paths, lower case plural. Our kinds have different ones, whatever their groups.
    pub plural: &'static str,
    /// False for cluster-scoped objects.
    pub namespaced: bool,
    /// The version that is stored, and that the controller works with.
    pub stored: Version,
    /// Versions that are served besides, for older manifests. Without any there is nothing to convert.
    pub older: &'static [Version],
    /// Whether the type of the stored version reads the text of an object: a schema may let pass what the type does not.
    pub read: fn(&str) -> Result<(), serde_json::Error>,
    /// What an object may be at most, given the bytes that a flag allows for a spec.
    pub limits: fn(usize) -> Limits,
    /// The field that holds the template of its pods, such as `spec.template`. A webhook asks the apiserver about it.
    pub template: Option<&'static str>,
    /// What the controller makes for its objects, so that they control it, by plural. A policy of the chart lets the
    /// controller's account write nothing else.
    pub owns: &'static [&'static str],
    /// How its versions relate.
    pub(crate) mapping: Mapping,
    /// Faults of an object that neither the schema nor its rules can name.
    pub(crate) faults: fn(&Value) -> Vec<Violation>,
}

/// BroadcastJob.
pub const BROADCAST_JOB: Kind = Kind {
    group: GROUP,
    kind: "BroadcastJob",
    plural: "broadcastjobs",
    namespaced: true,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::BroadcastJob>,
    limits: Limits::of_specs,
    template: Some("spec.template"),
    owns: &["pods"],
    mapping: Mapping::SAME,
    faults: validation::of_broadcast_job,
};

/// CloneSet.
pub const CLONE_SET: Kind = Kind {
    group: GROUP,
    kind: "CloneSet",
    plural: "clonesets",
    namespaced: true,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::CloneSet>,
    limits: Limits::of_specs,
    template: Some("spec.template"),
    owns: &[
        "pods",
        "persistentvolumeclaims",
        "controllerrevisions",
        "imagepulljobs",
    ],
    mapping: conversion::cloneset::MAPPING,
    faults: validation::of_clone_set,
};

/// ContainerRecreateRequest.
pub const CONTAINER_RECREATE_REQUEST: Kind = Kind {
    group: GROUP,
    kind: "ContainerRecreateRequest",
    plural: "containerrecreaterequests",
    namespaced: true,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::ContainerRecreateRequest>,
    limits: Limits::of_specs,
    template: None,
    owns: &[],
    mapping: conversion::containerrecreaterequest::MAPPING,
    faults: |_| Vec::new(),
};

/// Advanced DaemonSet.
pub const DAEMON_SET: Kind = Kind {
    group: GROUP,
    kind: "DaemonSet",
    plural: "daemonsets",
    namespaced: true,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::DaemonSet>,
    limits: Limits::of_specs,
    template: Some("spec.template"),
    owns: &["pods", "controllerrevisions", "imagepulljobs"],
    mapping: conversion::daemonset::MAPPING,
    faults: validation::of_daemon_set,
};

/// DistributedPodDisruptionBudget.
pub const DISTRIBUTED_POD_DISRUPTION_BUDGET: Kind = Kind {
    group: POLICY_GROUP,
    kind: "DistributedPodDisruptionBudget",
    plural: "distributedpoddisruptionbudgets",
    namespaced: true,
    stored: Version::V1Alpha1,
    older: &[],
    read: read::<v1alpha1::DistributedPodDisruptionBudget>,
    limits: |_| Limits::of_budgets(),
    template: None,
    owns: &["poddisruptionbudgets"],
    mapping: Mapping::SAME,
    faults: validation::of_distributed_pod_disruption_budget,
};

/// ImageListPullJob.
pub const IMAGE_LIST_PULL_JOB: Kind = Kind {
    group: GROUP,
    kind: "ImageListPullJob",
    plural: "imagelistpulljobs",
    namespaced: true,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::ImageListPullJob>,
    limits: Limits::of_specs,
    template: None,
    owns: &["imagepulljobs"],
    mapping: Mapping::SAME,
    faults: validation::of_pull_job,
};

/// ImagePullJob.
pub const IMAGE_PULL_JOB: Kind = Kind {
    group: GROUP,
    kind: "ImagePullJob",
    plural: "imagepulljobs",
    namespaced: true,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::ImagePullJob>,
    limits: Limits::of_specs,
    template: None,
    owns: &[],
    mapping: Mapping::SAME,
    faults: validation::of_pull_job,
};

/// NodeImage.
pub const NODE_IMAGE: Kind = Kind {
    group: GROUP,
    kind: "NodeImage",
    plural: "nodeimages",
    namespaced: false,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::NodeImage>,
    // The controller writes it, whatever users may write.
    limits: |_| Limits::of_node_images(),
    template: None,
    owns: &[],
    mapping: conversion::nodeimage::MAPPING,
    faults: |_| Vec::new(),
};

/// PersistentPodState.
pub const PERSISTENT_POD_STATE: Kind = Kind {
    group: GROUP,
    kind: "PersistentPodState",
    plural: "persistentpodstates",
    namespaced: true,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::PersistentPodState>,
    limits: Limits::of_specs,
    template: None,
    owns: &[],
    mapping: conversion::persistentpodstate::MAPPING,
    faults: validation::of_persistent_pod_state,
};

/// PodUnavailableBudget.
pub const POD_UNAVAILABLE_BUDGET: Kind = Kind {
    group: POLICY_GROUP,
    kind: "PodUnavailableBudget",
    plural: "podunavailablebudgets",
    namespaced: true,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::PodUnavailableBudget>,
    limits: |_| Limits::of_budgets(),
    template: None,
    owns: &["poddisruptionbudgets"],
    mapping: conversion::podunavailablebudget::MAPPING,
    faults: validation::of_pod_unavailable_budget,
};

/// SidecarSet.
pub const SIDECAR_SET: Kind = Kind {
    group: GROUP,
    kind: "SidecarSet",
    plural: "sidecarsets",
    namespaced: false,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::SidecarSet>,
    limits: Limits::of_specs,
    template: None,
    owns: &["controllerrevisions", "imagepulljobs"],
    mapping: conversion::sidecarset::MAPPING,
    faults: validation::of_sidecar_set,
};

/// Advanced StatefulSet.
pub const STATEFUL_SET: Kind = Kind {
    group: GROUP,
    kind: "StatefulSet",
    plural: "statefulsets",
    namespaced: true,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::StatefulSet>,
    limits: Limits::of_specs,
    template: Some("spec.template"),
    owns: &["pods", "controllerrevisions", "imagepulljobs"],
    mapping: Mapping::SAME,
    faults: validation::of_stateful_set,
};

/// UnitedDeployment.
pub const UNITED_DEPLOYMENT: Kind = Kind {
    group: GROUP,
    kind: "UnitedDeployment",
    plural: "uniteddeployments",
    namespaced: true,
    stored: Version::V1Beta1,
    older: &[Version::V1Alpha1],
    read: read::<v1beta1::UnitedDeployment>,
    limits: Limits::of_specs,
    // The pod template is below one of four fields, in the template of a workload.
    template: None,
    owns: &[
        "clonesets",
        "controllerrevisions",
        "deployments",
        "statefulsets",
    ],
    mapping: conversion::uniteddeployment::MAPPING,
    faults: validation::of_united_deployment,
};

/// Each kind with what its definition is made of, in the order of their names, in which messages list them.
pub(crate) const TABLE: [(Kind, Schema); 13] = [
    (BROADCAST_JOB, broadcastjob::SCHEMA),
    (CLONE_SET, cloneset::SCHEMA),
    (CONTAINER_RECREATE_REQUEST, containerrecreaterequest::SCHEMA),
    (DAEMON_SET, daemonset::SCHEMA),
    (
        DISTRIBUTED_POD_DISRUPTION_BUDGET,
        distributedpoddisruptionbudget::SCHEMA,
    ),
    (IMAGE_LIST_PULL_JOB, imagelistpulljob::SCHEMA),
    (IMAGE_PULL_JOB, imagepulljob::SCHEMA),
    (NODE_IMAGE, nodeimage::SCHEMA),
    (PERSISTENT_POD_STATE, persistentpodstate::SCHEMA),
    (POD_UNAVAILABLE_BUDGET, podunavailablebudget::SCHEMA),
    (SIDECAR_SET, sidecarset::SCHEMA),
    (STATEFUL_SET, statefulset::SCHEMA),
    (UNITED_DEPLOYMENT, uniteddeployment::SCHEMA),
];

/// All kinds. The schemas stay behind: a program that holds this table would hold all that makes definitions, too, and only
/// tests make them.
pub static KINDS: [Kind; TABLE.len()] = {
    let mut kinds = [CLONE_SET; TABLE.len()];
    let mut at = 0;
    while at < kinds.len() {
        kinds[at] = TABLE[at].0;
        at += 1;
    }
    kinds
};

/// A version in which a kind may be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The version of older manifests.
    V1Alpha1,
    /// The version that is stored, of kinds that have it.
    V1Beta1,
}

impl Version {
    /// As manifests have it, after the group.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1Alpha1 => V1ALPHA1,
            Self::V1Beta1 => V1BETA1,
        }
    }
}

impl Kind {
    /// The versions that are served, the oldest first.
    pub fn versions(&self) -> impl Iterator<Item = Version> {
        self.older.iter().copied().chain([self.stored])
    }

    /// `apps.kruise.io/v1beta1`, ….
    pub fn api_version(&self, version: Version) -> String {
        format!("{}/{}", self.group, version.name())
    }

    /// The version that an `apiVersion` names, if the kind is served in it.
    pub fn version(&self, api_version: &str) -> Option<Version> {
        let name = api_version.strip_prefix(self.group)?.strip_prefix('/')?;
        self.versions().find(|version| version.name() == name)
    }

    /// The name of its CustomResourceDefinition.
    pub fn crd(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// Whether objects are converted between versions.
    pub const fn is_converted(&self) -> bool {
        !self.older.is_empty()
    }
}

/// The kind of this name.
pub fn named(kind: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|known| known.kind == kind)
}

/// The kind with this name in paths.
pub fn of_plural(plural: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|known| known.plural == plural)
}

/// Kinds of which there are several versions.
pub fn converted() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(|kind| kind.is_converted())
}

/// Whether an API group has kinds of ours.
pub fn has_group(group: &str) -> bool {
    KINDS.iter().any(|kind| kind.group == group)
}

fn read<T: DeserializeOwned>(object: &str) -> Result<(), serde_json::Error> {
    serde_json::from_str::<T>(object).map(drop)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_are_as_their_types_say() {
        for ((kind, _), definition) in TABLE.iter().zip(crate::crd::definitions().unwrap()) {
            let spec = &definition["spec"];
            let scope = if kind.namespaced {
                "Namespaced"
            } else {
                "Cluster"
            };
            let names = (
                &spec["group"],
                &spec["names"]["kind"],
                &spec["names"]["plural"],
                &spec["scope"],
            );
            assert_eq!(
                names,
                (
                    &json!(kind.group),
                    &json!(kind.kind),
                    &json!(kind.plural),
                    &json!(scope)
                )
            );
            assert_eq!(definition["metadata"]["name"], kind.crd());
            let versions: Vec<_> = spec["versions"]
                .as_array()
                .unwrap()
                .iter()
                .map(|it| &it["name"])
                .collect();
            let expected: Vec<_> = [kind.stored]
                .iter()
                .chain(kind.older)
                .map(|version| version.name())
                .collect();
            assert_eq!(
                versions, expected,
                "types and versions of {} differ",
                kind.kind
            );
        }
    }

    #[test]
    fn no_two_kinds_share_a_name_and_they_are_in_the_order_of_their_names() {
        let names: Vec<_> = KINDS.iter().map(|kind| kind.kind).collect();
        assert_eq!(
            names,
            names
                .iter()
                .copied()
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
        );
        assert_eq!(
            KINDS
                .iter()
                .map(|kind| kind.plural)
                .collect::<BTreeSet<_>>()
                .len(),
            KINDS.len()
        );
    }

    #[test]
    fn a_version_is_that_of_its_own_group_and_of_those_that_are_served() {
        let policy = Kind {
            group: "policy.kruise.io",
            stored: Version::V1Alpha1,
            older: &[],
            ..CLONE_SET
        };
        assert_eq!(
            policy.version("policy.kruise.io/v1alpha1"),
            Some(Version::V1Alpha1)
        );
        for other in [
            "policy.kruise.io/v1beta1",
            "apps.kruise.io/v1alpha1",
            "policy.kruise.io",
            "v1alpha1",
            "",
        ] {
            assert_eq!(policy.version(other), None, "{other}");
        }
        assert!(!policy.is_converted() && CLONE_SET.is_converted());
        assert_eq!(
            CLONE_SET.versions().collect::<Vec<_>>(),
            [Version::V1Alpha1, Version::V1Beta1]
        );
    }

    #[test]
    fn each_kind_is_read_by_its_own_type() {
        for kind in &KINDS {
            assert!(
                (kind.read)("{}").is_err(),
                "{}: an object has metadata",
                kind.kind
            );
            assert!((kind.read)("[").is_err(), "{}", kind.kind);
        }
        let image = json!({"metadata": {"name": "a"}, "spec": {}});
        assert!((NODE_IMAGE.read)(&image.to_string()).is_ok());
        assert!(
            (CLONE_SET.read)(&image.to_string()).is_err(),
            "it has no selector"
        );
    }

    /// The numbers of a schema that may be larger than what they are read into.
    fn too_large(schema: &Value, path: &str) -> Vec<String> {
        let is_bound = schema["maximum"]
            .as_i64()
            .is_some_and(|most| most <= i64::from(i32::MAX));
        let mut found = Vec::new();
        if schema["type"] == "integer" && !is_bound {
            found.push(path.to_owned());
        }
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            found.extend(too_large(field, &format!("{path}.{name}")));
        }
        if schema["items"].is_object() {
            found.extend(too_large(&schema["items"], &format!("{path}[]")));
        }
        found
    }

    // One that the apiserver takes in and nobody can read would protect nothing.
    #[test]
    fn no_number_in_the_spec_of_a_budget_is_too_large_to_be_read() {
        for kind in ["DistributedPodDisruptionBudget", "PodUnavailableBudget"] {
            let definitions = crate::crd::definitions().unwrap();
            let definition = definitions
                .iter()
                .find(|one| one["spec"]["names"]["kind"] == kind)
                .unwrap();
            for version in definition["spec"]["versions"].as_array().unwrap() {
                let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
                assert!(spec["properties"].is_object(), "{kind}");
                assert_eq!(
                    too_large(spec, "spec"),
                    [""; 0],
                    "{kind} {}",
                    version["name"]
                );
            }
        }
    }
}
