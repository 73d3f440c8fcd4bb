//! A daemon reports pods of its own node; its token lets it write that node's NodeImage only.

use std::collections::BTreeMap;

use berth_workload::objects::node::image::NodeFacts;

use super::*;

#[test]
fn another_nodes_report_does_not_prove_an_update() {
    let mut world = World::settled(
        1,
        template("web:1"),
        strategy("InPlaceIfPossible", json!({})),
    );
    world.set_template(template("web:2"));
    world.settle();
    let own = world.snapshot();
    let pod = own.pods[0].clone();
    assert!(
        !own.view().facts(&pod).created.is_empty(),
        "its own node's daemon is believed"
    );

    // The same report, in the NodeImage of another node.
    let said = own.node_images[&pod.spec.node_name].clone();
    let nodes = |name: &str| BTreeMap::from([(Box::from(name), said.clone())]);
    let elsewhere = Snapshot {
        node_images: nodes("another"),
        ..own.clone()
    };
    assert_eq!(elsewhere.view().facts(&pod), NodeFacts::default());

    // No daemon reports a pod that has no node yet.
    let mut unbound = (*pod).clone();
    unbound.spec.node_name = "".into();
    assert_eq!(own.view().facts(&unbound), NodeFacts::default());

    // The daemon of the pod's node reports another pod.
    let mut other = (*pod).clone();
    other.metadata.uid = "another".into();
    assert!(own.view().facts(&other).created.is_empty());
}
