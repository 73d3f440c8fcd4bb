//! A workload and what belongs to it, as the apiserver has it.

use std::collections::BTreeMap;

use berth_api::kinds::broadcastjob;
use berth_api::names::label;
use berth_workload::objects::resource::{
    CLONE_SETS, CONTROLLER_REVISIONS, DEPLOYMENTS, IMAGE_PULL_JOBS, NATIVE_STATEFUL_SETS, PODS,
    Resource, STATEFUL_SETS,
};
use serde_json::Value;

use crate::exit::WrongUsage;
use crate::kinds::NamedKind;
use crate::objects::{namespace, selector, text};
use crate::session::Session;

/// The kinds whose objects have a tree, by plural.
pub const KINDS: [&str; 6] = [
    "clonesets",
    "statefulsets",
    "daemonsets",
    "uniteddeployments",
    "sidecarsets",
    "broadcastjobs",
];

/// A workload and what belongs to it.
#[derive(Debug, Clone, Default)]
pub struct World {
    /// The plural of its kind.
    pub plural: &'static str,
    /// The workload.
    pub object: Value,
    /// Pods that its selector selects, those of others included.
    pub pods: Vec<Value>,
    /// Revisions that may be its own.
    pub revisions: Vec<Value>,
    /// Pulls that may be its own.
    pub jobs: Vec<Value>,
    /// Workloads of a UnitedDeployment's subsets.
    pub workloads: Vec<Value>,
    /// What the user may not read: the apiserver's sentence by plural of the kind.
    pub refused: BTreeMap<&'static str, String>,
}

/// Which pods to list: a namespace, empty for all, and a query by labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodQuery {
    /// The namespace.
    pub namespace: String,
    /// The query.
    pub labels: String,
}

/// The pods of a workload; `None` for kinds whose pods the tree counts only, and for objects that
/// select no pods.
pub fn pod_query(plural: &str, object: &Value) -> Option<PodQuery> {
    let of = |labels: String| PodQuery {
        namespace: namespace(object).to_owned(),
        labels,
    };
    match plural {
        "uniteddeployments" => None,
        "broadcastjobs" => {
            let uid = text(object, "/metadata/uid");
            let name = broadcastjob::names::label::BROADCASTJOB_CONTROLLER_UID;
            Some(of(format!("{name}={uid}")))
        }
        "sidecarsets" => {
            let names = &object["spec"]["namespaceSelector"]["matchLabels"];
            let namespace = names[label::NAMESPACE_NAME].as_str().unwrap_or_default();
            Some(PodQuery {
                namespace: namespace.to_owned(),
                labels: selector(object)?,
            })
        }
        _ => Some(of(selector(object)?)),
    }
}

/// Checks that the kind has a tree.
///
/// # Errors
/// It has none.
pub fn check(kind: &NamedKind) -> Result<(), WrongUsage> {
    let is_of_berth = kind.resource.group.ends_with("kruise.io");
    if is_of_berth && KINDS.contains(&kind.resource.plural) {
        return Ok(());
    }
    let kinds: Vec<_> = KINDS.iter().map(|one| one.trim_end_matches('s')).collect();
    Err(WrongUsage(format!(
        "{} has no tree of pods; the kinds with one are {}",
        kind.singular(),
        kinds.join(", ")
    )))
}

impl World {
    /// Reads everything.
    ///
    /// # Errors
    /// The object does not exist, the user may not read it, or the apiserver did not answer.
    pub async fn read(session: &Session, kind: &NamedKind, name: &str) -> anyhow::Result<Self> {
        let mut world = Self {
            plural: kind.resource.plural,
            object: session.get(kind, name).await?,
            ..Self::default()
        };
        if let Some(query) = pod_query(world.plural, &world.object) {
            let pods = world
                .listed(session, PODS, &query.namespace, &query.labels)
                .await?;
            world.pods = pods.into_iter().map(slim).collect();
        }
        world.read_rest(session).await?;
        Ok(world)
    }

    /// Reads what changes rarely: revisions, pulls, workloads of subsets.
    ///
    /// # Errors
    /// The apiserver did not answer.
    pub async fn read_rest(&mut self, session: &Session) -> anyhow::Result<()> {
        // A right may have been granted since.
        self.refused.retain(|plural, _| *plural == PODS.plural);
        let (plural, own) = (self.plural, namespace(&self.object).to_owned());
        let in_own = selector(&self.object).unwrap_or_default();
        if plural == "uniteddeployments" {
            let mut all = Vec::new();
            for resource in [CLONE_SETS, STATEFUL_SETS, NATIVE_STATEFUL_SETS, DEPLOYMENTS] {
                if is_of_template(&self.object, resource) {
                    all.extend(self.listed(session, resource, &own, &in_own).await?);
                }
            }
            self.workloads = all;
            return Ok(());
        }
        let (at, query) = match plural {
            "sidecarsets" => {
                let name = crate::objects::name(&self.object);
                let at = session.global.berth_namespace.clone();
                (at, format!("{}={name}", label::SIDECARSET_NAME))
            }
            "broadcastjobs" => return Ok(()),
            _ => (own.clone(), in_own),
        };
        self.revisions = self
            .listed(session, CONTROLLER_REVISIONS, &at, &query)
            .await?;
        if plural != "sidecarsets" {
            self.jobs = self.listed(session, IMAGE_PULL_JOBS, &own, "").await?;
        }
        Ok(())
    }

    /// Lists objects; a refusal becomes a note.
    async fn listed(
        &mut self,
        session: &Session,
        resource: Resource,
        namespace: &str,
        labels: &str,
    ) -> anyhow::Result<Vec<Value>> {
        match session.list_if_allowed(resource, namespace, labels).await? {
            Ok(mut all) => {
                for one in &mut all {
                    // Lists leave the kind of their items out.
                    one["kind"] = resource.kind.into();
                }
                Ok(all)
            }
            Err(refused) => {
                self.refused.insert(resource.plural, refused);
                Ok(Vec::new())
            }
        }
    }
}

/// Whether a UnitedDeployment makes workloads of this kind.
fn is_of_template(object: &Value, resource: Resource) -> bool {
    let field = match resource {
        CLONE_SETS => "cloneSetTemplate",
        STATEFUL_SETS => "advancedStatefulSetTemplate",
        NATIVE_STATEFUL_SETS => "statefulSetTemplate",
        _ => "deploymentTemplate",
    };
    object["spec"]["template"][field].is_object()
}

/// The pod without the parts that no tree shows, because 10,000 whole pods take 100 MB.
pub fn slim(mut pod: Value) -> Value {
    if let Some(metadata) = pod["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    let containers = items_of(&pod["spec"]["containers"]);
    pod["spec"] = serde_json::json!({
        "nodeName": pod["spec"]["nodeName"],
        "containers": containers,
    });
    pod
}

fn items_of(containers: &Value) -> Value {
    let all = containers.as_array().into_iter().flatten();
    let all = all.map(|one| serde_json::json!({"name": one["name"], "image": one["image"]}));
    all.collect()
}
