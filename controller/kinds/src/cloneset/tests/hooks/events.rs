use serde_json::json;

use super::{World, by_label, held, scale, template};

/// Reasons and messages of the events of the next steps: more of them than there is to do.
fn told(world: &mut World) -> Vec<(&'static str, String)> {
    let mut told = Vec::new();
    for _ in 0..5 {
        let plan = world.step();
        let steps = plan.stages.iter().flat_map(|stage| &stage.steps);
        told.extend(steps.filter_map(|step| {
            Some((
                step.done.as_ref()?.reason,
                step.done.as_ref()?.message.clone(),
            ))
        }));
    }
    told
}

#[test]
fn held_pod_sends_one_event_that_names_its_hook() {
    type Edit = fn(&mut World);
    let cases: [(&str, &str, &str, Edit); 2] = [
        (
            "preDelete",
            "PreparingDelete",
            ": label x.io/hook=on",
            |world| scale(world, 0),
        ),
        ("inPlaceUpdate", "PreparingUpdate", "", |world| {
            world.set_template(template("web:2"))
        }),
    ];
    for (hook, reason, held_by, edit) in cases {
        let mut world = held(1, json!({}), json!({hook: by_label(false)}));
        let name = world.pods()[0].metadata.name.clone();
        edit(&mut world);
        assert_eq!(
            told(&mut world),
            [(reason, format!("pod {name} waits for hook {hook}{held_by}"))]
        );
    }
}
