//! The manifest of each scenario's StatefulSet.

use berth_api::names::annotation::{
    AUTO_GENERATE_PERSISTENT_POD_STATE, REQUIRED_PERSISTENT_TOPOLOGY,
};
use berth_e2e::objects::{self, APP};
use serde_json::{Value, json};

use crate::owner::HOOK;
use crate::stateful_set::{REPLICAS, SET, Stateful};
use crate::world::ONE;

/// The size that a claim requests, and its size after it has grown.
pub(super) const SIZE: &str = "1Mi";
pub(super) const LARGER: &str = "2Mi";
/// The first ordinal of ordinals that do not begin with 0.
pub(super) const START: usize = 2;

impl Stateful {
    pub(super) fn is_in_order(self) -> bool {
        !matches!(self, Stateful::CreatedAtOnce | Stateful::SmallerAtOnce)
    }

    pub(super) fn updates_in_place(self) -> bool {
        matches!(self, Stateful::InPlace | Stateful::Hooked)
    }

    /// How long a pod is out of service before its image changes.
    pub(super) fn grace_seconds(self) -> i64 {
        i64::from(self == Stateful::InPlace)
    }

    /// Claims are deleted with pods beyond the wanted number.
    pub(super) fn drops_claims(self) -> bool {
        matches!(
            self,
            Stateful::Smaller | Stateful::MovedUp | Stateful::MovedDown | Stateful::Guarded
        )
    }

    pub(super) fn set(self, namespace: &str) -> Value {
        let policy = if self.updates_in_place() {
            "InPlaceIfPossible"
        } else {
            "ReCreate"
        };
        let in_place = json!({"gracePeriodSeconds": self.grace_seconds()});
        let rolling = json!({"podUpdatePolicy": policy, "inPlaceUpdateStrategy": in_place});
        let retention = if self.drops_claims() {
            "Delete"
        } else {
            "Retain"
        };
        let annotations = json!({
            AUTO_GENERATE_PERSISTENT_POD_STATE: if self == Stateful::Recorded { "true" } else { "false" },
            REQUIRED_PERSISTENT_TOPOLOGY: "kubernetes.io/hostname",
        });
        let mut set = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet",
            "metadata": {"name": SET, "annotations": annotations},
            "spec": {
                "replicas": REPLICAS, "serviceName": SET, "selector": {"matchLabels": {APP: SET}},
                "template": pod_template(),
                "podManagementPolicy": if self.is_in_order() { "OrderedReady" } else { "Parallel" },
                "updateStrategy": {"rollingUpdate": rolling},
                "volumeClaimTemplates": [self.claim_template(namespace, "data", SIZE)],
                "persistentVolumeClaimRetentionPolicy": {"whenScaled": retention},
            },
        });
        let spec = &mut set["spec"];
        match self {
            Stateful::Resized => {
                spec["volumeClaimUpdateStrategy"] = json!({"type": "OnPodRollingUpdate"})
            }
            Stateful::MovedDown => spec["ordinals"] = json!({"start": START}),
            Stateful::Guarded | Stateful::Hooked => {
                let hook = if self == Stateful::Guarded {
                    "preDelete"
                } else {
                    "inPlaceUpdate"
                };
                spec["template"]["metadata"]["labels"][HOOK] = json!("true");
                spec["lifecycle"] = json!({hook: {"labelsHandler": {HOOK: "true"}}});
            }
            _ => {}
        }
        set
    }

    /// Claims that grow have a class of the run's own, which allows that.
    pub(super) fn claim_template(self, namespace: &str, name: &str, size: &str) -> Value {
        let mut spec =
            json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}});
        if self == Stateful::Resized {
            spec["storageClassName"] = namespace.into();
        }
        json!({"metadata": {"name": name}, "spec": spec})
    }
}

/// The template of pods without probes, which would delay them.
pub(crate) fn pod_template() -> Value {
    let mut template =
        objects::clone_set(SET, REPLICAS, ONE, &json!({}))["spec"]["template"].take();
    if let Some(main) = template["spec"]["containers"][0].as_object_mut() {
        main.remove("readinessProbe");
    }
    template
}
