//! Updates and deletions that interrupt one another, and hooks that are added and removed
//! meanwhile.

use berth_workload::objects::pod::lifecycle::UPDATING;

use super::*;

fn labelled(tier: &str) -> Value {
    let mut template = template("web:1");
    template["metadata"]["labels"]["tier"] = json!(tier);
    template
}

#[test]
fn reverted_update_is_marked_updated_before_the_next() {
    let mut world = World::settled(1, labelled("a"), strategy(json!({})));
    world.set_lifecycle(json!({"inPlaceUpdate": by_label(false)}));
    world.set_template(labelled("b"));
    world.step();
    assert_eq!(
        kinds(&world.step()),
        ["PatchPod"],
        "nothing holds it, and it goes on serving"
    );
    assert_eq!(world.states(), [UPDATING]);
    // The template changes back at once: the pod has the label already, and its hook's owner was
    // notified of an update.
    world.set_template(labelled("a"));
    assert_eq!(
        kinds(&world.step()),
        ["RenumberControllerRevision", "PatchPodStatus"]
    );
    assert_eq!(world.states(), [UPDATED]);
    assert_eq!(world.pods()[0].metadata.label("tier"), Some("b"));
    world.settle_with_owner();
    assert_eq!(
        (world.states(), world.pods()[0].metadata.label("tier")),
        (vec![NORMAL.to_owned()], Some("a"))
    );
}

#[test]
fn hook_added_during_update_does_not_hold_the_pod() {
    let mut world = World::settled(1, template("web:1"), strategy(json!({})));
    world.set_template(template("web:2"));
    world.step();
    world.die_after(1);
    assert_eq!(world.states(), [NORMAL], "out of service by its gate alone");
    world.set_lifecycle(json!({"inPlaceUpdate": by_label(false)}));
    world.set_template(template("web:1"));
    world.step();
    assert_eq!(
        (world.states(), world.images()),
        (vec![NORMAL.to_owned()], vec!["web:1".to_owned()])
    );
    assert!(world.pods()[0].is_true("InPlaceUpdateReady"));
}

#[test]
fn preparing_pod_keeps_waiting_under_narrower_limits() {
    let mut world = held(2, json!({}), json!({"inPlaceUpdate": by_label(false)}));
    world.set_template(template("web:2"));
    world.settle();
    let first = one(&world, PREPARING_UPDATE);
    world.hold(first, false, false);
    world.settle();
    world.hold(first, true, false);
    world.settle();
    let second = one(&world, PREPARING_UPDATE);
    // Now the updated pod fails: no more pods may be taken out of service.
    world.break_pod(first);
    world.hold(second, false, false);
    world.step();
    assert_eq!(
        world.states()[second],
        PREPARING_UPDATE,
        "the update is still due, and the hook's owner is notified once"
    );
    assert_eq!(world.images()[second], "web:1");
    assert!(
        waits(&world).contains("waits for maxUnavailable"),
        "{}",
        waits(&world)
    );
    world.mend();
    world.settle_with_owner();
    assert_eq!(world.images(), ["web:2", "web:2"]);
}

/// The state of a pod that was held before its deletion, and is wanted again.
#[test]
fn a_pod_comes_back_to_the_update_that_it_was_in() {
    let pre_delete = || json!({"preDelete": by_label(false)});
    let comes_back = |world: &mut World| {
        scale(world, 0);
        world.step();
        assert_eq!(world.states(), [PREPARING_DELETE]);
        scale(world, 1);
        world.step();
        world.states().remove(0)
    };

    // The pod has new labels, which are proven as soon as they exist.
    let mut world = held(1, json!({}), pre_delete());
    world.set_template(labelled("a"));
    world.step();
    world.step();
    assert_eq!(world.pods()[0].metadata.label("tier"), Some("a"));
    assert_eq!(comes_back(&mut world), NORMAL, "nothing is left to prove");

    // The pod serves, and gets more cpu, which its kubelet has not applied yet.
    let sized = |cpu: &str| {
        let mut template = template("web:1");
        template["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
        template
    };
    let mut world = World::new(1, sized("1"), strategy(json!({})));
    world.resize = berth_workload::update::inplace::resize::Ability::On;
    world.settle();
    world.hold(0, true, false);
    world.set_lifecycle(pre_delete());
    world.set_template(sized("2"));
    world.step();
    assert_eq!(kinds(&world.step()), ["PatchPod", "ResizePod"]);
    assert_eq!(comes_back(&mut world), UPDATING);
    world.settle();
    assert_eq!(
        (world.states(), world.status().updated_available_replicas),
        (vec![NORMAL.to_owned()], 1)
    );

    // The pod's image is patched, and another creator left out the readiness gate for it.
    let mut world = held(1, json!({}), pre_delete());
    for pod in world.pods.values_mut() {
        pod["spec"]["readinessGates"] = json!([]);
        pod["status"]["conditions"]
            .as_array_mut()
            .unwrap()
            .retain(|c| c["type"] == "Ready");
    }
    world.set_template(template("web:2"));
    world.step();
    assert_eq!(kinds(&world.step()), ["PatchPod"]);
    assert_eq!(comes_back(&mut world), UPDATING);
    world.settle();
    assert_eq!(
        (world.states(), world.created_from()),
        (vec![NORMAL.to_owned()], vec!["web:2".to_owned()])
    );
}
