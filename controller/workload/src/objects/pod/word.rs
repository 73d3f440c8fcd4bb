//! Words that most pods and nodes have.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use berth_api::names::{annotation, condition, label, lifecycle_state as lifecycle};
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A text that is probably one of a few known ones. Known texts take no memory of their own, others
/// as much as a boxed text. With 10,000 pods this saves 10 MiB.
#[derive(Clone)]
pub struct Word(Text);

/// A known text is always `Known`, so that there is one form of each.
#[derive(Clone)]
enum Text {
    /// The index in [`KNOWN`].
    Known(u8),
    Other(Box<str>),
}

/// Texts of every pod: labels and annotations of Kubernetes, OpenKruise and Berth, their values,
/// conditions, their states and reasons, phases, owners. And texts of every node: its labels,
/// resources and taints.
static KNOWN: [&str; 85] = [
    "",
    "True",
    "False",
    "Ready",
    "ContainersReady",
    "Initialized",
    "PodScheduled",
    "PodReadyToStartContainers",
    condition::INPLACE_UPDATE_READY,
    condition::KRUISE_POD_READY,
    "Running",
    "Pending",
    "Succeeded",
    "Failed",
    "Unknown",
    label::CLONESET_INSTANCE_ID,
    label::CONTROLLER_REVISION_HASH,
    label::KRUISE_CONTROLLER_REVISION_HASH,
    label::POD_TEMPLATE_HASH,
    label::LIFECYCLE_STATE,
    label::SPECIFIED_DELETE,
    annotation::LIFECYCLE_TIMESTAMP,
    annotation::INPLACE_UPDATE_STATE,
    annotation::INPLACE_UPDATE_GRACE,
    annotation::LAUNCHED_PRIORITY,
    lifecycle::NORMAL,
    lifecycle::UPDATING,
    lifecycle::UPDATED,
    lifecycle::PREPARING_NORMAL,
    lifecycle::PREPARING_UPDATE,
    lifecycle::PREPARING_DELETE,
    "CloneSet",
    "apps.kruise.io/v1beta1",
    "apps.kruise.io/v1alpha1",
    "ReplicaSet",
    "StatefulSet",
    "DaemonSet",
    "apps/v1",
    "Job",
    "batch/v1",
    "Node",
    "v1",
    "app",
    "name",
    "app.kubernetes.io/name",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/component",
    "app.kubernetes.io/part-of",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "ContainersNotReady",
    "ReadinessGatesNotReady",
    "true",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "linux",
    "amd64",
    "arm64",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "node-role.kubernetes.io/control-plane",
    "node.kubernetes.io/exclude-from-external-load-balancers",
    "cpu",
    "memory",
    "pods",
    "ephemeral-storage",
    "hugepages-1Gi",
    "hugepages-2Mi",
    "hugepages-32Mi",
    "hugepages-64Ki",
    "0",
    "110",
    "NoSchedule",
    "NoExecute",
    "PreferNoSchedule",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
];

fn known(text: &str) -> Option<Word> {
    let place = KNOWN.iter().position(|known| *known == text)?;
    u8::try_from(place)
        .ok()
        .map(|place| Word(Text::Known(place)))
}

impl Default for Word {
    fn default() -> Self {
        "".into()
    }
}

impl From<&str> for Word {
    fn from(text: &str) -> Self {
        known(text).unwrap_or_else(|| Self(Text::Other(text.into())))
    }
}

impl From<String> for Word {
    fn from(text: String) -> Self {
        known(&text).unwrap_or_else(|| Self(Text::Other(text.into())))
    }
}

impl Deref for Word {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        match &self.0 {
            Text::Known(place) => KNOWN.get(usize::from(*place)).copied().unwrap_or_default(),
            Text::Other(text) => text,
        }
    }
}

impl PartialEq for Word {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Text::Known(place), Text::Known(of_other)) => place == of_other,
            (Text::Other(text), Text::Other(of_other)) => text == of_other,
            _ => false,
        }
    }
}

impl Eq for Word {}

impl PartialOrd for Word {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Word {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for Word {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Serialize for Word {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Read)
    }
}

struct Read;

impl Visitor<'_> for Read {
    type Value = Word;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Word, E> {
        Ok(text.into())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Word, E> {
        Ok(text.into())
    }
}

#[cfg(test)]
mod tests;
