//! Writes around the entries in NodeImages, and their events.

use berth_api::names::finalizer::PROTECTION;
use berth_workload::objects::resource::IMAGE_PULL_JOBS;
use berth_workload::plan::{Action, Plan};

use super::*;
use crate::imagepulljob::decide;

fn full() -> Value {
    let images = (0..MAX_IMAGES).map(|n| (format!("i{n}"), json!({"tags": [{"tag": "1"}]})));
    Value::Object(images.collect())
}

fn says(plan: &Plan) -> Vec<&str> {
    plan.waiting
        .iter()
        .map(|waiting| &*waiting.reason)
        .collect()
}

#[test]
fn finalizer_is_added_once_beside_others() {
    let table = [
        (json!(null), Some(json!([PROTECTION]))),
        (json!(["x.io/y"]), Some(json!(["x.io/y", PROTECTION]))),
        (json!([PROTECTION]), None),
        (json!(["x.io/y", PROTECTION]), None),
    ];
    for (finalizers, expected) in table {
        let mut world = World::new(1);
        world.create("job", &json!({}));
        let mut snapshot = world.snapshot("job");
        Arc::make_mut(&mut snapshot.job).metadata.finalizers =
            serde_json::from_value(finalizers.clone()).unwrap();
        let plan = decide(&snapshot, world.now);
        let protect = plan.stages.iter().find(|stage| stage.name == "protect");
        let patches = protect.map(|stage| match &stage.steps[0].actions[..] {
            [
                Action::Patch {
                    resource: IMAGE_PULL_JOBS,
                    patch,
                    ..
                },
            ] => patch["metadata"]["finalizers"].clone(),
            other => panic!("{other:?}"),
        });
        assert_eq!(patches, expected, "{finalizers}");
        assert!(
            protect.is_none_or(|stage| stage.required),
            "no pull is requested before it: {finalizers}"
        );
    }
}

#[test]
fn plan_names_twenty_pulling_nodes_at_most() {
    for (parallelism, named, more) in [
        (19, 19, None),
        (20, 20, None),
        (21, 20, Some(1)),
        (24, 20, Some(4)),
    ] {
        let mut world = World::new(25);
        world.create("job", &json!({"parallelism": parallelism}));
        world.step("job");
        let plan = world.plan("job");
        let says = says(&plan);
        let count = |end: &str| {
            says.iter()
                .filter(|reason| reason.starts_with("node n") && reason.ends_with(end))
                .count()
        };
        assert_eq!(count("has yet to pull"), named, "{parallelism}");
        let others = says
            .iter()
            .find_map(|reason| reason.strip_suffix(" more nodes have yet to pull"));
        assert_eq!(
            others.map(|count| count.parse().unwrap()),
            more,
            "{parallelism}"
        );
        let later = format!(
            "{} nodes wait for spec.parallelism, which lets {parallelism} pull at a time",
            25 - parallelism
        );
        assert!(says.contains(&&*later), "{says:?}");
    }
    let mut world = World::new(2);
    world.create("job", &json!({"parallelism": 2}));
    world.step("job");
    assert_eq!(
        says(&world.plan("job")),
        ["node n0 has yet to pull", "node n1 has yet to pull"],
        "no other node waits"
    );
}

#[test]
fn deadline_event_counts_unfinished_nodes() {
    let mut world = World::new(5);
    world.daemons.insert("n1".to_owned(), Daemon::Fails);
    for node in ["n2", "n3"] {
        world.daemons.insert(node.to_owned(), Daemon::Silent);
    }
    world.create(
        "job",
        &json!({"parallelism": 5, "completionPolicy": {"activeDeadlineSeconds": 30}}),
    );
    world.run(40);
    let told: Vec<_> = world
        .events
        .iter()
        .filter(|event| event.starts_with("DeadlineExceeded"))
        .collect();
    assert_eq!(
        told,
        ["DeadlineExceeded: activeDeadlineSeconds have passed: 2 of 5 nodes are not done"]
    );
}

#[test]
fn changed_image_with_equal_tag_removes_old_entries() {
    let mut world = World::new(2);
    world.create("job", &json!({"parallelism": 2}));
    world.step("job");
    world.edit("job", &json!({"image": "web:1"}));
    world.step("job");
    assert_eq!(world.entries(), [""; 0]);
    world.run(5);
    assert_eq!(world.entries(), ["n0 web:1 0", "n1 web:1 0"]);
}

#[test]
fn stray_entries_are_removed_and_wanted_ones_stay() {
    let mut world = World::new(1);
    world.create("job", &json!({}));
    world.step("job");
    // A user added the job's name to another image, and to another tag of the job's image.
    world.edit_node("n0", |node| {
        let mut entry = node["spec"]["images"]["app"]["tags"][0].clone();
        node["spec"]["images"]["other"]["tags"] = json!([entry]);
        entry["tag"] = json!("2");
        node["spec"]["images"]["app"]["tags"]
            .as_array_mut()
            .unwrap()
            .push(entry);
    });
    // The controller checks the entries after the job was edited.
    world.edit("job", &json!({"parallelism": 2}));
    world.step("job");
    assert_eq!(world.entries(), ["n0 app:1 0"]);
}

#[test]
fn message_names_progress_and_cause_of_wait() {
    let message = |world: &World| world.status("job").message;
    let mut world = World::new(3);
    world.daemons.insert("n0".to_owned(), Daemon::Fails);
    world.daemons.insert("n2".to_owned(), Daemon::Silent);
    world.create("job", &json!({"parallelism": 3}));
    world.step("job");
    assert_eq!(
        message(&world),
        "0 of 3 nodes have the image, 3 are pulling"
    );
    world.run(4);
    assert_eq!(
        message(&world),
        "1 of 3 nodes have the image, 1 failed, 1 are pulling"
    );

    // Entries that exist stay; no node is left that a pause would concern.
    let mut world = World::new(1);
    world.create("job", &json!({}));
    world.step("job");
    world.edit("job", &json!({"parallelism": 0}));
    world.step("job");
    assert_eq!(
        message(&world),
        "0 of 1 nodes have the image, 1 are pulling"
    );

    let mut world = World::new(1);
    world.create("job", &json!({"parallelism": 0}));
    world.step("job");
    assert_eq!(
        message(&world),
        "0 of 1 nodes have the image; paused by parallelism 0"
    );
    world.edit_node("n0", |node| node["spec"]["images"] = full());
    world.step("job");
    let no_room = "no more images fit into NodeImage n0";
    assert_eq!(
        message(&world),
        format!("0 of 1 nodes have the image; paused by parallelism 0; {no_room}")
    );
    world.edit("job", &json!({"parallelism": 1}));
    world.step("job");
    assert_eq!(
        message(&world),
        format!("0 of 1 nodes have the image; {no_room}")
    );

    let mut world = World::new(1);
    world.create(
        "job",
        &json!({"selector": {"names": ["n0", "n1", "n2", "n3", "n4"]}, "parallelism": 9}),
    );
    world.run(3);
    assert_eq!(
        message(&world),
        "1 of 1 nodes have the image; completed; there is no NodeImage n1, n2, n3 and 1 more"
    );
}
