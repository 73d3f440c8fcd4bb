//! The annotations that a SidecarSet may put on pods. Administrators list them in the ConfigMap
//! `kruise-configuration`, for all SidecarSets or for those with some labels.

use std::collections::BTreeMap;

use berth_workload::objects::selector::Selector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;

use super::pattern::Pattern;

/// The key of the ConfigMap.
pub const KEY: &str = "SidecarSet_PatchPodMetadata_WhiteList";

#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    rules: Vec<WrittenRule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenRule {
    selector: Option<LabelSelector>,
    #[serde(default)]
    allowed_annotation_key_exprs: Vec<String>,
}

/// The rules of the ConfigMap.
#[derive(Debug, Clone, Default)]
pub struct Rules(Vec<Rule>);

#[derive(Debug, Clone)]
struct Rule {
    /// The labels of the SidecarSets that the rule is about. Without a selector it is about all.
    selector: Option<Selector>,
    keys: Vec<Pattern>,
}

/// The annotations that one SidecarSet may set.
#[derive(Debug, Clone)]
pub struct Allowed<'a> {
    keys: Vec<&'a Pattern>,
    /// The answer if no rule is about the SidecarSet.
    by_default: bool,
}

impl Rules {
    /// Reads the value of the ConfigMap's key. Unknown fields do not count.
    ///
    /// # Errors
    /// The problem of the value. Then no annotation is allowed.
    pub fn read(text: &str) -> Result<Self, String> {
        let wrong =
            |problem: String| format!("ConfigMap kruise-configuration, key {KEY}: {problem}");
        let written: Written =
            serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let rules = written.rules.into_iter().map(|rule| {
            let selector = rule.selector.as_ref().map(Selector::new).transpose()?;
            let keys = rule
                .allowed_annotation_key_exprs
                .iter()
                .map(|text| Pattern::new(text))
                .collect::<Result<_, _>>()?;
            Ok(Rule { selector, keys })
        });
        rules
            .collect::<Result<_, String>>()
            .map(Self)
            .map_err(wrong)
    }

    /// The annotations that a SidecarSet with these labels may set. `by_default` is the feature
    /// gate `SidecarSetPatchPodMetadataDefaultsAllowed`, which decides if no expression applies.
    pub fn of(&self, labels: &BTreeMap<String, String>, by_default: bool) -> Allowed<'_> {
        let matches =
            |selector: &Selector| selector.matches(|key| labels.get(key).map(String::as_str));
        let rules = self
            .0
            .iter()
            .filter(|rule| rule.selector.as_ref().is_none_or(matches));
        Allowed {
            keys: rules.flat_map(|rule| &rule.keys).collect(),
            by_default,
        }
    }
}

impl Allowed<'_> {
    /// Whether the SidecarSet may set this annotation.
    pub fn allows(&self, key: &str) -> bool {
        if self.keys.is_empty() {
            self.by_default
        } else {
            self.keys.iter().any(|pattern| pattern.is_in(key))
        }
    }
}

#[cfg(test)]
mod tests;
