//! Bounds of what is kept of a pod, and of the metadata of any object: every replica holds all pods of the cluster, and Kubernetes
//! bounds neither an image nor an owner's kind.

use berth_api::weight::Limits;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::{Condition, Container, ContainerStatus, Metadata, Owner, Pod};

/// The most bytes of an image reference. Registries take no longer name than 255, and a digest has 71.
const IMAGE: usize = 1 << 10;
/// The most bytes that are kept of an object.
const KEPT: usize = 64 << 10;
/// The most bytes that are told of why a pod cannot be read.
const ERROR: usize = 1 << 10;
/// What is kept of metadata, and what helps where that is too much.
const METADATA: &str = "metadata: labels, annotations of kruise.io, owners and finalizers";
const REMEDY: &str = "remove those that no program reads";
/// What an entry of a list takes beside its texts, in bytes.
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

/// What texts take.
fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> usize {
    texts.into_iter().map(|text| text.len() + ENTRY).sum()
}

/// Leaves of the metadata of an object of ours what decisions read: managed fields go, and annotations as those of pods do.
///
/// # Errors
/// What is left goes beyond the bound.
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
    /// Reads a pod's text, which is weighed before.
    ///
    /// # Errors
    /// It is beyond a limit or a bound, or is no pod.
    pub fn read(text: &str) -> Result<Self, String> {
        Limits::check_pod(text)?;
        serde_json::from_str(text).map_err(|error| {
            // It may quote a value of the pod.
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
mod tests {
    use jiff::Timestamp;

    use serde_json::{Value, json};

    use super::*;

    fn pod(metadata: &Value, spec: &Value, status: &Value) -> Result<Pod, String> {
        let pod = json!({"metadata": metadata, "spec": spec, "status": status});
        serde_json::from_value(pod).map_err(|error| error.to_string())
    }

    #[test]
    fn pod_within_bounds_is_read() {
        let containers: Vec<_> = (0..64)
            .map(
                |at| json!({"name": format!("c{at}"), "image": "r".repeat(200), "resources": {"limits": {"cpu": "1"}}}),
            )
            .collect();
        let annotations =
            json!({"apps.kruise.io/a": "x".repeat(16 << 10), "other.io/b": "x".repeat(200 << 10)});
        let statuses: Vec<_> = (0..64)
            .map(|at| json!({"name": format!("c{at}"), "imageID": "i".repeat(200)}))
            .collect();
        let read = pod(
            &json!({"name": "a", "annotations": annotations}),
            &json!({"containers": containers}),
            &json!({"containerStatuses": statuses}),
        );
        assert_eq!(read.map(|pod| pod.spec.containers.len()), Ok(64));
    }

    #[test]
    fn pod_of_a_time_that_no_type_reads_is_read() {
        for (time, expected) in [
            (
                "2026-01-02T03:04:05Z",
                "2026-01-02T03:04:05Z".parse().unwrap(),
            ),
            ("9999-12-31T23:59:59Z", Timestamp::MAX),
            ("10000-01-01T00:00:00Z", Timestamp::MAX),
        ] {
            let conditions =
                json!([{"type": "Ready", "status": "True", "lastTransitionTime": time}]);
            let status = json!({"startTime": time, "conditions": conditions});
            let pod = pod(&json!({"name": "a"}), &json!({}), &status).unwrap();
            let times = (
                pod.status.start_time,
                pod.condition("Ready").unwrap().last_transition_time,
            );
            assert_eq!(times, (Some(expected), Some(expected)), "{time}");
        }
    }

    #[test]
    fn slim_metadata_keeps_what_is_read_and_is_bounded() {
        let many = |domain: &str| {
            (0..2_000)
                .map(|at| (format!("{domain}/a{at}"), json!("")))
                .collect::<Value>()
        };
        let slimmed = |field: &str, value: Value| {
            let mut metadata: ObjectMeta = serde_json::from_value(json!({field: value})).unwrap();
            let kept =
                slim(&mut metadata).map(|()| metadata.annotations.map_or(0, |all| all.len()));
            (
                kept,
                metadata.labels.map_or(0, |all| all.len()),
                metadata.managed_fields.is_some(),
            )
        };
        let long = "x".repeat(250_000);
        let mixed = json!({
            "apps.kruise.io/wait-after-node": "1s", "deprecated.daemonset.template.generation": "2", "other.io/a": long,
            "apps.kruise.io/berth-conversion": long,
        });
        assert_eq!(slimmed("annotations", mixed), (Ok(2), 0, false));
        assert_eq!(slimmed("annotations", many("other.io")), (Ok(0), 0, false));
        assert_eq!(slimmed("labels", json!({"app": "web"})), (Ok(0), 1, false));
        assert_eq!(
            slimmed(
                "managedFields",
                json!([{"manager": "m", "fieldsV1": {"f:spec": {}}}])
            ),
            (Ok(0), 0, false)
        );
        for (field, value) in [
            ("labels", many("other.io")),
            ("annotations", many("kruise.io")),
        ] {
            let why = slimmed(field, value).0.unwrap_err();
            assert!(
                why.starts_with("metadata: labels, annotations of kruise.io")
                    && why.contains("65536"),
                "{why}"
            );
        }
    }

    #[test]
    fn pod_beyond_a_bound_names_the_field_and_the_limit() {
        let long = "x".repeat(100_000);
        let many = |of: Value| vec![of; 30_000];
        let none = json!({});
        let owner = |field: &str| json!({"ownerReferences": [{field: long}]});
        let kruise = json!({"annotations": {"apps.kruise.io/a": long}});
        let table = [
            (
                owner("kind"),
                none.clone(),
                none.clone(),
                "metadata.ownerReferences[0].kind: has 100000 bytes, and 63",
            ),
            (
                owner("uid"),
                none.clone(),
                none.clone(),
                "metadata.ownerReferences[0].uid: has 100000 bytes, and 128",
            ),
            (
                kruise,
                none.clone(),
                none.clone(),
                "metadata: labels, annotations of kruise.io",
            ),
            (
                json!({"finalizers": many(json!("a/b"))}),
                none.clone(),
                none.clone(),
                "metadata: labels",
            ),
            (
                none.clone(),
                json!({"containers": many(none.clone())}),
                none.clone(),
                "containers, volumes, gates",
            ),
            (
                none.clone(),
                json!({"initContainers": [{"name": "i", "restartPolicy": "Always", "image": long}]}),
                none.clone(),
                "spec.containers[i].image: has 100000 bytes, and 1024",
            ),
            (
                none.clone(),
                json!({"readinessGates": many(json!({"conditionType": "a"}))}),
                none.clone(),
                "containers, volumes",
            ),
            (
                none.clone(),
                none.clone(),
                json!({"conditions": [{"message": long}]}),
                "containers, volumes, gates",
            ),
            (
                none.clone(),
                none.clone(),
                json!({"containerStatuses": [{"state": {"waiting": {"message": long}}}]}),
                "containers",
            ),
            (
                none.clone(),
                none,
                json!({"message": long}),
                "containers, volumes",
            ),
        ];
        for (metadata, spec, status, says) in table {
            let refused = pod(&metadata, &spec, &status).unwrap_err();
            assert!(
                refused.starts_with(says) && refused.contains(" are the limit: "),
                "{refused}"
            );
        }
    }
}
