//! The hash of the claim templates, in OpenKruise's form, which every revision carries as an
//! annotation. A change of claim templates makes no revision of its own, but can keep the next
//! revision from being applied in place.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use berth_api::fields::template::VolumeClaimTemplate;
use berth_api::names::annotation::VOLUME_CLAIM_TEMPLATE_HASH;
use berth_workload::feature_gates::Gate;
use berth_workload::objects::quantity;
use berth_workload::update::inplace::change::Change;
use berth_workload::update::inplace::kubelet_hash::deep_hash;
use berth_workload::update::podset::update_method::Policy;
use berth_workload::update::revision::Revision;
use serde_json::Value;

use super::Snapshot;

/// Fields in the order in which Go writes them.
const ORDER: [&str; 19] = [
    "accessModes",
    "selector",
    "resources",
    "volumeName",
    "storageClassName",
    "volumeMode",
    "dataSource",
    "dataSourceRef",
    "volumeAttributesClassName",
    "limits",
    "requests",
    "matchLabels",
    "matchExpressions",
    "key",
    "operator",
    "values",
    "apiGroup",
    "kind",
    "name",
];

/// The annotation of the newest revision.
pub(super) fn annotation(snapshot: &Snapshot) -> BTreeMap<String, String> {
    [(
        VOLUME_CLAIM_TEMPLATE_HASH.to_owned(),
        hash(&snapshot.set.spec.volume_claim_templates, Mode::Stored),
    )]
    .into()
}

/// The hashes of the present claim templates, for all revisions that one decision compares. The
/// templates are read once for each form, when a comparison first needs it.
#[derive(Default)]
pub(super) struct Present {
    stored: OnceCell<String>,
    spelt_otherwise: OnceCell<[String; 2]>,
}

impl Present {
    fn stored(&self, snapshot: &Snapshot) -> &str {
        self.stored
            .get_or_init(|| hash(&snapshot.set.spec.volume_claim_templates, Mode::Stored))
    }

    fn spelt_otherwise(&self, snapshot: &Snapshot) -> &[String; 2] {
        let templates = &snapshot.set.spec.volume_claim_templates;
        self.spelt_otherwise
            .get_or_init(|| [Mode::Written, Mode::LeftOut].map(|mode| hash(templates, mode)))
    }
}

/// The change that different claim templates require. With the feature gate it is a new pod,
/// regardless of other differences. There is none with `InPlaceOnly`, or if a revision lacks the
/// annotation.
pub(super) fn recreates(
    snapshot: &Snapshot,
    present: &Present,
    policy: Policy,
    old: &Revision,
    new: &Revision,
) -> Option<Change> {
    if !snapshot.gates.has(Gate::RecreatePodWhenChangeVCTInCloneSet)
        || policy == Policy::InPlaceOnly
    {
        return None;
    }
    let of = |revision: &Revision| {
        revision
            .metadata
            .annotation(VOLUME_CLAIM_TEMPLATE_HASH)
            .map(str::to_owned)
    };
    // A revision that becomes the newest again gets the present hash with its new number.
    let is_newest = snapshot
        .revisions
        .last()
        .is_some_and(|newest| newest.metadata.uid == new.metadata.uid);
    let new = if is_newest {
        of(new)?
    } else {
        present.stored(snapshot).to_owned()
    };
    let old = of(old)?;
    let only_spelt_otherwise =
        || present.stored(snapshot) == new && present.spelt_otherwise(snapshot).contains(&old);
    let same = old == new || only_spelt_otherwise();
    (!same).then(|| Change::Recreate {
        fields: vec!["volumeClaimTemplates".to_owned()],
    })
}

/// How to spell a `volumeMode` that has the default value. A revision keeps only a hash, so the
/// present templates are spelt in each way and compared with it.
#[derive(Clone, Copy)]
enum Mode {
    /// As it is stored, which is the form that OpenKruise hashes.
    Stored,
    Written,
    LeftOut,
}

/// Hashes names and specs alone, in the order of the names. An empty list has no hash.
fn hash(templates: &[VolumeClaimTemplate], mode: Mode) -> String {
    if templates.is_empty() {
        return String::new();
    }
    let mut sorted: Vec<_> = templates.iter().collect();
    sorted.sort_by_key(|template| template.name());
    let claims: Vec<_> = sorted
        .into_iter()
        .map(|template| claim(template, mode))
        .collect();
    deep_hash(&escaped(&format!("[{}]", claims.join(",")))).to_string()
}

fn claim(template: &VolumeClaimTemplate, mode: Mode) -> String {
    const DEFAULT: &str = "Filesystem";
    let mut spec = template.value()["spec"].take();
    if let Some(spec) = spec.as_object_mut() {
        match mode {
            Mode::Written if !spec.contains_key("volumeMode") => {
                spec.insert("volumeMode".to_owned(), Value::from(DEFAULT));
            }
            Mode::LeftOut if spec.get("volumeMode").is_some_and(|mode| mode == DEFAULT) => {
                spec.remove("volumeMode");
            }
            _ => {}
        }
        // Go writes this one field even if it is empty.
        let resources = spec
            .entry("resources")
            .or_insert_with(|| Value::Object(serde_json::Map::new()));
        for quantities in ["limits", "requests"] {
            let quantities = resources.get_mut(quantities).and_then(Value::as_object_mut);
            quantities
                .into_iter()
                .flatten()
                .for_each(|(_, value)| *value = quantity::canonical(value));
        }
    }
    format!(
        r#"{{"metadata":{{"name":{},"creationTimestamp":null}},"spec":{},"status":{{}}}}"#,
        Value::from(template.name()),
        ordered(&spec, false)
    )
}

/// JSON with the fields of objects in Go's order, the keys of maps sorted.
fn ordered(value: &Value, is_map: bool) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| ordered(item, false)).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(fields) => {
            let rank = |key: &str| {
                ORDER
                    .iter()
                    .position(|known| *known == key)
                    .unwrap_or(ORDER.len())
            };
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(key, _)| (if is_map { 0 } else { rank(key) }, *key));
            let texts = fields.into_iter().map(|(key, value)| {
                let is_map =
                    !is_map && matches!(key.as_str(), "limits" | "requests" | "matchLabels");
                format!("{}:{}", Value::from(key.as_str()), ordered(value, is_map))
            });
            format!("{{{}}}", texts.collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

/// Escapes the characters that Go escapes so that HTML may contain the JSON.
fn escaped(json: &str) -> String {
    json.replace('&', "\\u0026")
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
}

#[cfg(test)]
mod tests;
