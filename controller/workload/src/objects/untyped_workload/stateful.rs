//! A workload whose pods have ordinals, for records of their places: Kubernetes' own StatefulSet,
//! or another controller's kind.

use std::sync::Arc;

use berth_api::names::label::SUBSET_NAME;
use berth_api::text::JsonText;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::SUBSET_OWNER;
use crate::objects::ordinals::Ordinals;
use crate::objects::pod::Metadata;
use crate::objects::untyped_workload::UntypedWorkload;

/// A workload, stripped to what decisions read. The feed decodes watch events straight into it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StatefulWorkload {
    /// Name, uid, annotations.
    pub metadata: Metadata,
    /// The ordinals of its pods. `None` if its spec does not have them in Kubernetes' fields.
    pub ordinals: Option<Ordinals>,
    /// The whole workload, where it is the workload of a subset, or its labels name one.
    pub subset: Option<Arc<UntypedWorkload>>,
}

#[derive(Deserialize)]
struct Slim {
    metadata: Metadata,
    #[serde(rename = "spec", default, deserialize_with = "ordinals")]
    ordinals: Option<Ordinals>,
}

impl<'de> Deserialize<'de> for StatefulWorkload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = JsonText::deserialize(deserializer)?;
        let Slim { metadata, ordinals } =
            serde_json::from_str(text.as_str()).map_err(D::Error::custom)?;
        let is_united = metadata
            .controller()
            .is_some_and(|owner| SUBSET_OWNER.is_of(&owner.into()));
        let is_subset = is_united || metadata.label(SUBSET_NAME).is_some();
        let subset = is_subset.then(|| UntypedWorkload::read(text.as_str()).map(Arc::new));
        Ok(Self {
            metadata,
            ordinals,
            subset: subset.transpose().map_err(D::Error::custom)?,
        })
    }
}

/// Other controllers' kinds may have any form, so that unreadable fields count as unknown.
fn ordinals<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Ordinals>, D::Error> {
    let Spec { replicas, ordinals } = Option::deserialize(deserializer)?.unwrap_or_default();
    let number = |value: &Value| i32::try_from(value.as_i64()?).ok();
    let Some(replicas) = replicas.as_ref().map_or(Some(1), number) else {
        return Ok(None);
    };
    let start = ordinals
        .as_ref()
        .and_then(|ordinals| number(&ordinals["start"]))
        .unwrap_or(0);
    Ok(Ordinals::of_spec(Some(replicas), start, &[]).ok())
}

#[derive(Deserialize, Default)]
struct Spec {
    replicas: Option<Value>,
    ordinals: Option<Value>,
}

#[cfg(test)]
mod tests;
