//! All that SidecarSets bring into a pod, before it is put there.

use std::collections::BTreeMap;

use berth_api::v1beta1::sidecarset::{PodInjectPolicy, SidecarContainer, SidecarSetSpec};
use serde_json::Value;

use super::super::names::{
    HASH, HASH_WITHOUT_IMAGE, INJECTED_LIST, REPLACED, VERSION_ALT_PREFIX, VERSION_PREFIX, WORKING_HOT_CONTAINER,
};
use super::super::records::{self, Record, Records};
use super::super::replaced::{self, Replaced};
use super::super::sidecar::{self, List};
use super::Matched;
use super::container::{self, Base};
use super::kept;
use super::own::{self, Own};

/// What SidecarSets bring.
#[derive(Default)]
pub(super) struct Brought {
    pub(super) containers: Vec<Container>,
    pub(super) volumes: Vec<Value>,
    pub(super) pull_secrets: Vec<String>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) warnings: Vec<String>,
    /// The pod's own containers that are replaced.
    replaced: Replaced,
    /// By the containers' names in the pod: who brings them.
    names: BTreeMap<String, String>,
}

/// A container.
pub(super) struct Container {
    /// In which list it belongs.
    pub(super) list: List,
    /// Whether it stands before the pod's own.
    pub(super) before: bool,
    /// Where it stands already.
    pub(super) at: Option<usize>,
    pub(super) name: String,
    pub(super) container: Value,
}

/// The records of a pod, with and without images.
struct Recorded {
    hash: Records,
    without_image: Records,
}

impl Recorded {
    fn of(annotation: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let of = |key: &str| {
            let records = records::read(annotation(key).as_deref());
            records.map_err(|problem| format!("the pod's annotation {key}: {problem}"))
        };
        Ok(Self { hash: of(HASH)?, without_image: of(HASH_WITHOUT_IMAGE)? })
    }

    /// Whether the pod is said to have just these containers of the set.
    fn has(&self, set: &Matched<'_>, list: &[String]) -> bool {
        let is = |records: &Records, hash: &str, revision: &str| {
            records.get(set.name).is_some_and(|record| {
                record.hash == hash
                    && record.controller_revision == revision
                    && record.sidecar_list.as_deref() == Some(list)
            })
        };
        is(&self.hash, &set.hashes.hash, set.revision) && is(&self.without_image, &set.hashes.without_image, "")
    }

    fn record(&mut self, set: &Matched<'_>, list: &[String], now: &str) {
        let record = |hash: &str, revision: &str| Record::new(set.name, (hash, revision), list, now);
        self.hash.insert(set.name.to_owned(), record(&set.hashes.hash, set.revision));
        self.without_image.insert(set.name.to_owned(), record(&set.hashes.without_image, ""));
    }
}

impl Brought {
    /// Adds what one SidecarSet brings.
    ///
    /// # Errors
    /// Why the pod cannot have it.
    pub(super) fn add(&mut self, set: &Matched<'_>, pod: &Value, own: &Own<'_>, now: &str) -> Result<(), String> {
        let mut recorded = Recorded::of(|key| self.annotation(pod, key))?;
        let list = sidecar::lasting_names(set.spec);
        let is_recorded = recorded.has(set, &list);
        let (mut any, mut is_kept) = (false, true);
        for (sidecar, in_list) in sidecar::all(set.spec) {
            any = true;
            is_kept &= self.add_sidecar(set, (sidecar, in_list), pod, own, is_recorded)?;
        }
        if !any {
            return Ok(());
        }
        self.pull_secrets.extend(set.spec.image_pull_secrets.iter().map(|secret| secret.name.clone()));
        let names = records::list(self.annotation(pod, INJECTED_LIST).as_deref(), [set.name]);
        self.annotations.insert(INJECTED_LIST.to_owned(), names);
        if !is_kept {
            recorded.record(set, &list, now);
            self.annotations.insert(HASH.to_owned(), records::written(&recorded.hash));
            self.annotations.insert(HASH_WITHOUT_IMAGE.to_owned(), records::written(&recorded.without_image));
        }
        Ok(())
    }

    /// An annotation as those before have left it.
    fn annotation(&self, pod: &Value, key: &str) -> Option<String> {
        let old = pod["metadata"]["annotations"][key].as_str();
        self.annotations.get(key).map(String::as_str).or(old).map(str::to_owned)
    }

    /// Adds one container, or a pair. True if the pod has it from an earlier call.
    fn add_sidecar(
        &mut self,
        set: &Matched<'_>,
        (sidecar, list): (&SidecarContainer, List),
        pod: &Value,
        own: &Own<'_>,
        is_recorded: bool,
    ) -> Result<bool, String> {
        let is_hot = sidecar::is_hot(sidecar, list);
        let wanted = sidecar::names_in_pod(sidecar, list);
        let mut found = Vec::new();
        for name in &wanted {
            self.take_name(set, name, list, pod)?;
            found.push(position(pod, list, name));
        }
        let old = |at: &Option<usize>| at.and_then(|at| pod["spec"][list.name()][at].as_object());
        let is_ours = |at: &Option<usize>| {
            let is_injected = at.is_some_and(|at| own::is_injected(&pod["spec"][list.name()][at]));
            is_injected && old(at).is_some_and(|found| kept::is_made_of(&sidecar.container, found))
        };
        // Of a pair both or none: they know each other by their versions.
        let is_kept = is_recorded && found.iter().all(is_ours);
        let before = sidecar::place(sidecar, list) == PodInjectPolicy::BeforeAppContainer;
        // The first of a pair works.
        let images = [None, Some(sidecar.upgrade_strategy.hot_upgrade_empty_image.as_str())];
        for ((name, image), at) in wanted.iter().zip(images).zip(&found) {
            let base = match old(at).filter(|_| is_kept) {
                Some(container) => Base::Kept(container),
                None => Base::Spec { name, image },
            };
            if at.is_some() && !is_kept {
                let set = set.name;
                self.warnings.push(format!("container {name:?} of the pod is replaced by that of SidecarSet {set:?}"));
                if at.is_some_and(|at| !own::is_injected(&pod["spec"][list.name()][at])) {
                    self.replaced.entry(set.to_owned()).or_default().insert(name.clone());
                }
            }
            let made = container::made(sidecar, &base, is_hot, own);
            let container = made.map_err(|problem| format!("container {name:?}: resourcesPolicy: {problem}"))?;
            self.containers.push(Container { list, before, at: *at, name: name.clone(), container });
        }
        if is_hot && !is_kept {
            self.begin_pair(sidecar::name(sidecar), pod)?;
        }
        Ok(is_kept)
    }

    /// Notes on the pod which of its own containers these SidecarSets have replaced.
    pub(super) fn note_replaced<'a>(&mut self, pod: &Value, sets: impl Iterator<Item = &'a str>) {
        let text = pod["metadata"]["annotations"][REPLACED].as_str();
        let noted = replaced::noted(text, sets, std::mem::take(&mut self.replaced));
        self.annotations.extend(noted.map(|text| (REPLACED.to_owned(), text)));
    }

    /// No two containers of a pod have one name.
    fn take_name(&mut self, set: &Matched<'_>, name: &str, list: List, pod: &Value) -> Result<(), String> {
        if let Some(other) = self.names.insert(name.to_owned(), set.name.to_owned()) {
            return Err(format!("container {name:?}: SidecarSet {other:?} brings one of that name; rename it"));
        }
        match List::ALL.into_iter().find(|other| *other != list && position(pod, *other, name).is_some()) {
            Some(other) => {
                let other = other.name();
                Err(format!("container {name:?}: the pod has one of that name in spec.{other}; rename it"))
            }
            None => Ok(()),
        }
    }

    /// The annotations of a new pair: the first works, the second is empty.
    fn begin_pair(&mut self, name: &str, pod: &Value) -> Result<(), String> {
        let working = self.annotation(pod, WORKING_HOT_CONTAINER).filter(|text| !text.is_empty());
        let working = working.unwrap_or_else(|| "{}".to_owned());
        let mut working: BTreeMap<String, String> = serde_json::from_str(&working).map_err(|_| {
            format!("the pod's annotation {WORKING_HOT_CONTAINER}: {working:?} is no JSON of names; remove it")
        })?;
        let [first, second] = sidecar::hot_pair(name);
        working.insert(name.to_owned(), first.clone());
        let working = serde_json::to_string(&working).unwrap_or_default();
        self.annotations.insert(WORKING_HOT_CONTAINER.to_owned(), working);
        for (name, version, other) in [(first, "1", "0"), (second, "0", "1")] {
            self.annotations.insert(format!("{VERSION_PREFIX}{name}"), version.to_owned());
            self.annotations.insert(format!("{VERSION_ALT_PREFIX}{name}"), other.to_owned());
        }
        Ok(())
    }

    /// Adds the volumes that a SidecarSet's containers mount.
    pub(super) fn add_volumes(&mut self, spec: &SidecarSetSpec) {
        for used in sidecar::all(spec).flat_map(|(sidecar, _)| used_volumes(sidecar)) {
            // A pod has a volume once, whoever brings it.
            let is_it = |name: Option<&Value>| name == Some(used);
            if self.volumes.iter().any(|volume| is_it(volume.get("name"))) {
                continue;
            }
            let volume = spec.volumes.iter().rfind(|volume| is_it(volume.get("name")));
            self.volumes.extend(volume.map(|volume| Value::Object(volume.clone())));
        }
    }

    /// Whether the pod has all volumes that a SidecarSet's containers mount, once those that come are there. What the pod's own containers
    /// mount, and share, it has.
    ///
    /// # Errors
    /// It lacks one, and the apiserver would refuse the pod.
    pub(super) fn check_volumes(&self, spec: &SidecarSetSpec, pod: &Value) -> Result<(), String> {
        let of_pod = pod["spec"]["volumes"].as_array().into_iter().flatten();
        let names: Vec<&Value> = of_pod.chain(&self.volumes).map(|volume| &volume["name"]).collect();
        for (sidecar, _) in sidecar::all(spec) {
            if let Some(volume) = used_volumes(sidecar).find(|used| !names.contains(used)) {
                let name = sidecar::name(sidecar);
                return Err(format!(
                    "container {name:?}: the pod has no volume {volume}, which it uses; add it to spec.volumes"
                ));
            }
        }
        Ok(())
    }
}

/// The names of the volumes that a container of a SidecarSet mounts, has as devices, or reads variables from.
fn used_volumes(sidecar: &SidecarContainer) -> impl Iterator<Item = &Value> {
    let list = |key: &str| sidecar.container.get(key).and_then(Value::as_array).into_iter().flatten();
    let mounts = list("volumeMounts").chain(list("volumeDevices")).filter_map(|mount| mount.get("name"));
    mounts.chain(list("env").filter_map(|variable| variable.pointer("/valueFrom/fileKeyRef/volumeName")))
}

fn position(pod: &Value, list: List, name: &str) -> Option<usize> {
    pod["spec"][list.name()].as_array()?.iter().position(|container| container["name"] == name)
}
