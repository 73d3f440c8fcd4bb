//! The workload of a subset, from the UnitedDeployment's template and the subset.
//!
//! Template and patch are untyped, so that fields that Berth does not know reach the workload.

mod field;

use std::collections::BTreeMap;

use berth_api::IntOrString;
use berth_api::name::is_dns_subdomain;
use berth_api::names::annotation::SUBSET_PATCH;
use berth_api::names::label::{KRUISE_CONTROLLER_REVISION_HASH, SUBSET_NAME};
use berth_workload::objects::intstr::resolve;
use berth_workload::objects::patch::strategic::strategic_merge;
use berth_workload::update::revision::{form, suffix};
use k8s_openapi::api::core::v1::{NodeSelectorTerm, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Map, Value, json};

use super::subset_kind::SubsetKind;

pub(super) use field::{Invalid, texts};
use field::{child, invalid, list, no_object, value};

/// The annotation of a workload that has a hash of the subset's `nodeSelectorTerm` and
/// `tolerations`.
pub(super) const SUBSET_NODES: &str = "apps.kruise.io/berth-subset-nodes";

/// The longest patch, in bytes of JSON: the workload has it in an annotation, and the cache reads
/// no object of Berth's with 64 KiB of metadata.
pub(super) const LONGEST_PATCH: usize = 32_768;

/// The longest text of a value in a message, in characters.
pub(super) const LONGEST_VALUE: usize = 80;

/// The part of a UnitedDeployment that its workloads share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Template<'a> {
    /// Kind of the workloads.
    pub(super) kind: SubsetKind,
    /// The UnitedDeployment's selector.
    pub(super) selector: &'a LabelSelector,
    /// The template's `metadata`.
    pub(super) metadata: Option<&'a Value>,
    /// The template's `spec`.
    pub(super) spec: &'a Map<String, Value>,
    /// Name of the UnitedDeployment's revision that holds this template.
    pub(super) revision: &'a str,
}

/// A subset, as the UnitedDeployment's topology has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subset<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// The nodes that its pods may run on; an empty term means all.
    pub(super) node_selector_term: &'a NodeSelectorTerm,
    /// Tolerations that its pods have in addition to those of the template.
    pub(super) tolerations: &'a [Toleration],
    /// A strategic merge patch of the pod template.
    pub(super) patch: Option<&'a Value>,
}

/// The size and the partition of the workload: their change changes nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    /// Pods.
    pub(super) replicas: i32,
    /// Pods that keep the older revision. Workloads without a partition ignore it.
    pub(super) partition: i32,
    /// Reserved pods, which use up no `maxUnavailable`.
    pub(super) reserved: i32,
}

/// The workload that a subset must have.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Workload {
    /// Its kind.
    pub(super) kind: SubsetKind,
    /// Labels.
    pub(super) labels: BTreeMap<String, String>,
    /// Annotations.
    pub(super) annotations: BTreeMap<String, String>,
    /// The whole spec, with replicas and partition.
    pub(super) spec: Map<String, Value>,
}

/// The name of a subset's workload. It follows from uid, subset and kind, so that a second creation
/// finds the first one's object and a subset that returns finds its claims. Another `collision`
/// gives another name, in case an object of another owner has the first.
pub(super) fn name(
    united_deployment: &str,
    uid: &str,
    subset: &str,
    kind: SubsetKind,
    collision: u32,
) -> String {
    let seed = json!([uid, subset, kind.template_field(), collision]).to_string();
    let suffix = suffix(&seed);
    let mut prefix = format!("{united_deployment}-{subset}-");
    if !is_dns_subdomain(&format!("{prefix}{suffix}")) {
        prefix = format!("{united_deployment}-");
    }
    // The name of a StatefulSet is a DNS label, which has no dots.
    if kind.is_stateful() {
        prefix = prefix.replace('.', "-");
    }
    let room = kind.longest_name() - suffix.len();
    let cut = (0..=room.min(prefix.len()))
        .rev()
        .find(|at| prefix.is_char_boundary(*at))
        .unwrap_or_default();
    prefix.truncate(cut);
    prefix + &suffix
}

/// The patch in the form of the workload's annotation: Go's JSON, empty without a patch.
pub(super) fn patch_text(patch: Option<&Value>) -> String {
    patch
        .filter(|patch| !patch.is_null())
        .map(form::text)
        .unwrap_or_default()
}

/// The workload of a subset.
///
/// # Errors
/// The error names the field of the template or of the subset, and the remedy.
pub(super) fn render(
    template: &Template<'_>,
    subset: &Subset<'_>,
    size: Size,
) -> Result<Workload, Invalid> {
    let Template {
        kind,
        selector,
        metadata,
        revision,
        ..
    } = *template;
    let mut labels = texts(metadata, "labels");
    labels.extend(selector.match_labels.clone().unwrap_or_default());
    let own = [
        (SUBSET_NAME, subset.name),
        (KRUISE_CONTROLLER_REVISION_HASH, revision),
    ];
    labels.extend(own.map(|(key, value)| (key.to_owned(), value.to_owned())));

    let patch = patch_text(subset.patch);
    if patch.len() > LONGEST_PATCH {
        let problem = format!(
            "is {} bytes of JSON, but {LONGEST_PATCH} are the most because the workload keeps the patch in an annotation; \
             move what all subsets share to the template",
            patch.len()
        );
        return Err(Invalid {
            field: "patch".to_owned(),
            problem,
            of_subset: true,
        });
    }
    let mut annotations = texts(metadata, "annotations");
    annotations.insert(SUBSET_PATCH.to_owned(), patch);
    let nodes = suffix(&json!([subset.node_selector_term, subset.tolerations]).to_string());
    annotations.insert(SUBSET_NODES.to_owned(), nodes);

    let mut spec = template.spec.clone();
    let pod = pod_template(spec.remove("template"), template, subset)?;
    spec.insert("template".to_owned(), pod);
    spec.insert(
        "selector".to_owned(),
        value(&of_subset(selector, subset.name)),
    );
    spec.insert("replicas".to_owned(), json!(size.replicas));
    set_partition(kind, &mut spec, size.partition)?;
    raise_max_unavailable(kind, &mut spec, size)?;
    Ok(Workload {
        kind,
        labels,
        annotations,
        spec,
    })
}

impl Workload {
    /// The whole object, to create it. `owner` is the reference to the UnitedDeployment.
    pub(super) fn object(&self, namespace: &str, name: &str, owner: &Value) -> Value {
        let resource = self.kind.resource();
        json!({
            "apiVersion": resource.api_version(),
            "kind": resource.kind,
            "metadata": {
                "namespace": namespace,
                "name": name,
                "labels": self.labels,
                "annotations": self.annotations,
                "ownerReferences": [owner],
            },
            "spec": self.spec,
        })
    }
}

/// The selector of a subset's workload.
pub(super) fn of_subset(selector: &LabelSelector, subset: &str) -> LabelSelector {
    let mut selector = selector.clone();
    selector
        .match_labels
        .get_or_insert_default()
        .insert(SUBSET_NAME.to_owned(), subset.to_owned());
    selector
}

fn pod_template(
    pod: Option<Value>,
    template: &Template<'_>,
    subset: &Subset<'_>,
) -> Result<Value, Invalid> {
    let mut pod = match pod {
        Some(Value::Object(map)) => map,
        None | Some(Value::Null) => Map::new(),
        Some(_) => return Err(no_object("spec.template")),
    };
    let labels = child(
        child(&mut pod, "metadata", "spec.template")?,
        "labels",
        "spec.template.metadata",
    )?;
    labels.insert(SUBSET_NAME.to_owned(), json!(subset.name));
    labels.insert(
        KRUISE_CONTROLLER_REVISION_HASH.to_owned(),
        json!(template.revision),
    );
    let spec = child(&mut pod, "spec", "spec.template")?;
    add_node_term(spec, subset.node_selector_term)?;
    if !subset.tolerations.is_empty() {
        let tolerations = list(spec, "tolerations", "spec.template.spec")?;
        tolerations.extend(subset.tolerations.iter().map(value));
    }
    let pod = Value::Object(pod);
    let Some(patch) = subset.patch.filter(|patch| !patch.is_null()) else {
        return Ok(pod);
    };
    let patched = strategic_merge(&pod, patch).map_err(|error| {
        let separator = if error.field.is_empty() { "" } else { "." };
        Invalid {
            field: format!("patch{separator}{}", error.field),
            problem: error.problem,
            of_subset: true,
        }
    })?;
    keeps_labels(&pod, &patched, template.selector)?;
    Ok(patched)
}

/// A patch cannot change the labels by which the workload and the controller select the pods, or by
/// which the controller recognises their revision.
fn keeps_labels(pod: &Value, patched: &Value, selector: &LabelSelector) -> Result<(), Invalid> {
    let own = [SUBSET_NAME, KRUISE_CONTROLLER_REVISION_HASH].into_iter();
    let mut keys = own.chain(
        selector
            .match_labels
            .iter()
            .flatten()
            .map(|(key, _)| key.as_str()),
    );
    let [before, after] = [pod, patched].map(|pod| &pod["metadata"]["labels"]);
    let Some(key) = keys.find(|key| before[*key] != after[*key]) else {
        return Ok(());
    };
    let value: String = after[key].to_string().chars().take(LONGEST_VALUE).collect();
    Err(Invalid {
        field: format!("patch.metadata.labels[{key}]"),
        problem: format!(
            "comes to {value}, but the controller finds the subset's pods by {}; remove the label from the patch",
            before[key]
        ),
        of_subset: true,
    })
}

/// Adds the expressions and fields of the subset's term to each required term: terms are
/// alternatives, and each must name the subset's nodes.
fn add_node_term(pod: &mut Map<String, Value>, added: &NodeSelectorTerm) -> Result<(), Invalid> {
    let requirements = [
        (
            "matchExpressions",
            added.match_expressions.as_deref().unwrap_or_default(),
        ),
        (
            "matchFields",
            added.match_fields.as_deref().unwrap_or_default(),
        ),
    ];
    if requirements.iter().all(|(_, added)| added.is_empty()) {
        return Ok(());
    }
    let affinity = child(pod, "affinity", "spec.template.spec")?;
    let nodes = child(affinity, "nodeAffinity", "spec.template.spec.affinity")?;
    let path = "spec.template.spec.affinity.nodeAffinity";
    let required = child(
        nodes,
        "requiredDuringSchedulingIgnoredDuringExecution",
        path,
    )?;
    let path =
        "spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution";
    let terms = list(required, "nodeSelectorTerms", path)?;
    if terms.is_empty() {
        terms.push(json!({}));
    }
    let path = format!("{path}.nodeSelectorTerms[]");
    for term in terms {
        let Value::Object(term) = term else {
            return Err(no_object(&path));
        };
        for (field, added) in requirements.iter().filter(|(_, added)| !added.is_empty()) {
            list(term, field, &path)?.extend(added.iter().map(value));
        }
    }
    Ok(())
}

/// Replaces the template's partition by the subset's, if the workload has one.
fn set_partition(
    kind: SubsetKind,
    spec: &mut Map<String, Value>,
    partition: i32,
) -> Result<(), Invalid> {
    let has_partition = kind.has_partition(spec);
    if has_partition {
        let strategy = child(spec, "updateStrategy", "spec")?;
        if strategy
            .get("type")
            .is_none_or(|type_| type_.is_null() || type_ == "")
            && kind.is_stateful()
        {
            strategy.insert("type".to_owned(), json!("RollingUpdate"));
        }
        child(strategy, "rollingUpdate", "spec.updateStrategy")?
            .insert("partition".to_owned(), json!(partition));
        return Ok(());
    }
    let Some(strategy) = spec
        .get_mut("updateStrategy")
        .and_then(Value::as_object_mut)
    else {
        return Ok(());
    };
    let Some(rolling) = strategy
        .get_mut("rollingUpdate")
        .and_then(Value::as_object_mut)
    else {
        return Ok(());
    };
    if rolling.remove("partition").is_some() && rolling.is_empty() {
        strategy.remove("rollingUpdate");
    }
    Ok(())
}

/// Adds the reserved pods to the template's `maxUnavailable`, so that a rollout continues beside
/// them.
fn raise_max_unavailable(
    kind: SubsetKind,
    spec: &mut Map<String, Value>,
    size: Size,
) -> Result<(), Invalid> {
    let Some(([strategy, rolling, field], default, round)) = kind.max_unavailable() else {
        return Ok(());
    };
    let recreates = spec
        .get(strategy)
        .and_then(|strategy| strategy.get("type"))
        .is_some_and(|type_| type_ == "Recreate");
    if size.reserved <= 0 || recreates {
        return Ok(());
    }
    let rolling_path = format!("spec.{strategy}.{rolling}");
    let rolling = child(
        child(spec, strategy, "spec")?,
        rolling,
        &format!("spec.{strategy}"),
    )?;
    let said = rolling
        .get(field)
        .filter(|said| !said.is_null())
        .cloned()
        .unwrap_or_else(|| json!(default));
    let parsed = serde_json::from_value::<IntOrString>(said).map_err(|error| error.to_string());
    let replicas = usize::try_from(size.replicas).unwrap_or(0);
    let own = parsed.and_then(|parsed| resolve(&parsed, replicas, round));
    let own = own.map_err(|problem| invalid(&format!("{rolling_path}.{field}"), &problem))?;
    let own = i32::try_from(own).unwrap_or(i32::MAX);
    rolling.insert(field.to_owned(), json!(own.saturating_add(size.reserved)));
    Ok(())
}
