//! How SidecarSets are spoken of on pods: annotations, conditions and variables. Those that OpenKruise does not have are marked.

/// What the annotations begin with by which a pod says what it has of SidecarSets.
pub const PREFIX: &str = "kruise.io/sidecarset-";
/// On pods and SidecarSets: the hash of the containers. On a pod for each SidecarSet that it has, as JSON.
pub const HASH: &str = "kruise.io/sidecarset-hash";
/// The same, without the containers' images.
pub const HASH_WITHOUT_IMAGE: &str = "kruise.io/sidecarset-hash-without-image";
/// On a pod: the names of its SidecarSets, sorted, with commas between them.
pub const INJECTED_LIST: &str = "kruise.io/sidecarset-injected-list";
/// On a pod: what ran before the last update in place, as JSON by SidecarSet.
pub const INPLACE_UPDATE_STATE: &str = "kruise.io/sidecarset-inplace-update-state";
/// On a pod: which container of a hot pair works, as JSON from the name in the SidecarSet to that in the pod.
pub const WORKING_HOT_CONTAINER: &str = "kruise.io/sidecarset-working-hotupgrade-container";
/// On a pod, followed by the name of a container of a hot pair: the SidecarSet's version that it got its image for.
pub const VERSION_PREFIX: &str = "version.sidecarset.kruise.io/";
/// The same of the other container of the pair.
pub const VERSION_ALT_PREFIX: &str = "versionalt.sidecarset.kruise.io/";
/// Variable of every container that a SidecarSet brought.
pub const IS_INJECTED: &str = "IS_INJECTED";
/// Variable of a hot pair's containers, from [`VERSION_PREFIX`].
pub const VERSION_VARIABLE: &str = "SIDECARSET_VERSION";
/// Variable of a hot pair's containers, from [`VERSION_ALT_PREFIX`].
pub const VERSION_ALT_VARIABLE: &str = "SIDECARSET_VERSION_ALT";

/// On a revision: the SidecarSet that it is of.
pub const NAME: &str = "kruise.io/sidecarset-name";
/// On a revision, and on v1alpha1 SidecarSets: what their author calls this version.
pub const CUSTOM_VERSION: &str = "apps.kruise.io/sidecarset-custom-version";
/// On a SidecarSet, `"true"`: where it matches, the one that it is based on does not.
pub const CANARY: &str = "apps.kruise.io/sidecarset-canary";
/// Beside it: the SidecarSet that it is based on.
pub const BASE: &str = "apps.kruise.io/sidecarset-base";
/// *Berth.* On a SidecarSet, `Fail`: no selected pod is created without an answer.
pub const FAILURE_POLICY: &str = "apps.kruise.io/sidecarset-failure-policy";
/// Condition of pods: whether all their SidecarSets can update them in place.
pub const UPGRADABLE: &str = "SidecarSetUpgradable";
/// *Berth.* Condition of SidecarSets: the apiserver asks for the pods that they select.
pub const INJECTION_READY: &str = "InjectionReady";
