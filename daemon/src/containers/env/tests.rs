use super::*;
use crate::containers::pre_stop::{GRACE_ANNOTATION, HOOK_ANNOTATION};

#[test]
fn variables_are_read_from_the_spec_that_the_runtime_made() {
    let info = r#"{"pid": 1, "runtimeSpec": {"process": {"args": ["x"], "env": ["PATH=/bin", "TIER=a=b", "EMPTY="]}}}"#;
    let read = environment(info).unwrap();
    assert_eq!((read["TIER"].as_str(), read["EMPTY"].as_str()), ("a=b", ""));
    assert_eq!(environment("{}"), None);
    assert_eq!(environment("no JSON"), None);
}

fn question(update: &str, tier: &str) -> Vec<InspectPod> {
    let values = [
        ("TIER".to_owned(), env_hash::of_value(tier)),
        ("ANY".to_owned(), String::new()),
    ]
    .into();
    asking(InspectEnv {
        update: update.into(),
        values,
        ..to_end("")
    })
}

/// An entry that wants no variables, but wants the container with this id stopped.
fn to_end(id: &str) -> InspectEnv {
    let (container, image, update) = ("c".into(), "app:1".into(), "1".into());
    InspectEnv {
        container,
        image,
        update,
        values: BTreeMap::new(),
        container_id: id.into(),
    }
}

fn asking(env: InspectEnv) -> Vec<InspectPod> {
    vec![InspectPod {
        namespace: "default".into(),
        name: "p".into(),
        uid: "u".into(),
        env: vec![env],
    }]
}

fn inspected() -> Vec<InspectedPod> {
    let container = |name: &str| InspectedContainer {
        name: name.into(),
        container_id: format!("containerd://{name}1"),
        hash: container_hash(name, "app:1"),
        ..InspectedContainer::default()
    };
    let containers = vec![container("c"), container("other")];
    vec![InspectedPod {
        uid: "u".into(),
        containers,
        observed_at: None,
    }]
}

fn known(tier: &str) -> Environments {
    [(
        "c1".to_owned(),
        [("TIER".to_owned(), tier.to_owned())].into(),
    )]
    .into()
}

fn running(annotations: &[(&str, &str)]) -> Container {
    Container {
        id: "c1".into(),
        state: ContainerState::ContainerRunning as i32,
        annotations: annotations
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect(),
        ..Container::default()
    }
}

#[test]
fn answer_is_for_the_requested_container() {
    let pods = question("1", "b");
    let mut answers = inspected();
    assert_eq!(requested_ids(&pods, &answers).collect::<Vec<_>>(), ["c1"]);
    answer(&pods, &mut answers, &known("a"), |_| false);
    let [c, other] = answers[0].containers.as_slice() else {
        panic!()
    };
    assert_eq!((c.update.as_str(), other.update.as_str()), ("1", ""));
    let hashes = [
        ("ANY".to_owned(), env_hash::of_value("")),
        ("TIER".to_owned(), env_hash::of_value("a")),
    ];
    assert_eq!(c.env, hashes.into());
    assert_eq!(
        c.env_hash,
        format!(
            "{:x}",
            env_hash::of_all(&[("ANY", ""), ("TIER", "a")].into())
        )
    );
    let mut answers = inspected();
    answer(&pods, &mut answers, &known("a"), |id| id == "c1");
    assert_eq!(
        answers,
        inspected(),
        "nothing is said of a container that is being stopped"
    );
}

#[test]
fn container_with_other_variables_is_stopped() {
    type Edit = fn(&mut InspectPod, &mut InspectedPod, &mut Container);
    let table: [(&str, &str, Edit, bool); 6] = [
        ("another value", "a", |_, _, _| {}, true),
        ("the value", "b", |_, _, _| {}, false),
        (
            "another image: the kubelet's",
            "a",
            |pod, _, _| pod.env[0].image = "app:2".into(),
            false,
        ),
        (
            "an image that is not told",
            "a",
            |pod, _, _| pod.env[0].image = String::new(),
            true,
        ),
        (
            "it has ended",
            "a",
            |_, _, c| c.state = ContainerState::ContainerExited as i32,
            false,
        ),
        (
            "it is not known what it has",
            "a",
            |_, pod, _| pod.containers[0].update = String::new(),
            false,
        ),
    ];
    for (what, has, edit, stopped) in table {
        let mut pods = question("1", "b");
        let mut answers = inspected();
        answer(&pods, &mut answers, &known(has), |_| false);
        let mut container = running(&[]);
        edit(&mut pods[0], &mut answers[0], &mut container);
        assert_eq!(
            !to_stop(&pods, &answers, &[container]).is_empty(),
            stopped,
            "{what}"
        );
    }
}

#[test]
fn the_container_that_is_to_run_no_more_is_stopped_and_no_other() {
    type Edit = fn(&mut InspectPod, &mut InspectedPod, &mut Container);
    let table: [(&str, &str, Edit, bool); 8] = [
        ("it runs", "c1", |_, _, _| {}, true),
        ("the next one runs", "c0", |_, _, _| {}, false),
        ("none is named", "", |_, _, _| {}, false),
        ("one of another name", "other1", |_, _, _| {}, false),
        (
            "another image: the kubelet's",
            "c1",
            |pod, _, _| pod.env[0].image = "app:2".into(),
            false,
        ),
        ("another pod", "c1", |pod, _, _| pod.uid = "v".into(), false),
        (
            "a later one is there",
            "c1",
            |_, pod, _| pod.containers[0].container_id = "containerd://c2".into(),
            false,
        ),
        (
            "it has ended",
            "c1",
            |_, _, c| c.state = ContainerState::ContainerExited as i32,
            false,
        ),
    ];
    for (what, id, edit, stopped) in table {
        let (mut pods, mut answers, mut container) =
            (asking(to_end(id)), inspected(), running(&[]));
        assert_eq!(
            requested_ids(&pods, &answers).count(),
            0,
            "{what}: no variables are read for it"
        );
        edit(&mut pods[0], &mut answers[0], &mut container);
        answer(&pods, &mut answers, &Environments::new(), |_| false);
        let stops = to_stop(&pods, &answers, &[container]);
        assert_eq!(
            stops.iter().map(|stop| &*stop.id).collect::<Vec<_>>(),
            if stopped { vec!["c1"] } else { vec![] },
            "{what}"
        );
        assert!(
            stops
                .iter()
                .all(|stop| !stop.is_for_variables() && is_still_requested(&pods, stop)),
            "{what}"
        );
    }
}

#[test]
fn a_container_is_stopped_for_its_variables_or_its_id() {
    let stops = |id: &str, tier: &str| {
        let mut pods = question("1", tier);
        pods[0].env[0].container_id = id.into();
        let mut answers = inspected();
        answer(&pods, &mut answers, &known("a"), |_| false);
        to_stop(&pods, &answers, &[running(&[])])
            .into_iter()
            .map(|stop| stop.is_for_variables())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        stops("c1", "a"),
        [true],
        "the next one is to have these variables, which are wanted"
    );
    assert_eq!(stops("c0", "b"), [true]);
    assert_eq!(stops("c0", "a"), [false; 0]);
}

#[test]
fn container_is_stopped_only_while_request_is_current() {
    let pods = question("1", "b");
    let mut answers = inspected();
    answer(&pods, &mut answers, &known("a"), |_| false);
    let stop = to_stop(&pods, &answers, &[running(&[])]).remove(0);
    assert!(is_still_requested(&pods, &stop));
    let table: [(&str, Vec<InspectPod>); 5] = [
        ("taken back", Vec::new()),
        (
            "another id",
            asking(InspectEnv {
                container_id: "c2".into(),
                ..pods[0].env[0].clone()
            }),
        ),
        (
            "no variables are requested",
            vec![InspectPod {
                env: Vec::new(),
                ..pods[0].clone()
            }],
        ),
        ("another update", question("2", "b")),
        ("another value", question("1", "c")),
    ];
    for (what, pods) in table {
        assert!(!is_still_requested(&pods, &stop), "{what}");
    }
}

#[test]
fn stop_uses_grace_and_hook_like_the_kubelet() {
    let stop = |annotations: &[(&str, &str)]| {
        let pods = question("1", "b");
        let mut answers = inspected();
        answer(&pods, &mut answers, &known("a"), |_| false);
        let stop = to_stop(&pods, &answers, &[running(annotations)]).remove(0);
        (stop.grace.as_secs(), stop.hook)
    };
    assert_eq!(stop(&[]), (30, Hook::None));
    assert_eq!(stop(&[(GRACE_ANNOTATION, "60")]), (60, Hook::None));
    assert_eq!(stop(&[(GRACE_ANNOTATION, "0")]), (2, Hook::None));
    let hook = |json| stop(&[(HOOK_ANNOTATION, json)]).1;
    assert_eq!(
        hook(r#"{"exec":{"command":["sh","-c","x"]}}"#),
        Hook::Exec(["sh", "-c", "x"].map(Into::into).into())
    );
    assert_eq!(
        hook(r#"{"sleep":{"seconds":5}}"#),
        Hook::Sleep(Duration::from_secs(5))
    );
    assert!(matches!(
        hook(r#"{"httpGet":{"path":"/","port":80}}"#),
        Hook::Http(_)
    ));
}
