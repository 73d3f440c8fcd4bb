//! The predownload configuration in a workload's annotations, with OpenKruise's names.

use berth_api::IntOrString;
use berth_api::names::annotation::{
    IMAGE_PREDOWNLOAD_MIN_UPDATED_READY_PODS, IMAGE_PREDOWNLOAD_PARALLELISM,
    IMAGE_PREDOWNLOAD_TIMEOUT_SECONDS,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::objects::intstr::{self, Round};

/// The values of the annotations. Unreadable values count as missing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Annotated {
    /// Nodes that pull at a time.
    pub parallelism: Option<IntOrString>,
    /// Seconds after which a pull has failed on a node.
    pub timeout_seconds: Option<i32>,
    /// Pods of the new revision that are to be ready first.
    pub min_updated_ready: Option<IntOrString>,
}

impl Annotated {
    /// The values of an object's annotations.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let annotation = |key: &str| metadata.annotations.as_ref()?.get(key).map(String::as_str);
        let written = |text: &str| {
            text.parse()
                .map_or_else(|_| IntOrString::String(text.to_owned()), IntOrString::Int)
        };
        Self {
            parallelism: annotation(IMAGE_PREDOWNLOAD_PARALLELISM).map(written),
            timeout_seconds: annotation(IMAGE_PREDOWNLOAD_TIMEOUT_SECONDS)
                .and_then(|text| text.parse().ok()),
            min_updated_ready: annotation(IMAGE_PREDOWNLOAD_MIN_UPDATED_READY_PODS).map(written),
        }
    }

    /// Pods of the new revision that are to be ready first, of so many that are wanted.
    pub fn min_updated_ready(&self, wanted: usize) -> usize {
        let resolved = self
            .min_updated_ready
            .as_ref()
            .map(|value| intstr::resolve(value, wanted, Round::Up));
        resolved.and_then(Result::ok).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
