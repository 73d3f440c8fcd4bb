use super::*;

#[test]
fn gates_are_read_and_mistakes_named() {
    assert!(
        parse("CloneSetShortHash=true")
            .unwrap()
            .has(Gate::CloneSetShortHash)
    );
    assert_eq!(parse(" ").unwrap(), Gates::default());
    assert_eq!(
        parse("TemplateNoDefaults=true").unwrap(),
        Gates::default(),
        "accepted, without a meaning"
    );
    let of_others = "EnableExternalCerts=false,WorkloadSpread=true,WorkloadSpread=true";
    assert_eq!(
        parse(of_others).unwrap(),
        Gates::default(),
        "accepted, and nothing to turn on"
    );
    for (text, says) in [
        ("CloneSetShortHash", "=true"),
        ("CloneSetShortHash=1", "neither"),
        ("Other=true", "not known; known are CloneSetShortHash, "),
    ] {
        assert!(parse(text).unwrap_err().contains(says), "{text}");
    }
}

#[test]
fn a_stage_is_turned_on_as_a_whole_but_for_what_is_named() {
    let gates =
        parse("CloneSetShortHash=false,AllAlpha=true,AllBeta=false,KruiseDaemon=true").unwrap();
    assert!(gates.has(Gate::CloneSetPartitionRollback) && !gates.has(Gate::CloneSetShortHash));
    assert!(gates.has(Gate::KruiseDaemon) && !gates.has(Gate::InPlaceUpdateEnvFromMetadata));
}

#[test]
fn gates_follow_those_that_they_need() {
    assert!(
        parse("PreDownloadImageForInPlaceUpdate=true")
            .unwrap()
            .has(Gate::ImagePullJob)
    );
    let without_daemons = parse("ImagePullJobGate=true,KruiseDaemon=false").unwrap();
    assert!(
        !without_daemons.has(Gate::ImagePullJob)
            && !without_daemons.has(Gate::InPlaceUpdateEnvFromMetadata)
    );
    for webhook in [true, false] {
        let gates = parse(&format!("AllAlpha=true,PodWebhook={webhook}")).unwrap();
        for gate in [Gate::KruisePodReadinessGate, Gate::AnyPodMetadata] {
            assert_eq!(gates.has(gate), webhook, "{gate:?}");
        }
        assert!(
            gates.has(Gate::PodUnavailableBudgetDelete)
                && gates.has(Gate::PodUnavailableBudgetUpdate)
        );
    }
}
