//! The changes of a pod in place.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Changes of a pod's metadata and images. `None` removes a key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PodPatch {
    /// Labels.
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations.
    pub annotations: BTreeMap<String, Option<String>>,
    /// Finalizers to add. The pod's other finalizers stay.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// Images by container name. Empty in a status patch.
    pub images: BTreeMap<String, String>,
    /// Images of native sidecars by name, which are in the list of init containers. Empty in a
    /// status patch.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub native_images: BTreeMap<String, String>,
    /// Resources by container name, for a change from one template to another.
    /// [`crate::plan::Action::ResizePod`] writes them, so that this is empty in a patch that is
    /// sent.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: Resizes,
    /// The variables that read these labels and annotations. They are not written to the pod, but
    /// must be proven after the patch.
    pub env: Env,
    /// The containers that restart because the template says so. They are not written to the pod
    /// either.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub restarted: BTreeSet<String>,
}

impl PodPatch {
    /// Whether a container restarts for the patch.
    pub fn restarts(&self) -> bool {
        let resizes = self.resources.values().any(|resize| resize.restarts);
        resizes || self.changes_images() || self.env.changes() || !self.restarted.is_empty()
    }

    /// All images by container name, of both lists of containers.
    pub fn all_images(&self) -> impl Iterator<Item = (&String, &String)> {
        self.images.iter().chain(&self.native_images)
    }

    /// Whether a container gets another image.
    pub fn changes_images(&self) -> bool {
        self.all_images().next().is_some()
    }

    /// The images by their list in a pod's spec; lists without images are left out.
    pub fn images_by_list(
        &self,
    ) -> impl Iterator<Item = (&'static str, &BTreeMap<String, String>)> {
        let lists = [
            ("containers", &self.images),
            ("initContainers", &self.native_images),
        ];
        lists.into_iter().filter(|(_, images)| !images.is_empty())
    }
}

/// Variables that read labels and annotations: by container and variable the hash of the new value,
/// or an empty string if the patch leaves the value as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Env(pub(crate) BTreeMap<String, BTreeMap<String, String>>);

impl Env {
    /// Whether there are no variables.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether any value changes.
    pub fn changes(&self) -> bool {
        self.containers().next().is_some()
    }

    /// The containers that must be created anew, or be proven to have the values already.
    pub fn containers(&self) -> impl Iterator<Item = &String> {
        self.0
            .iter()
            .filter(|(_, values)| values.values().any(|hash| !hash.is_empty()))
            .map(|(name, _)| name)
    }

    /// The variables of these containers only.
    pub(crate) fn of(&self, containers: &BTreeSet<String>) -> Self {
        let of = self.0.iter().filter(|(name, _)| containers.contains(*name));
        Self(
            of.map(|(name, values)| (name.clone(), values.clone()))
                .collect(),
        )
    }

    /// The same variables, where those of these containers keep their values.
    pub(crate) fn without(mut self, containers: &BTreeSet<String>) -> Self {
        let of = self
            .0
            .iter_mut()
            .filter(|(name, _)| containers.contains(*name));
        of.flat_map(|(_, values)| values.values_mut())
            .for_each(String::clear);
        self
    }

    /// The variables of two changes. Where both change a value, the later change prevails.
    pub(crate) fn overlaid(mut self, later: &Self) -> Self {
        for (container, values) in &later.0 {
            let known = self.0.entry(container.clone()).or_default();
            for (variable, hash) in values {
                let entry = known.entry(variable.clone()).or_default();
                if !hash.is_empty() {
                    entry.clone_from(hash);
                }
            }
        }
        self
    }
}

/// The resources to write, by container name.
pub type Resizes = BTreeMap<String, Resize>;

/// The fields of a container's resources.
pub(crate) const KINDS: [&str; 2] = ["limits", "requests"];

/// Resources of one container, as the template writes them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Resize {
    /// Requests of cpu and memory.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, String>,
    /// Limits of cpu and memory.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, String>,
    /// The container's `resizePolicy` restarts it for this.
    #[serde(skip)]
    pub restarts: bool,
    /// The container is a sidecar among the init containers.
    #[serde(skip)]
    pub sidecar: bool,
}

impl Resize {
    /// The list of a pod's spec that the container is in.
    pub fn list(&self) -> &'static str {
        if self.sidecar {
            "initContainers"
        } else {
            "containers"
        }
    }

    /// The limits or the requests; `kind` is one of [`KINDS`].
    pub(crate) fn of_kind(&mut self, kind: &str) -> &mut BTreeMap<String, String> {
        if kind == "limits" {
            &mut self.limits
        } else {
            &mut self.requests
        }
    }

    /// Every amount as `kind`, `resource` and quantity.
    pub(crate) fn amounts(&self) -> impl Iterator<Item = (&'static str, &str, &str)> {
        let limits = self
            .limits
            .iter()
            .map(|(resource, quantity)| (KINDS[0], &**resource, &**quantity));
        limits.chain(
            self.requests
                .iter()
                .map(|(resource, quantity)| (KINDS[1], &**resource, &**quantity)),
        )
    }
}
