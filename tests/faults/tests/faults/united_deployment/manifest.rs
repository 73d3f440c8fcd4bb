//! The manifest of each scenario's UnitedDeployment.

use berth_e2e::objects::{self, APP};
use serde_json::{Value, json};

use super::domain::SCHEDULER;
use super::{FIRST, SECOND, THIRD, UNITED, United};
use crate::world::ONE;

/// `rescheduleCriticalSeconds`: how long a pod of a lost domain waits.
const CRITICAL: u32 = 2;

impl United {
    /// The subsets after the set-up.
    pub(super) fn first_subsets(self) -> &'static [&'static str] {
        if self == United::SubsetRemoved {
            &[FIRST, SECOND, THIRD]
        } else {
            &[FIRST, SECOND]
        }
    }

    /// The UnitedDeployment that the set-up creates.
    pub(super) fn united(self) -> Value {
        let mut spec = json!({
            "selector": {"matchLabels": {APP: UNITED}},
            "topology": {"subsets": self.subsets(self.first_subsets(), "sim-0")},
            "template": self.template(ONE),
        });
        let adaptive = |duration: u32, reserves: bool| {
            let adaptive = json!({
                "rescheduleCriticalSeconds": CRITICAL,
                "unschedulableDuration": duration,
                "reserveUnschedulablePods": reserves,
            });
            json!({"type": "Adaptive", "adaptive": adaptive})
        };
        match self {
            // A run takes less, so that the subset recovers only by the change of this number.
            United::DomainLost => spec["topology"]["scheduleStrategy"] = adaptive(600, false),
            United::DomainReserved => spec["topology"]["scheduleStrategy"] = adaptive(1, true),
            _ => {}
        }
        // Without a number, the sum of the subsets' replicas counts.
        if let Some(replicas) = self.replicas() {
            spec["replicas"] = json!(replicas);
        }
        json!({
            "apiVersion": "apps.kruise.io/v1beta1",
            "kind": "UnitedDeployment",
            "metadata": {"name": UNITED},
            "spec": spec,
        })
    }

    fn replicas(self) -> Option<usize> {
        match self {
            United::Created | United::RolledOut => Some(3),
            United::SubsetAdded | United::SubsetRemoved => Some(4),
            United::SubsetReturned => None,
            _ => Some(2),
        }
    }

    /// The subsets with these names. `node` is the node of the second subset, where a scenario
    /// needs one.
    pub(super) fn subsets(self, names: &[&str], node: &str) -> Value {
        let subset = |name: &&str| {
            let mut subset = json!({"name": name});
            match self {
                United::SubsetReturned => {
                    let is_named = json!({
                        "key": "kubernetes.io/hostname", "operator": "In", "values": [node],
                    });
                    subset["replicas"] = json!(1);
                    if *name == SECOND {
                        subset["nodeSelectorTerm"] = json!({"matchExpressions": [is_named]});
                    }
                }
                United::RolledOut if *name == FIRST => subset["replicas"] = json!(2),
                United::DomainLost | United::DomainReserved if *name == FIRST => {
                    subset["patch"] = json!({"spec": {"schedulerName": SCHEDULER}});
                    if self == United::DomainLost {
                        subset["maxReplicas"] = json!(1);
                    }
                }
                _ => {}
            }
            subset
        };
        names.iter().map(subset).collect()
    }

    /// A template of CloneSets.
    pub(super) fn template(self, image: &str) -> Value {
        let strategy =
            json!({"rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1}});
        let spec = json!({"updateStrategy": strategy, "template": pod_template(image)});
        json!({"cloneSetTemplate": {"metadata": {"labels": {APP: UNITED}}, "spec": spec}})
    }

    /// The patch that replaces the CloneSet template by a template of another kind.
    pub(super) fn second_template(self) -> Value {
        let metadata = json!({"labels": {APP: UNITED}});
        let (field, spec) = if self == United::KindStateful {
            let spec = json!({
                "serviceName": UNITED,
                "podManagementPolicy": "Parallel",
                "template": pod_template(ONE),
            });
            ("advancedStatefulSetTemplate", spec)
        } else {
            ("deploymentTemplate", json!({"template": pod_template(ONE)}))
        };
        json!({"cloneSetTemplate": null, field: {"metadata": metadata, "spec": spec}})
    }
}

/// A pod template without probes.
fn pod_template(image: &str) -> Value {
    let mut template = objects::clone_set(UNITED, 0, image, &json!({}))["spec"]["template"].take();
    if let Some(main) = template["spec"]["containers"][0].as_object_mut() {
        main.remove("readinessProbe");
    }
    template
}
