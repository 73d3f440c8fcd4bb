//! Histories that broke a promise once, in their shortest form.

use super::*;

#[test]
fn histories_that_broke_a_promise_once() {
    use Step::{Act, AskToGo, Die, Image, Kubelets, List, Owner, Replicas, Restart, Tell};
    let held = |hooks, max_unavailable, max_surge, grace| {
        let planted = Planted::Nothing;
        let (policy, claims) = ("InPlaceIfPossible", None);
        Given {
            policy,
            max_unavailable,
            max_surge,
            grace,
            hooks,
            claims,
            planted,
        }
    };
    let given =
        |max_unavailable, max_surge, grace| held(Hooks::None, max_unavailable, max_surge, grace);
    let held_meanwhile = vec![
        Image("web:1"),
        Tell(Kind::Set, 1),
        Act,
        Tell(Kind::Revisions, 1),
        Act,
        Replicas(2),
        Restart,
        Act,
        Kubelets,
        Tell(Kind::Set, 1),
        AskToGo(1),
        Tell(Kind::Pods, 2),
        Owner,
        Tell(Kind::Pods, 4),
        Act,
    ];
    let became_ready_meanwhile = vec![
        Replicas(4),
        AskToGo(0),
        Tell(Kind::Set, 1),
        Act,
        Image("web:1"),
        Tell(Kind::Set, 2),
        Tell(Kind::Pods, 3),
        Act,
        Tell(Kind::Revisions, 1),
        Tell(Kind::Pods, 1),
        Kubelets,
        Act,
    ];
    let served_before_it_was_held = vec![
        Replicas(5),
        Tell(Kind::Set, 1),
        Act,
        Image("web:1"),
        Owner,
        Restart,
        Act,
        List(Kind::Revisions),
        Kubelets,
        Tell(Kind::Pods, 2),
        Act,
    ];
    let held_before_its_update = vec![
        AskToGo(0),
        Replicas(5),
        Tell(Kind::Set, 1),
        Act,
        AskToGo(2),
        Kubelets,
        AskToGo(0),
        Image("web:1"),
        Restart,
        Die(2),
        Act,
        Kubelets,
        Tell(Kind::Revisions, 1),
        Act,
        Replicas(2),
        Image("web:0"),
        Tell(Kind::Pods, 3),
        Tell(Kind::Set, 1),
        Owner,
        Act,
    ];
    let into_service_and_held = vec![
        Kubelets,
        Kubelets,
        AskToGo(3),
        Kubelets,
        Kubelets,
        Image("web:1"),
        Tell(Kind::Set, 1),
        Act,
        Tell(Kind::Revisions, 1),
        Replicas(1),
        Die(2),
        Image("web:0"),
        Image("web:0"),
        Act,
        Owner,
        AskToGo(1),
        Tell(Kind::Set, 2),
        Tell(Kind::Pods, 4),
        Die(1),
        Act,
        Tell(Kind::Pods, 3),
        Replicas(3),
        List(Kind::Set),
        Image("web:2"),
        Tell(Kind::Pods, 1),
        Step::Partition(0),
        Tell(Kind::Claims, 3),
        Step::OneKubelet(1),
        Step::OneKubelet(1),
        Tell(Kind::Pods, 2),
        Tell(Kind::Revisions, 4),
        Act,
        Image("web:0"),
        Restart,
        Kubelets,
        Act,
        Restart,
        Act,
        Image("web:1"),
        Restart,
        Kubelets,
        Tell(Kind::Pods, 3),
        Owner,
        Tell(Kind::Pods, 3),
        Act,
    ];
    for (given, steps, replicas) in [
        (given(0, 1, 0), became_ready_meanwhile, 4),
        // A pod that the same plan put back into service and deleted.
        (given(2, 2, 3), vec![Image("web:1")], 2),
        (held(Hooks::Finalizers, 0, 2, 0), held_meanwhile, 3),
        (held(Hooks::Labels, 0, 1, 0), served_before_it_was_held, 5),
        (held(Hooks::Labels, 2, 1, 0), held_before_its_update, 5),
        (
            Given {
                policy: "ReCreate",
                claims: Some(true),
                ..held(Hooks::Labels, 1, 2, 3)
            },
            into_service_and_held,
            3,
        ),
    ] {
        let mut history = History::begin(given);
        steps
            .iter()
            .try_for_each(|step| history.take(step))
            .unwrap();
        history.settle(replicas, false).unwrap();
    }
}
