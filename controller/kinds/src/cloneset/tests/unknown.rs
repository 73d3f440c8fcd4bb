//! Fields of the template that no type here knows.

use super::*;
use crate::model::apiserver::merge;
use crate::model::unknown;

fn of(number: i32) -> Value {
    let mut template = template("web:1");
    merge(
        &mut template,
        &unknown::template("web:1", &unknown::value(number)),
    );
    template
}

#[test]
fn unknown_fields_reach_each_pod() {
    let world = World::settled(2, of(1), strategy("InPlaceIfPossible", json!({})));
    let lacking: Vec<_> = world
        .pods
        .values()
        .map(|pod| unknown::lacking(pod, &unknown::value(1)))
        .collect();
    assert_eq!(lacking, [[""; 0]; 2]);
}

#[test]
fn changed_unknown_field_replaces_pods() {
    for (place, template) in unknown::changed_in_each_place(&of(1), &unknown::value(2)) {
        let mut world = World::settled(1, of(1), strategy("InPlaceIfPossible", json!({})));
        let before = world.pods.keys().cloned().collect::<Vec<_>>();
        world.set_template(template.clone());
        world.settle();
        let after: Vec<_> = world.pods.iter().collect();
        assert_eq!(after.len(), 1, "{place}");
        assert!(!before.contains(after[0].0), "{place}: another pod");
        let holder = |of: &Value| of.pointer(place).unwrap()["isNew"].clone();
        assert_eq!(holder(after[0].1), holder(&template), "{place}");
    }
}
