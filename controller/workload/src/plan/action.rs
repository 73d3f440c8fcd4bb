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

/// An object to send, or a part of one. Its text takes between a hundredth and a tenth of the
/// memory of a [`Value`], and a plan has hundreds of new pods.
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

    /// Parses the text as `T`; `None` if `T` does not fit.
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

/// The meaning of the answer that the object to create exists already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum IfExists {
    /// Success if it has the same owner, because the answer to an earlier request was lost.
    IsOfSameOwner,
    /// Success, with any owner.
    IsFine,
}

/// One write.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Action {
    /// Ask the apiserver, by a dry-run create of a core `PodTemplate`, whether a template is valid.
    ValidateTemplate {
        /// The namespace of the pods.
        namespace: String,
        /// The template as the workload has it, with the volumes of its claims.
        template: Body,
    },
    /// Create a `ControllerRevision`. One that exists already with the same owner is success.
    CreateRevision {
        /// The whole object.
        body: Body,
    },
    /// Change the `revision` number of a `ControllerRevision`: a rollback makes an old revision the
    /// newest.
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
    /// Delete a pod, with its own grace period. Expected in the feed before the next decision on
    /// the workload.
    DeletePod {
        /// The pod.
        target: Target,
    },
    /// Evict a pod. The apiserver refuses if a disruption budget forbids it. Expected in the feed
    /// as a deletion is.
    EvictPod {
        /// The pod.
        target: Target,
    },
    /// Remove an owner from a pod, which keeps running. The resource version of the target is
    /// always set.
    ReleasePod {
        /// The pod.
        target: Target,
        /// The uid of the owner.
        owner: String,
    },
    /// Set the owner of a pod that has no controller. The resource version of the target is always
    /// set.
    AdoptPod {
        /// The pod.
        target: Target,
        /// The owner reference.
        owner: Value,
    },
    /// Set the owner of a `ControllerRevision` that has no controller. The resource version of the
    /// target is always set.
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
    /// A strategic merge patch of a claim: its owners, its annotations, or its requested size.
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
        /// The changes.
        patch: PodPatch,
    },
    /// A strategic merge patch of a pod's `resize` subresource, which accepts resources of
    /// containers only.
    ResizePod {
        /// The pod.
        target: Target,
        /// The changes, by container.
        resources: Resizes,
    },
    /// A strategic merge patch of a pod's `status` subresource. It may have labels and annotations,
    /// too.
    PatchPodStatus {
        /// The pod.
        target: Target,
        /// Conditions to set, by type.
        conditions: Vec<Condition>,
        /// Labels and annotations to set.
        patch: PodPatch,
    },
    /// Create an object of a kind without an action of its own.
    Create {
        /// Its kind.
        resource: Resource,
        /// The whole object.
        body: Value,
        /// The meaning of the answer that an object of this name exists already.
        if_exists: IfExists,
    },
    /// A merge patch of metadata or spec.
    Patch {
        /// Its kind.
        resource: Resource,
        /// The object. Its resource version is set if the patch must not overwrite what other
        /// writers wrote.
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
    /// Read an object from the apiserver, and continue only if its uid matches and it is not being
    /// deleted.
    Confirm {
        /// Its kind.
        resource: Resource,
        /// The object.
        target: Target,
    },
    /// Add keys to the ConfigMap for which a pod's containers wait, if the ConfigMap belongs to
    /// that pod.
    OpenBarrier {
        /// The pod.
        pod: Target,
        /// The keys.
        keys: Vec<String>,
    },
}
