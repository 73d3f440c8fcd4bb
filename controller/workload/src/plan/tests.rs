use serde_json::json;

use super::*;
use crate::objects::resource::PODS;

fn owner() -> Target {
    Target {
        namespace: "ns".to_owned(),
        name: "web".to_owned(),
        uid: "1".to_owned(),
        resource_version: None,
    }
}

fn stages(names: &[&'static str]) -> Plan {
    let stage = |name: &&'static str| {
        let action = if *name == "create" {
            Action::CreatePod {
                body: Body::from(&json!({"metadata": {"name": "a"}})),
            }
        } else {
            Action::DeletePod { target: owner() }
        };
        Stage {
            name,
            required: false,
            steps: vec![Step::new(action, String::new())],
        }
    };
    Plan {
        stages: names.iter().map(stage).collect(),
        ..Plan::default()
    }
}

#[test]
fn owner_is_read_once_before_pods_are_created() {
    for (before, after) in [
        (&["delete"][..], &["delete"][..]),
        (&["create"], &["confirm", "create"]),
        (
            &["delete", "create", "create"],
            &["delete", "confirm", "create", "create"],
        ),
    ] {
        let mut plan = stages(before);
        plan.confirm_before_pods(PODS, owner());
        let names: Vec<_> = plan.stages.iter().map(|stage| stage.name).collect();
        assert_eq!(names, after);
        let confirms = plan.stages.iter().filter(|stage| stage.required);
        assert!(confirms.clone().all(|stage| stage.name == "confirm"));
    }
}
