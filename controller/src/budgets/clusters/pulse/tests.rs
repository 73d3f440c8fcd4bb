use super::*;

fn lease(renewed: &str) -> Lease {
    lease_of("u", renewed)
}

fn lease_of(uid: &str, renewed: &str) -> Lease {
    Lease {
        metadata: LeaseMetadata {
            uid: uid.to_owned(),
        },
        spec: LeaseSpec {
            holder_identity: Some("one".to_owned()),
            renew_time: Some(renewed.to_owned()),
        },
    }
}

#[tokio::test]
async fn a_cluster_counts_while_its_lease_moves_and_answers() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut pulse = Pulse::default();
    assert!(pulse.silence(at(0)).is_some(), "it was not asked yet");
    pulse.note(Ok(lease("1")), at(0), at(0));
    assert!(
        pulse.silence(at(0)).is_some(),
        "it may have stood still for a day"
    );
    pulse.note(Ok(lease("2")), at(2), at(2));
    assert_eq!(pulse.silence(at(3)), None);
    pulse.note(Err("no route".to_owned()), at(4), at(4));
    assert!(
        pulse
            .silence(at(4))
            .is_some_and(|why| why.contains("no route"))
    );
    pulse.note(Ok(lease("2")), at(6), at(6));
    assert_eq!(pulse.silence(at(16)), None);
    assert!(pulse.silence(at(17)).is_some(), "it stands still for 15 s");
    pulse.note(Ok(lease("3")), at(20), at(20));
    assert_eq!(pulse.silence(at(20)), None);
    pulse.reconnect();
    assert!(
        pulse.silence(at(21)).is_some(),
        "its context may lead elsewhere"
    );
    assert!(!pulse.note(Ok(lease("4")), at(22), at(22)));
    assert_eq!(pulse.silence(at(22)), None);
    assert!(pulse.note(Ok(lease_of("v", "5")), at(24), at(24)));
    assert!(
        pulse.silence(at(24)).is_some(),
        "another Lease may have stood still for a day"
    );
    assert!(!pulse.note(Ok(lease_of("v", "6")), at(26), at(26)));
    assert_eq!((pulse.silence(at(26)), pulse.uid()), (None, Some("v")));
}

#[tokio::test]
async fn timed_out_read_silences_cluster_until_lease_read() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    for (answered, sent, is_silent) in [
        (None, 3, true),
        (Some(2), 3, true),
        (Some(3), 3, true),
        (Some(4), 3, false),
    ] {
        let mut pulse = Pulse::default();
        pulse.note(Ok(lease("1")), at(0), at(0));
        pulse.note(Ok(lease("2")), at(2), at(2));
        if let Some(answered) = answered {
            pulse.answer(at(answered));
        }
        pulse.miss("no answer".to_owned(), at(sent));
        let silence = pulse.silence(at(5));
        assert_eq!(silence.is_some(), is_silent, "{answered:?}: {silence:?}");
        assert!(silence.is_none_or(|why| why.contains("does not answer: no answer")));
        pulse.note(Ok(lease("2")), at(6), at(6));
        assert_eq!(pulse.silence(at(6)), None, "{answered:?}");
    }
}
