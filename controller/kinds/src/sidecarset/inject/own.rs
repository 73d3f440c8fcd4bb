//! The pod's own containers: those without the name of a container that a SidecarSet adds. No
//! variable counts, because the pod's creator may give any container the variable.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::names::IS_INJECTED;
use super::super::sidecar::{self, List};
use super::request::Matched;

/// A pod as its sidecars see it.
pub(super) struct Own<'a> {
    /// Its containers.
    pub(super) containers: Vec<&'a Value>,
    /// Its init containers that run beside them.
    pub(super) natives: Vec<&'a Value>,
    metadata: &'a Value,
}

impl<'a> Own<'a> {
    pub(super) fn of(pod: &'a Value, sets: &[Matched<'_>]) -> Self {
        let sidecars = sets.iter().flat_map(|set| sidecar::all(set.spec));
        let sidecars: BTreeSet<String> = sidecars
            .flat_map(|(of, list)| sidecar::names_in_pod(of, list))
            .collect();
        let own = |list: List| {
            let containers = pod["spec"][list.name()].as_array().into_iter().flatten();
            let is_own = |container: &&Value| {
                container["name"]
                    .as_str()
                    .is_none_or(|name| !sidecars.contains(name))
            };
            containers.filter(is_own).collect::<Vec<_>>()
        };
        let mut natives = own(List::Init);
        natives.retain(|container| container["restartPolicy"] == "Always");
        Self {
            containers: own(List::Main),
            natives,
            metadata: &pod["metadata"],
        }
    }

    /// The text that a field path such as `metadata.labels['app']` names. Other paths than labels
    /// and annotations name none.
    pub(super) fn text(&self, field_path: &str) -> Option<&'a str> {
        let (path, key) = field_path.strip_suffix("']")?.split_once("['")?;
        let map = match path {
            "metadata.labels" => "labels",
            "metadata.annotations" => "annotations",
            _ => return None,
        };
        self.metadata[map][key].as_str()
    }

    /// A variable of one of its containers. If several have the same name, the last one counts, as
    /// it does for the container.
    pub(super) fn variable(&self, container: &str, name: &str) -> Option<&'a Value> {
        variable(
            self.containers.iter().find(|of| of["name"] == container)?,
            name,
        )
    }
}

/// A variable of a container.
pub(super) fn variable<'a>(container: &'a Value, name: &str) -> Option<&'a Value> {
    container["env"]
        .as_array()?
        .iter()
        .rfind(|variable| variable["name"] == name)
}

/// The variables of a container by name.
pub(super) fn variables(container: &Value) -> BTreeMap<&str, &Value> {
    let all = container["env"].as_array().into_iter().flatten();
    all.filter_map(|variable| Some((variable["name"].as_str()?, variable)))
        .collect()
}

/// Whether a container has the mark that a SidecarSet added it.
pub(super) fn is_injected(container: &Value) -> bool {
    variable(container, IS_INJECTED).is_some_and(|variable| variable["value"] == "true")
}

/// Checks that the pod has lists and maps where its type has them. Pods from the apiserver do.
pub(super) fn check(pod: &Value) -> Result<(), String> {
    let (spec, metadata) = (&pod["spec"], &pod["metadata"]);
    let lists = [
        "initContainers",
        "containers",
        "volumes",
        "imagePullSecrets",
    ];
    let annotations = &metadata["annotations"];
    let are_lists = lists
        .iter()
        .all(|list| spec[*list].is_null() || spec[*list].is_array());
    let are_maps = spec.is_object()
        && metadata.is_object()
        && (annotations.is_null() || annotations.is_object());
    if are_lists && are_maps {
        Ok(())
    } else {
        Err("the object is no pod".to_owned())
    }
}
