//! The one node that a pod may be scheduled to.

use serde::{Deserialize, Deserializer};

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    node_affinity: Option<NodeAffinity>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<Terms>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Terms {
    node_selector_terms: Vec<Term>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Term {
    match_fields: Vec<Field>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Field {
    key: Box<str>,
    operator: Box<str>,
    values: Vec<Box<str>>,
}

/// Reads the affinity of a pod: the single node that a term names by `metadata.name`.
///
/// # Errors
/// The deserializer's, for an invalid affinity.
pub fn to_node<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<str>>, D::Error> {
    let affinity = Option::<Affinity>::deserialize(deserializer)?.unwrap_or_default();
    let terms = affinity
        .node_affinity
        .and_then(|affinity| affinity.required)
        .unwrap_or_default()
        .node_selector_terms;
    let mut fields = terms.into_iter().flat_map(|term| term.match_fields);
    let named = fields.find(|field| {
        &*field.key == "metadata.name" && &*field.operator == "In" && field.values.len() == 1
    });
    Ok(named.and_then(|field| field.values.into_iter().next()))
}

#[cfg(test)]
mod tests;
