//! The laws for any run of a request, checked on the history of the pod and of its node's
//! NodeImage.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::broken::is_found;
use crate::history::State;

/// The stops of pods of this namespace that the NodeImage requests.
pub(super) fn stops<'a>(image: &'a Value, namespace: &str) -> impl Iterator<Item = &'a Value> {
    let asked = image["spec"]["stopContainers"]
        .as_array()
        .into_iter()
        .flatten();
    asked.filter(move |stop| stop["namespace"] == *namespace)
}

fn answer<'a>(image: &'a Value, stop: &Value) -> Option<&'a Value> {
    let mut answers = image["status"]["stoppedContainers"]
        .as_array()
        .into_iter()
        .flatten();
    answers
        .find(|answer| part(answer) == part(stop) && answer["containerID"] == stop["containerID"])
}

/// Whether the daemon's result of the stop is missing.
pub(super) fn is_open(image: &Value, stop: &Value) -> bool {
    answer(image, stop).is_none_or(|answer| answer["phase"] == "Stopping")
}

/// How often the pod's container was restarted.
pub(super) fn restarts(pod: &Value, container: &str) -> u64 {
    let mut statuses = pod["status"]["containerStatuses"]
        .as_array()
        .into_iter()
        .flatten();
    let status = statuses.find(|status| status["name"] == container);
    status
        .and_then(|status| status["restartCount"].as_u64())
        .unwrap_or_default()
}

/// A request and a container of it.
type Part = (String, String);

fn part(stop: &Value) -> Part {
    (stop["request"].to_string(), stop["container"].to_string())
}

/// Each request names one id of a container, the one that the container had, and no two requests
/// name the same id. Of one pod one stop is under way at a time. This many containers were stopped.
pub(super) fn stopped_as_meant(
    images: &[State],
    namespace: &str,
    requests: &[Value],
    wanted: u64,
) -> Result<()> {
    let mut named: BTreeMap<Part, String> = BTreeMap::new();
    let mut stopped: BTreeSet<String> = BTreeSet::new();
    for (_, image) in images {
        let mut under_way = 0;
        for stop in stops(image, namespace) {
            let id = stop["containerID"].to_string();
            let before = named.entry(part(stop)).or_insert_with(|| id.clone());
            ensure!(
                *before == id,
                "{before} was to be stopped, and then {id} of one request and container: {stop}"
            );
            under_way += usize::from(is_open(image, stop));
            stopped.extend(
                answer(image, stop)
                    .filter(|answer| answer["phase"] == "Stopped")
                    .map(|_| id),
            );
        }
        ensure!(
            under_way <= 1,
            "{under_way} stops of one pod are under way at a time"
        );
    }
    let ids: BTreeSet<_> = named.values().collect();
    ensure!(
        ids.len() == named.len(),
        "one container is to be stopped for two: {named:?}"
    );
    for request in requests {
        for container in request["spec"]["containers"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let asked = named.get(&(
                request["metadata"]["uid"].to_string(),
                container["name"].to_string(),
            ));
            let own = container["statusContext"]["containerID"].to_string();
            ensure!(
                asked.is_none_or(|asked| *asked == own),
                "{asked:?} was to be stopped, and {own} is named"
            );
        }
    }
    ensure!(
        stopped.len() as u64 == wanted,
        "{stopped:?} were stopped, and {wanted} containers were to be"
    );
    Ok(())
}

/// A container restarts only when those before it in the list were restarted.
pub(super) fn restarted_in_order(pods: &[State], containers: &[&str; 2]) -> Result<()> {
    for (_, pod) in pods {
        let [first, second] = containers.map(|container| restarts(pod, container));
        ensure!(
            first >= second,
            "{} was restarted before {}",
            containers[1],
            containers[0]
        );
    }
    Ok(())
}

/// The pod was out of service, by this gate, at every restart of a container.
pub(super) fn out_of_service_at_restarts(pods: &[State], gate: &str) -> Result<()> {
    let all = |pod: &Value| -> u64 {
        let statuses = pod["status"]["containerStatuses"]
            .as_array()
            .into_iter()
            .flatten();
        statuses
            .filter_map(|status| status["restartCount"].as_u64())
            .sum()
    };
    let is_closed = |pod: &Value| {
        let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|condition| condition["type"] == gate && condition["status"] == "False")
    };
    for pair in pods.windows(2) {
        let [(_, before), (name, now)] = pair else {
            continue;
        };
        ensure!(
            all(before) == all(now) || is_closed(before),
            "pod {name} was in service when a container was stopped"
        );
    }
    Ok(())
}

/// Histories that each break a law; the check must find them.
pub(crate) fn broken() -> Result<()> {
    let stop = |request: &str, container: &str, id: &str| json!({"namespace": "a", "request": request, "container": container, "containerID": id});
    let answered = |stop: &Value, phase: &str| {
        let mut answer = stop.clone();
        answer["phase"] = json!(phase);
        answer
    };
    let image = |stops: &[&Value], answers: Vec<Value>| {
        (
            "node".to_owned(),
            json!({"spec": {"stopContainers": stops}, "status": {"stoppedContainers": answers}}),
        )
    };
    let named = |id: &str| json!({"name": "app", "statusContext": {"containerID": id}});
    let request = |id: &str| json!({"metadata": {"uid": "r"}, "spec": {"containers": [named(id)]}});
    let (one, other, side) = (
        stop("r", "app", "c1"),
        stop("r", "app", "c2"),
        stop("r", "side", "s1"),
    );
    let done = answered(&one, "Stopped");
    let judge = |images: &[State], wanted| stopped_as_meant(images, "a", &[request("c1")], wanted);
    judge(
        &[
            image(&[&one], vec![]),
            image(&[&one, &side], vec![done.clone()]),
        ],
        1,
    )?;
    judge(&[image(&[], vec![done.clone()])], 0)?;
    is_found(
        judge(&[image(&[&one], vec![]), image(&[&other], vec![])], 0),
        "of one request and container",
    )?;
    is_found(
        judge(&[image(&[&one, &side], vec![])], 0),
        "2 stops of one pod are under way",
    )?;
    is_found(
        judge(&[image(&[&one], vec![done.clone()])], 2),
        "and 2 containers were to be",
    )?;
    is_found(judge(&[image(&[&other], vec![])], 0), "\"c1\" is named")?;
    let again = stop("q", "app", "c1");
    is_found(
        judge(&[image(&[&one, &again], vec![done])], 1),
        "one container is to be stopped for two",
    )?;

    let pod = |gate: &str, app: u64, side: u64| {
        let status = |(name, count): (&str, u64)| json!({"name": name, "restartCount": count});
        let statuses: Vec<_> = [("app", app), ("side", side)].map(status).into();
        let conditions = json!([{"type": "Gate", "status": gate}]);
        (
            "web".to_owned(),
            json!({"status": {"conditions": conditions, "containerStatuses": statuses}}),
        )
    };
    let order = ["app", "side"];
    restarted_in_order(
        &[pod("True", 0, 0), pod("True", 1, 0), pod("True", 1, 1)],
        &order,
    )?;
    is_found(
        restarted_in_order(&[pod("True", 0, 1)], &order),
        "side was restarted before app",
    )?;
    out_of_service_at_restarts(
        &[
            pod("True", 0, 0),
            pod("False", 0, 0),
            pod("False", 1, 0),
            pod("True", 1, 0),
        ],
        "Gate",
    )?;
    is_found(
        out_of_service_at_restarts(&[pod("True", 0, 0), pod("True", 1, 0)], "Gate"),
        "pod web was in service",
    )
}
