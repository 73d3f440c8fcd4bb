//! Claim templates that grow, and StorageClasses that do not let claims grow.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::admission::{refused, trial};
use crate::stage::{Stage, until};

/// The cluster has a class already, which is the default and lets no claim grow.
const DEFAULT: &str = "standard";

fn class(name: &str, allows: bool) -> Value {
    json!({"metadata": {"name": name}, "provisioner": "example.com/none", "allowVolumeExpansion": allows})
}

fn template(name: &str, class: &Value, storage: &Value) -> Value {
    let mut spec =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}});
    if !class.is_null() {
        spec["storageClassName"] = class.clone();
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

fn set(name: &str, strategy: &str, templates: &Value) -> Value {
    let labels = json!({"app": name});
    let containers = json!([{"name": "main", "image": "db:1"}]);
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "metadata": {"name": name},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": labels}, "volumeClaimTemplates": templates,
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
            "volumeClaimUpdateStrategy": {"type": strategy},
        },
    })
}

/// Strategy, class, storage before and after, and words of the refusal.
type Case = (&'static str, Value, Value, Value, Option<&'static str>);

fn cases() -> Vec<Case> {
    let rolling = "OnPodRollingUpdate";
    let slow = "spec.volumeClaimTemplates[data].spec.resources.requests.storage: 2Gi is more than it was, and StorageClass slow lets no \
                claim grow: set allowVolumeExpansion: true in StorageClass slow, or take the size back to 1Gi";
    vec![
        (
            rolling,
            json!("slow"),
            json!("1Gi"),
            json!("2Gi"),
            Some(slow),
        ),
        (
            rolling,
            json!("slow"),
            json!(1),
            json!("1Gi"),
            Some("1Gi is more than it was"),
        ),
        (
            rolling,
            json!("slow"),
            json!("1Gi"),
            json!(2_147_483_648_i64),
            Some("2147483648 is more than it was"),
        ),
        (
            rolling,
            Value::Null,
            json!("1Gi"),
            json!("1025Mi"),
            Some("StorageClass standard lets no claim grow"),
        ),
        (rolling, json!("fast"), json!("1Gi"), json!("2Gi"), None),
        (rolling, json!("unknown"), json!("1Gi"), json!("2Gi"), None),
        (rolling, json!(""), json!("1Gi"), json!("2Gi"), None),
        (rolling, json!("slow"), json!("1Gi"), json!("1024Mi"), None),
        (rolling, json!("slow"), json!("2Gi"), json!("1Gi"), None),
        (rolling, json!("slow"), json!("1Gi"), json!("much"), None),
        (
            rolling,
            json!("slow"),
            json!(["1Gi"]),
            json!({"a": 1}),
            None,
        ),
        (rolling, json!("slow"), Value::Null, json!("2Gi"), None),
        ("OnDelete", json!("slow"), json!("1Gi"), json!("2Gi"), None),
    ]
}

#[test]
fn claim_template_grows_only_if_class_allows_it() -> Result<()> {
    let stage = Stage::shared()?;
    stage.namespace("claims")?;
    stage.run(async |admin| {
        let classes: Api<StorageClass> = Api::all(admin.clone());
        for (name, allows) in [("slow", false), ("fast", true)] {
            classes.create(&PostParams::default(), &serde_json::from_value(class(name, allows))?).await?;
        }
        let gvk = GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "StatefulSet");
        let sets: Api<DynamicObject> = Api::namespaced_with(admin.clone(), "claims", &ApiResource::from_gvk(&gvk));
        let create = async |name: &str, strategy: &str, templates: &Value| {
            sets.create(&PostParams::default(), &serde_json::from_value(set(name, strategy, templates)).unwrap()).await
        };
        let grow_with = async |write: PatchParams, name: &str, templates: Value| {
            let patch = Patch::Merge(json!({"spec": {"volumeClaimTemplates": templates}}));
            sets.patch(name, &write, &patch).await
        };
        let grow = async |name: &str, templates: Value| grow_with(PatchParams::default(), name, templates).await;
        let [small, large] = ["1Gi", "2Gi"].map(|storage| json!([template("data", &json!("slow"), &json!(storage))]));
        until("StatefulSets are served", async || Ok(create("probe", "OnPodRollingUpdate", &small).await?)).await?;
        until("the policy is in force", async || {
            refused("a probe", grow_with(trial(), "probe", large.clone()).await, "slow")
        })
        .await?;

        for (index, (strategy, class, before, after, says)) in cases().into_iter().enumerate() {
            let (name, what) = (format!("set-{index}"), format!("{strategy} {class} from {before} to {after}"));
            create(&name, strategy, &json!([template("data", &class, &before)])).await.with_context(|| what.clone())?;
            let answer = grow(&name, json!([template("data", &class, &after)])).await;
            match says {
                Some(says) => refused(&what, answer, says)?,
                None => drop(answer.with_context(|| what)?),
            }
        }

        // Any other change is accepted, one more template too; and after the class is set right,
        // templates may grow.
        let other = json!({"spec": {"replicas": 2}, "metadata": {"labels": {"a": "b"}}});
        sets.patch("probe", &PatchParams::default(), &Patch::Merge(other)).await.context("another field")?;
        let more = json!([small[0], template("log", &json!("slow"), &json!("9Gi"))]);
        grow("probe", more).await.context("one more template")?;
        let right = Patch::Merge(json!({"allowVolumeExpansion": true}));
        for class in ["slow", DEFAULT] {
            classes.patch(class, &PatchParams::default(), &right).await?;
        }
        until("the class is known", async || Ok(grow("probe", large.clone()).await?)).await?;
        let of_default = json!([template("data", &Value::Null, &json!("2Gi"))]);
        until("the default is known", async || Ok(grow("set-3", of_default.clone()).await?)).await?;
        let stored = sets.get("probe").await?;
        let storage = &stored.data["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"];
        ensure!(storage == "2Gi", "{storage}");
        Ok(())
    })
}
