//! Size limits of a cached pod and of any object's metadata. Every replica caches all pods of the
//! cluster, and Kubernetes limits neither an image nor an owner's kind.

use berth_api::weight::Limits;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::{Condition, Container, ContainerStatus, Metadata, Owner, Pod};

/// The most bytes of an image reference. Registries accept names of at most 255 bytes, and a digest
/// has 71.
const IMAGE: usize = 1 << 10;
/// The most bytes that the cache keeps of an object's metadata.
const KEPT: usize = 64 << 10;
/// The most bytes of an error message about an unreadable pod.
const ERROR: usize = 1 << 10;
/// The kept parts of metadata, and the remedy if they are too large.
const METADATA: &str = "metadata: labels, annotations of kruise.io, owners and finalizers";
const REMEDY: &str = "remove those that no program reads";
/// The memory of a list's entry in addition to its texts, in bytes.
const ENTRY: usize = 32;

impl Owner {
    /// Whether an object of this kind and name can exist.
    ///
    /// # Errors
    /// The field, its length, the limit and the remedy.
    pub fn check(&self) -> Result<(), String> {
        let Self {
            api_version,
            kind,
            name,
            uid,
            ..
        } = self;
        let fields: [(&str, &str, usize); 4] = [
            ("apiVersion", api_version, 317),
            ("kind", kind, 63),
            ("name", name, 253),
            ("uid", uid, 128),
        ];
        fields.into_iter().try_for_each(|(field, text, most)| {
            within(field, text, most, "name an owner that exists")
        })
    }
}

fn within(field: &str, text: &str, most: usize, remedy: &str) -> Result<(), String> {
    match text.len() {
        length if length > most => Err(format!(
            "{field}: has {length} bytes, and {most} are the limit: {remedy}"
        )),
        _ => Ok(()),
    }
}

fn kept(what: &str, bytes: usize, remedy: &str) -> Result<(), String> {
    match bytes {
        bytes if bytes > KEPT => Err(format!(
            "{what}: have {bytes} bytes, and {KEPT} are the limit: {remedy}"
        )),
        _ => Ok(()),
    }
}

/// The memory of texts, in bytes.
fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> usize {
    texts.into_iter().map(|text| text.len() + ENTRY).sum()
}

/// Reduces an object's metadata to what decisions read: managed fields and the annotations that
/// pods lose, too, are removed.
///
/// # Errors
/// The remaining metadata is too large.
pub fn slim(metadata: &mut ObjectMeta) -> Result<(), String> {
    metadata.managed_fields = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.retain(|key, _| Metadata::keeps_annotation(key));
    }
    let maps = [&metadata.labels, &metadata.annotations]
        .into_iter()
        .flatten()
        .flatten();
    let maps = maps.flat_map(|(key, value)| [&**key, &**value]);
    let owners = metadata.owner_references.iter().flatten();
    let owners =
        owners.flat_map(|owner| [&*owner.api_version, &*owner.kind, &*owner.name, &*owner.uid]);
    let finalizers = metadata.finalizers.iter().flatten().map(|text| &**text);
    kept(
        METADATA,
        texts(maps.chain(owners).chain(finalizers)),
        REMEDY,
    )
}

impl Metadata {
    fn check(&self) -> Result<(), String> {
        for (at, owner) in self.owner_references.iter().enumerate() {
            owner
                .check()
                .map_err(|why| format!("metadata.ownerReferences[{at}].{why}"))?;
        }
        kept(METADATA, self.bytes(), REMEDY)
    }

    fn bytes(&self) -> usize {
        let labels = self
            .labels
            .iter()
            .flat_map(|(key, value)| [&**key, &**value]);
        let annotations = self
            .annotations
            .iter()
            .flat_map(|(key, value)| [&**key, &**value]);
        let owners = self.owner_references.iter();
        let owners =
            owners.flat_map(|owner| [&*owner.api_version, &*owner.kind, &*owner.name, &*owner.uid]);
        texts(
            labels
                .chain(annotations)
                .chain(owners)
                .chain(self.finalizers.iter().map(|text| &**text)),
        )
    }
}

impl Pod {
    /// Reads a pod from JSON text, and checks its size first.
    ///
    /// # Errors
    /// The text is too large or no valid pod.
    pub fn read(text: &str) -> Result<Self, String> {
        Limits::check_pod(text)?;
        serde_json::from_str(text).map_err(|error| {
            // The error may quote a value of the pod.
            let mut error = error.to_string();
            error.truncate(error.floor_char_boundary(ERROR));
            error
        })
    }

    fn check(&self) -> Result<(), String> {
        for Container { name, image, .. } in self.containers() {
            within("image", image, IMAGE, "name an image that can be pulled")
                .map_err(|why| format!("spec.containers[{name}].{why}"))?;
        }
        let remedy = "give the pod fewer containers, volumes, gates and labels";
        kept(
            "containers, volumes, gates and conditions with the metadata",
            self.bytes(),
            remedy,
        )
    }

    fn bytes(&self) -> usize {
        let (spec, status) = (&self.spec, &self.status);
        let gates = texts(
            spec.readiness_gates
                .iter()
                .map(|gate| &*gate.condition_type),
        );
        let claims = texts(spec.claim_volumes.iter().map(|name| &**name));
        let containers: usize = self.containers().map(Container::bytes).sum();
        let conditions: usize = status.conditions.iter().map(Condition::bytes).sum();
        let statuses = status
            .container_statuses
            .iter()
            .chain(&status.init_container_statuses);
        let statuses: usize = statuses.map(ContainerStatus::bytes).sum();
        let own = texts([
            &*spec.node_name,
            &*status.phase,
            &*status.reason,
            &*status.message,
        ]);
        self.metadata.bytes() + gates + claims + containers + conditions + statuses + own
    }
}

impl Container {
    fn bytes(&self) -> usize {
        size_of::<Self>() + texts([&*self.name, &*self.image])
    }
}

impl Condition {
    fn bytes(&self) -> usize {
        size_of::<Self>() + texts([&*self.type_, &*self.status, &*self.reason, &*self.message])
    }
}

impl ContainerStatus {
    fn bytes(&self) -> usize {
        let states = [&self.state, &self.last_state].into_iter();
        let waiting = states.clone().filter_map(|state| state.waiting.as_deref());
        let waiting = waiting.flat_map(|waiting| [&*waiting.reason, &*waiting.message]);
        let ended = states.filter_map(|state| state.terminated.as_deref());
        let ended = ended.flat_map(|ended| [&*ended.reason, &*ended.message]);
        let own = [
            &*self.name,
            &*self.image,
            &*self.image_id,
            &*self.container_id,
        ];
        size_of::<Self>() + texts(own.into_iter().chain(waiting).chain(ended))
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = Self::deserialize(deserializer)?;
        read.check().map_err(D::Error::custom)?;
        Ok(read)
    }
}

impl<'de> Deserialize<'de> for Pod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = Self::deserialize(deserializer)?;
        read.check().map_err(D::Error::custom)?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
