//! The manifests of each scenario's DaemonSet, and of the nodes.

use berth_e2e::objects::APP;
use serde_json::{Value, json};

use super::{Daemon, SET};
use crate::owner::HOOK;
use crate::stateful_set::pod_template;

/// The label of nodes that must have no pod.
pub(super) const AWAY: &str = "berth.test/away";

impl Daemon {
    pub(super) fn set(self, image: &str) -> Value {
        let mut template = pod_template();
        template["metadata"]["labels"][APP] = json!(SET);
        template["spec"]["containers"][0]["image"] = json!(image);
        // By existing names, because the NodeImages follow when labels change.
        let is_named =
            json!({"key": "kubernetes.io/hostname", "operator": "In", "values": self.all_nodes()});
        let terms =
            json!([{"matchExpressions": [is_named, {"key": AWAY, "operator": "DoesNotExist"}]}]);
        template["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({"nodeSelectorTerms": terms});
        let mut set = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "DaemonSet", "metadata": {"name": SET},
            "spec": {
                "selector": {"matchLabels": {APP: SET}}, "template": template,
                "updateStrategy": {"rollingUpdate": self.rolling()},
            },
        });
        let spec = &mut set["spec"];
        match self {
            Daemon::AdoptedNative => set["apiVersion"] = json!("apps/v1"),
            Daemon::RolledBack => spec["revisionHistoryLimit"] = json!(1),
            Daemon::Guarded => {
                spec["template"]["metadata"]["labels"][HOOK] = json!("true");
                spec["lifecycle"] = json!({"preDelete": {"labelsHandler": {HOOK: "true"}}});
            }
            _ => {}
        }
        set
    }

    fn rolling(self) -> Value {
        match self {
            Daemon::InPlace | Daemon::Adopted => {
                json!({"rollingUpdateType": "InPlaceIfPossible", "partition": 1})
            }
            Daemon::RolledBack => json!({"rollingUpdateType": "InPlaceIfPossible"}),
            Daemon::Surged => json!({"maxSurge": 1}),
            _ => json!({"maxUnavailable": 1}),
        }
    }
}
