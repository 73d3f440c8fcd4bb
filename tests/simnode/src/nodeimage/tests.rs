use serde_json::json;

use super::*;

#[test]
fn a_container_is_stopped_once_and_another_runs_in_its_place() {
    let pod: Pod = serde_json::from_value(json!({
            "metadata": {"namespace": "a", "name": "web", "uid": "u"},
            "spec": {"nodeName": "n", "containers": [{"name": "app", "image": "app:1"}]},
            "status": {"containerStatuses": [{"name": "app", "containerID": "c://a", "state": {"running": {"startedAt": "x"}}}]},
        }))
        .unwrap();
    let pod = Arc::new(pod);
    let stop = |id: &str| json!({"request": id, "namespace": "a", "name": "web", "uid": "u", "container": "app", "containerID": id});
    let mut image: NodeImage = serde_json::from_value(
        json!({"metadata": {}, "spec": {"stopContainers": [stop("c://a"), stop("c://b")]}}),
    )
    .unwrap();
    let (answers, reports) = stopped(&image, |_| Some(pod.clone()), "now");
    assert_eq!(
        answers
            .iter()
            .map(|answer| answer.phase)
            .collect::<Vec<_>>(),
        [StopPhase::Stopped, StopPhase::Gone]
    );
    let status = &reports[0].1["status"]["containerStatuses"][0];
    assert_eq!(
        (&status["restartCount"], &status["containerID"]),
        (&json!(1), &json!(answers[0].lasting_container_id))
    );
    image.status = Some(NodeImageStatus {
        stopped_containers: answers.clone(),
        ..NodeImageStatus::default()
    });
    assert_eq!(
        stopped(&image, |_| Some(pod.clone()), "now"),
        (answers, Vec::new())
    );
}

#[test]
fn every_pull_ends_once() {
    let now = Time("2026-01-02T03:04:05Z".parse().unwrap());
    let tags = json!([{"tag": "1", "version": 2}, {"tag": "none"}]);
    let mut image: NodeImage = serde_json::from_value(
        json!({"metadata": {"name": "sim-0"}, "spec": {"images": {"web": {"tags": tags}}}}),
    )
    .unwrap();
    let missing = ["web:none".to_owned()];
    let status = answer(&image, &[], &missing, &now).unwrap();
    assert_eq!((status.desired, status.succeeded, status.failed), (2, 1, 1));
    let tags = &status.image_statuses["web"].tags;
    assert_eq!(
        (tags[0].phase, tags[0].version),
        (ImagePullPhase::Succeeded, 2)
    );
    assert_eq!(tags[1].phase, ImagePullPhase::Failed);
    image.status = Some(status);
    assert_eq!(answer(&image, &[], &missing, &now), None);
    image.spec.images.clear();
    assert_eq!(answer(&image, &[], &missing, &now).unwrap().desired, 0);
}

#[test]
fn pods_are_reported_once() {
    let [now, later] =
        ["2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z"].map(|time| Time(time.parse().unwrap()));
    let container = json!({"name": "main", "image": "web:1", "imageID": "i", "containerID": "c", "restartCount": 2});
    let mut pod: Pod = serde_json::from_value(
        json!({"metadata": {"uid": "u"}, "status": {"containerStatuses": [container]}}),
    )
    .unwrap();
    let mut image = NodeImage::default();
    let status = answer(&image, &[&pod], &[], &now).unwrap();
    let told = &status.inspected_pods[0];
    assert_eq!((&*told.uid, told.observed_at.as_ref()), ("u", Some(&now)));
    assert_eq!(
        (&*told.containers[0].image, told.containers[0].attempt),
        ("web:1", Some(2))
    );
    image.status = Some(status);
    assert_eq!(answer(&image, &[&pod], &[], &later), None, "nothing new");
    pod.status.container_statuses[0].restart_count = 3;
    assert_eq!(
        answer(&image, &[&pod], &[], &later).unwrap().inspected_pods[0].observed_at,
        Some(later.clone())
    );
    assert_eq!(answer(&image, &[], &[], &later).unwrap().inspected_pods, []);
}
