use super::*;

#[test]
fn condition_names_unchecked_operations_and_gate() {
    use ProtectedOperation::{Delete, Evict, Resize, Update};
    let with = |gates: &[(Gate, bool)]| {
        gates.iter().fold(Gates::default(), |all, (gate, is_on)| {
            all.with(*gate, *is_on)
        })
    };
    let updates = with(&[(Gate::PodUnavailableBudgetUpdate, true)]);
    let (webhook, nothing) = (
        with(&[(Gate::PodWebhook, false)]),
        with(&[(Gate::PodUnavailableBudgetDelete, false)]),
    );
    let changes = updates.with(Gate::PodUnavailableBudgetDelete, false);
    let of_deletes = "turn on feature gate PodUnavailableBudgetDeleteGate";
    let of_updates = "turn on feature gate PodUnavailableBudgetUpdateGate";
    for (operations, gates, expected) in [
        (
            vec![Delete, Evict],
            Gates::default(),
            ("True", "Asked", "the apiserver calls the webhook before"),
        ),
        (
            vec![Delete, Update, Evict],
            updates,
            ("True", "Asked", "the apiserver calls the webhook before"),
        ),
        (
            vec![Delete, Update, Evict],
            Gates::default(),
            (
                "True",
                "AskedInPart",
                "call the webhook for UPDATE: turn on feature gate PodUnavailableBudgetUpdateGate",
            ),
        ),
        (
            vec![Evict, Update, Resize],
            Gates::default(),
            ("True", "AskedInPart", "call the webhook for UPDATE, RESIZE"),
        ),
        (
            vec![Update, Resize],
            Gates::default(),
            (
                "False",
                "NotAsked",
                "call the webhook for UPDATE, RESIZE: turn on feature gate PodUnavailableBudgetUpdateGate",
            ),
        ),
        (
            vec![Update],
            updates,
            ("True", "Asked", "the apiserver calls the webhook before"),
        ),
        (
            vec![Delete],
            webhook,
            ("False", "NotAsked", "PodWebhook is off"),
        ),
        (
            vec![Delete, Update],
            webhook,
            ("False", "NotAsked", "PodWebhook is off"),
        ),
        (
            vec![Delete],
            nothing,
            (
                "False",
                "NotAsked",
                &*format!("the apiserver does not call the webhook for DELETE: {of_deletes}"),
            ),
        ),
        (
            vec![Delete, Update, Evict],
            nothing,
            (
                "False",
                "NotAsked",
                &*format!(
                    "the apiserver does not call the webhook for DELETE, EVICT: {of_deletes}; nor for UPDATE: {of_updates}"
                ),
            ),
        ),
        (
            vec![Update, Resize],
            changes,
            ("True", "Asked", "the apiserver calls the webhook before"),
        ),
        (
            vec![Delete, Update, Evict],
            changes,
            (
                "True",
                "AskedInPart",
                &*format!(
                    "but the apiserver does not call the webhook for DELETE, EVICT: {of_deletes}"
                ),
            ),
        ),
        (
            vec![Evict],
            changes,
            (
                "False",
                "NotAsked",
                &*format!("call the webhook for EVICT: {of_deletes}"),
            ),
        ),
        (
            vec![],
            updates,
            ("True", "Asked", "the apiserver calls the webhook before"),
        ),
        (
            vec![],
            Gates::default(),
            (
                "True",
                "AskedInPart",
                &*format!("call the webhook for UPDATE, RESIZE: {of_updates}"),
            ),
        ),
        (
            vec![],
            changes,
            (
                "True",
                "AskedInPart",
                &*format!("call the webhook for DELETE, EVICT: {of_deletes}"),
            ),
        ),
        (
            vec![],
            nothing,
            (
                "False",
                "NotAsked",
                "the apiserver does not call the webhook for DELETE, EVICT: ",
            ),
        ),
    ] {
        let calls = WebhookCalls::of(&operations, gates);
        let found = calls.condition(Timestamp::UNIX_EPOCH);
        assert_eq!(WebhookCalls::from_conditions([&found]), calls);
        let (status, reason, says) = expected;
        assert_eq!(
            (&*found.status, &*found.reason),
            (status, reason),
            "{operations:?} {gates:?}"
        );
        assert!(found.message.contains(says), "{}", found.message);
    }
}

#[test]
fn unanswered_calls_have_their_own_reason() {
    let calls = WebhookCalls::Unanswered("set webhookTokenSecret".to_owned());
    let found = calls.condition(Timestamp::UNIX_EPOCH);
    assert_eq!(
        (&*found.status, &*found.reason, &*found.message),
        ("False", "NotAnswered", "set webhookTokenSecret")
    );
    assert_eq!(WebhookCalls::from_conditions([&found]), calls);
    assert_eq!(
        calls.missing().as_deref(),
        Some("the apiserver gets no answer: set webhookTokenSecret")
    );
}
