use berth_workload::objects::resource::{POD_TEMPLATES, PODS};
use jiff::SignedDuration;

use super::*;

fn failure(code: u16, permanent: bool, outdated: bool) -> Failure {
    let [namespace, object, message] = ["default", "web-1", "no"].map(str::to_owned);
    let write = Write::of(Verb::Patch, PODS);
    Failure {
        write,
        namespace,
        object,
        message,
        code,
        permanent,
        outdated,
        taken: false,
        infeasible: false,
    }
}

#[test]
fn the_worst_of_what_came_of_a_plan_says_when_to_look_again() {
    let (conflict, broken, refused) = (
        failure(409, false, true),
        failure(500, false, false),
        failure(403, true, false),
    );
    let after = |seconds| Next::After(Duration::from_secs(seconds));
    let said = || "PatchPod web-1: no".to_owned();
    for (failures, status, look_again, next_) in [
        (vec![], Ok(true), None, Next::Done),
        (vec![], Ok(false), Some(7), after(7)),
        (
            vec![conflict.clone()],
            Ok(true),
            Some(7),
            Next::Again(said()),
        ),
        (vec![], Err(conflict.clone()), None, Next::Again(said())),
        (
            vec![conflict.clone(), broken.clone()],
            Ok(true),
            None,
            Next::Retry(said()),
        ),
        (
            vec![conflict.clone()],
            Err(broken),
            None,
            Next::Retry(said()),
        ),
        (vec![refused.clone()], Ok(true), None, after(60)),
        (vec![refused.clone()], Ok(true), Some(7), after(7)),
        (vec![refused.clone()], Ok(true), Some(600), after(60)),
        (
            vec![refused.clone(), conflict],
            Ok(true),
            Some(600),
            Next::Again(said()),
        ),
        // A write that a budget refused is tried again soon.
        (
            vec![failure(429, true, false)],
            Ok(true),
            None,
            Next::After(HELD),
        ),
        (
            vec![failure(429, true, false)],
            Ok(true),
            Some(2),
            Next::After(HELD),
        ),
        // Only the status was refused.
        (vec![], Err(refused), None, after(60)),
    ] {
        let plan = Plan {
            look_again: look_again.map(SignedDuration::from_secs),
            ..Plan::default()
        };
        let outcome = Outcome { failures };
        assert_eq!(
            next(&plan, &outcome, status.clone()),
            next_,
            "{outcome:?} {status:?} {look_again:?}"
        );
    }
    // The author has to correct a template. For a policy or a right another user may do so.
    for (code, next_) in [(422, Next::Done), (400, Next::Done), (403, after(60))] {
        let template = Failure {
            write: Write::of(Verb::Validate, POD_TEMPLATES),
            ..failure(code, true, false)
        };
        assert_eq!(
            next(
                &Plan::default(),
                &Outcome {
                    failures: vec![template]
                },
                Ok(true)
            ),
            next_,
            "{code}"
        );
    }
}
