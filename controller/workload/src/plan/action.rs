//! One write, as data.

use std::collections::BTreeMap;

use berth_api::text::JsonText;
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{PodPatch, Target};
use crate::objects::patch::pod::Resizes;
use crate::objects::pod::Condition;
use crate::objects::resource::Resource;

/// An object as it is sent, or a part of one. Its text takes a tenth of the memory of a [`Value`], or a hundredth, and a plan
/// has hundreds of new pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body(JsonText);

impl Body {
    /// The object.
    pub fn value(&self) -> Value {
        self.0.value()
    }

    /// Its JSON text.
    pub fn text(&self) -> &str {
        self.0.as_str()
    }

    /// What a type takes of it; `None` where the type does not fit.
    pub fn read<T: DeserializeOwned>(&self) -> Option<T> {
        self.0.read()
    }
}

impl From<&Value> for Body {
    fn from(object: &Value) -> Self {
        Self(JsonText::from(object))
    }
}

impl Serialize for Body {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

/// What it means that an object which is to be created exists already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum IfExists {
    /// Success, if it has the same owner: an earlier answer was lost.
    IsOfSameOwner,
    /// Success, whoever made it.
    IsFine,
}

/// One write.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Action {
    /// Ask the apiserver, by a dry-run create of a core `PodTemplate`, whether a pod template is valid.
    ValidateTemplate {
        /// Where pods would be created.
        namespace: String,
        /// The template as the workload has it, with the volumes of its claims.
        template: Body,
    },
    /// Create a `ControllerRevision`. One that exists already with the same owner is success.
    CreateRevision {
        /// The whole object.
        body: Body,
    },
    /// Change the `revision` number of a `ControllerRevision`: a rollback makes an old one the newest.
    RenumberRevision {
        /// The revision.
        target: Target,
        /// The new number.
        revision: i64,
        /// Annotations that change.
        annotations: BTreeMap<String, String>,
    },
    /// A merge patch of a `ControllerRevision`'s metadata (its labels).
    PatchRevision {
        /// The revision.
        target: Target,
        /// The JSON merge patch.
        patch: Value,
    },
    /// Delete a `ControllerRevision` that the history limit drops.
    DeleteRevision {
        /// The revision.
        target: Target,
    },
    /// Create a pod. Expected in the feed before the workload is decided on again.
    CreatePod {
        /// The whole object, with `metadata.name` set.
        body: Body,
    },
    /// Delete a pod, with its own grace period. Expected in the feed before the workload is decided on again.
    DeletePod {
        /// The pod.
        target: Target,
    },
    /// Ask the apiserver to delete a pod, which it does where no disruption budget speaks against it. Expected as a deletion is.
    EvictPod {
        /// The pod.
        target: Target,
    },
    /// Take an owner off a pod, which runs on. The resource version of the target is always set.
    ReleasePod {
        /// The pod.
        target: Target,
        /// The uid of the owner.
        owner: String,
    },
    /// Give a pod that nobody controls an owner. The resource version of the target is always set.
    AdoptPod {
        /// The pod.
        target: Target,
        /// The owner reference.
        owner: Value,
    },
    /// Give a `ControllerRevision` that nobody controls an owner. The resource version of the target is always set.
    AdoptRevision {
        /// The revision.
        target: Target,
        /// The owner reference.
        owner: Value,
    },
    /// Create a claim. One that exists already with the same owner is success.
    CreateClaim {
        /// The whole object.
        body: Body,
    },
    /// A strategic merge patch of a claim: its owners, its annotations, or how much it asks for.
    PatchClaim {
        /// The claim.
        target: Target,
        /// The patch.
        patch: Value,
    },
    /// Delete a claim. The server keeps it until no pod uses it.
    DeleteClaim {
        /// The claim.
        target: Target,
    },
    /// A strategic merge patch of a pod's metadata and container images.
    PatchPod {
        /// The pod.
        target: Target,
        /// What changes.
        patch: PodPatch,
    },
    /// A strategic merge patch of a pod's `resize` subresource, which takes resources of containers and nothing else.
    ResizePod {
        /// The pod.
        target: Target,
        /// What changes, by container.
        resources: Resizes,
    },
    /// A strategic merge patch of a pod's `status` subresource, which may carry labels and annotations too.
    PatchPodStatus {
        /// The pod.
        target: Target,
        /// Conditions to set, by type.
        conditions: Vec<Condition>,
        /// Labels and annotations to set.
        patch: PodPatch,
    },
    /// Create an object of a kind that has no action of its own.
    Create {
        /// Its kind.
        resource: Resource,
        /// The whole object.
        body: Value,
        /// What it means that there is one of its name.
        if_exists: IfExists,
    },
    /// A merge patch of metadata or spec.
    Patch {
        /// Its kind.
        resource: Resource,
        /// The object. Its resource version is set where what others wrote must survive.
        target: Target,
        /// The JSON merge patch.
        patch: Value,
    },
    /// Delete an object.
    Delete {
        /// Its kind.
        resource: Resource,
        /// The object.
        target: Target,
    },
    /// Read an object from the apiserver, and go on only if it is the one that is meant and is not being deleted.
    Confirm {
        /// Its kind.
        resource: Resource,
        /// The object.
        target: Target,
    },
    /// Add keys to the ConfigMap for which a pod's containers wait, if it is that pod's.
    OpenBarrier {
        /// The pod.
        pod: Target,
        /// The keys.
        keys: Vec<String>,
    },
}
