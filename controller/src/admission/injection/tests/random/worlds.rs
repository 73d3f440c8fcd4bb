//! Random SidecarSets and pods, and the expected result for a pod. The expectation follows the
//! documentation for users, not the code.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::names::annotation::{
    CONTAINER_LAUNCH_ORDERED, CONTAINER_LAUNCH_PRIORITY, MIRROR_POD, SIDECARSET_BASE,
    SIDECARSET_CANARY, SIDECARSET_FAILURE_POLICY, SIDECARSET_HASH,
};
use berth_api::names::label::{NAMESPACE_NAME, SIDECARSET_CUSTOM_VERSION, SIDECARSET_NAME};
use berth_webhook::pods::Labels;
use berth_workload::update::revision::{hash, revision_name};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

pub(super) const OURS: &str = "kruise-system";
pub(super) const PROTECTED: &str = "kube-system";
pub(super) const NAMESPACES: &[&str] = &["ns-0", "ns-1", "ns-2", "ns-3", "ns-4"];
/// The namespace with the label by which its pods are left alone. Below: the namespaces that the
/// stores do not know.
pub(super) const UNTOUCHED: &str = "ns-0";
pub(super) const UNKNOWN: &[&str] = &["ns-3", "ns-4"];
/// The SidecarSet that canaries refer to.
const BASE: &str = "set-0";

/// Labels, and the values that they may have.
type Words = [(&'static str, [&'static str; 3])];
const OF_PODS: &Words = &[
    ("app", ["web", "db", ""]),
    ("tier", ["front", "back", "x.y_z"]),
    ("example.com/team", ["a", "b", "c"]),
];
pub(super) const OF_NAMESPACES: &Words = &[
    ("team", ["a", "b", ""]),
    ("example.com/env", ["prod", "test", "dev"]),
];

/// Properties of an object.
type Flags = Vec<&'static str>;

/// A selector: keys, operators and values. `Is` stands for matchLabels.
#[derive(Debug, Clone)]
pub(super) struct Terms(Vec<(&'static str, &'static str, Vec<&'static str>)>);

#[derive(Debug, Clone)]
enum Place {
    Everywhere,
    Named(&'static str),
    Labelled(Terms),
}

#[derive(Debug, Clone)]
struct Sidecar {
    name: &'static str,
    is: Flags,
}

#[derive(Debug, Clone)]
pub(super) struct Set {
    name: String,
    selector: Terms,
    place: Place,
    /// Which revision pods get: the latest, or an older one.
    revision: &'static str,
    sidecars: Vec<Sidecar>,
    is: Flags,
}

#[derive(Debug, Clone)]
pub(super) struct NewPod {
    pub(super) namespace: &'static str,
    labels: Option<Labels>,
    containers: Vec<&'static str>,
    inits: Vec<&'static str>,
    is: Flags,
}

/// A random subset of flags, each with its probability.
fn flags(often: &'static [(&'static str, f64)]) -> impl Strategy<Value = Flags> {
    let flag = |(name, share): &(&'static str, f64)| prop::option::weighted(*share, Just(*name));
    often
        .iter()
        .map(flag)
        .collect::<Vec<_>>()
        .prop_map(|flags| flags.into_iter().flatten().collect())
}

pub(super) fn labels(words: &'static Words) -> impl Strategy<Value = Labels> {
    let label = |(key, values): &(&'static str, [&'static str; 3])| {
        let key = *key;
        prop::option::weighted(0.7, select(values.to_vec()))
            .prop_map(move |value| Some((key.into(), value?.into())))
    };
    words
        .iter()
        .map(label)
        .collect::<Vec<_>>()
        .prop_map(|labels| labels.into_iter().flatten().collect())
}

fn terms(words: &'static Words) -> impl Strategy<Value = Terms> {
    let term = move |operators: &'static [&'static str]| {
        (select(words), select(operators)).prop_flat_map(|((key, values), operator)| {
            let count = match operator {
                "Is" => 1..=1,
                "In" | "NotIn" => 1..=2,
                _ => 0..=0,
            };
            (
                Just(key),
                Just(operator),
                subsequence(values.to_vec(), count),
            )
        })
    };
    let second = term(&["In", "NotIn", "Exists", "DoesNotExist"]);
    (
        term(&["Is", "In", "NotIn", "Exists", "DoesNotExist"]),
        prop::option::weighted(0.25, second),
    )
        .prop_map(|(first, second)| Terms([first].into_iter().chain(second).collect()))
}

fn sidecar(name: &'static str) -> impl Strategy<Value = Sidecar> {
    flags(&[
        ("init", 0.4),
        ("native", 0.6),
        ("hot", 0.25),
        ("shares", 0.5),
        ("needs main", 0.25),
    ])
    .prop_map(move |mut is| {
        // A container that ends before the pod's containers start can neither be upgraded hot nor
        // depend on their resources.
        let ends = is.contains(&"init") && !is.contains(&"native");
        is.retain(|flag| !(ends && ["hot", "needs main"].contains(flag)));
        Sidecar { name, is }
    })
}

pub(super) fn set(number: usize) -> impl Strategy<Value = Set> {
    let place = prop_oneof![
        3 => Just(Place::Everywhere), 1 => select(NAMESPACES).prop_map(Place::Named),
        2 => terms(OF_NAMESPACES).prop_map(Place::Labelled)
    ];
    let revision = select(vec![
        "latest", "latest", "latest", "latest", "pinned", "partial", "lost",
    ]);
    let sidecars = subsequence(vec!["log", "mesh", "agent", "sync"], 1..=2)
        .prop_flat_map(|names| names.into_iter().map(sidecar).collect::<Vec<_>>());
    let is = flags(&[
        ("v1alpha1", 0.5),
        ("paused", 0.2),
        ("failing closed", 0.3),
        ("canary", 0.25),
    ]);
    (terms(OF_PODS), place, revision, sidecars, is).prop_map(
        move |(selector, place, revision, sidecars, mut is)| {
            let name = format!("set-{number}");
            is.retain(|flag| name != BASE || *flag != "canary");
            Set {
                name,
                selector,
                place,
                revision,
                sidecars,
                is,
            }
        },
    )
}

pub(super) fn new_pod() -> impl Strategy<Value = NewPod> {
    let namespace = select([NAMESPACES, NAMESPACES, &[PROTECTED, OURS]].concat());
    let labels = prop_oneof![1 => Just(None), 8 => labels(OF_PODS).prop_map(Some)];
    let containers = prop_oneof![
        subsequence(vec!["log", "main", "mesh-1"], 1..=3),
        Just(vec!["main"]),
        Just(vec!["main"])
    ];
    let inits = subsequence(vec!["agent", "mesh-2"], 0..=1);
    let is = flags(&[
        ("mirror", 0.08),
        ("on the host", 0.1),
        ("unnamed", 0.5),
        ("ordered", 0.2),
        ("garbled", 0.06),
    ]);
    (namespace, labels, containers, inits, is).prop_map(
        |(namespace, labels, containers, inits, is)| NewPod {
            namespace,
            labels,
            containers,
            inits,
            is,
        },
    )
}

impl Terms {
    fn hold(&self, labels: &Labels) -> bool {
        self.0.iter().all(|(key, operator, values)| {
            let value = labels.get(*key).map(String::as_str);
            match *operator {
                "Is" | "In" => value.is_some_and(|value| values.contains(&value)),
                "NotIn" => value.is_none_or(|value| !values.contains(&value)),
                "Exists" => value.is_some(),
                _ => value.is_none(),
            }
        })
    }

    fn json(&self) -> Value {
        let mut json = json!({});
        let mut expressions = Vec::new();
        for (key, operator, values) in &self.0 {
            match (*operator, values.as_slice()) {
                ("Is", values) => json["matchLabels"][*key] = json!(values[0]),
                (operator, []) => expressions.push(json!({"key": key, "operator": operator})),
                (operator, values) => {
                    expressions.push(json!({"key": key, "operator": operator, "values": values}))
                }
            }
        }
        json["matchExpressions"] = json!(expressions);
        json
    }
}

impl Sidecar {
    fn is(&self, flag: &str) -> bool {
        self.is.contains(&flag)
    }

    /// By the names that it has in a pod: the images that it may have there.
    fn images_in_pod(&self, images: &[&'static str]) -> BTreeMap<String, Vec<&'static str>> {
        if !self.is("hot") {
            return [(self.name.to_owned(), images.to_vec())].into();
        }
        [("1", images), ("2", &["empty:1"])]
            .map(|(end, of)| (format!("{}-{end}", self.name), of.to_vec()))
            .into()
    }

    fn json(&self, image: &str) -> Value {
        let mut json = json!({"name": self.name, "image": image});
        if self.is("init") && self.is("native") {
            json["restartPolicy"] = json!("Always");
        }
        if self.is("hot") {
            json["upgradeStrategy"] =
                json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
        }
        if self.is("shares") {
            json["shareVolumePolicy"] = json!({"type": "enabled"});
            json["transferEnv"] =
                json!([{"sourceContainerName": "main", "envNames": ["A", "POD"]}]);
            json["volumeMounts"] = json!([{"name": "cache", "mountPath": "/cache"}]);
        }
        if self.is("needs main") {
            let expressions = json!({"limits": {"cpu": "cpu*50%"}});
            json["resourcesPolicy"] = json!({
                "targetContainersMode": "sum", "targetContainersNameRegex": "^main$", "resourcesExpr": expressions,
            });
        }
        json
    }
}

impl Set {
    fn is(&self, flag: &str) -> bool {
        self.is.contains(&flag)
    }

    pub(super) fn version(&self) -> &'static str {
        if self.is("v1alpha1") {
            "v1alpha1"
        } else {
            "v1beta1"
        }
    }

    /// The images that a pod may get from it.
    fn images(&self) -> &'static [&'static str] {
        match self.revision {
            "pinned" => &["old:1"],
            "partial" => &["old:1", "new:1"],
            _ => &["new:1"],
        }
    }

    /// The fields that it has in every revision.
    fn kept(&self, image: &str) -> Value {
        let list = |is_init| {
            self.sidecars
                .iter()
                .filter(move |of| of.is("init") == is_init)
                .map(|of| of.json(image))
        };
        json!({
            "volumes": [{"name": "cache", "emptyDir": {}}],
            "containers": list(false).collect::<Vec<_>>(), "initContainers": list(true).collect::<Vec<_>>(),
        })
    }

    pub(super) fn json(&self) -> Value {
        let (mut spec, mut annotations) = (self.kept("new:1"), json!({}));
        spec["selector"] = self.selector.json();
        match &self.place {
            Place::Everywhere => {}
            Place::Named(name) if self.is("v1alpha1") => spec["namespace"] = json!(name),
            Place::Named(name) => {
                spec["namespaceSelector"] = json!({"matchLabels": {NAMESPACE_NAME: name}})
            }
            Place::Labelled(terms) => spec["namespaceSelector"] = terms.json(),
        }
        spec["injectionStrategy"] = json!({"paused": self.is("paused")});
        if self.revision != "latest" {
            let policy = if self.revision == "partial" {
                "Partial"
            } else {
                "Always"
            };
            spec["injectionStrategy"]["revision"] =
                json!({"customVersion": "old", "policy": policy});
            spec["updateStrategy"] = json!({"partition": "50%"});
        }
        if self.is("failing closed") {
            annotations[SIDECARSET_FAILURE_POLICY] = json!("Fail");
        }
        if self.is("canary") {
            annotations[SIDECARSET_CANARY] = json!("true");
            annotations[SIDECARSET_BASE] = json!(BASE);
            spec["updateStrategy"] = json!({"type": "NotUpdate", "partition": "50%"});
        }
        json!({
            "apiVersion": format!("apps.kruise.io/{}", self.version()), "kind": "SidecarSet",
            "metadata": {"name": self.name, "annotations": annotations}, "spec": spec,
        })
    }

    /// The revision that pods get instead of the latest, unless that revision is lost.
    pub(super) fn revision(&self, uid: &Value) -> Option<Value> {
        let owner = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "name": self.name, "uid": uid});
        let data = json!({"spec": self.kept("old:1")});
        let metadata = json!({
            "name": revision_name(&self.name, &hash(&data, 0)), "ownerReferences": [owner],
            "labels": {SIDECARSET_NAME: self.name, SIDECARSET_CUSTOM_VERSION: "old"},
        });
        let mut revision = json!({"metadata": metadata, "revision": 1, "data": data});
        revision["metadata"]["ownerReferences"][0]["controller"] = json!(true);
        ["pinned", "partial"]
            .contains(&self.revision)
            .then_some(revision)
    }

    fn selects(&self, pod: &NewPod, namespace: &Labels) -> bool {
        let is_here = match &self.place {
            Place::Everywhere => true,
            Place::Named(name) => *name == pod.namespace,
            Place::Labelled(terms) => terms.hold(namespace),
        };
        is_here
            && self
                .selector
                .hold(pod.labels.as_ref().unwrap_or(&Labels::new()))
    }

    /// Whether the pod cannot have it, besides collisions with other SidecarSets. `Some(true)` if a
    /// container of the pod's own is in the way.
    fn is_refused(&self, pod: &NewPod, brought: &BTreeMap<String, Vec<&str>>) -> Option<bool> {
        if self.revision == "lost" {
            return Some(false);
        }
        let (inits, others): (Vec<_>, Vec<_>) = self.sidecars.iter().partition(|of| of.is("init"));
        let of_name = |of: &Sidecar, name: &String| {
            let other_list = if of.is("init") {
                &pod.containers
            } else {
                &pod.inits
            };
            let is_of_pod = || other_list.contains(&name.as_str()).then_some(true);
            if brought.contains_key(name) {
                Some(false)
            } else {
                is_of_pod()
            }
        };
        let mut all = inits.into_iter().chain(others);
        all.find_map(|of| {
            of.images_in_pod(&[])
                .keys()
                .find_map(|name| of_name(of, name))
        })
    }
}

impl NewPod {
    pub(super) fn is(&self, flag: &str) -> bool {
        self.is.contains(&flag)
    }

    pub(super) fn json(&self) -> Value {
        let container = |name: &&str| match *name {
            "main" => json!({
                "name": "main", "image": "i", "resources": {"limits": {"cpu": "200m"}},
                "env": [{"name": "A", "value": "1"}, {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "volumeMounts": [{"name": "v", "mountPath": "/data", "subPathExpr": "$(POD)"}],
            }),
            name => json!({"name": name, "image": "i"}),
        };
        let list = |names: &[&str]| names.iter().map(container).collect::<Vec<_>>();
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": self.namespace},
            "spec": {
                "containers": list(&self.containers), "initContainers": list(&self.inits),
                "volumes": [{"name": "v", "emptyDir": {}}], "hostNetwork": self.is("on the host"),
            },
        });
        pod["metadata"][if self.is("unnamed") {
            "generateName"
        } else {
            "name"
        }] = json!("web-0");
        if let Some(labels) = &self.labels {
            pod["metadata"]["labels"] = json!(labels);
        }
        if self.is("mirror") {
            pod["spec"]["nodeName"] = json!("n");
        }
        for (flag, key, value) in [
            ("mirror", MIRROR_POD, "x"),
            (
                "ordered",
                CONTAINER_LAUNCH_PRIORITY,
                CONTAINER_LAUNCH_ORDERED,
            ),
            ("garbled", SIDECARSET_HASH, "none"),
        ] {
            if self.is(flag) {
                pod["metadata"]["annotations"][key] = json!(value);
            }
        }
        pod
    }
}

/// The expected result for a pod.
#[derive(Debug, Default)]
pub(super) struct Expected {
    pub(super) is_called: bool,
    pub(super) is_denied: bool,
    /// Names of SidecarSets.
    pub(super) gets: BTreeSet<String>,
    pub(super) refused: BTreeSet<String>,
    /// Names of containers, and the images that they may have.
    pub(super) containers: BTreeMap<String, Vec<&'static str>>,
}

pub(super) fn expected(sets: &[Set], namespace: &Labels, pod: &NewPod) -> Expected {
    let own = pod
        .containers
        .iter()
        .chain(&pod.inits)
        .map(|name| ((*name).to_owned(), vec!["i"]));
    let mut expected = Expected {
        containers: own.collect(),
        ..Expected::default()
    };
    if pod.is("mirror") || [OURS, PROTECTED, UNTOUCHED].contains(&pod.namespace) {
        return expected;
    }
    let selecting: Vec<_> = sets
        .iter()
        .filter(|set| !set.is("paused") && set.selects(pod, namespace))
        .collect();
    expected.is_called = !selecting.is_empty();
    let has_canary = selecting.iter().any(|set| set.is("canary"));
    let mut brought = BTreeMap::new();
    for set in selecting
        .into_iter()
        .filter(|set| !(has_canary && set.name == BASE))
    {
        if let Some(is_of_pod) = set.is_refused(pod, &brought) {
            expected.refused.insert(set.name.clone());
            expected.is_denied |= is_of_pod || set.is("failing closed");
        } else {
            expected.gets.insert(set.name.clone());
            brought.extend(
                set.sidecars
                    .iter()
                    .flat_map(|of| of.images_in_pod(set.images())),
            );
        }
    }
    expected.containers.extend(brought);
    expected
}
