//! Every name that two processes, or a user and a controller, must spell alike.
//!
//! The names are OpenKruise's, so that manifests, scripts and dashboards written for it keep working. What Berth adds is
//! marked *Berth*. Names that one kind alone has are in the `names` of its folder in [`crate::kinds`].

/// The API group of workloads and of what pulls images. Which kinds there are: [`crate::kinds`].
pub const GROUP: &str = "apps.kruise.io";
/// The API group of what limits disruptions.
pub const POLICY_GROUP: &str = "policy.kruise.io";
/// The version that is served for older manifests.
pub const V1ALPHA1: &str = "v1alpha1";
/// The version that is stored, of kinds that have it.
pub const V1BETA1: &str = "v1beta1";
/// The namespace that Berth lives in.
pub const SYSTEM_NAMESPACE: &str = "kruise-system";

/// Labels.
pub mod label {
    /// On pods and claims of a CloneSet: the instance that the pod and its claims share.
    pub const CLONESET_INSTANCE_ID: &str = "apps.kruise.io/cloneset-instance-id";
    /// On a v1alpha1 CloneSet, `"true"`: pods in `PreparingDelete` do not count when it scales. In v1beta1 this is
    /// `spec.scaleStrategy.excludePreparingDelete`.
    pub const CLONESET_SCALING_EXCLUDE_PREPARING_DELETE: &str =
        "apps.kruise.io/cloneset-scaling-exclude-preparing-delete";
    /// On pods and revisions: the revision they belong to, as Kubernetes' own workloads write it.
    pub const CONTROLLER_REVISION_HASH: &str = "controller-revision-hash";
    /// On pods of workloads that already use [`CONTROLLER_REVISION_HASH`] for something else. On a subset's workload and its pods:
    /// the name of its owner's revision.
    pub const KRUISE_CONTROLLER_REVISION_HASH: &str = "apps.kruise.io/controller-revision-hash";
    /// On pods of a DaemonSet that was one of Kubernetes' own: the number of its template.
    pub const POD_TEMPLATE_GENERATION: &str = "pod-template-generation";
    /// On pods, for tools that look for Deployment's label: a short form of the revision.
    pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";
    /// On a pod, any value: its workload deletes it next and replaces it.
    pub const SPECIFIED_DELETE: &str = "apps.kruise.io/specified-delete";
    /// On a pod: where it is in its life, one of [`super::lifecycle_state`].
    pub const LIFECYCLE_STATE: &str = "lifecycle.apps.kruise.io/state";
    /// On a pod, any label with this prefix: it counts as unavailable, ready or not.
    pub const UNAVAILABLE_POD_PREFIX: &str = "unavailable-pod.kruise.io/";
    /// On a NodeImage: it lives without a node, and its labels are its own.
    pub const FAKE_NODE_IMAGE: &str = "apps.kruise.io/fake-nodeimage";
    /// On a revision: the images of this revision are being or have been pulled ahead.
    pub const IMAGE_PREDOWNLOAD_CREATED: &str = "apps.kruise.io/pre-predownload-created";
    /// On a revision: no image of this revision is to be pulled ahead.
    pub const IMAGE_PREDOWNLOAD_IGNORED: &str = "apps.kruise.io/image-predownload-ignored";
    /// On the ControllerRevisions of a SidecarSet: its name.
    pub const SIDECARSET_NAME: &str = "kruise.io/sidecarset-name";
    /// On the ControllerRevisions of a SidecarSet, its `spec.customVersion`; on a v1alpha1 SidecarSet, what v1beta1 has in that
    /// field.
    pub const SIDECARSET_CUSTOM_VERSION: &str = "apps.kruise.io/sidecarset-custom-version";
    /// On every namespace, by Kubernetes: its name.
    pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
    /// On a ContainerRecreateRequest: the uid of its pod.
    pub const RECREATE_POD_UID: &str = "crr.apps.kruise.io/pod-uid";
    /// On a ContainerRecreateRequest: the name of its pod's node.
    pub const RECREATE_NODE_NAME: &str = "crr.apps.kruise.io/node-name";
    /// On a ContainerRecreateRequest, `"true"` until it is completed.
    pub const RECREATE_ACTIVE: &str = "crr.apps.kruise.io/active";
    /// On a node that no kubelet of ours runs, and on a ContainerRecreateRequest of one of its pods: see [`VIRTUAL_KUBELET`].
    pub const NODE_TYPE: &str = "type";
    /// The value of [`NODE_TYPE`] of such a node. What it runs is its provider's work.
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
    /// On a pod: what to write when the grace period is over.
    pub const INPLACE_UPDATE_GRACE: &str = "apps.kruise.io/inplace-update-grace";
    /// The name of [`INPLACE_UPDATE_GRACE`] on pods from before OpenKruise 1.0.
    pub const INPLACE_UPDATE_GRACE_OLD: &str = "inplace-update-grace";
    /// On a pod: what its containers were created from, JSON of [`crate::fields::inplace::RuntimeContainerMetaSet`].
    pub const RUNTIME_CONTAINERS_META: &str = "apps.kruise.io/runtime-containers-meta";
    /// On a v1alpha1 CloneSet: how many nodes pull an image ahead at once. In v1beta1 a field of
    /// `inPlaceUpdateStrategy`.
    pub const IMAGE_PREDOWNLOAD_PARALLELISM: &str = "apps.kruise.io/image-predownload-parallelism";
    /// On a v1alpha1 CloneSet: seconds after which pulling an image ahead has failed. In v1beta1 a field of
    /// `inPlaceUpdateStrategy`.
    pub const IMAGE_PREDOWNLOAD_TIMEOUT_SECONDS: &str =
        "apps.kruise.io/image-predownload-timeout-seconds";
    /// On a v1alpha1 CloneSet: how many pods must be updated and ready before images are pulled ahead. In v1beta1 a
    /// field of `inPlaceUpdateStrategy`. On a StatefulSet or a DaemonSet also a percentage.
    pub const IMAGE_PREDOWNLOAD_MIN_UPDATED_READY_PODS: &str =
        "apps.kruise.io/image-predownload-min-updated-ready-pods";
    /// *Berth.* On a CloneSet: how long a pod's in-place update waits for its node to have the new image, at most, such
    /// as `5m`. With it, images are pulled ahead for small and for one-batch rollouts, too.
    pub const INPLACE_UPDATE_WAIT_FOR_IMAGE: &str = "apps.kruise.io/inplace-update-wait-for-image";
    /// *Berth.* On a CloneSet or a DaemonSet, `"true"`: a node that joins pulls the images of its revision, where its pods could
    /// run.
    pub const PREPULL_ON_JOIN: &str = "apps.kruise.io/prepull-on-join";
    /// *Berth.* In a pod template, a time as of RFC 3339: where it is another than a pod's, all containers of the pod are restarted
    /// in place.
    pub const RESTARTED_AT: &str = "apps.kruise.io/restarted-at";
    /// On a revision of a CloneSet: the hash of the claim templates at that time; empty without any.
    pub const VOLUME_CLAIM_TEMPLATE_HASH: &str = "kruise.io/cloneset-volumeclaimtemplate-hash";
    /// *Berth.* On a claim of a CloneSet that does not reuse claims: no pod has had it yet, so that the next one may.
    pub const CLAIM_UNUSED: &str = "apps.kruise.io/berth-claim-unused";
    /// In the sandbox config of a pull: the ImagePullJob that asked for it.
    pub const PULLING_IMAGE_BY: &str = "apps.kruise.io/pulling-image-by";
    /// In a pod template, `Ordered`: the containers start in the order in which they are listed.
    pub const CONTAINER_LAUNCH_PRIORITY: &str = "apps.kruise.io/container-launch-priority";
    /// The only value of [`CONTAINER_LAUNCH_PRIORITY`] that means anything.
    pub const CONTAINER_LAUNCH_ORDERED: &str = "Ordered";
    /// On a pod, `"true"`: all its containers may start.
    pub const CONTAINER_LAUNCH_PRIORITY_COMPLETED: &str =
        "apps.kruise.io/container-launch-priority-completed";
    /// *Berth.* On a pod whose containers start in order: the lowest priority that may start already.
    pub const LAUNCHED_PRIORITY: &str = "apps.kruise.io/berth-launched-priority";
    /// On a StatefulSet, `"true"`: a PersistentPodState of its name is made, changed and deleted with these annotations.
    pub const AUTO_GENERATE_PERSISTENT_POD_STATE: &str =
        "kruise.io/auto-generate-persistent-pod-state";
    /// Beside it: keys of labels of nodes, separated by commas, that a pod's next node must share with its last.
    pub const REQUIRED_PERSISTENT_TOPOLOGY: &str = "kruise.io/required-persistent-topology";
    /// Beside it: those that it should share.
    pub const PREFERRED_PERSISTENT_TOPOLOGY: &str = "kruise.io/preferred-persistent-topology";
    /// Beside it: keys of annotations of pods that are kept.
    pub const PERSISTENT_POD_ANNOTATIONS: &str = "kruise.io/persistent-pod-annotations";
    /// On a v1alpha1 PodUnavailableBudget: from what the pods are protected, such as `DELETE,EVICT`. In v1beta1 this is
    /// `spec.protectOperations`.
    pub const PUB_PROTECT_OPERATIONS: &str = "kruise.io/pub-protect-operations";
    /// On a v1alpha1 PodUnavailableBudget: how many pods are expected. In v1beta1 this is `spec.protectTotalReplicas`.
    pub const PUB_PROTECT_TOTAL_REPLICAS: &str = "pub.kruise.io/protect-total-replicas";
    /// On a pod, `"true"`: no PodUnavailableBudget protects it.
    pub const PUB_NO_PROTECT: &str = "pub.kruise.io/no-protect";
    /// *Berth.* On a CloneSet or Deployment, `"true"`: a pod that no budget lets be evicted is replaced first, and goes then.
    pub const SURGE_ON_EVICTION: &str = "apps.kruise.io/surge-on-eviction";
    /// *Berth.* On a PodUnavailableBudget, `"true"`: it keeps a PodDisruptionBudget of its name for those who read no other.
    pub const MIRROR_PDB: &str = "policy.kruise.io/mirror-pdb";
    /// *Berth.* On a pod that a DistributedPodDisruptionBudget holds, any annotation with this prefix: it must stay. The value says why.
    pub const HOLD_PREFIX: &str = "hold.policy.kruise.io/";
    /// On a pod: the PersistentPodState that says where it runs.
    pub const INJECTED_PERSISTENT_POD_STATE: &str = "kruise.io/injected-persistent-pod-state";
    /// *Berth.* On a PersistentPodState: pods whose records are dropped, separated by commas, or `*`.
    pub const FORGET_POD_STATES: &str = "kruise.io/forget-pod-states";
    /// On a pod, JSON by name of a SidecarSet: which containers of it the pod has, and in which revision. On a SidecarSet the hash
    /// alone.
    pub const SIDECARSET_HASH: &str = "kruise.io/sidecarset-hash";
    /// The same, with a hash that leaves the images out.
    pub const SIDECARSET_HASH_WITHOUT_IMAGE: &str = "kruise.io/sidecarset-hash-without-image";
    /// On a pod: the SidecarSets that it has containers of, sorted, separated by commas.
    pub const SIDECARSET_INJECTED_LIST: &str = "kruise.io/sidecarset-injected-list";
    /// *Berth.* On a pod, JSON by name of a SidecarSet: why it did not get the containers when it was created.
    pub const SIDECARSET_REFUSED: &str = "kruise.io/sidecarset-refused";
    /// *Berth.* On a pod, JSON by name of a SidecarSet: which containers of the pod its own replaced when the pod was created.
    pub const SIDECARSET_REPLACED: &str = "kruise.io/sidecarset-replaced";
    /// On a pod, JSON by name of a SidecarSet: the last update of its containers in place.
    pub const SIDECARSET_INPLACE_UPDATE_STATE: &str = "kruise.io/sidecarset-inplace-update-state";
    /// On a pod, JSON by name of a sidecar with HotUpgrade: which of its two containers works.
    pub const SIDECARSET_WORKING_HOT_UPGRADE_CONTAINER: &str =
        "kruise.io/sidecarset-working-hotupgrade-container";
    /// On a pod, with the name of a container behind it: the version of this one of the two containers of a sidecar with HotUpgrade.
    pub const SIDECARSET_VERSION_PREFIX: &str = "version.sidecarset.kruise.io/";
    /// On a pod, with the name of a container behind it: the version of the other of the two.
    pub const SIDECARSET_VERSION_ALT_PREFIX: &str = "versionalt.sidecarset.kruise.io/";
    /// On a SidecarSet, `"true"`: pods that it matches do not get the containers of its base.
    pub const SIDECARSET_CANARY: &str = "apps.kruise.io/sidecarset-canary";
    /// Beside it: the name of its base, another SidecarSet.
    pub const SIDECARSET_BASE: &str = "apps.kruise.io/sidecarset-base";
    /// Kubernetes' own, on what a kubelet shows of a pod that it has from a file: no write to it changes that pod.
    pub const MIRROR_POD: &str = "kubernetes.io/config.mirror";
    /// *Berth.* On a SidecarSet, `Fail`: a pod that cannot get the containers is not created. `Ignore`, as without it: it is
    /// created without them.
    pub const SIDECARSET_FAILURE_POLICY: &str = "apps.kruise.io/sidecarset-failure-policy";
    /// *Berth.* On a SidecarSet: which pods without the containers are replaced: `None`, `Missed` (created while it was in force)
    /// or `All`.
    pub const SIDECARSET_REPAIR: &str = "apps.kruise.io/sidecarset-repair";
    /// On a v1alpha1 DaemonSet, `"true"`: pods are created as `partition` says. In v1beta1 this is
    /// `spec.scaleStrategy.partitionedScaling`.
    pub const DAEMONSET_PROGRESSIVE_CREATE_POD: &str = "daemonset.kruise.io/progressive-create-pod";
    /// *Berth.* On a DaemonSet, `"true"`: desired nodes that are not Ready do not count against the limits of a rollout.
    pub const DAEMONSET_IGNORE_NOT_READY: &str = "daemonset.kruise.io/ignore-not-ready";
    /// *Berth.* On a DaemonSet, `"true"`: no pod is created on a cordoned node.
    pub const DAEMONSET_IGNORE_UNSCHEDULABLE: &str = "daemonset.kruise.io/ignore-unschedulable";
    /// *Berth.* On a DaemonSet, `"true"`: a pod made anew where a partition or selector leaves its node out gets the old revision.
    pub const DAEMONSET_HOLD_REVISION: &str = "apps.kruise.io/daemonset-hold-revision";
    /// *Berth.* On a DaemonSet: the key of a label of nodes, such as `topology.kubernetes.io/zone`. Nodes of one value are updated
    /// before those of the next.
    pub const UPDATE_TOPOLOGY_KEY: &str = "apps.kruise.io/update-topology-key";
    /// On a DaemonSet that was one of Kubernetes' own: its pods with this number in their label are current.
    pub const DAEMONSET_TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
    /// On a v1alpha1 ContainerRecreateRequest: what v1beta1 has in `status.containerStatusSnapshot`.
    pub const RECREATE_CONTAINER_STATUSES: &str = "crr.apps.kruise.io/sync-container-statuses";
    /// On a v1alpha1 ContainerRecreateRequest: the time of v1beta1's condition [`super::condition::PRE_RECREATE_GRACE`].
    pub const RECREATE_UNREADY_ACQUIRED: &str = "crr.apps.kruise.io/unready-acquired";
    /// On a subset's workload: the subset's patch as JSON; empty without any.
    pub const SUBSET_PATCH: &str = "apps.kruise.io/subset-patch";
    /// *Berth.* On an object that was converted: what the version it is in cannot express. Removed on the way back.
    pub const CONVERSION: &str = "apps.kruise.io/berth-conversion";
    /// Berth: on the controller's lease, what a leader that gave it back had seen and written, for the next one.
    pub const HANDOVER: &str = "apps.kruise.io/berth-handover";
}

/// Taints of nodes.
pub mod taint {
    /// *Berth.* On a node that registers: no pod is to be scheduled there before its images are. The controller takes it away.
    pub const IMAGES_NOT_READY: &str = "apps.kruise.io/images-not-ready";
    /// The same, as the cluster autoscaler knows that it goes by itself.
    pub const IMAGES_NOT_READY_AT_STARTUP: &str =
        "startup-taint.cluster-autoscaler.kubernetes.io/images-not-ready";
}

/// Finalizers.
pub mod finalizer {
    /// On an ImagePullJob: its entries in NodeImages are cleaned up before it goes.
    pub const PROTECTION: &str = "apps.kruise.io/deletion-protection";
    /// On a DistributedPodDisruptionBudget: its floor may be counted on in other clusters, and binds until that is over.
    pub const BUDGET_FLOOR: &str = "policy.kruise.io/floor";
    /// On a ContainerRecreateRequest: its pod is out of service for it, and is let go before the request goes.
    pub const RECREATE_UNREADY_ACQUIRED: &str = "crr.apps.kruise.io/unready-acquired";
}

/// Condition types, and the readiness gates of the same names.
pub mod condition {
    /// On pods, a readiness gate: False while the pod is updated in place.
    pub const INPLACE_UPDATE_READY: &str = "InPlaceUpdateReady";
    /// On pods, a readiness gate with several writers: False while any of them wants the pod out of service.
    pub const KRUISE_POD_READY: &str = "KruisePodReady";
    /// On CloneSets: pods or claims could not be created or deleted.
    pub const FAILED_SCALE: &str = "FailedScale";
    /// On StatefulSets: pods or claims could not be created.
    pub const FAILED_CREATE_POD: &str = "FailedCreatePod";
    /// On StatefulSets: pods or claims could not be changed or deleted.
    pub const FAILED_UPDATE_POD: &str = "FailedUpdatePod";
    /// On CloneSets: pods could not be updated.
    pub const FAILED_UPDATE: &str = "FailedUpdate";
    /// On CloneSets with a progress deadline: whether the rollout gets on.
    pub const PROGRESSING: &str = "Progressing";
    /// *Berth.* On CloneSets, StatefulSets and SidecarSets, True as long as something holds them back that does not pass by itself; its message names
    /// the pod or field, why, and the remedy. Absent otherwise.
    pub const BLOCKED: &str = "Blocked";
    /// *Berth.* On PodUnavailableBudgets: whether the apiserver asks before pods are taken out of service.
    pub const ENFORCED: &str = "Enforced";
    /// *Berth.* On PodUnavailableBudgets, False where no workload says how many pods are expected and a number says how many must
    /// stay: then the pods that there are count as expected. Absent otherwise.
    pub const TOTAL_KNOWN: &str = "TotalKnown";
    /// *Berth.* On DistributedPodDisruptionBudgets: whether one of its own pods may be taken out of service.
    pub const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
    /// *Berth.* On DistributedPodDisruptionBudgets that name others: whether it is known what those have.
    pub const FEDERATED: &str = "Federated";
    /// *Berth.* On budgets that keep a PodDisruptionBudget: whether they do.
    pub const CHILD_PDB: &str = "ChildPDB";
    /// On pods: whether the latest containers of its SidecarSets differ from the pod's in images alone. The message has it by name of
    /// the SidecarSet.
    pub const SIDECARSET_UPGRADABLE: &str = "SidecarSetUpgradable";
    /// *Berth.* On SidecarSets: whether the apiserver asks for the pods that are created.
    pub const INJECTION_READY: &str = "InjectionReady";
    /// *Berth.* On SidecarSets whose annotation asks for it: whether a pod without the containers is being replaced.
    pub const REPAIRING: &str = "Repairing";
    /// On ContainerRecreateRequests, True with the time since which the pod is out of service for it.
    pub const PRE_RECREATE_GRACE: &str = "PreRecreateGrace";
    /// *Berth.* On ContainerRecreateRequests, True with the time since which a container is seen to be ready whose node's daemon has yet to say
    /// that it has run for `minStartedSeconds`. Only where that takes long.
    pub const MIN_STARTED_PENDING: &str = "MinStartedPending";
    /// *Berth.* On completed ContainerRecreateRequests, True where `activeDeadlineSeconds` left containers as they were; its message
    /// names them.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// On pods: SidecarTerminator has ended its sidecars.
    pub const SIDECAR_TERMINATED: &str = "SidecarTerminated";
    /// *Berth.* On NodeImages: whether the node's daemon can talk to the node's container runtime.
    pub const RUNTIME_READY: &str = "RuntimeReady";
}

/// Reasons of conditions, of `Progressing` where nothing else is said.
pub mod reason {
    /// Nothing moved for longer than `spec.progressDeadlineSeconds`.
    pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
    /// The rollout is paused.
    pub const PAUSED: &str = "CloneSetPaused";
    /// Pods are being updated.
    pub const UPDATED: &str = "CloneSetUpdated";
    /// All that the partition allows is updated and available.
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
    /// Never.
    pub const ALWAYS: &str = "Always";
    /// Not while it owns anything that runs.
    pub const CASCADING: &str = "Cascading";
}

/// Environment variables.
pub mod env {
    /// In a container: its place in the launch order.
    pub const CONTAINER_PRIORITY: &str = "KRUISE_CONTAINER_PRIORITY";
    /// In a container of a pod with a launch order: the key that it waits for.
    pub const CONTAINER_BARRIER: &str = "KRUISE_CONTAINER_BARRIER";
    /// In a container, `"true"`: it came from a SidecarSet.
    pub const IS_INJECTED: &str = "IS_INJECTED";
    /// In a container with HotUpgrade: its version, from an annotation of the pod. The greater of the two works.
    pub const SIDECARSET_VERSION: &str = "SIDECARSET_VERSION";
    /// In a container with HotUpgrade: the version of the other.
    pub const SIDECARSET_VERSION_ALT: &str = "SIDECARSET_VERSION_ALT";
}
