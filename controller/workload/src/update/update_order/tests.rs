use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::objects::pod::{Metadata, Word};

/// Pods named by their place, with labels written as `a=x b=y`.
fn pods(labels: &[&str]) -> Vec<Arc<Pod>> {
    let pairs = |text: &str| {
        let mut pairs: Vec<(Word, Word)> = text
            .split_whitespace()
            .filter_map(|pair| pair.split_once('='))
            .map(|(k, v)| (k.into(), v.into()))
            .collect();
        pairs.sort();
        pairs.into()
    };
    let pod = |(at, text): (usize, &&str)| {
        let metadata = Metadata {
            name: at.to_string().into(),
            labels: pairs(text),
            ..Metadata::default()
        };
        Arc::new(Pod {
            metadata,
            spec: crate::objects::pod::Spec::default(),
            status: crate::objects::pod::Status::default(),
        })
    };
    labels.iter().enumerate().map(pod).collect()
}

fn order(priority: Value, scatter: &[&str]) -> UpdateOrder {
    let priority: Option<UpdatePriorityStrategy> = serde_json::from_value(priority).unwrap();
    let term = |text: &&str| {
        let (key, value) = text.split_once('=').unwrap();
        UpdateScatterTerm {
            key: key.to_owned(),
            value: value.to_owned(),
        }
    };
    let scatter: Vec<_> = scatter.iter().map(term).collect();
    UpdateOrder::new(priority.as_ref(), &scatter).unwrap()
}

fn arranged(order: &UpdateOrder, waiting: Vec<Arc<Pod>>, all: &[Arc<Pod>]) -> Vec<usize> {
    order
        .arrange(waiting, all)
        .iter()
        .map(|pod| pod.metadata.name.parse().unwrap())
        .collect()
}

#[test]
fn weights_add_up_and_the_heaviest_go_first() {
    let weight = |weight: i32, key: &str, value: &str| json!({"weight": weight, "matchSelector": {"matchLabels": {key: value}}});
    let strategy = json!({"weightPriority": [weight(50, "test-key", "foo"), weight(30, "test-key", "bar"), weight(25, "zone", "a")]});
    let all = pods(&[
        "",
        "test-key=bar",
        "test-key=foo",
        "test-key=bar zone=a",
        "zone=a",
        "test-key=other",
    ]);
    assert_eq!(
        arranged(&order(strategy, &[]), all.clone(), &all),
        [3, 2, 1, 4, 0, 5]
    );
}

#[test]
fn numeric_label_suffixes_order_from_high_to_low() {
    let strategy = json!({"orderPriority": [{"orderedKey": "first"}, {"orderedKey": "second"}]});
    let table: [(&[&str], &[usize]); 5] = [
        (&["first=5", "first=sts-10", "first=sts-9"], &[1, 2, 0]),
        (&["second=100", "first=1", "first=2"], &[2, 1, 0]),
        // The first key that a pod has counts, and a pod without any goes before all.
        (
            &["first=1 second=9", "second=8", "", "other=3"],
            &[2, 3, 0, 1],
        ),
        // A missing number is 0, and so is one that is too big.
        (
            &[
                "first=none",
                "first=1",
                "first=99999999999999999999",
                "first=0",
            ],
            &[1, 0, 2, 3],
        ),
        (&["first=7-up", "first=a-007", "first=7"], &[1, 2, 0]),
    ];
    for (labels, expected) in table {
        let all = pods(labels);
        assert_eq!(
            arranged(&order(strategy.clone(), &[]), all.clone(), &all),
            expected,
            "{labels:?}"
        );
    }
}

#[test]
fn the_documentations_example_of_scattering() {
    // Three of ten pods have the label: they are the first, the sixth and the last.
    let all = pods(&["", "", "foo=bar", "", "", "foo=bar", "foo=bar", "", "", ""]);
    let order = arranged(&order(Value::Null, &["foo=bar"]), all.clone(), &all);
    let places: Vec<_> = order
        .iter()
        .enumerate()
        .filter(|(_, pod)| [2, 5, 6].contains(*pod))
        .collect();
    assert_eq!(
        places
            .iter()
            .map(|(place, _)| place + 1)
            .collect::<Vec<_>>(),
        [1, 6, 10]
    );
}

#[test]
fn scattering_by_case() {
    type Row<'a> = (&'a [&'a str], &'a [&'a str], &'a [usize], &'a [usize]);

    let one: &[&str] = &["a=x"];
    let three: &[&str] = &["a=x", "b=x", "c=x"];
    // Terms; all pods; those that wait, in their order; the order that comes of it.
    #[rustfmt::skip]
    let table: [Row; 13] = [
        (one, &["a=x", ""], &[0, 1], &[0, 1]),
        (one, &["a=x", "a=x", ""], &[0, 1, 2], &[0, 1, 2]),
        (one, &["a=x", "", "", "a=x"], &[1, 0, 2, 3], &[0, 1, 2, 3]),
        (one, &["", "", "a=x", "a=x", "a=x", "a=x"], &[0, 1, 2, 3, 4, 5], &[2, 3, 0, 4, 1, 5]),
        (one, &["", "", "", "a=x", "a=x", "a=x"], &[0, 1, 2, 3, 4, 5], &[3, 0, 1, 4, 2, 5]),
        (one, &["a=y", "a=y", "a=x", "a=x"], &[0, 1, 2, 3], &[2, 0, 1, 3]),
        // Pods 5 and 6 are updated: few pods with the label are left, so that two others come
        // before their turn.
        (one, &["", "", "a=x", "a=x", "", "a=x", "a=x"], &[0, 1, 4, 2, 3], &[0, 1, 2, 4, 3]),
        (one, &["", "", "", "", "a=x", "a=x", "a=x"], &[0, 1, 2, 3, 4, 5], &[0, 1, 4, 2, 3, 5]),
        // More pods have the label than not: two of them in each turn, and one of the two is left.
        (one, &["", "", "", "a=x", "a=x", "a=x", "a=x", "a=x", "a=x", "a=x"], &[0, 1, 3, 4, 5], &[0, 3, 4, 1, 5]),
        // The last of three: it stays the very last, although no pod is left to take turns with.
        (one, &["", "", "a=x", "a=x", "a=x"], &[2, 0, 1], &[0, 1, 2]),
        (&["a=x", "b=x"], &["b=x", "b=x", "", "", "a=x", "a=x"], &[0, 1, 2, 3, 4, 5], &[0, 4, 2, 3, 5, 1]),
        // No pod has b: it is as if it were not asked for.
        (&["b=x", "a=x"], &["", "", "", "", "a=x", "a=x"], &[0, 1, 2, 3, 4, 5], &[4, 0, 1, 2, 3, 5]),
        (three, &["", "a=x", "a=x c=x", "b=x c=x", "b=x", "", "", "c=x", "c=x", "c=x"], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], &[3, 2, 0, 7, 8, 5, 6, 9, 1, 4]),
    ];
    for (terms, labels, waiting, expected) in table {
        let all = pods(labels);
        let waiting = waiting.iter().map(|at| all[*at].clone()).collect();
        assert_eq!(
            arranged(&order(Value::Null, terms), waiting, &all),
            expected,
            "{terms:?} of {labels:?}"
        );
    }
}

#[test]
fn a_selector_that_makes_no_sense_is_named() {
    let strategy = json!({"weightPriority": [{"weight": 1, "matchSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}]});
    let strategy: UpdatePriorityStrategy = serde_json::from_value(strategy).unwrap();
    let problem = UpdateOrder::new(Some(&strategy), &[]).unwrap_err();
    assert!(
        problem.starts_with("weightPriority[0].matchSelector: ") && problem.contains("\"Like\""),
        "{problem}"
    );
}

proptest! {
    #[test]
    fn every_pod_keeps_its_turn(
        labels in prop::collection::vec(prop_oneof!["", "a=x", "b=x", "a=x b=x", "b=y"], 0..14),
        first in 0usize..14,
        terms in prop_oneof![Just(vec!["a=x"]), Just(vec!["b=x", "a=x"]), Just(vec![])],
    ) {
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        let all = pods(&labels);
        let waiting: Vec<_> = all.iter().skip(first).cloned().collect();
        let mut order = arranged(&order(Value::Null, &terms), waiting, &all);
        order.sort_unstable();
        prop_assert_eq!(order, (first..labels.len()).collect::<Vec<_>>());
    }

    /// With any number of pods at a time, the order equals a single one: each time, the first of
    /// the remaining pods is updated.
    #[test]
    fn the_label_is_spread_over_the_whole_update(labelled in 2usize..6, others in 2usize..12) {
        let labels: Vec<_> = std::iter::repeat_n("a=x", labelled).chain(std::iter::repeat_n("", others)).collect();
        let (all, order) = (pods(&labels), order(Value::Null, &["a=x"]));
        let (mut waiting, mut places) = (all.clone(), Vec::new());
        for place in 0..all.len() {
            let next = order.arrange(waiting.clone(), &all).swap_remove(0);
            if next.metadata.label("a").is_some() {
                places.push(place);
            }
            waiting.retain(|pod| pod.metadata.name != next.metadata.name);
        }
        prop_assert_eq!(places.last().copied(), Some(all.len() - 1), "the last is the very last");
        let gaps = places.windows(2).map(|pair| pair[1] - pair[0]);
        let fair = others.div_ceil(labelled - 1) + 1;
        for gap in gaps {
            prop_assert!(gap <= 2 * fair, "{places:?} of {}", all.len());
        }
    }
}
