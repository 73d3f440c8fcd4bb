//! How SidecarSets are spoken of on pods and revisions: the API's names, without the kind's own in front.

pub use berth_api::names::annotation::{
    SIDECARSET_BASE as BASE, SIDECARSET_CANARY as CANARY, SIDECARSET_FAILURE_POLICY as FAILURE_POLICY,
    SIDECARSET_HASH as HASH, SIDECARSET_HASH_WITHOUT_IMAGE as HASH_WITHOUT_IMAGE,
    SIDECARSET_INJECTED_LIST as INJECTED_LIST, SIDECARSET_INPLACE_UPDATE_STATE as INPLACE_UPDATE_STATE,
    SIDECARSET_VERSION_ALT_PREFIX as VERSION_ALT_PREFIX, SIDECARSET_VERSION_PREFIX as VERSION_PREFIX,
    SIDECARSET_WORKING_HOT_UPGRADE_CONTAINER as WORKING_HOT_CONTAINER,
};
pub use berth_api::names::condition::{INJECTION_READY, SIDECARSET_UPGRADABLE as UPGRADABLE};
pub use berth_api::names::env::{
    IS_INJECTED, SIDECARSET_VERSION as VERSION_VARIABLE, SIDECARSET_VERSION_ALT as VERSION_ALT_VARIABLE,
};
pub use berth_api::names::label::{SIDECARSET_CUSTOM_VERSION as CUSTOM_VERSION, SIDECARSET_NAME as NAME};

/// What the annotations begin with by which a pod says what it has of SidecarSets.
pub const PREFIX: &str = "kruise.io/sidecarset-";
