use std::sync::Arc;

use serde_json::json;

use super::super::simulation::{World, template};
use super::*;

#[test]
fn missing_pods_are_removed_once_spec_is_observed() {
    let mut world = World::settled(2, template("web:1"), json!({}));
    let pod = world.pods()[0].metadata.name.to_string();
    let set = Arc::make_mut(&mut world.set);
    set.spec.scale_strategy.pods_to_delete = vec!["web-gone".to_owned(), pod.clone()];
    set.metadata.generation = Some(2);
    set.metadata.resource_version = Some("7".to_owned());
    assert_eq!(clean(&world.snapshot()), None, "the pod may be news");
    world.step();
    assert!(
        world.pods().iter().all(|p| *p.metadata.name != *pod),
        "it is deleted"
    );
    let step = clean(&world.snapshot()).unwrap();
    let Action::Patch { target, patch, .. } = &step.actions[0] else {
        panic!("{step:?}")
    };
    assert_eq!(target.resource_version.as_deref(), Some("7"));
    assert_eq!(
        *patch,
        json!({"spec": {"scaleStrategy": {"podsToDelete": []}}})
    );
    assert!(
        step.done
            .unwrap()
            .message
            .contains(&format!("web-gone, {pod}"))
    );
    world.settle();
    assert!(world.set.spec.scale_strategy.pods_to_delete.is_empty());
    assert_eq!(clean(&world.snapshot()), None);
}
