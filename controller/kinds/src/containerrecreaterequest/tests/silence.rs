use super::*;

/// The daemon has stopped the container, and stops answering before it reports that the next one
/// has lasted.
#[test]
fn silence_counts_from_first_view_of_ready_container() {
    let lasting = |seconds: i64, id: &str| {
        let mut image = with(
            image(Some("Stopped")),
            "/spec/stopContainers/0/createdAt",
            ago(seconds),
        );
        image["spec"]["stopContainers"][0]["minStartedSeconds"] = json!(10);
        image["status"]["stoppedContainers"][0]["lastingContainerID"] = json!(id);
        Some(image)
    };
    let mut request = with(recreating(), "/spec/strategy/minStartedSeconds", json!(10));
    let pending = |status: &ContainerRecreateRequestStatus| {
        let found = status
            .conditions
            .iter()
            .find(|condition| condition.type_ == "MinStartedPending");
        found.map(|condition| condition.last_transition_time.0)
    };
    // During the grace period and the age that the container must reach, the status needs no
    // message.
    let (plan, status) = round(&snapshot(&request, Some(pod("b")), lasting(69, "")));
    assert_eq!(
        (pending(&status), plan.look_again.map(|wait| wait.as_secs())),
        (None, Some(1))
    );
    let (_, status) = round(&snapshot(&request, Some(pod("b")), lasting(70, "")));
    assert_eq!(pending(&status), Some(now()));
    request["status"] = serde_json::to_value(&status).unwrap();
    for (seconds, id, lasts, blocked, ended, again) in [
        (69, "b", "", None, None, Some(1)),
        (70, "b", "", Some("NotAnswered"), None, Some(30)),
        (99, "b", "", Some("NotAnswered"), None, Some(1)),
        (
            100,
            "b",
            "",
            None,
            Some("daemon has not responded for a long time"),
            None,
        ),
        (100, "b", "c://b", None, Some(""), None),
        // Another container replaced it.
        (100, "c", "", None, None, None),
    ] {
        let since = with(
            request.clone(),
            "/status/conditions/0/lastTransitionTime",
            ago(seconds),
        );
        let seen = snapshot(&since, Some(pod(id)), lasting(900, lasts));
        let (plan, status) = round(&seen);
        let told = status
            .conditions
            .iter()
            .find(|condition| condition.type_ == "Blocked");
        assert_eq!(
            told.map(|condition| condition.reason.as_str()),
            blocked,
            "{seconds} {id} {lasts}"
        );
        let message = (status.phase == RecreatePhase::Completed).then_some(status.message.as_str());
        assert_eq!(message, ended, "{seconds} {id} {lasts}");
        assert_eq!(
            plan.look_again.map(|wait| wait.as_secs()),
            again,
            "{seconds} {id} {lasts}"
        );
        let time = if id == "c" {
            now()
        } else {
            Timestamp::from_second(NOW - seconds).unwrap()
        };
        assert_eq!(
            pending(&status),
            ended.is_none().then_some(time),
            "{seconds} {id} {lasts}"
        );
    }
    // The container has been ready, so its report is due regardless of its probe.
    let unready = with(pod("b"), "/status/containerStatuses/0/ready", json!(false));
    assert_eq!(
        pending(&round(&snapshot(&request, Some(unready.clone()), lasting(900, ""))).1),
        Some(now())
    );
    request["status"]["conditions"] = json!([]);
    assert_eq!(
        pending(&round(&snapshot(&request, Some(unready), lasting(900, ""))).1),
        None
    );
}

/// The grace period of a restart for another cause, such as a changed environment, is unknown here;
/// a stop for another request has that request's.
#[test]
fn stop_that_has_not_begun_does_not_time_out() {
    let stopping = |request: &str, begun: bool| json!({"request": request, "container": "app", "containerID": "c://a", "phase": "Stopping", "begunAt": begun.then(|| ago(900))});
    let silent = Some("daemon has not responded for a long time");
    for (what, answers, expected) in [
        (
            "its own",
            vec![stopping("r", true), stopping("q", false)],
            silent,
        ),
        (
            "another's",
            vec![stopping("r", false), stopping("q", true)],
            silent,
        ),
        (
            "none has begun, two requests",
            vec![stopping("r", false), stopping("q", false)],
            None,
        ),
        (
            "none has begun, one request",
            vec![stopping("r", false)],
            None,
        ),
    ] {
        let mut image = with(image(None), "/spec/stopContainers/0/createdAt", ago(900));
        let mut other = image["spec"]["stopContainers"][0].clone();
        other["request"] = json!("q");
        image["spec"]["stopContainers"]
            .as_array_mut()
            .unwrap()
            .push(other);
        image["status"]["stoppedContainers"] = json!(answers);
        let (_, status) = round(&snapshot(&recreating(), Some(pod("a")), Some(image)));
        let ended = (status.phase == RecreatePhase::Completed).then_some(status.message.as_str());
        assert_eq!(ended, expected, "{what}");
        assert_eq!(
            status
                .conditions
                .iter()
                .find(|condition| condition.type_ == "Blocked"),
            None,
            "{what}"
        );
    }
}
