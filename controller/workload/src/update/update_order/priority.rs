//! `priorityStrategy`: some pods before others, by weights or by numbers in labels.

use std::cmp::Reverse;
use std::sync::Arc;

use berth_api::fields::update_order::UpdatePriorityStrategy;

use crate::objects::pod::Pod;
use crate::objects::selector::Selector;

/// The rule for the pods that are updated first.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Priority {
    /// No priorities.
    #[default]
    None,
    /// The higher the sum of the weights that match, the sooner.
    Weights(Vec<(i64, Selector)>),
    /// Label keys: see [`place`].
    Keys(Vec<String>),
}

impl Priority {
    /// If a spec has both forms, which the CRD's rules refuse, the weights count.
    pub(super) fn new(strategy: &UpdatePriorityStrategy) -> Result<Self, String> {
        if strategy.weight_priority.is_empty() {
            let keys = strategy
                .order_priority
                .iter()
                .map(|term| term.ordered_key.clone());
            return Ok(Self::Keys(keys.collect()));
        }
        let terms = strategy.weight_priority.iter().enumerate();
        let weights = terms.map(|(at, term)| match Selector::new(&term.match_selector) {
            Ok(selector) => Ok((i64::from(term.weight), selector)),
            Err(problem) => Err(format!("weightPriority[{at}].matchSelector: {problem}")),
        });
        Ok(Self::Weights(weights.collect::<Result<_, _>>()?))
    }

    /// Sorts; pods of the same priority keep their order.
    pub(super) fn sort(&self, pods: &mut [Arc<Pod>]) {
        match self {
            Self::None => {}
            Self::Weights(weights) => pods.sort_by_cached_key(|pod| Reverse(weight(weights, pod))),
            Self::Keys(keys) => pods.sort_by_cached_key(|pod| place(keys, pod)),
        }
    }
}

fn weight(weights: &[(i64, Selector)], pod: &Pod) -> i64 {
    let matching = weights
        .iter()
        .filter(|(_, selector)| selector.matches(|key| pod.metadata.label(key)));
    matching.map(|(weight, _)| weight).sum()
}

/// The first of the keys that the pod has as a label, and the number at the end of the label's
/// value: the earlier the key and the higher the number, the sooner. Pods with none of the keys
/// come before all others.
fn place(keys: &[String], pod: &Pod) -> (Option<usize>, Reverse<i64>) {
    let mut labels = keys
        .iter()
        .enumerate()
        .filter_map(|(at, key)| Some((at, pod.metadata.label(key)?)));
    match labels.next() {
        Some((at, value)) => (Some(at), Reverse(trailing_number(value))),
        None => (None, Reverse(0)),
    }
}

/// 10 in `web-10`; 0 where there is none, or more than fits.
fn trailing_number(value: &str) -> i64 {
    let rest = value.trim_end_matches(|character: char| character.is_ascii_digit());
    value[rest.len()..].parse().unwrap_or(0)
}
