use super::*;
use crate::plan::PodPatch;

fn patch(name: &str, version: Option<&str>) -> Action {
    let target = Target {
        namespace: "ns".to_owned(),
        name: name.to_owned(),
        uid: name.to_owned(),
        resource_version: version.map(str::to_owned),
    };
    Action::PatchPod {
        target,
        patch: PodPatch::default(),
    }
}

fn plan(stages: Vec<Vec<(&str, Action)>>) -> Plan {
    let step = |(reason, action): (&str, Action)| Step {
        actions: vec![action],
        reason: reason.to_owned(),
        done: None,
        failed: None,
    };
    let stages = stages.into_iter().map(|steps| Stage {
        name: "a stage",
        required: false,
        steps: steps.into_iter().map(step).collect(),
    });
    Plan {
        stages: stages.collect(),
        ..Plan::default()
    }
}

fn reasons(plan: &Plan) -> Vec<&str> {
    plan.stages
        .iter()
        .flat_map(|stage| &stage.steps)
        .map(|step| step.reason.as_str())
        .collect()
}

#[test]
fn steps_for_one_object_are_joined_or_postponed() {
    let mut twice = plan(vec![
        vec![
            ("gates", patch("a", None)),
            ("gates", patch("b", Some("1"))),
        ],
        vec![
            ("update", patch("a", None)),
            ("update", patch("b", Some("1"))),
            ("update", patch("c", Some("1"))),
        ],
    ]);
    assert!(twice.written_twice().is_some());
    twice.join_steps_by_object(|_| false);
    assert_eq!(reasons(&twice), ["gates; update", "gates", "update"]);
    assert_eq!(twice.stages[0].steps[0].actions.len(), 2);
    assert_eq!(twice.written_twice(), None);
}

#[test]
fn exclusive_write_has_no_other_write_beside_it() {
    let mut plan = plan(vec![
        vec![("gates", patch("a", None)), ("gates", patch("b", None))],
        vec![("goes", patch("a", None))],
        vec![("update", patch("a", None))],
    ]);
    plan.join_steps_by_object(|step| step.reason == "goes");
    assert_eq!(reasons(&plan), ["gates", "goes"]);
    assert_eq!(plan.stages[0].steps[0].actions, [patch("b", None)]);
}
