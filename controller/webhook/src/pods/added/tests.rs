use std::collections::BTreeSet;

use serde_json::Value;

use super::super::{SidecarRequest, Sidecars};
use super::*;
use crate::endpoint::Endpoint;

fn ask(team: &str, fails_closed: bool) -> SidecarRequest {
    let labels = |key: &str, value: &str| {
        serde_json::from_value(json!({"matchLabels": {key: value}})).unwrap()
    };
    let namespaces = (!team.is_empty()).then(|| labels("team", team));
    SidecarRequest {
        name: format!("of-{team}"),
        selector: labels("app", "web"),
        namespaces,
        fails_closed,
    }
}

#[test]
fn additions_to_an_entry_are_found_for_its_sets_only() {
    let protected: BTreeSet<_> = ["kube-system".to_owned()].into();
    let asks = [ask("", false), ask("a", false), ask("a", true)];
    let service = Endpoint::Service {
        namespace: "ours".to_owned(),
        name: "webhook".to_owned(),
    };
    let made = Sidecars::new(asks.clone(), protected.clone()).webhooks(&service, ("PEM", "s"));
    let entry = asks[1].entry(&protected);
    let at = made
        .iter()
        .position(|made| made["name"].as_str().unwrap().starts_with(&entry))
        .unwrap();
    let more = json!({"key": "no-sidecars", "operator": "DoesNotExist"});
    let changed = |path: &str, value: Value| {
        let mut all = made.clone();
        let (parent, field) = path.rsplit_once('/').unwrap();
        all[at].pointer_mut(parent).unwrap()[field] = value;
        let all: Vec<MutatingWebhook> = all
            .into_iter()
            .map(|it| serde_json::from_value(it).unwrap())
            .collect();
        Added::of(&all)
    };
    let own = made[at]["namespaceSelector"]["matchExpressions"]
        .as_array()
        .unwrap();
    let expressions = [own.as_slice(), &[more]].concat();
    for (what, added, is_added) in [
        ("nothing", changed("/objectSelector", json!({})), false),
        (
            "an expression",
            changed("/namespaceSelector/matchExpressions", json!(expressions)),
            true,
        ),
        (
            "a label of namespaces",
            changed(
                "/namespaceSelector/matchLabels",
                json!({"team": "a", "b": "c"}),
            ),
            true,
        ),
        (
            "a label of pods",
            changed("/objectSelector", json!({"matchLabels": {"inject": "yes"}})),
            true,
        ),
        (
            "another webhook",
            changed("/name", json!("sidecars.others.io")),
            false,
        ),
    ] {
        let found = asks
            .clone()
            .map(|ask| added.to(&ask.entry(&protected)).len());
        assert_eq!(found, [0, usize::from(is_added), 0], "{what}");
    }
}
