use berth_workload::objects::resource::DEPLOYMENTS;
use berth_workload::plan::{Target, Write};
use serde_json::json;

use super::*;

fn plan(names: &[&str], version: &str) -> Plan {
    let patch = |name: &&str| {
        let target = Target {
            namespace: "default".to_owned(),
            name: (*name).to_owned(),
            uid: "u".to_owned(),
            resource_version: Some(version.to_owned()),
        };
        let patch = json!({"spec": {"replicas": 1}});
        Step::new(
            Action::Patch {
                resource: DEPLOYMENTS,
                target,
                patch,
            },
            "why".to_owned(),
        )
    };
    let mut plan = Plan::default();
    plan.add_stage("update", names.iter().map(patch).collect());
    plan
}

#[test]
fn refused_write_waits_a_minute_and_others_go_on() {
    let (refused, begin) = (Refused::default(), Instant::now());
    let failure = |object: &str, permanent: bool| Failure {
        write: Write::of(Verb::Patch, DEPLOYMENTS),
        namespace: "default".to_owned(),
        object: object.to_owned(),
        message: "no".to_owned(),
        code: if permanent { 422 } else { 500 },
        permanent,
        outdated: false,
        taken: false,
        infeasible: false,
    };
    let outcome = Outcome {
        failures: vec![failure("a", true), failure("b", false)],
    };
    refused.note("web", &plan(&["a", "b"], "1"), &outcome, begin);
    let names = |plan: &Plan| -> Vec<String> {
        let targets = plan.actions().filter_map(|action| match action {
            Action::Patch { target, .. } => Some(target.name.clone()),
            _ => None,
        });
        targets.collect()
    };
    for (uid, seconds, left, failures) in [
        ("web", 20, vec!["b", "c"], 1),
        ("other", 20, vec!["a", "b", "c"], 0),
        ("web", 60, vec!["a", "b", "c"], 0),
    ] {
        let mut next = plan(&["a", "b", "c"], "2");
        let (held, wait) = refused.hold(uid, &mut next, begin + Duration::from_secs(seconds));
        assert_eq!(
            (names(&next), held.len()),
            (left.into_iter().map(str::to_owned).collect(), failures),
            "{uid} {seconds}"
        );
        assert_eq!(
            wait,
            (failures > 0).then_some(Duration::from_secs(40)),
            "{uid} {seconds}"
        );
    }
}
