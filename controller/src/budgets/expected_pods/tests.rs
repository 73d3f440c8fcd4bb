use serde_json::json;

use super::*;

/// A pod of a workload of this uid, or of none.
fn pod(phase: &str, owner_uid: Option<&str>) -> Arc<Pod> {
    let owner = |uid: &str| json!({"apiVersion": "example.com/v1beta1", "kind": "Foo", "name": "web", "uid": uid, "controller": true});
    let owners: Vec<_> = owner_uid.into_iter().map(owner).collect();
    let pod = json!({"metadata": {"name": "web-1", "ownerReferences": owners}, "status": {"phase": phase}});
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn uids<'a>(owners: &[&'a Owner]) -> Vec<&'a str> {
    owners.iter().map(|owner| &*owner.uid).collect()
}

#[test]
fn ended_pod_counts_for_its_owner_but_needs_none() {
    let (run, go, fail) = ("Running", "Succeeded", "Failed");
    for (pods, expected) in [
        (
            vec![(run, Some("a")), (run, Some("a")), (run, Some("b"))],
            Ok((vec!["a", "b"], vec![])),
        ),
        (
            vec![(run, Some("a")), (run, None)],
            Err("has no controller"),
        ),
        (
            vec![(go, None), (run, Some("a")), (fail, None)],
            Ok((vec!["a"], vec![])),
        ),
        (
            vec![(fail, Some("a")), (run, Some("a"))],
            Ok((vec!["a"], vec![])),
        ),
        (
            vec![(go, Some("c")), (fail, Some("b")), (fail, Some("b"))],
            Ok((vec![], vec!["b", "c"])),
        ),
        (vec![], Ok((vec![], vec![]))),
    ] {
        let pods: Vec<_> = pods
            .into_iter()
            .map(|(phase, owner)| pod(phase, owner))
            .collect();
        match (owners(&pods), expected) {
            (Ok((asked, of_ended)), Ok(expected)) => {
                assert_eq!((uids(&asked), uids(&of_ended)), expected)
            }
            (Err(Uncounted::Fault(unknown)), Err(expected)) => {
                assert!(unknown.message.contains(expected))
            }
            (found, expected) => panic!("{found:?} is not {expected:?}"),
        }
    }
    let many: Vec<_> = (0..=MOST_OWNERS)
        .map(|uid| pod(go, Some(&uid.to_string())))
        .collect();
    assert_eq!(owners(&many).unwrap().1.len(), MOST_OF_ENDED);
}

#[test]
fn a_workload_is_new_for_ten_seconds_by_its_time_of_creation() {
    let made = |seconds: i64| Some(Timestamp::now() - SignedDuration::from_secs(seconds));
    for (creation_timestamp, expected) in [
        (made(0), true),
        (made(5), true),
        (made(11), false),
        (None, false),
    ] {
        let metadata = Metadata {
            creation_timestamp,
            ..Metadata::default()
        };
        assert_eq!(is_new(&metadata), expected, "{creation_timestamp:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn kind_without_scale_expires_after_a_minute() {
    for (says, seconds, expected) in [
        (Says::Scale, 0, true),
        (Says::Scale, 600, true),
        (Says::Nodes, 600, true),
        (Says::Nothing, 59, true),
        (Says::Nothing, 60, false),
    ] {
        let kind = kind("example.com", "Foo", says);
        tokio::time::advance(Duration::from_secs(seconds)).await;
        assert_eq!(kind.is_current(), expected, "{says:?} {seconds}");
    }
}

fn kind(group: &str, kind: &str, says: Says) -> Kind {
    let name = GroupVersionKind::gvk(group, "v1", kind);
    Kind {
        name,
        plural: format!("{}s", kind.to_lowercase()),
        says,
        since: Instant::now(),
    }
}

/// No apiserver answers, so a read would be `Silent`.
#[tokio::test]
async fn target_without_scale_is_never_read() {
    let client =
        Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
    let pods = ExpectedPods::new(client);
    pods.kinds().extend([
        kind("", "Secret", Says::Nothing),
        kind("apps", "Deployment", Says::Scale),
    ]);
    let target = |api_version: &str, kind: &str| TargetReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: "web".to_owned(),
    };
    let found = pods.of_target("t1", &target("v1", "Secret")).await;
    let Err(Uncounted::Fault(Unknown { message })) = found else {
        panic!("{found:?}")
    };
    assert!(
            message.starts_with(
                "Secret web of spec.targetRef has no scale: delete this budget and make one with spec.selector"
            ),
            "{message}"
        );
    let found = pods.of_target("t1", &target("apps/v1", "Deployment")).await;
    assert!(matches!(found, Err(Uncounted::Silent(_))), "{found:?}");
}

#[test]
fn unreadable_owner_names_only_rights_that_help() {
    for (kind, expected) in [
        (
            kind("example.com", "Foo", Says::Scale),
            "give kruise-manager get on foos and foos/scale of \"example.com\"",
        ),
        (
            kind("apps", "DaemonSet", Says::Nodes),
            "give kruise-manager get on daemonsets of \"apps\" by",
        ),
        (
            kind("batch", "Job", Says::Nothing),
            "Foo web, which owns its pods, has no scale: set spec.",
        ),
    ] {
        let message = kind.unreadable("Foo web");
        assert!(
            message.contains(expected) && message.ends_with(REMEDY),
            "{message}"
        );
    }
}
