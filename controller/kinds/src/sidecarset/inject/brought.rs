//! The parts that SidecarSets add to a pod, before they are written into it.

use std::collections::BTreeMap;

use berth_api::v1beta1::sidecarset::{PodInjectPolicy, SidecarContainer, SidecarSetSpec};
use serde_json::Value;

use super::super::names::{
    HASH, HASH_WITHOUT_IMAGE, INJECTED_LIST, REPLACED, VERSION_ALT_PREFIX, VERSION_PREFIX,
    WORKING_HOT_CONTAINER,
};
use super::super::records::{self, Record};
use super::super::sidecar::{self, List};
use super::container;
use super::own::{self, Own};
use super::replaced::{self, Replaced};
use super::request::{Matched, Reason};

/// The parts that SidecarSets add.
#[derive(Default)]
pub(super) struct Brought {
    pub(super) containers: Vec<Container>,
    pub(super) volumes: Vec<Value>,
    pub(super) pull_secrets: Vec<String>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) warnings: Vec<String>,
    /// The pod's own containers that are replaced.
    replaced: Replaced,
    /// By the containers' names in the pod: the SidecarSet that adds them.
    names: BTreeMap<String, String>,
}

/// A container.
pub(super) struct Container {
    /// The list of the pod that it belongs to.
    pub(super) list: List,
    /// Whether it comes before the pod's own containers.
    pub(super) before: bool,
    /// Its present index in the list.
    pub(super) at: Option<usize>,
    pub(super) name: String,
    pub(super) container: Value,
}

impl Brought {
    /// Adds the parts of one SidecarSet. All of them are made anew, because the pod's creator may
    /// have written every value in the pod about the SidecarSet.
    ///
    /// # Errors
    /// The reason why the pod cannot have the SidecarSet.
    pub(super) fn add(
        &mut self,
        set: &Matched<'_>,
        pod: &Value,
        own: &Own<'_>,
        now: &str,
    ) -> Result<(), Reason> {
        let mut any = false;
        for (sidecar, in_list) in sidecar::all(set.spec) {
            any = true;
            self.add_sidecar(set, (sidecar, in_list), pod, own)?;
        }
        if !any {
            return Ok(());
        }
        self.pull_secrets.extend(
            set.spec
                .image_pull_secrets
                .iter()
                .map(|secret| secret.name.clone()),
        );
        let names = records::list(self.annotation(pod, INJECTED_LIST).as_deref(), [set.name]);
        self.annotations.insert(INJECTED_LIST.to_owned(), names);
        self.record(set, (HASH, &set.hashes.hash, set.revision), pod, now);
        self.record(
            set,
            (HASH_WITHOUT_IMAGE, &set.hashes.without_image, ""),
            pod,
            now,
        );
        Ok(())
    }

    /// Writes the record of the containers into an annotation. An equal record keeps its time.
    fn record(
        &mut self,
        set: &Matched<'_>,
        (key, hash, revision): (&str, &str, &str),
        pod: &Value,
        now: &str,
    ) {
        let old = self.annotation(pod, key);
        let mut record = Record::new(
            set.name,
            (hash, revision),
            &sidecar::lasting_names(set.spec),
            now,
        );
        if let Some(known) = records::read(old.as_deref()).remove(set.name) {
            let time = known.update_timestamp.clone();
            let at_that_time = Record {
                update_timestamp: time,
                ..record.clone()
            };
            record = if known == at_that_time { known } else { record };
        }
        self.annotations
            .insert(key.to_owned(), records::noted(old.as_deref(), record).0);
    }

    /// An annotation with the changes of the SidecarSets before.
    fn annotation(&self, pod: &Value, key: &str) -> Option<String> {
        let old = pod["metadata"]["annotations"][key].as_str();
        self.annotations
            .get(key)
            .map(String::as_str)
            .or(old)
            .map(str::to_owned)
    }

    /// Adds one container, or a pair. A container of the pod with the same name is replaced.
    fn add_sidecar(
        &mut self,
        set: &Matched<'_>,
        (sidecar, list): (&SidecarContainer, List),
        pod: &Value,
        own: &Own<'_>,
    ) -> Result<(), Reason> {
        let is_hot = sidecar::is_hot(sidecar, list);
        let before = sidecar::place(sidecar, list) == PodInjectPolicy::BeforeAppContainer;
        // The first container of a pair works.
        let images = [
            None,
            Some(sidecar.upgrade_strategy.hot_upgrade_empty_image.as_str()),
        ];
        for (name, image) in sidecar::names_in_pod(sidecar, list).into_iter().zip(images) {
            self.take_name(set, &name, list, pod)?;
            let (container, without_result) = container::made(sidecar, (&name, image), is_hot, own);
            let set = set.name;
            if let Some(why) = without_result {
                self.warnings.push(format!(
                    "container {name:?} of SidecarSet {set:?} has the resources that are written there: resourcesPolicy: {why}"
                ));
            }
            let at = position(pod, list, &name);
            if let Some(found) = at.map(|at| &pod["spec"][list.name()][at]) {
                let is_own = !own::is_injected(found);
                if is_own || found["image"] != container["image"] {
                    self.warnings.push(format!(
                        "container {name:?} of the pod is replaced by that of SidecarSet {set:?}"
                    ));
                }
                if is_own {
                    self.replaced
                        .entry(set.to_owned())
                        .or_default()
                        .insert(name.clone());
                }
            }
            self.containers.push(Container {
                list,
                before,
                at,
                name,
                container,
            });
        }
        if is_hot {
            self.begin_pair(sidecar::name(sidecar), pod);
        }
        Ok(())
    }

    /// Records on the pod which of its own containers these SidecarSets have replaced.
    pub(super) fn note_replaced<'a>(&mut self, pod: &Value, sets: impl Iterator<Item = &'a str>) {
        let text = pod["metadata"]["annotations"][REPLACED].as_str();
        let noted = replaced::noted(text, sets, std::mem::take(&mut self.replaced));
        self.annotations
            .extend(noted.map(|text| (REPLACED.to_owned(), text)));
    }

    /// Reserves a container name, because no two containers of a pod may have the same name.
    fn take_name(
        &mut self,
        set: &Matched<'_>,
        name: &str,
        list: List,
        pod: &Value,
    ) -> Result<(), Reason> {
        if let Some(other) = self.names.insert(name.to_owned(), set.name.to_owned()) {
            return Err(Reason::of_set(format!(
                "container {name:?}: SidecarSet {other:?} brings one of that name; rename it"
            )));
        }
        match List::ALL
            .into_iter()
            .find(|other| *other != list && position(pod, *other, name).is_some())
        {
            Some(other) => {
                let other = other.name();
                Err(Reason::of_pod(format!(
                    "container {name:?}: the pod has one of that name in spec.{other}; rename it"
                )))
            }
            None => Ok(()),
        }
    }

    /// The annotations of a new pair: the first works, the second is empty.
    fn begin_pair(&mut self, name: &str, pod: &Value) {
        let working = self.annotation(pod, WORKING_HOT_CONTAINER);
        let mut working: BTreeMap<String, String> = working
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default();
        let [first, second] = sidecar::hot_pair(name);
        working.insert(name.to_owned(), first.clone());
        let working = serde_json::to_string(&working).unwrap_or_default();
        self.annotations
            .insert(WORKING_HOT_CONTAINER.to_owned(), working);
        for (name, version, other) in [(first, "1", "0"), (second, "0", "1")] {
            self.annotations
                .insert(format!("{VERSION_PREFIX}{name}"), version.to_owned());
            self.annotations
                .insert(format!("{VERSION_ALT_PREFIX}{name}"), other.to_owned());
        }
    }

    /// Adds the volumes that a SidecarSet's containers mount.
    pub(super) fn add_volumes(&mut self, spec: &SidecarSetSpec) {
        for used in sidecar::all(spec).flat_map(|(sidecar, _)| used_volumes(sidecar)) {
            // A pod has a volume once, even if several SidecarSets add it.
            let is_it = |name: Option<&Value>| name == Some(used);
            if self.volumes.iter().any(|volume| is_it(volume.get("name"))) {
                continue;
            }
            let volume = spec
                .volumes
                .iter()
                .rfind(|volume| is_it(volume.get("name")));
            self.volumes
                .extend(volume.map(|volume| Value::Object(volume.clone())));
        }
    }

    /// Warns of a volume that the pod lacks once the SidecarSets' own are there. The container
    /// comes all the same, because another webhook may add the volume. Otherwise the apiserver
    /// refuses the pod.
    pub(super) fn warn_of_volumes(&mut self, set: &Matched<'_>, pod: &Value) {
        let of_pod = pod["spec"]["volumes"].as_array().into_iter().flatten();
        let names: Vec<&Value> = of_pod
            .chain(&self.volumes)
            .map(|volume| &volume["name"])
            .collect();
        for (sidecar, _) in sidecar::all(set.spec) {
            if let Some(volume) = used_volumes(sidecar).find(|used| !names.contains(used)) {
                let (name, set) = (sidecar::name(sidecar), set.name);
                self.warnings.push(format!(
                    "container {name:?} of SidecarSet {set:?}: the pod has no volume {volume}, which it uses; add it to spec.volumes"
                ));
            }
        }
    }
}

/// The names of the volumes that a container of a SidecarSet mounts, has as devices, or reads
/// variables from.
fn used_volumes(sidecar: &SidecarContainer) -> impl Iterator<Item = &Value> {
    let list = |key: &str| {
        sidecar
            .container
            .get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let mounts = list("volumeMounts")
        .chain(list("volumeDevices"))
        .filter_map(|mount| mount.get("name"));
    mounts.chain(
        list("env").filter_map(|variable| variable.pointer("/valueFrom/fileKeyRef/volumeName")),
    )
}

fn position(pod: &Value, list: List, name: &str) -> Option<usize> {
    pod["spec"][list.name()]
        .as_array()?
        .iter()
        .position(|container| container["name"] == name)
}
