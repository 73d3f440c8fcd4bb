use berth_api::names::annotation::IMAGE_PREDOWNLOAD_MIN_UPDATED_READY_PODS;
use serde_json::json;

use super::super::simulation::World;
use super::*;

#[test]
fn predownload_threshold_accepts_percentage_of_nodes() {
    for (text, expected) in [("2", 2), ("30%", 3)] {
        let mut world = World::new(0, json!({}));
        world.annotate(IMAGE_PREDOWNLOAD_MIN_UPDATED_READY_PODS, text);
        let snapshot = world.snapshot();
        let settings = settings(&snapshot, &snapshot.set.spec.template.value(), 9).unwrap();
        let annotated = Annotated::of(&snapshot.set.metadata);
        assert_eq!(
            settings
                .predownload_config(&snapshot, 9, &annotated)
                .min_updated_ready,
            expected,
            "{text}"
        );
    }
}

#[test]
fn exactly_one_of_the_two_limits_is_above_zero() {
    for (in_place, unavailable, surge, expected) in [
        (false, None, None, (1, 0)),
        (false, Some(3), None, (3, 0)),
        (false, None, Some(2), (0, 2)),
        (false, Some(0), Some(2), (0, 2)),
        (false, Some(3), Some(2), (0, 2)),
        (false, Some(0), Some(0), (1, 0)),
        (true, None, Some(2), (1, 0)),
        (true, Some(4), Some(0), (4, 0)),
    ] {
        assert_eq!(
            limits(in_place, unavailable, surge),
            expected,
            "{in_place} {unavailable:?} {surge:?}"
        );
    }
}
