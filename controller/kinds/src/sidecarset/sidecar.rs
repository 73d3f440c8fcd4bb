//! A SidecarSet's containers.

use berth_api::v1beta1::sidecarset::{
    PodInjectPolicy, SidecarContainer, SidecarSetSpec, UpgradeType,
};
use serde_json::Value;

/// The list in a pod's spec that a container belongs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// `initContainers`.
    Init,
    /// `containers`.
    Main,
}

impl List {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Init, Self::Main];

    /// The name of the field.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Init => "initContainers",
            Self::Main => "containers",
        }
    }
}

/// All containers of a spec.
pub fn all(spec: &SidecarSetSpec) -> impl Iterator<Item = (&SidecarContainer, List)> {
    let of = |list| move |sidecar| (sidecar, list);
    spec.init_containers
        .iter()
        .map(of(List::Init))
        .chain(spec.containers.iter().map(of(List::Main)))
}

/// The name in the SidecarSet.
pub fn name(sidecar: &SidecarContainer) -> &str {
    sidecar
        .container
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Whether an init container runs beside the pod's containers.
pub fn is_native(sidecar: &SidecarContainer) -> bool {
    sidecar
        .container
        .get("restartPolicy")
        .and_then(Value::as_str)
        == Some("Always")
}

/// Whether it runs beside the pod's containers, and so is updated in place.
pub fn is_lasting(sidecar: &SidecarContainer, list: List) -> bool {
    list == List::Main || is_native(sidecar)
}

/// The containers that run beside the pod's own, so that they can be updated in place.
pub fn lasting(spec: &SidecarSetSpec) -> impl Iterator<Item = (&SidecarContainer, List)> {
    all(spec).filter(|(sidecar, list)| is_lasting(sidecar, *list))
}

/// The names of these containers, sorted, as the records of pods have them.
pub fn lasting_names(spec: &SidecarSetSpec) -> Vec<String> {
    let mut names: Vec<_> = lasting(spec)
        .map(|(sidecar, _)| name(sidecar).to_owned())
        .collect();
    names.sort();
    names
}

/// Whether it is injected as a pair. A container that ends cannot hand over.
pub fn is_hot(sidecar: &SidecarContainer, list: List) -> bool {
    sidecar.upgrade_strategy.upgrade_type == UpgradeType::HotUpgrade && is_lasting(sidecar, list)
}

/// The names of a hot pair's containers in the pod.
pub fn hot_pair(name: &str) -> [String; 2] {
    [format!("{name}-1"), format!("{name}-2")]
}

/// Its names in a pod: two for a hot pair, otherwise its own.
pub fn names_in_pod(sidecar: &SidecarContainer, list: List) -> Vec<String> {
    let name = name(sidecar);
    if is_hot(sidecar, list) {
        hot_pair(name).into()
    } else {
        vec![name.to_owned()]
    }
}

/// Its position among the pod's containers.
pub fn place(sidecar: &SidecarContainer, list: List) -> PodInjectPolicy {
    sidecar.pod_inject_policy.unwrap_or(match list {
        List::Init => PodInjectPolicy::AfterAppContainer,
        List::Main => PodInjectPolicy::BeforeAppContainer,
    })
}
