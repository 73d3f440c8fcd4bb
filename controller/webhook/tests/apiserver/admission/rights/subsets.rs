//! The workloads of UnitedDeployments' subsets.

use serde_json::{Value, json};

use super::others::second_owner;
use super::world::{WORKLOADS, World, workload};
use super::{ALLOWED, COLLECTED, Row, Rows};

pub(super) fn of_subsets(
    all: &mut Vec<Row>,
    World {
        owner,
        united: [united, united_there],
        ..
    }: &World,
) {
    let (here, there) = ("default", "kube-system");
    for kind in &WORKLOADS {
        let (group, version, resource, _) = *kind;
        let mut of = Rows {
            all: &mut *all,
            group,
            version,
            resource,
        };
        // Kubernetes' own kinds have a policy of their own.
        let says = |ours| {
            if group == "apps" {
                "a UnitedDeployment controls before and after"
            } else {
                ours
            }
        };
        let (made, metadata, changed, deleted) = (
            says("CloneSets and StatefulSets that a UnitedDeployment controls"),
            says("of the metadata of"),
            says("of the spec of"),
            says("may delete no"),
        );
        let object = |owners: Value, subset| workload(kind, "new", &owners, subset);
        let map = second_owner();
        let mut of_united = object(json!([united]), Some("a"));
        of.add(
            "create",
            (here, ""),
            "of a UnitedDeployment",
            of_united.clone(),
            ALLOWED,
        );
        of_united["metadata"]["finalizers"] = json!(["thief.example/forever"]);
        of.add(
            "create",
            (here, ""),
            "with a finalizer",
            of_united,
            COLLECTED,
        );
        of.add(
            "create",
            (here, ""),
            "of two owners",
            object(json!([united, map]), Some("a")),
            COLLECTED,
        );
        for (what, object) in [
            ("without an owner", object(json!([]), Some("a"))),
            ("of a CloneSet", object(json!([owner]), Some("a"))),
            (
                "without the label of a subset",
                object(json!([united]), None),
            ),
        ] {
            of.add("create", (here, ""), what, object, made);
        }
        of.add(
            "create",
            (there, ""),
            "in a protected namespace",
            object(json!([united_there]), Some("a")),
            made,
        );

        let owners = |owners: Value| json!({"op": "add", "path": "/metadata/ownerReferences", "value": owners});
        let spec = json!({"op": "replace", "path": "/spec/replicas", "value": 2});
        let finalizers = json!({"op": "add", "path": "/metadata/finalizers", "value": ["thief.example/forever"]});
        let label = json!({"op": "add", "path": "/metadata/labels/a", "value": "b"});
        let adopted = owners(json!([united]));
        let mut another = united.clone();
        another["uid"] = json!("u");
        for (name, what, patch, says) in [
            (
                "subset",
                "its spec and a label",
                json!([spec, label]),
                ALLOWED,
            ),
            (
                "subset",
                "its release",
                json!([owners(json!([]))]),
                metadata,
            ),
            (
                "subset",
                "another owner",
                json!([owners(json!([another]))]),
                metadata,
            ),
            (
                "subset",
                "one more owner",
                json!([owners(json!([united, map]))]),
                metadata,
            ),
            ("subset", "a finalizer", json!([finalizers]), COLLECTED),
            ("orphan", "its adoption", json!([adopted]), ALLOWED),
            ("orphan", "its spec", json!([spec]), changed),
            (
                "orphan",
                "its adoption with another spec",
                json!([adopted, spec]),
                metadata,
            ),
            (
                "orphan",
                "its adoption with a label",
                json!([adopted, label]),
                metadata,
            ),
            (
                "orphan",
                "its adoption with a finalizer",
                json!([adopted, finalizers]),
                COLLECTED,
            ),
            (
                "orphan",
                "its adoption by two",
                json!([owners(json!([united, map]))]),
                metadata,
            ),
            ("others", "its adoption", json!([adopted]), metadata),
            ("others", "its spec", json!([spec]), changed),
            ("unlabelled", "its adoption", json!([adopted]), metadata),
            ("unlabelled", "its spec", json!([spec]), changed),
        ] {
            of.add("patch", (here, name), what, patch, says);
        }
        of.add(
            "patch",
            (there, "subset"),
            "its spec",
            json!([spec]),
            changed,
        );
        of.add(
            "patch",
            (there, "orphan"),
            "its adoption",
            json!([owners(json!([united_there]))]),
            metadata,
        );

        of.add("delete", (here, "subset"), "", json!({}), ALLOWED);
        for name in ["orphan", "others", "unlabelled"] {
            of.add("delete", (here, name), "", json!({}), deleted);
        }
        of.add("delete", (there, "subset"), "", json!({}), deleted);
    }
}
