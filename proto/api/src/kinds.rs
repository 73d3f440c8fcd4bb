//! The kinds that there are: one table, and everything that is listed by kind comes from it or is tested against it.
//!
//! A kind comes in with a [`Kind`] and its line in [`TABLE`]. Its types, with the columns, defaults and rules of their fields,
//! are in the files of its versions. Then
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

use serde_json::Value;

use crate::schema::Schema;
use crate::validation::Violation;

pub use self::broadcastjob::BROADCAST_JOB;
pub use self::cloneset::CLONE_SET;
pub use self::containerrecreaterequest::CONTAINER_RECREATE_REQUEST;
pub use self::daemonset::DAEMON_SET;
pub use self::distributedpoddisruptionbudget::DISTRIBUTED_POD_DISRUPTION_BUDGET;
pub use self::imagelistpulljob::IMAGE_LIST_PULL_JOB;
pub use self::imagepulljob::IMAGE_PULL_JOB;
pub use self::nodeimage::NODE_IMAGE;
pub use self::persistentpodstate::PERSISTENT_POD_STATE;
pub use self::podunavailablebudget::POD_UNAVAILABLE_BUDGET;
pub use self::sidecarset::SIDECAR_SET;
pub use self::statefulset::STATEFUL_SET;
pub use self::uniteddeployment::UNITED_DEPLOYMENT;
pub use crate::kind::Kind;
pub use crate::version::Version;

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

/// The faults of an object of one of our kinds, of any version. Empty for other kinds.
pub fn violations(object: &Value) -> Vec<Violation> {
    kind_of(object)
        .map(|kind| (kind.faults)(object))
        .unwrap_or_default()
}

/// The faults that a change brings: an object may keep those it had.
pub fn new_violations(object: &Value, old: Option<&Value>) -> Vec<Violation> {
    let before = old.map(violations).unwrap_or_default();
    let mut found = violations(object);
    found.retain(|violation| !before.contains(violation));
    if let (Some(kind), Some(old)) = (kind_of(object), old) {
        found.extend((kind.faults_of_change)(object, old));
    }
    found
}

fn kind_of(object: &Value) -> Option<&'static Kind> {
    object.get("kind").and_then(Value::as_str).and_then(named)
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
