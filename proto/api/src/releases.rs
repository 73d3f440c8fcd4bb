//! Releases of OpenKruise that serve kinds in v1alpha1 alone, and what an object loses on its way to one of them.
//!
//! A definition of such a release is refused as long as `status.storedVersions` names v1beta1, and fields that its v1alpha1
//! lacks are dropped when an object is read.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::convert::{self, ConversionError};
use crate::kinds::{
    BROADCAST_JOB, CLONE_SET, CONTAINER_RECREATE_REQUEST, DAEMON_SET, IMAGE_LIST_PULL_JOB,
    IMAGE_PULL_JOB, Kind, NODE_IMAGE, PERSISTENT_POD_STATE, POD_UNAVAILABLE_BUDGET, SIDECAR_SET,
    UNITED_DEPLOYMENT, Version,
};
use crate::names::annotation::CONVERSION;
use crate::v1beta1;

/// The longest text of a value in a [`Loss`], in characters.
const LONGEST_VALUE: usize = 100;

/// A release.
#[derive(Debug)]
pub struct Release {
    /// Its version, such as `1.9.0`.
    pub version: &'static str,
    /// The kinds that it serves in v1alpha1 alone.
    pub kinds: &'static [OlderKind],
}

/// A kind that a release serves in v1alpha1 alone.
pub struct OlderKind {
    /// The kind.
    pub kind: Kind,
    /// Reads an object of v1beta1 and returns its spec with all defaults.
    spec: fn(&str) -> Result<Value, serde_json::Error>,
    /// Fields of our v1alpha1 that the release's v1alpha1 lacks, `[]` for the items of a list.
    lacks: &'static [&'static str],
}

/// A field of v1beta1 that an object has and the release does not keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The field.
    pub field: String,
    /// Its value as JSON, shortened.
    pub value: String,
}

/// An object of which nobody can say what it would lose.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It is no object of its kind.
    #[error(transparent)]
    Conversion(#[from] ConversionError),
    /// Its type does not read it.
    #[error("it cannot be read as v1beta1: {0}")]
    Json(#[from] serde_json::Error),
}

/// All releases to which there is a way back, the newest first.
pub static RELEASES: [Release; 2] = [
    Release {
        version: "1.9.0",
        kinds: &[
            OlderKind::new::<v1beta1::CloneSet>(CLONE_SET, &IMAGE_PRE_DOWNLOAD),
            OlderKind::new::<v1beta1::ContainerRecreateRequest>(
                CONTAINER_RECREATE_REQUEST,
                &PRE_STOP_SLEEP,
            ),
            OlderKind::new::<v1beta1::PersistentPodState>(PERSISTENT_POD_STATE, &[]),
            OlderKind::new::<v1beta1::PodUnavailableBudget>(
                POD_UNAVAILABLE_BUDGET,
                &UNHEALTHY_POD_POLICY,
            ),
            OlderKind::new::<v1beta1::UnitedDeployment>(UNITED_DEPLOYMENT, &OF_SUBSETS),
        ],
    },
    Release {
        version: "1.8.4",
        kinds: &[
            OlderKind::new::<v1beta1::BroadcastJob>(BROADCAST_JOB, &[]),
            OlderKind::new::<v1beta1::CloneSet>(
                CLONE_SET,
                &[
                    "spec.progressDeadlineSeconds",
                    IMAGE_PRE_DOWNLOAD[0],
                    IMAGE_PRE_DOWNLOAD[1],
                    IMAGE_PRE_DOWNLOAD[2],
                ],
            ),
            OlderKind::new::<v1beta1::ContainerRecreateRequest>(
                CONTAINER_RECREATE_REQUEST,
                &PRE_STOP_SLEEP,
            ),
            OlderKind::new::<v1beta1::DaemonSet>(DAEMON_SET, &[]),
            OlderKind::new::<v1beta1::ImageListPullJob>(IMAGE_LIST_PULL_JOB, &[]),
            OlderKind::new::<v1beta1::ImagePullJob>(IMAGE_PULL_JOB, &[]),
            // Nobody but the controller writes its spec, and OpenKruise's controller writes it anew.
            OlderKind {
                kind: NODE_IMAGE,
                spec: |_| Ok(Value::Null),
                lacks: &[],
            },
            OlderKind::new::<v1beta1::PersistentPodState>(PERSISTENT_POD_STATE, &[]),
            OlderKind::new::<v1beta1::PodUnavailableBudget>(
                POD_UNAVAILABLE_BUDGET,
                &UNHEALTHY_POD_POLICY,
            ),
            OlderKind::new::<v1beta1::SidecarSet>(
                SIDECAR_SET,
                &[
                    "spec.containers[].resourcesPolicy",
                    "spec.containers[].shareVolumeDevicePolicy",
                    "spec.initContainers[].resourcesPolicy",
                    "spec.initContainers[].shareVolumeDevicePolicy",
                ],
            ),
            OlderKind::new::<v1beta1::UnitedDeployment>(
                UNITED_DEPLOYMENT,
                &[
                    "spec.topology.scheduleStrategy.adaptive.reserveUnschedulablePods",
                    "spec.template.cloneSetTemplate.spec.progressDeadlineSeconds",
                    OF_SUBSETS[0],
                    OF_SUBSETS[1],
                    OF_SUBSETS[2],
                ],
            ),
        ],
    },
];

/// Most of their values are annotations in v1alpha1; a value that no annotation can have stays a field.
const IMAGE_PRE_DOWNLOAD: [&str; 3] = [
    "spec.updateStrategy.inPlaceUpdateStrategy.imagePreDownloadMinUpdatedReadyPods",
    "spec.updateStrategy.inPlaceUpdateStrategy.imagePreDownloadParallelism",
    "spec.updateStrategy.inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds",
];
/// The same in the template of a UnitedDeployment.
const OF_SUBSETS: [&str; 3] = [
    "spec.template.cloneSetTemplate.spec.updateStrategy.inPlaceUpdateStrategy.imagePreDownloadMinUpdatedReadyPods",
    "spec.template.cloneSetTemplate.spec.updateStrategy.inPlaceUpdateStrategy.imagePreDownloadParallelism",
    "spec.template.cloneSetTemplate.spec.updateStrategy.inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds",
];
const PRE_STOP_SLEEP: [&str; 1] = ["spec.containers[].preStop.sleep"];
const UNHEALTHY_POD_POLICY: [&str; 1] = ["spec.unhealthyPodPolicy"];

/// The release of this version.
pub fn named(version: &str) -> Option<&'static Release> {
    RELEASES.iter().find(|release| release.version == version)
}

impl std::fmt::Debug for OlderKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OlderKind")
            .field("kind", &self.kind.kind)
            .field("lacks", &self.lacks)
            .finish_non_exhaustive()
    }
}

impl OlderKind {
    const fn new<T: DeserializeOwned + Serialize>(
        kind: Kind,
        lacks: &'static [&'static str],
    ) -> Self {
        Self {
            kind,
            spec: spec::<T>,
            lacks,
        }
    }

    /// The fields that the release does not keep of an object, given as the text of its v1beta1.
    ///
    /// # Errors
    /// When the object is none of this kind.
    pub fn losses(&self, object: &str) -> Result<Vec<Loss>, Unreadable> {
        let before = (self.spec)(object)?;
        let older = convert::convert(object, &self.kind.api_version(Version::V1Alpha1))?;
        let mut older: Value = serde_json::from_str(&older)?;
        // OpenKruise knows nothing of what the annotation remembers.
        if let Some(annotations) = older
            .pointer_mut("/metadata/annotations")
            .and_then(Value::as_object_mut)
        {
            annotations.remove(CONVERSION);
        }
        for path in self.lacks {
            remove(&mut older, path);
        }
        let newer = convert::convert(&older.to_string(), &self.kind.api_version(Version::V1Beta1))?;
        let mut losses = Vec::new();
        compare("spec", &before, &(self.spec)(&newer)?, &mut losses);
        Ok(losses)
    }
}

fn spec<T: DeserializeOwned + Serialize>(object: &str) -> Result<Value, serde_json::Error> {
    let mut object = serde_json::to_value(serde_json::from_str::<T>(object)?)?;
    Ok(object.get_mut("spec").map(Value::take).unwrap_or_default())
}

/// Removes a field from each item of the lists on its path.
fn remove(value: &mut Value, path: &str) {
    let (step, rest) = path
        .split_once('.')
        .map_or((path, None), |(step, rest)| (step, Some(rest)));
    let name = step.trim_end_matches("[]");
    let Some(rest) = rest else {
        value.as_object_mut().and_then(|fields| fields.remove(name));
        return;
    };
    match value.get_mut(name) {
        Some(Value::Array(items)) => items.iter_mut().for_each(|item| remove(item, rest)),
        Some(field) => remove(field, rest),
        None => {}
    }
}

/// The fields of `before` that `after` lacks or has with another value.
fn compare(path: &str, before: &Value, after: &Value, losses: &mut Vec<Loss>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (name, value) in before {
                compare(
                    &format!("{path}.{name}"),
                    value,
                    after.get(name).unwrap_or(&Value::Null),
                    losses,
                );
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                compare(&format!("{path}[{index}]"), before, after, losses);
            }
        }
        (before, after) if before == after => {}
        (before, _) => {
            let text = before.to_string();
            let mut value: String = text.chars().take(LONGEST_VALUE).collect();
            if value.len() < text.len() {
                value.push('…');
            }
            losses.push(Loss {
                field: path.to_owned(),
                value,
            });
        }
    }
}

#[cfg(test)]
mod tests;
