use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn selector(value: Value) -> Selector {
    Selector::new(&serde_json::from_value(value).unwrap()).unwrap()
}

fn selected(labels: &Value) -> Option<Held> {
    Some(Held::Selected {
        selector: selector(json!({"matchLabels": labels})),
        ignored: None,
    })
}

fn member(cluster: &str, namespace: &str) -> Member {
    Member {
        cluster: cluster.to_owned(),
        namespace: namespace.to_owned(),
        ..Member::default()
    }
}

/// Which contexts of the tests lead to one cluster.
fn aliases(cluster: &str) -> BTreeSet<String> {
    // The alias may be known of either cluster.
    (cluster == "oriental")
        .then(|| "east".to_owned())
        .into_iter()
        .collect()
}

type One = (Member, Option<Held>, Result<Brings, Silence>);
/// Healthy pods and expected ones.
type Left = Vec<(usize, Option<usize>)>;
type Case = (&'static str, Vec<One>, Left, Vec<Vec<usize>>);

/// What each brings then.
fn once(all: Vec<One>) -> (Left, Sharing) {
    let kinds = vec![None; all.len()];
    once_of_kinds(all, &kinds)
}

fn once_of_kinds(mut all: Vec<One>, kinds: &[Option<MemberKind>]) -> (Left, Sharing) {
    let elsewhere = all
        .iter()
        .zip(kinds)
        .map(|((member, held, _), kind)| Elsewhere {
            kind: *kind,
            held: held.clone(),
            aliases: aliases(&member.cluster),
        });
    let elsewhere: Vec<_> = elsewhere.collect();
    let brought = all.iter_mut().zip(&elsewhere);
    let brought = brought.map(|((member, _, brings), elsewhere)| Brought {
        member,
        elsewhere,
        brings,
    });
    let sharing = count_once(&mut brought.collect::<Vec<_>>());
    let found = all.iter().map(|(_, _, brings)| match brings {
        Ok(brings) => (brings.healthy, Some(brings.expected)),
        Err(silence) => (silence.keeps, None),
    });
    (found.collect(), sharing)
}

#[test]
fn overlapping_budgets_count_as_the_largest() {
    let shop = || member("east", "shop");
    let (web, db) = (
        || selected(&json!({"app": "web"})),
        || selected(&json!({"app": "db"})),
    );
    let front = || selected(&json!({"tier": "front"}));
    let ignoring = |label: &str| {
        let ignored = Some(selector(json!({"matchLabels": {"ignored": label}})));
        Some(Held::Selected {
            selector: selector(json!({"matchLabels": {"app": "web"}})),
            ignored,
        })
    };
    let unknown = || Some(Held::Unknown);
    let known = |healthy, expected| Ok(Brings { healthy, expected });
    let keeps = |keeps| {
        Err(Silence {
            keeps,
            ..Silence::of("is silent")
        })
    };
    let table: [Case; 15] = [
        (
            "the very same",
            vec![(shop(), web(), known(3, 3)), (shop(), web(), known(2, 5))],
            vec![(3, Some(3)), (0, Some(2))],
            vec![vec![0, 1]],
        ),
        (
            "no label says otherwise",
            vec![(shop(), web(), known(2, 3)), (shop(), front(), known(3, 5))],
            vec![(2, Some(3)), (1, Some(5))],
            vec![vec![0, 1]],
        ),
        (
            "they exclude each other",
            vec![(shop(), web(), known(3, 3)), (shop(), db(), known(2, 2))],
            vec![(3, Some(3)), (2, Some(2))],
            vec![],
        ),
        (
            "one between them",
            vec![
                (shop(), web(), known(3, 3)),
                (shop(), front(), known(2, 2)),
                (shop(), db(), known(4, 4)),
            ],
            vec![(3, Some(3)), (0, Some(2)), (1, Some(4))],
            vec![vec![0, 1, 2]],
        ),
        (
            "the one between them is the last",
            vec![
                (shop(), web(), known(1, 1)),
                (shop(), db(), known(1, 1)),
                (shop(), front(), known(2, 2)),
            ],
            vec![(1, Some(1)), (0, Some(1)), (1, Some(2))],
            vec![vec![0, 1, 2]],
        ),
        (
            "another namespace",
            vec![
                (shop(), web(), known(3, 3)),
                (member("east", "other"), web(), known(3, 3)),
            ],
            vec![(3, Some(3)), (3, Some(3))],
            vec![],
        ),
        (
            "another cluster",
            vec![
                (shop(), web(), known(3, 3)),
                (member("west", "shop"), web(), known(3, 3)),
            ],
            vec![(3, Some(3)), (3, Some(3))],
            vec![],
        ),
        (
            "another context of the same cluster",
            vec![
                (shop(), web(), known(3, 3)),
                (member("oriental", "shop"), web(), known(4, 5)),
            ],
            vec![(3, Some(3)), (1, Some(5))],
            vec![vec![0, 1]],
        ),
        (
            "that context is named first",
            vec![
                (member("oriental", "shop"), front(), known(2, 2)),
                (shop(), web(), known(1, 2)),
            ],
            vec![(2, Some(2)), (0, Some(2))],
            vec![vec![0, 1]],
        ),
        (
            "its pods are unknown",
            vec![
                (shop(), unknown(), known(3, 3)),
                (shop(), web(), known(1, 1)),
                (shop(), unknown(), known(4, 4)),
            ],
            vec![(3, Some(3)), (0, Some(1)), (1, Some(4))],
            vec![vec![0, 1, 2]],
        ),
        (
            "a floor",
            vec![
                (shop(), web(), keeps(2)),
                (shop(), web(), known(3, 3)),
                (shop(), front(), keeps(1)),
            ],
            vec![(2, None), (1, Some(3)), (0, None)],
            vec![vec![0, 1, 2]],
        ),
        (
            "a silent one links no others",
            vec![
                (shop(), web(), known(3, 3)),
                (shop(), unknown(), keeps(0)),
                (shop(), db(), known(2, 2)),
            ],
            vec![(3, Some(3)), (0, None), (2, Some(2))],
            vec![],
        ),
        (
            "by the pods themselves",
            vec![
                (shop(), None, known(3, 3)),
                (shop(), web(), known(3, 3)),
                (shop(), None, known(3, 3)),
            ],
            vec![(3, Some(3)), (3, Some(3)), (3, Some(3))],
            vec![],
        ),
        (
            "what is left out of one is of the other",
            vec![
                (shop(), ignoring("a"), known(2, 3)),
                (shop(), ignoring("b"), known(2, 3)),
            ],
            vec![(2, Some(3)), (0, Some(3))],
            vec![vec![0, 1]],
        ),
        (
            "two pairs",
            vec![
                (shop(), web(), known(1, 1)),
                (shop(), db(), known(2, 2)),
                (shop(), web(), known(1, 1)),
                (shop(), db(), known(2, 2)),
            ],
            vec![(1, Some(1)), (2, Some(2)), (0, Some(0)), (0, Some(0))],
            vec![vec![0, 2], vec![1, 3]],
        ),
    ];
    for (what, all, expected, groups) in table {
        let (found, sharing) = once(all);
        assert_eq!(found, expected, "{what}");
        assert_eq!(sharing.groups, groups, "{what}");
    }
}

#[test]
fn budget_named_by_two_contexts_counts_once() {
    use MemberKind::{DistributedPodDisruptionBudget as Ours, PodDisruptionBudget as Native};
    let at = |cluster: &str, name: &str| Member {
        name: name.to_owned(),
        ..member(cluster, "shop")
    };
    let known = |healthy, expected| Ok(Brings { healthy, expected });
    let keeps = |keeps| {
        Err(Silence {
            keeps,
            ..Silence::of("is silent")
        })
    };
    let (web, db) = (
        || selected(&json!({"app": "web"})),
        || selected(&json!({"app": "db"})),
    );
    let (east, again) = (|| at("east", "foo"), || at("oriental", "foo"));
    for (what, all, kinds, expected) in [
        (
            "the very same",
            vec![(east(), web(), known(3, 3)), (again(), web(), known(3, 3))],
            [Some(Ours); 2],
            vec![(3, Some(3)), (0, None)],
        ),
        (
            "in the other order, and read a moment later",
            vec![(again(), web(), known(2, 3)), (east(), web(), known(3, 3))],
            [Some(Ours); 2],
            vec![(2, Some(3)), (0, None)],
        ),
        (
            "two clusters",
            vec![
                (east(), web(), known(3, 3)),
                (at("west", "foo"), web(), known(3, 3)),
            ],
            [Some(Ours); 2],
            vec![(3, Some(3)), (3, Some(3))],
        ),
        (
            "another name",
            vec![
                (east(), web(), known(3, 3)),
                (at("oriental", "bar"), db(), known(3, 3)),
            ],
            [Some(Ours); 2],
            vec![(3, Some(3)), (3, Some(3))],
        ),
        (
            "another kind",
            vec![(east(), web(), known(3, 3)), (again(), db(), known(2, 2))],
            [Some(Ours), Some(Native)],
            vec![(3, Some(3)), (2, Some(2))],
        ),
        (
            "a floor and its budget",
            vec![(east(), web(), keeps(2)), (again(), web(), known(3, 3))],
            [Some(Ours); 2],
            vec![(2, None), (0, None)],
        ),
        (
            "the first brings nothing",
            vec![(east(), web(), keeps(0)), (again(), web(), known(3, 3))],
            [Some(Ours); 2],
            vec![(0, None), (3, Some(3))],
        ),
    ] {
        let alone: Vec<_> = all.iter().map(|(_, _, brings)| brings.clone()).collect();
        let (found, sharing) = once_of_kinds(all, &kinds);
        assert_eq!(found, expected, "{what}");
        for ((alone, counted), (left, _)) in alone.iter().zip(&sharing.counted).zip(&found) {
            let alone = alone
                .as_ref()
                .map_or_else(|silence| silence.keeps, |brings| brings.healthy);
            assert_eq!(alone, counted + left, "{what}");
        }
    }
    let why = super::again("east");
    assert!(
        why.contains("context \"east\"") && why.contains("spec.federation"),
        "{why}"
    );
}

#[test]
fn held_pods_are_read_from_the_budget_object() {
    let web = || selected(&json!({"app": "web"})).unwrap();
    let labels = json!({"matchLabels": {"app": "web"}});
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let ignored = json!({"matchLabels": {"app": "web", "tier": "back"}});
    let counted = json!({"ledger": {"counted": "7", "selector": "app=web"}});
    let unavailable = |spec: Value, status: Value| {
        let budget = json!({"metadata": {"name": "web"}, "spec": spec, "status": status});
        Held::of_unavailable(&serde_json::from_value(budget).unwrap())
    };
    for (spec, status, expected) in [
        (json!({"selector": labels}), Value::Null, web()),
        (json!({"targetRef": target}), counted.clone(), web()),
        (json!({"targetRef": target}), Value::Null, Held::Unknown),
        (
            json!({"targetRef": target}),
            json!({"ledger": {"counted": "7"}}),
            Held::Unknown,
        ),
        (
            json!({"targetRef": target}),
            json!({"ledger": {"selector": "app in (web"}}),
            Held::Unknown,
        ),
        (
            json!({"targetRef": target, "selector": labels}),
            counted,
            Held::Unknown,
        ),
        (json!({}), Value::Null, Held::Unknown),
        (
            json!({"selector": labels, "ignoredPodSelector": ignored}),
            Value::Null,
            Held::Selected {
                selector: selector(json!({"matchLabels": {"app": "web"}})),
                ignored: Some(selector(ignored.clone())),
            },
        ),
    ] {
        assert_eq!(
            unavailable(spec.clone(), status.clone()),
            expected,
            "{spec} {status}"
        );
    }
    let distributed = |selector: Value| {
        let budget = json!({"metadata": {"name": "web"}, "spec": {"selector": selector}});
        Held::of_distributed(&serde_json::from_value(budget).unwrap())
    };
    assert_eq!(distributed(labels.clone()), web());
    assert_eq!(
        distributed(json!({"matchExpressions": [{"key": "app", "operator": "Like"}]})),
        Held::Unknown
    );
    assert_eq!(
        distributed(json!({"matchLabels": {"app": "w".repeat(LARGEST)}})),
        Held::Unknown,
        "it is too large"
    );
    let native =
        |spec: Value| Held::of_native(&serde_json::from_value(json!({"spec": spec})).unwrap());
    assert_eq!(native(json!({"selector": labels})), Some(web()));
    assert_eq!(native(json!({"selector": {}})), selected(&json!({})));
    assert_eq!(native(json!({})), None);
}

const KEYS: [&str; 2] = ["a", "b"];
const VALUES: [&str; 3] = ["1", "2", "3"];
/// The last is the first by another context.
const PLACES: [(&str, &str); 4] = [
    ("east", "shop"),
    ("east", "other"),
    ("west", "shop"),
    ("oriental", "shop"),
];

/// Where it is, its labels by [`KEYS`], and whether it is healthy.
type Placed = (usize, [Option<&'static str>; 2], bool);

fn any_pod() -> impl Strategy<Value = Placed> {
    let label = || prop::option::of(prop::sample::select(VALUES.to_vec()));
    (0..PLACES.len() - 1, label(), label(), any::<bool>())
        .prop_map(|(place, a, b, healthy)| (place, [a, b], healthy))
}

fn any_selector() -> impl Strategy<Value = Selector> {
    let values = prop::sample::subsequence(VALUES.to_vec(), 1..=VALUES.len());
    let asked = (prop::sample::select(KEYS.to_vec()), 0..4_usize, values).prop_map(
        |(key, operator, values)| {
            let operator = ["In", "NotIn", "Exists", "DoesNotExist"][operator];
            let values = operator.ends_with("In").then_some(values);
            json!({"key": key, "operator": operator, "values": values})
        },
    );
    prop::collection::vec(asked, 0..3)
        .prop_map(|asked| selector(json!({"matchExpressions": asked})))
}

fn selects(selector: &Selector, labels: &[Option<&'static str>; 2]) -> bool {
    selector.matches(|key| {
        KEYS.iter()
            .position(|known| *known == key)
            .and_then(|at| labels[at])
    })
}

/// Its place, its selectors, whether the selectors are known, and whether its contribution is
/// unknown and it has a floor.
type Budget = (usize, Selector, Option<Selector>, bool, bool);

fn any_budget() -> impl Strategy<Value = Budget> {
    let is_known = prop::bool::weighted(0.8);
    let is_silent = prop::bool::weighted(0.2);
    (
        0..PLACES.len(),
        any_selector(),
        prop::option::weighted(0.2, any_selector()),
        is_known,
        is_silent,
    )
}

proptest! {
    // For any pods: the sum of healthy pods is never more than exist, and the sum of expected pods
    // is never too small.
    #[test]
    fn no_pod_counts_twice(
        pods in prop::collection::vec(any_pod(), 0..16), budgets in prop::collection::vec(any_budget(), 1..7),
    ) {
        let holds = |(place, selector, ignored, ..): &Budget, pod: &Placed| {
            let is_ignored = ignored.as_ref().is_some_and(|ignored| selects(ignored, &pod.1));
            *place % (PLACES.len() - 1) == pod.0 && selects(selector, &pod.1) && !is_ignored
        };
        let all: Vec<One> = budgets.iter().map(|budget| {
            let (place, selector, ignored, is_known, is_silent) = budget.clone();
            let held: Vec<_> = pods.iter().filter(|pod| holds(budget, pod)).collect();
            let healthy = held.iter().filter(|pod| pod.2).count();
            let brings = if is_silent {
                Err(Silence { keeps: healthy, ..Silence::of("is silent") })
            } else {
                Ok(Brings { healthy, expected: held.len() })
            };
            let held = if is_known { Held::Selected { selector, ignored } } else { Held::Unknown };
            (member(PLACES[place].0, PLACES[place].1), Some(held), brings)
        }).collect();
        let healthy = |brings: &Result<Brings, Silence>| match brings {
            Ok(brings) => brings.healthy,
            Err(silence) => silence.keeps,
        };
        let alone: Vec<usize> = all.iter().map(|(_, _, brings)| healthy(brings)).collect();
        let (found, sharing) = once(all);
        let union: Vec<_> = pods.iter().filter(|pod| budgets.iter().any(|budget| holds(budget, pod))).collect();
        let counted: usize = found.iter().map(|(healthy, _)| healthy).sum();
        let there = union.iter().filter(|pod| pod.2).count();
        prop_assert!(counted <= there, "{counted} of {there}: {found:?} {sharing:?}");
        prop_assert!(counted >= alone.iter().copied().max().unwrap_or(0), "{found:?} {alone:?}");
        prop_assert!(!sharing.groups.is_empty() || counted == alone.iter().sum::<usize>(), "{found:?} {alone:?}");
        if found.iter().all(|(_, expected)| expected.is_some()) {
            let expected: usize = found.iter().filter_map(|(_, expected)| *expected).sum();
            prop_assert!(expected >= union.len(), "{expected} of {}: {found:?} {sharing:?}", union.len());
        }
        for ((alone, counted), (left, _)) in alone.iter().zip(&sharing.counted).zip(&found) {
            prop_assert_eq!(*alone, counted + left);
        }
    }
}
