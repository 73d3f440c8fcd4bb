//! The time of day is set while pulls are under way.

use super::*;

#[test]
fn a_time_of_day_that_is_set_ends_nothing_and_holds_nothing_up() {
    for hours in [1, -1, -24] {
        // During a pull, with a time limit and with a deadline.
        let mut node = Node::new(spec(&[("app", limited("1", 60, 1, Some(300)))]));
        let plan = node.begin(0);
        let next = node.step_at(set(1, hours));
        assert_eq!(
            (next.cancel.len(), next.wake_at),
            (0, Some(steady(60))),
            "{hours} h"
        );
        // While it waits for its next try.
        node.tasks.ended(
            plan.start[0].attempt,
            Outcome::Failed("no".into()),
            set(2, hours),
        );
        assert_eq!(
            node.step_at(set(2, hours)).wake_at,
            Some(steady(3)),
            "{hours} h"
        );
        let plan = node.step_at(now(3));
        assert_eq!(plan.start.len(), 1, "{hours} h");
        // And back; times that were reported before stay.
        node.tasks.ended(
            plan.start[0].attempt,
            Outcome::Pulled(resolved("sha256:a")),
            set(4, hours),
        );
        node.step_at(set(4, hours));
        let tag = node.tag("app", "1");
        assert_eq!(
            (tag.phase, tag.start_time),
            (ImagePullPhase::Succeeded, Some(Time(at(0)))),
            "{hours} h"
        );
        assert_eq!(
            tag.completion_time,
            Some(Time(at(4 + hours * 3600).max(at(0)))),
            "{hours} h"
        );
        // The daemon sees changes of the image as soon as without the jump.
        node.tasks.images_changed(set(5, hours));
        node.step_at(set(5, hours));
        assert_eq!(node.step_at(now(6)).look, [key("app", "1")], "{hours} h");
    }
}

#[test]
fn no_reported_time_precedes_the_request() {
    let asked = ImageTagSpec {
        created_at: Some(Time(at(0))),
        ..limited("1", 600, 0, Some(100))
    };
    let mut node = Node::new(spec(&[("app", asked)]));
    node.step_at(set(1, -24));
    node.tasks.looked(&key("app", "1"), None, set(1, -24));
    let plan = node.step_at(set(1, -24));
    assert_eq!(node.tag("app", "1").start_time, Some(Time(at(0))));
    node.tasks.ended(
        plan.start[0].attempt,
        Outcome::Failed("no".into()),
        set(9, -24),
    );
    node.step_at(set(9, -24));
    let told = node.tag("app", "1");
    assert_eq!(
        (told.phase, told.completion_time.clone()),
        (ImagePullPhase::Failed, Some(Time(at(0))))
    );
    // So the next daemon knows that it is over.
    node.tasks = Tasks::default();
    let plan = node.step_at(set(10, -24));
    assert_eq!((plan, node.tag("app", "1")), (Plan::default(), told));

    // A pull that is under way gets all the time that is left when the clock was set back since.
    let mut node = Node::new(spec(&[("app", limited("1", 600, 0, Some(100)))]));
    node.begin(0);
    node.tasks = Tasks::default();
    assert_eq!(node.step_at(set(10, -24)).wake_at, Some(steady(110)));
}
