//! How many pods workloads want, and which, by their own fields.

use berth_api::names::GROUP;
use berth_workload::objects::pod::Metadata;
use berth_workload::objects::selector::Selector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;

/// The longest selector that is read, in bytes.
const LONGEST_SELECTOR: usize = 16 << 10;

/// The field that says how many pods a workload wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Says {
    /// Its scale.
    Scale,
    /// The status of a DaemonSet, which has no scale: one pod for each of its nodes.
    Nodes,
    /// Neither.
    Nothing,
}

impl Says {
    pub(super) fn of(group: &str, kind: &str, has_scale: bool) -> Self {
        match (group, kind) {
            _ if has_scale => Self::Scale,
            ("apps" | GROUP, "DaemonSet") => Self::Nodes,
            _ => Self::Nothing,
        }
    }
}

/// How many pods a workload wants.
#[derive(Debug, Clone)]
pub(super) struct Wants {
    pub(super) replicas: usize,
    /// Its pods, if it has a selector.
    pub(super) selector: Option<Selector>,
}

/// The scale of a workload.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Scale {
    spec: ScaleSpec,
    status: ScaleStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ScaleSpec {
    replicas: u32,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ScaleStatus {
    selector: String,
}

impl Scale {
    pub(super) fn wants(&self) -> Wants {
        let text = Some(&self.status.selector).filter(|text| text.len() <= LONGEST_SELECTOR);
        let selector = text.and_then(|text| Selector::parse(text).ok());
        Wants {
            replicas: usize::try_from(self.spec.replicas).unwrap_or(usize::MAX),
            selector,
        }
    }
}

/// The status of a DaemonSet.
#[derive(Deserialize)]
pub(super) struct DaemonSet {
    metadata: Metadata,
    #[serde(default)]
    spec: DaemonSetSpec,
    #[serde(default)]
    status: DaemonSetStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct DaemonSetSpec {
    selector: LabelSelector,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct DaemonSetStatus {
    observed_generation: i64,
    desired_number_scheduled: u32,
}

impl DaemonSet {
    /// `None` until its controller has counted the nodes of this spec. The number of an earlier
    /// spec may be too small, and then too many pods could go.
    pub(super) fn wants(&self) -> Option<Wants> {
        let DaemonSetStatus {
            observed_generation,
            desired_number_scheduled,
        } = self.status;
        let selector = Selector::new(&self.spec.selector)
            .ok()
            .filter(|selector| selector.weight() <= LONGEST_SELECTOR);
        let replicas = usize::try_from(desired_number_scheduled).unwrap_or(usize::MAX);
        let is_counted = observed_generation > 0 && observed_generation >= self.metadata.generation;
        is_counted.then_some(Wants { replicas, selector })
    }
}

#[cfg(test)]
mod tests;
