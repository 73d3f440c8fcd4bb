//! How many pods workloads want now. The numbers come from the apiserver, because an older number
//! would make a budget refuse a scale-down, or let too many pods go.

mod reads;
pub(crate) mod recent;
mod wants;
mod workloads;

pub(crate) use workloads::Workloads;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::v1beta1::podunavailablebudget::TargetReference;
use berth_runtime::client::Failed;
use berth_workload::budget::count::{Expected, Unknown};
use berth_workload::objects::pod::{Metadata, Owner, Pod};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::core::GroupVersionKind;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::Instant;

use crate::budgets::expected_pods::recent::Recent;
use wants::{Says, Wants};

/// The most workloads whose pods one budget holds by a selector. A count reads each of them.
const MOST_OWNERS: usize = 64;
/// The most workloads that a count reads although all their remaining pods have ended.
const MOST_OF_ENDED: usize = 16;
/// The most levels of owners above a pod.
const MOST_LEVELS: usize = 5;
/// The most kinds that are remembered.
const MOST_KINDS: usize = 256;
/// How long a missing scale is remembered, because no watch reports that a definition got one.
const WITHOUT_SCALE: Duration = Duration::from_secs(60);

/// Reads how many pods workloads want, and remembers which kinds there are. All callers share one
/// read of a workload each second.
#[derive(Clone)]
pub(crate) struct ExpectedPods {
    client: Client,
    kinds: Arc<Mutex<Vec<Kind>>>,
    objects: Arc<Recent<Read<Arc<Object>>>>,
    wants: Arc<Recent<Read<Wants>>>,
}

/// The apiserver's answer about a workload; `None` if the workload is gone.
type Read<T> = Result<Option<T>, Uncounted>;

/// Where a kind is served, and which field says how many pods an object of the kind wants.
#[derive(Clone)]
struct Kind {
    name: GroupVersionKind,
    plural: String,
    says: Says,
    /// When this was read.
    since: Instant,
}

impl Kind {
    /// Whether the kind need not be read again. A read of its objects says if it lost its scale.
    fn is_current(&self) -> bool {
        self.says != Says::Nothing || self.since.elapsed() < WITHOUT_SCALE
    }

    /// The key of a cached answer about an object of this kind. A fault names the object by `said`,
    /// so `said` is part of the key.
    fn cache_key(&self, namespace: &str, name: &str, said: &str) -> String {
        let Self {
            name:
                GroupVersionKind {
                    group,
                    version,
                    kind,
                },
            ..
        } = self;
        format!("{group}/{version}/{kind}/{namespace}/{name} {said}")
    }

    /// Why an object of this kind is not counted: the controller may not read it. A kind that says
    /// nothing of its pods need not be read.
    fn unreadable(&self, said: &str) -> String {
        let Self {
            plural,
            name: GroupVersionKind { group, .. },
            says,
            ..
        } = self;
        let resources = match says {
            Says::Scale => format!("{plural} and {plural}/scale"),
            Says::Nodes => plural.clone(),
            Says::Nothing => return without_scale(said),
        };
        format!(
            "{said} may not be read: give kruise-manager get on {resources} of {group:?} by a ClusterRole with the label \
             rbac.kruise.io/aggregate-to-manager, or {REMEDY}"
        )
    }
}

/// The topmost workload above a pod.
#[derive(Clone)]
enum Top {
    /// Its uid, and how many pods it wants.
    Wants(String, usize),
    /// It has no scale: it counts with the pods that exist.
    Unscaled,
    /// The topmost owner, or an owner between it and the pod, is gone or is being deleted.
    Gone,
    /// Not known.
    Unknown,
}

/// Why a number of pods is not known.
#[derive(Debug, Clone)]
pub(crate) enum Uncounted {
    /// The author of the budget or the administrator can mend it.
    Fault(Unknown),
    /// The apiserver did not answer, or a new workload does not say it yet: the next count retries.
    Silent(Failed),
}

#[derive(Debug, Deserialize)]
struct Object {
    metadata: Metadata,
}

/// For this long after a workload was made, a missing number or selector is no fault of its budget.
/// Many workloads say in a status which pods are theirs, and their controller has to write that
/// first.
const NEW: SignedDuration = SignedDuration::from_secs(10);

fn is_new(metadata: &Metadata) -> bool {
    metadata
        .creation_timestamp
        .is_some_and(|made| Timestamp::now().duration_since(made) < NEW)
}

/// `spec.targetRef` and `spec.selector` never change.
const ANOTHER: &str =
    "delete this budget and make one with spec.selector in place of spec.targetRef";
const REMEDY: &str = "set spec.protectTotalReplicas to how many pods are expected";

fn fault<T>(message: String) -> Result<T, Uncounted> {
    Err(Uncounted::Fault(Unknown { message }))
}

impl ExpectedPods {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            kinds: Arc::default(),
            objects: Arc::default(),
            wants: Arc::default(),
        }
    }

    /// A copy with empty caches, for callers that must not use an answer of a moment ago.
    pub(crate) fn apart(&self) -> Self {
        Self {
            objects: Arc::default(),
            wants: Arc::default(),
            ..self.clone()
        }
    }

    /// How many pods a workload wants, and which pods are its.
    ///
    /// # Errors
    /// It does not exist, nothing says how many pods it wants, or the apiserver did not say.
    pub(crate) async fn of_target(
        &self,
        namespace: &str,
        target: &TargetReference,
    ) -> Result<Expected, Uncounted> {
        let TargetReference {
            api_version,
            kind,
            name,
        } = target;
        let said = format!("{kind} {name} of spec.targetRef");
        let kind = self.kind(api_version, kind, &said).await?;
        let unscaled = || fault(format!("{said} has no scale: {ANOTHER}, and {REMEDY}"));
        // The controller reads more than the budget's author may, so the message must not say
        // whether the object exists.
        if kind.says == Says::Nothing {
            return unscaled();
        }
        let Some(object) = self.object(&kind, namespace, name, &said).await? else {
            return fault(format!(
                "{said} does not exist: create it, or delete this budget and make one for another"
            ));
        };
        let Some(wants) = self.wants(&kind, namespace, name, &said).await? else {
            return unscaled();
        };
        let Some(selector) = wants.selector.filter(|selector| !selector.is_empty()) else {
            let message = format!("{said} does not say which pods are its: {ANOTHER}");
            return if is_new(&object.metadata) {
                Err(Uncounted::Silent(silent(0, &message)))
            } else {
                fault(message)
            };
        };
        let is_going = object.metadata.deletion_timestamp.is_some();
        Ok(Expected {
            total: if is_going { 0 } else { wants.replicas },
            selector: Some(selector),
        })
    }

    /// How many pods the workloads of these pods want, each workload counted once. A pod that has
    /// ended may stay for ever. If its workload does not say how many pods it wants, it counts as
    /// 0, so that the pod holds up no request.
    ///
    /// # Errors
    /// A pod that has not ended has no workload, or a workload without a scale, or the apiserver
    /// did not say.
    pub(crate) async fn of_owners(
        &self,
        namespace: &str,
        pods: &[Arc<Pod>],
    ) -> Result<usize, Uncounted> {
        let (owners, of_ended) = owners(pods)?;
        let (mut total, mut seen) = (0_usize, BTreeSet::new());
        for owner in owners {
            total = total.saturating_add(self.of_top(namespace, owner.clone(), &mut seen).await?);
        }
        for owner in of_ended {
            total = total.saturating_add(self.of_ended(namespace, owner, &mut seen).await?);
        }
        Ok(total)
    }

    /// The kind and the metadata of the topmost owner, where it is there.
    pub(crate) async fn top_object(
        &self,
        namespace: &str,
        owner: &Owner,
    ) -> Option<(String, Metadata)> {
        let (kind, owner) = self.top(namespace, owner.clone()).await.ok()??;
        let object = self
            .object(&kind, namespace, &owner.name, "a workload")
            .await
            .ok()??;
        Some((kind.name.kind, object.metadata.clone()))
    }

    /// Whether a pod of this owner goes because an owner above it is gone or is being deleted.
    pub(crate) async fn is_gone(&self, namespace: &str, owner: &Owner) -> bool {
        matches!(self.top(namespace, owner.clone()).await, Ok(None))
    }

    /// How many pods the topmost owner wants. It is 0 if an owner in the chain is gone or is being
    /// deleted, or if the topmost owner was counted before.
    async fn of_top(
        &self,
        namespace: &str,
        owner: Owner,
        seen: &mut BTreeSet<String>,
    ) -> Result<usize, Uncounted> {
        let Some((kind, owner)) = self.top(namespace, owner).await? else {
            return Ok(0);
        };
        if !seen.insert(owner.uid.to_string()) {
            return Ok(0);
        }
        let said = format!("{} {}", owner.kind, owner.name);
        match self.wants(&kind, namespace, &owner.name, &said).await? {
            Some(wants) => Ok(wants.replicas),
            None => fault(without_scale(&said)),
        }
    }

    /// The topmost owner, and how many pods it wants.
    async fn top_that_wants(&self, namespace: &str, owner: Owner) -> Result<Top, Uncounted> {
        let Some((kind, owner)) = self.top(namespace, owner).await? else {
            return Ok(Top::Gone);
        };
        if kind.says == Says::Nothing {
            return Ok(Top::Unscaled);
        }
        let wants = self
            .wants(&kind, namespace, &owner.name, &owner.kind)
            .await?;
        Ok(wants.map_or(Top::Gone, |wants| {
            Top::Wants(owner.uid.to_string(), wants.replicas)
        }))
    }

    /// How many pods a workload wants of which only ended pods are left; 0 if it does not say.
    async fn of_ended(
        &self,
        namespace: &str,
        owner: &Owner,
        seen: &mut BTreeSet<String>,
    ) -> Result<usize, Uncounted> {
        let said = format!("{} {}", owner.kind, owner.name);
        let says = self
            .kind(&owner.api_version, &owner.kind, &said)
            .await
            .map(|kind| kind.says);
        let counted = match says {
            // A Job, for example, has no scale. A namespace may have many Jobs, so no count reads
            // them.
            Ok(Says::Nothing) => return Ok(0),
            Ok(Says::Scale | Says::Nodes) => self.of_top(namespace, owner.clone(), seen).await,
            Err(unknown) => Err(unknown),
        };
        match counted {
            Err(Uncounted::Fault(_)) => Ok(0),
            counted => counted,
        }
    }

    /// The topmost owner; `None` if it, or an owner between it and the pod, is gone or is being
    /// deleted.
    async fn top(
        &self,
        namespace: &str,
        mut owner: Owner,
    ) -> Result<Option<(Kind, Owner)>, Uncounted> {
        for _ in 0..MOST_LEVELS {
            let said = format!("{} {}", owner.kind, owner.name);
            let kind = self.kind(&owner.api_version, &owner.kind, &said).await?;
            let object = self.object(&kind, namespace, &owner.name, &said).await?;
            let Some(object) = object.filter(|object| object.metadata.uid == owner.uid) else {
                return Ok(None);
            };
            if object.metadata.deletion_timestamp.is_some() {
                return Ok(None);
            }
            match object.metadata.controller() {
                Some(above) => owner = above.clone(),
                None => return Ok(Some((kind, owner))),
            }
        }
        fault(format!(
            "{} {} has more than {MOST_LEVELS} owners above it: {REMEDY}",
            owner.kind, owner.name
        ))
    }
}

/// The workloads of pods, each once: first those with a pod that has not ended, then a few of those
/// that have only ended pods.
fn owners(pods: &[Arc<Pod>]) -> Result<(Vec<&Owner>, Vec<&Owner>), Uncounted> {
    let (ended, mut others): (Vec<_>, Vec<_>) = pods.iter().partition(|pod| pod.has_finished());
    // Sorted, so that the message names the same pod each time.
    others.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    let mut owners = Vec::<&Owner>::new();
    for pod in others {
        let Some(owner) = pod.metadata.controller() else {
            return fault(format!(
                "pod {} has no controller, so the expected number of pods is not known: {REMEDY}",
                pod.metadata.name
            ));
        };
        if !owners.iter().any(|known| known.uid == owner.uid) {
            owners.push(owner);
        }
        if owners.len() > MOST_OWNERS {
            return fault(format!(
                "its pods are of more than {MOST_OWNERS} workloads: {REMEDY}"
            ));
        }
    }
    let of_ended = ended
        .into_iter()
        .filter_map(|pod| pod.metadata.controller());
    let of_ended = of_ended.filter(|owner| !owners.iter().any(|known| known.uid == owner.uid));
    // Sorted by uid, so that the same workloads are taken each time, in whichever order the pods
    // come.
    let of_ended: BTreeMap<&str, &Owner> = of_ended.map(|owner| (&*owner.uid, owner)).collect();
    Ok((owners, of_ended.into_values().take(MOST_OF_ENDED).collect()))
}

/// Whether the path itself is not served. Such an answer does not prove that an object is gone.
fn is_not_served(failed: &Failed) -> bool {
    failed.code == 404 && !failed.is_not_found()
}

fn silent(code: u16, message: &str) -> Failed {
    Failed {
        code,
        message: message.to_owned(),
        ..Failed::default()
    }
}

fn without_scale(said: &str) -> String {
    format!("{said}, which owns its pods, has no scale: {REMEDY}")
}

#[cfg(test)]
mod tests;
