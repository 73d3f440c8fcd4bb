use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn compiled(selector: &Value) -> Compiled {
    Compiled::new(
        &serde_json::from_value(json!({"metadata": {}, "spec": {"selector": selector}})).unwrap(),
    )
}

fn selector() -> impl Strategy<Value = Value> {
    let (key, value) = ("[ab]", "[xyz]");
    let expression = prop_oneof![
            (key, prop::collection::vec(value, 1..3), any::<bool>()).prop_map(|(key, values, is_in)| {
                json!({"key": key, "operator": if is_in { "In" } else { "NotIn" }, "values": values})
            }),
            (key, any::<bool>()).prop_map(|(key, exists)| {
                json!({"key": key, "operator": if exists { "Exists" } else { "DoesNotExist" }})
            }),
        ];
    let labels = prop::collection::btree_map(key, value, 0..2);
    (labels, prop::collection::vec(expression, 0..3)).prop_map(
        |(labels, expressions)| json!({"matchLabels": labels, "matchExpressions": expressions}),
    )
}

proptest! {
    /// After any sequence of SidecarSets that came, changed and went.
    #[test]
    fn those_that_select_a_pod_are_found_by_its_labels(
        steps in prop::collection::vec(("[s-v]", prop::option::of(selector())), 0..12),
        labels in prop::collection::btree_map("[ab]", "[xyz]", 0..3),
    ) {
        let (selectors, mut last) = (Selectors::default(), BTreeMap::new());
        for (name, selector) in steps {
            match selector {
                Some(selector) => {
                    selectors.all().set(&name, compiled(&selector));
                    last.insert(name, selector);
                }
                None => {
                    selectors.all().remove(&name);
                    last.remove(&name);
                }
            }
        }
        let label = |key: &str| labels.get(key).map(String::as_str);
        let expected: BTreeSet<_> =
            last.into_iter().filter(|(_, selector)| compiled(selector).selects_pod(label)).map(|(name, _)| name).collect();
        let found = selectors.of_labels(label);
        prop_assert_eq!(found.len(), expected.len());
        prop_assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
    }
}
