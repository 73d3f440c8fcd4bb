//! Every name that two processes, or a user and a controller, must spell alike.
//!
//! The names are OpenKruise's, so that manifests, scripts and dashboards for OpenKruise keep
//! working. Berth's own names are marked *Berth*. Names of one kind alone are in the `names` of its
//! folder in [`crate::kinds`].

/// The API group of workloads and of image pulls. [`crate::kinds`] lists the kinds.
pub const GROUP: &str = "apps.kruise.io";
/// The API group of disruption budgets.
pub const POLICY_GROUP: &str = "policy.kruise.io";
/// The version that is served for older manifests.
pub const V1ALPHA1: &str = "v1alpha1";
/// The stored version of kinds that have it.
pub const V1BETA1: &str = "v1beta1";
/// The namespace that Berth runs in.
pub const SYSTEM_NAMESPACE: &str = "kruise-system";

/// Labels.
pub mod label {
    /// On pods and claims of a CloneSet: the instance that the pod and its claims share.
    pub const CLONESET_INSTANCE_ID: &str = "apps.kruise.io/cloneset-instance-id";
    /// On a v1alpha1 CloneSet, `"true"`: pods in `PreparingDelete` do not count when it scales. In
    /// v1beta1 this is `spec.scaleStrategy.excludePreparingDelete`.
    pub const CLONESET_SCALING_EXCLUDE_PREPARING_DELETE: &str =
        "apps.kruise.io/cloneset-scaling-exclude-preparing-delete";
    /// On pods and revisions: the revision they belong to, as Kubernetes' own workloads write it.
    pub const CONTROLLER_REVISION_HASH: &str = "controller-revision-hash";
    /// On pods of workloads that use [`CONTROLLER_REVISION_HASH`] for another value. On a subset's
    /// workload and its pods: the name of its owner's revision.
    pub const KRUISE_CONTROLLER_REVISION_HASH: &str = "apps.kruise.io/controller-revision-hash";
    /// On pods of a DaemonSet that was one of Kubernetes' own: the number of its template.
    pub const POD_TEMPLATE_GENERATION: &str = "pod-template-generation";
    /// On pods, for tools that look for Deployment's label: a short form of the revision.
    pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";
    /// On a pod, any value: its workload deletes it next and replaces it.
    pub const SPECIFIED_DELETE: &str = "apps.kruise.io/specified-delete";
    /// On a pod: its lifecycle state, one of [`super::lifecycle_state`].
    pub const LIFECYCLE_STATE: &str = "lifecycle.apps.kruise.io/state";
    /// On a pod, any label with this prefix: it counts as unavailable, ready or not.
    pub const UNAVAILABLE_POD_PREFIX: &str = "unavailable-pod.kruise.io/";
    /// On a NodeImage: it exists without a node, and its labels do not come from a node.
    pub const FAKE_NODE_IMAGE: &str = "apps.kruise.io/fake-nodeimage";
    /// On a revision: the images of this revision are being or have been pulled ahead.
    pub const IMAGE_PREDOWNLOAD_CREATED: &str = "apps.kruise.io/pre-predownload-created";
    /// On a revision: its images must not be pulled ahead.
    pub const IMAGE_PREDOWNLOAD_IGNORED: &str = "apps.kruise.io/image-predownload-ignored";
    /// On the ControllerRevisions of a SidecarSet: its name.
    pub const SIDECARSET_NAME: &str = "kruise.io/sidecarset-name";
    /// On the ControllerRevisions of a SidecarSet: its `spec.customVersion`. On a v1alpha1
    /// SidecarSet: the value of that field in v1beta1.
    pub const SIDECARSET_CUSTOM_VERSION: &str = "apps.kruise.io/sidecarset-custom-version";
    /// On every namespace, by Kubernetes: its name.
    pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
    /// On a ContainerRecreateRequest: the uid of its pod.
    pub const RECREATE_POD_UID: &str = "crr.apps.kruise.io/pod-uid";
    /// On a ContainerRecreateRequest: the name of its pod's node.
    pub const RECREATE_NODE_NAME: &str = "crr.apps.kruise.io/node-name";
    /// On a ContainerRecreateRequest, `"true"` until it is completed.
    pub const RECREATE_ACTIVE: &str = "crr.apps.kruise.io/active";
    /// On a node without a kubelet, and on a ContainerRecreateRequest of one of its pods: see
    /// [`VIRTUAL_KUBELET`].
    pub const NODE_TYPE: &str = "type";
    /// The value of [`NODE_TYPE`] of a node without a kubelet. Its provider runs the pods.
    pub const VIRTUAL_KUBELET: &str = "virtual-kubelet";
    /// On a subset's workload, its selector and its pods: the subset's name.
    pub const SUBSET_NAME: &str = "apps.kruise.io/subset-name";
    /// On any guarded object: when it may be deleted, one of [`super::delete_protection`].
    pub const DELETE_PROTECTION: &str = "policy.kruise.io/delete-protection";
}

/// Annotations.
pub mod annotation {
    /// On a pod: when its lifecycle state last changed, RFC 3339.
    pub const LIFECYCLE_TIMESTAMP: &str = "lifecycle.apps.kruise.io/timestamp";
    /// On a pod: the last in-place update, JSON of [`crate::fields::inplace::InPlaceUpdateState`].
    pub const INPLACE_UPDATE_STATE: &str = "apps.kruise.io/inplace-update-state";
    /// The name of [`INPLACE_UPDATE_STATE`] on pods from before OpenKruise 1.0.
    pub const INPLACE_UPDATE_STATE_OLD: &str = "inplace-update-state";
    /// On a pod: the changes to write at the end of the grace period.
    pub const INPLACE_UPDATE_GRACE: &str = "apps.kruise.io/inplace-update-grace";
    /// The name of [`INPLACE_UPDATE_GRACE`] on pods from before OpenKruise 1.0.
    pub const INPLACE_UPDATE_GRACE_OLD: &str = "inplace-update-grace";
    /// On a pod: the creation data of its containers, JSON of
    /// [`crate::fields::inplace::RuntimeContainerMetaSet`].
    pub const RUNTIME_CONTAINERS_META: &str = "apps.kruise.io/runtime-containers-meta";
    /// On a v1alpha1 CloneSet: how many nodes pull an image ahead at once. In v1beta1 a field of
    /// `inPlaceUpdateStrategy`.
    pub const IMAGE_PREDOWNLOAD_PARALLELISM: &str = "apps.kruise.io/image-predownload-parallelism";
    /// On a v1alpha1 CloneSet: seconds after which pulling an image ahead has failed. In v1beta1 a
    /// field of `inPlaceUpdateStrategy`.
    pub const IMAGE_PREDOWNLOAD_TIMEOUT_SECONDS: &str =
        "apps.kruise.io/image-predownload-timeout-seconds";
    /// On a v1alpha1 CloneSet: how many pods must be updated and ready before images are pulled
    /// ahead. In v1beta1 a field of `inPlaceUpdateStrategy`. On a StatefulSet or a DaemonSet also a
    /// percentage.
    pub const IMAGE_PREDOWNLOAD_MIN_UPDATED_READY_PODS: &str =
        "apps.kruise.io/image-predownload-min-updated-ready-pods";
    /// *Berth.* On a CloneSet: the longest time that a pod's in-place update waits for its node to
    /// have the new image, such as `5m`. With it, images are pulled ahead for small and for
    /// one-batch rollouts, too.
    pub const INPLACE_UPDATE_WAIT_FOR_IMAGE: &str = "apps.kruise.io/inplace-update-wait-for-image";
    /// *Berth.* On a CloneSet or a DaemonSet, `"true"`: a joining node pulls the images of its
    /// revision, if its pods could run on the node.
    pub const PREPULL_ON_JOIN: &str = "apps.kruise.io/prepull-on-join";
    /// *Berth.* In a pod template, a time as of RFC 3339: if it differs from a pod's, all
    /// containers of the pod restart in place.
    pub const RESTARTED_AT: &str = "apps.kruise.io/restarted-at";
    /// On a revision of a CloneSet: the hash of its claim templates; empty without any.
    pub const VOLUME_CLAIM_TEMPLATE_HASH: &str = "kruise.io/cloneset-volumeclaimtemplate-hash";
    /// *Berth.* On a claim of a CloneSet that does not reuse claims: no pod has used it yet, so
    /// that the next one may.
    pub const CLAIM_UNUSED: &str = "apps.kruise.io/berth-claim-unused";
    /// In the sandbox config of a pull: the ImagePullJob that asked for it.
    pub const PULLING_IMAGE_BY: &str = "apps.kruise.io/pulling-image-by";
    /// In a pod template, `Ordered`: the containers start in the order in which they are listed.
    pub const CONTAINER_LAUNCH_PRIORITY: &str = "apps.kruise.io/container-launch-priority";
    /// The only valid value of [`CONTAINER_LAUNCH_PRIORITY`].
    pub const CONTAINER_LAUNCH_ORDERED: &str = "Ordered";
    /// On a pod, `"true"`: all its containers may start.
    pub const CONTAINER_LAUNCH_PRIORITY_COMPLETED: &str =
        "apps.kruise.io/container-launch-priority-completed";
    /// *Berth.* On a pod whose containers start in order: the lowest priority that may start now.
    pub const LAUNCHED_PRIORITY: &str = "apps.kruise.io/berth-launched-priority";
    /// On a StatefulSet, `"true"`: the controller creates, changes and deletes a PersistentPodState
    /// of its name by these annotations.
    pub const AUTO_GENERATE_PERSISTENT_POD_STATE: &str =
        "kruise.io/auto-generate-persistent-pod-state";
    /// On the same StatefulSet: keys of node labels, separated by commas, that a pod's next node
    /// must share with its last.
    pub const REQUIRED_PERSISTENT_TOPOLOGY: &str = "kruise.io/required-persistent-topology";
    /// On the same StatefulSet: keys of node labels that it should share.
    pub const PREFERRED_PERSISTENT_TOPOLOGY: &str = "kruise.io/preferred-persistent-topology";
    /// On the same StatefulSet: keys of pod annotations to keep.
    pub const PERSISTENT_POD_ANNOTATIONS: &str = "kruise.io/persistent-pod-annotations";
    /// On a v1alpha1 PodUnavailableBudget: the operations that pods are protected from, such as
    /// `DELETE,EVICT`. In v1beta1 this is `spec.protectOperations`.
    pub const PUB_PROTECT_OPERATIONS: &str = "kruise.io/pub-protect-operations";
    /// On a v1alpha1 PodUnavailableBudget: how many pods are expected. In v1beta1 this is
    /// `spec.protectTotalReplicas`.
    pub const PUB_PROTECT_TOTAL_REPLICAS: &str = "pub.kruise.io/protect-total-replicas";
    /// On a pod, `"true"`: no PodUnavailableBudget protects it.
    pub const PUB_NO_PROTECT: &str = "pub.kruise.io/no-protect";
    /// *Berth.* On a CloneSet or Deployment, `"true"`: a pod whose eviction no budget allows is
    /// replaced first, and deleted then.
    pub const SURGE_ON_EVICTION: &str = "apps.kruise.io/surge-on-eviction";
    /// *Berth.* On a PodUnavailableBudget, `"true"`: it keeps a PodDisruptionBudget of its name for
    /// clients that read no other kind.
    pub const MIRROR_PDB: &str = "policy.kruise.io/mirror-pdb";
    /// *Berth.* On a pod that a DistributedPodDisruptionBudget holds, any annotation with this
    /// prefix: the pod must stay. The value is the reason.
    pub const HOLD_PREFIX: &str = "hold.policy.kruise.io/";
    /// On a pod: the PersistentPodState that decides where it runs.
    pub const INJECTED_PERSISTENT_POD_STATE: &str = "kruise.io/injected-persistent-pod-state";
    /// *Berth.* On a PersistentPodState: pods whose records are dropped, comma-separated, or `*`.
    pub const FORGET_POD_STATES: &str = "kruise.io/forget-pod-states";
    /// On a pod, JSON by name of a SidecarSet: the SidecarSet's containers in the pod, and their
    /// revision. On a SidecarSet the hash alone.
    pub const SIDECARSET_HASH: &str = "kruise.io/sidecarset-hash";
    /// The same, with a hash without the images.
    pub const SIDECARSET_HASH_WITHOUT_IMAGE: &str = "kruise.io/sidecarset-hash-without-image";
    /// On a pod: the SidecarSets with containers in it, sorted, separated by commas.
    pub const SIDECARSET_INJECTED_LIST: &str = "kruise.io/sidecarset-injected-list";
    /// *Berth.* On a pod, JSON by name of a SidecarSet: why it did not get the containers when it
    /// was created.
    pub const SIDECARSET_REFUSED: &str = "kruise.io/sidecarset-refused";
    /// *Berth.* On a pod, JSON by name of a SidecarSet: the pod's containers that the SidecarSet
    /// replaced when the pod was created.
    pub const SIDECARSET_REPLACED: &str = "kruise.io/sidecarset-replaced";
    /// On a pod, JSON by name of a SidecarSet: the last in-place update of its containers.
    pub const SIDECARSET_INPLACE_UPDATE_STATE: &str = "kruise.io/sidecarset-inplace-update-state";
    /// On a pod, JSON by name of a sidecar with HotUpgrade: which of its two containers works.
    pub const SIDECARSET_WORKING_HOT_UPGRADE_CONTAINER: &str =
        "kruise.io/sidecarset-working-hotupgrade-container";
    /// On a pod, followed by the name of a container: the version of this container of a sidecar
    /// with HotUpgrade.
    pub const SIDECARSET_VERSION_PREFIX: &str = "version.sidecarset.kruise.io/";
    /// On a pod, followed by the name of a container: the version of the other container of the
    /// sidecar.
    pub const SIDECARSET_VERSION_ALT_PREFIX: &str = "versionalt.sidecarset.kruise.io/";
    /// On a SidecarSet, `"true"`: pods that it matches do not get the containers of its base.
    pub const SIDECARSET_CANARY: &str = "apps.kruise.io/sidecarset-canary";
    /// On the same SidecarSet: the name of its base, another SidecarSet.
    pub const SIDECARSET_BASE: &str = "apps.kruise.io/sidecarset-base";
    /// kubectl's own: why the template was changed. Revisions get it from the workload.
    pub const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";
    /// Kubernetes' own, on a kubelet's mirror of a static pod: writes to the mirror do not change
    /// the pod.
    pub const MIRROR_POD: &str = "kubernetes.io/config.mirror";
    /// *Berth.* On a SidecarSet, `Fail`: a pod that cannot get the containers is not created.
    /// `Ignore`, the default: the pod is created without them.
    pub const SIDECARSET_FAILURE_POLICY: &str = "apps.kruise.io/sidecarset-failure-policy";
    /// *Berth.* On a SidecarSet: which pods without the containers are replaced: `None`, `Missed`
    /// (created while the SidecarSet was in force) or `All`.
    pub const SIDECARSET_REPAIR: &str = "apps.kruise.io/sidecarset-repair";
    /// On a v1alpha1 DaemonSet, `"true"`: pods are created as `partition` says. In v1beta1 this is
    /// `spec.scaleStrategy.partitionedScaling`.
    pub const DAEMONSET_PROGRESSIVE_CREATE_POD: &str = "daemonset.kruise.io/progressive-create-pod";
    /// *Berth.* On a DaemonSet, `"true"`: desired nodes that are not Ready do not count against the
    /// limits of a rollout.
    pub const DAEMONSET_IGNORE_NOT_READY: &str = "daemonset.kruise.io/ignore-not-ready";
    /// *Berth.* On a DaemonSet, `"true"`: no pod is created on a cordoned node.
    pub const DAEMONSET_IGNORE_UNSCHEDULABLE: &str = "daemonset.kruise.io/ignore-unschedulable";
    /// *Berth.* On a DaemonSet, `"true"`: a new pod on a node that a partition or selector leaves
    /// out gets the old revision.
    pub const DAEMONSET_HOLD_REVISION: &str = "apps.kruise.io/daemonset-hold-revision";
    /// *Berth.* On a DaemonSet: the key of a node label, such as `topology.kubernetes.io/zone`.
    /// Nodes of one value are updated before the nodes of the next.
    pub const UPDATE_TOPOLOGY_KEY: &str = "apps.kruise.io/update-topology-key";
    /// On a DaemonSet that was one of Kubernetes' own: its pods with this number in their label are
    /// current.
    pub const DAEMONSET_TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
    /// On a v1alpha1 ContainerRecreateRequest: the value of v1beta1's
    /// `status.containerStatusSnapshot`.
    pub const RECREATE_CONTAINER_STATUSES: &str = "crr.apps.kruise.io/sync-container-statuses";
    /// On a v1alpha1 ContainerRecreateRequest: the time of v1beta1's condition
    /// [`super::condition::PRE_RECREATE_GRACE`].
    pub const RECREATE_UNREADY_ACQUIRED: &str = "crr.apps.kruise.io/unready-acquired";
    /// On a subset's workload: the subset's patch as JSON; empty without any.
    pub const SUBSET_PATCH: &str = "apps.kruise.io/subset-patch";
    /// *Berth.* On a converted object: the values that its version cannot express. Removed when the
    /// object is converted back.
    pub const CONVERSION: &str = "apps.kruise.io/berth-conversion";
    /// *Berth.* On the controller's lease: the newest versions that a leader had seen and written
    /// when it gave the lease back.
    pub const HANDOVER: &str = "apps.kruise.io/berth-handover";
}

/// Taints of nodes.
pub mod taint {
    /// *Berth.* On a node that registers: no pod may be scheduled there before the node has its
    /// images. The controller removes it.
    pub const IMAGES_NOT_READY: &str = "apps.kruise.io/images-not-ready";
    /// The same taint with a prefix by which the cluster autoscaler knows that the taint is
    /// temporary.
    pub const IMAGES_NOT_READY_AT_STARTUP: &str =
        "startup-taint.cluster-autoscaler.kubernetes.io/images-not-ready";
}

/// Finalizers.
pub mod finalizer {
    /// On an ImagePullJob: its entries in NodeImages are removed before it is deleted.
    pub const PROTECTION: &str = "apps.kruise.io/deletion-protection";
    /// On a DistributedPodDisruptionBudget: other clusters may count on its floor, which binds
    /// until their leases are over.
    pub const BUDGET_FLOOR: &str = "policy.kruise.io/floor";
    /// On a ContainerRecreateRequest: its pod is out of service for it, and is put back before the
    /// request is deleted.
    pub const RECREATE_UNREADY_ACQUIRED: &str = "crr.apps.kruise.io/unready-acquired";
}

/// Condition types, and the readiness gates of the same names.
pub mod condition {
    /// On pods, a readiness gate: False while the pod is updated in place.
    pub const INPLACE_UPDATE_READY: &str = "InPlaceUpdateReady";
    /// On pods, a readiness gate with several writers: False while any of them needs the pod out of
    /// service.
    pub const KRUISE_POD_READY: &str = "KruisePodReady";
    /// On CloneSets: pods or claims could not be created or deleted.
    pub const FAILED_SCALE: &str = "FailedScale";
    /// On StatefulSets: pods or claims could not be created.
    pub const FAILED_CREATE_POD: &str = "FailedCreatePod";
    /// On StatefulSets: pods or claims could not be changed or deleted.
    pub const FAILED_UPDATE_POD: &str = "FailedUpdatePod";
    /// On CloneSets: pods could not be updated.
    pub const FAILED_UPDATE: &str = "FailedUpdate";
    /// On CloneSets with a progress deadline: whether the rollout makes progress.
    pub const PROGRESSING: &str = "Progressing";
    /// *Berth.* On CloneSets, StatefulSets and SidecarSets, True while a cause that does not pass
    /// by itself blocks them. The message names the pod or field, the cause, and the remedy. Absent
    /// otherwise.
    pub const BLOCKED: &str = "Blocked";
    /// *Berth.* On PodUnavailableBudgets: whether the apiserver calls the webhook before pods are
    /// taken out of service.
    pub const ENFORCED: &str = "Enforced";
    /// *Berth.* On PodUnavailableBudgets, False if no workload says how many pods are expected and
    /// `minAvailable` is a number. Then the existing pods count as expected. Absent otherwise.
    pub const TOTAL_KNOWN: &str = "TotalKnown";
    /// *Berth.* On DistributedPodDisruptionBudgets: whether one of their own pods may be taken out
    /// of service.
    pub const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
    /// *Berth.* On DistributedPodDisruptionBudgets that name others: whether the others' pods are
    /// known.
    pub const FEDERATED: &str = "Federated";
    /// *Berth.* On budgets that ask for a PodDisruptionBudget: whether they keep one.
    pub const CHILD_PDB: &str = "ChildPDB";
    /// On pods: whether the latest containers of their SidecarSets differ from the pod's in images
    /// only. The message says it for each SidecarSet by name.
    pub const SIDECARSET_UPGRADABLE: &str = "SidecarSetUpgradable";
    /// *Berth.* On SidecarSets: whether the apiserver calls the webhook for new pods.
    pub const INJECTION_READY: &str = "InjectionReady";
    /// *Berth.* On SidecarSets with the repair annotation: whether a pod without the containers is
    /// being replaced.
    pub const REPAIRING: &str = "Repairing";
    /// On ContainerRecreateRequests, True with the time since when the pod is out of service for
    /// the request.
    pub const PRE_RECREATE_GRACE: &str = "PreRecreateGrace";
    /// *Berth.* On ContainerRecreateRequests, True with the time since when a container is ready
    /// although its node's daemon has not yet said that the container has run for
    /// `minStartedSeconds`. Only set if that takes long.
    pub const MIN_STARTED_PENDING: &str = "MinStartedPending";
    /// *Berth.* On completed ContainerRecreateRequests, True if `activeDeadlineSeconds` left
    /// containers unchanged. The message names them.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// On pods: SidecarTerminator has ended its sidecars.
    pub const SIDECAR_TERMINATED: &str = "SidecarTerminated";
    /// *Berth.* On NodeImages: whether the node's daemon can talk to the node's container runtime.
    pub const RUNTIME_READY: &str = "RuntimeReady";
}

/// Reasons of conditions; without another note, of `Progressing`.
pub mod reason {
    /// No progress for longer than `spec.progressDeadlineSeconds`.
    pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
    /// The rollout is paused.
    pub const PAUSED: &str = "CloneSetPaused";
    /// Pods are being updated.
    pub const UPDATED: &str = "CloneSetUpdated";
    /// All pods outside of the partition are updated and available.
    pub const PARTITION_AVAILABLE: &str = "ProgressPartitionAvailable";
    /// The only reason of [`super::condition::PRE_RECREATE_GRACE`].
    pub const PRE_RECREATE_GRACE: &str = "PreRecreateGrace";
    /// Its message.
    pub const PRE_RECREATE_GRACE_MESSAGE: &str =
        "Pod has been forced to not-ready for unreadyGracePeriodSeconds drain";
    /// Everything is updated and available.
    pub const AVAILABLE: &str = "CloneSetAvailable";
}

/// Values of [`label::LIFECYCLE_STATE`].
pub mod lifecycle_state {
    /// Created, not yet in service for the first time.
    pub const PREPARING_NORMAL: &str = "PreparingNormal";
    /// In service.
    pub const NORMAL: &str = "Normal";
    /// Held by a hook before an in-place update.
    pub const PREPARING_UPDATE: &str = "PreparingUpdate";
    /// Being updated in place.
    pub const UPDATING: &str = "Updating";
    /// Updated, held by a hook before it is back in service.
    pub const UPDATED: &str = "Updated";
    /// Held by a hook before its deletion.
    pub const PREPARING_DELETE: &str = "PreparingDelete";
}

/// Values of [`label::DELETE_PROTECTION`].
pub mod delete_protection {
    /// The object may never be deleted.
    pub const ALWAYS: &str = "Always";
    /// The object may not be deleted while it owns active objects.
    pub const CASCADING: &str = "Cascading";
}

/// Environment variables.
pub mod env {
    /// In a container: its launch priority.
    pub const CONTAINER_PRIORITY: &str = "KRUISE_CONTAINER_PRIORITY";
    /// In a container of a pod with a launch order: the ConfigMap key that it waits for.
    pub const CONTAINER_BARRIER: &str = "KRUISE_CONTAINER_BARRIER";
    /// In a container, `"true"`: a SidecarSet injected it.
    pub const IS_INJECTED: &str = "IS_INJECTED";
    /// In a container with HotUpgrade: its version, from an annotation of the pod. The container
    /// with the greater version works.
    pub const SIDECARSET_VERSION: &str = "SIDECARSET_VERSION";
    /// In a container with HotUpgrade: the version of the other container.
    pub const SIDECARSET_VERSION_ALT: &str = "SIDECARSET_VERSION_ALT";
}
