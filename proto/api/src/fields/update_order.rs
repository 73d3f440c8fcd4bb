//! In which order pods are updated.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::schema::field::{checks, label_selector};
use crate::schema::rules::{LABEL_KEY, not_empty};

/// Which pods are updated first. Use orderPriority or weightPriority, not both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = checks([is_of_one_list()]))]
pub struct UpdatePriorityStrategy {
    /// Label keys: pods that have the first key come before those that have only the second, and so
    /// on; pods with the same key are sorted by its value from high to low. Pods that have none of
    /// the keys come before all others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub order_priority: Vec<UpdatePriorityOrderTerm>,
    /// Selectors with weights: the higher the sum of the weights that match a pod, the sooner it is
    /// updated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub weight_priority: Vec<UpdatePriorityWeightTerm>,
}

/// Order by the value of a label.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdatePriorityOrderTerm {
    /// The label's key. The last number in the label's value counts: 10 for `web-10`.
    #[schemars(length(min = 1, max = LABEL_KEY))]
    pub ordered_key: String,
}

/// Order by weight.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdatePriorityWeightTerm {
    /// From 1 (low) to 100 (high).
    #[schemars(range(min = 0, max = 100))]
    pub weight: i32,
    /// The pods that get the weight, by their labels.
    #[schemars(transform = label_selector)]
    #[schemars(transform = checks([not_empty("is empty: set matchLabels or matchExpressions")]))]
    pub match_selector: LabelSelector,
}

/// Pods with this label are spread over the whole rollout instead of being updated together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UpdateScatterTerm {
    /// The label's key.
    #[schemars(length(min = 1, max = LABEL_KEY))]
    pub key: String,
    /// The label's value.
    pub value: String,
}

fn is_of_one_list() -> Value {
    let valid = "!(has(self.orderPriority) && size(self.orderPriority) > 0 && has(self.weightPriority) && size(self.weightPriority) > 0)";
    json!({"rule": valid, "message": "has both orderPriority and weightPriority: remove one of them"})
}
