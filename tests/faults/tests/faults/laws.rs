//! The laws for any run with any injected fault, checked on the record of the pods and on the
//! ledger of the writes.
//!
//! A scenario checks the laws that it promises. No law knows a kind; scenarios pass their
//! differences as arguments.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use berth_api::names::lifecycle_state::{NORMAL, UPDATED, UPDATING};
use berth_api::names::{annotation, label};
use berth_e2e::limits::Limits;
use berth_e2e::record::{Moment, PodView, Record, Standing, seconds};
use berth_faults::{Entry, Ledger, PATHS};
use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// A pod at one moment and at the next. A new pod is its own earlier state.
struct Step<'a> {
    before: &'a PodView,
    now: &'a PodView,
}

/// Every step of every pod, in the order of the moments.
fn steps(record: &Record) -> Vec<Step<'_>> {
    let (mut steps, mut before) = (Vec::new(), Moment::default());
    for moment in record.moments() {
        for (uid, standing) in &moment.pods {
            let last = before.pods.get(uid).unwrap_or(standing);
            steps.push(Step {
                before: last.pod,
                now: standing.pod,
            });
        }
        before = moment;
    }
    steps
}

/// Each deleted pod, in the state in which its deletion began.
fn deleted(record: &Record) -> Vec<&PodView> {
    let (mut deleted, mut before) = (Vec::new(), Moment::default());
    for moment in record.moments() {
        for (uid, Standing { pod: last, .. }) in before
            .pods
            .iter()
            .filter(|(_, before)| !before.pod.terminating)
        {
            // A pod without a node disappears without having been terminating.
            match moment.pods.get(uid) {
                Some(now) if now.pod.terminating => deleted.push(now.pod),
                Some(_) => {}
                None => deleted.push(*last),
            }
        }
        before = moment;
    }
    deleted
}

/// `maxUnavailable`, `maxSurge` and `partition` hold at every moment.
pub(crate) fn limits_hold(record: &Record, limits: &Limits) -> Result<()> {
    let violations = limits.violations(record);
    let Some(first) = violations.first() else {
        return Ok(());
    };
    let before = record.moments().take_while(|moment| moment.at <= first.at);
    let told: Vec<_> = before
        .map(|moment| format!("{}: {}", seconds(moment.at), moment.describe()))
        .collect();
    bail!(
        "{} moments break a promise, the first: {first}; so far:\n{}",
        violations.len(),
        told.join("\n")
    )
}

/// The record begins with so many pods.
pub(crate) fn begins_with(record: &Record, pods: usize) -> Result<()> {
    let first = record.moments().next().unwrap_or_default();
    ensure!(
        first.pods.len() == pods,
        "it began with other pods: {}",
        first.describe()
    );
    Ok(())
}

/// All pods have one of these names.
pub(crate) fn only_these_are_there(record: &Record, names: &[String]) -> Result<()> {
    for Step { now, .. } in steps(record) {
        ensure!(
            names.contains(&now.name),
            "there is a pod {}, and only {names:?} may be there",
            now.name
        );
    }
    Ok(())
}

/// The places of the pods of a workload that has them on nodes.
pub(crate) struct OnNodes<'a> {
    /// Nodes that may have pods.
    pub(crate) allowed: &'a [&'a str],
    /// The most pods that each of them may have, including terminating ones.
    pub(crate) most: usize,
    /// Nodes that must have a pod that serves.
    pub(crate) served: &'a [&'a str],
    /// How many of the served nodes may be without.
    pub(crate) away: usize,
}

/// At every moment no node has more pods than allowed, bound or about to be bound, and the served
/// nodes have a pod that serves.
pub(crate) fn nodes_have_their_pods(record: &Record, nodes: &OnNodes<'_>) -> Result<()> {
    for moment in record.moments() {
        let (mut pods, mut served) = (BTreeMap::<_, usize>::new(), BTreeSet::new());
        for pod in moment.pods.values().map(|standing| standing.pod) {
            let node = if pod.node.is_empty() {
                pod.pinned.as_str()
            } else {
                pod.node.as_str()
            };
            let told = || moment.describe();
            ensure!(
                nodes.allowed.contains(&node),
                "pod {} is on node {node:?}, where none may be: {}",
                pod.name,
                told()
            );
            let here = pods.entry(node).or_default();
            *here += 1;
            ensure!(
                *here <= nodes.most,
                "node {node} has {here} pods: {}",
                told()
            );
            served.extend(pod.serves().then_some(node));
        }
        let away: Vec<_> = nodes
            .served
            .iter()
            .filter(|node| !served.contains(*node))
            .collect();
        ensure!(
            away.len() <= nodes.away,
            "nodes {away:?} have no pod that serves: {}",
            moment.describe()
        );
    }
    Ok(())
}

/// Exactly so many pods were created.
pub(crate) fn pods_are_created(record: &Record, wanted: usize) -> Result<()> {
    let first = record.moments().next().unwrap_or_default();
    let uids: BTreeSet<&str> = steps(record)
        .into_iter()
        .map(|step| step.now.uid.as_str())
        .collect();
    let created = uids.len() - first.pods.len();
    ensure!(
        created == wanted,
        "{created} pods were created, not {wanted}"
    );
    Ok(())
}

/// No image changes in a pod that is in service: of any container, or of this one alone.
pub(crate) fn no_image_changes_in_service(record: &Record, container: Option<&str>) -> Result<()> {
    for Step { before, now } in steps(record) {
        let is_changed =
            changed_images(before, now).any(|name| container.is_none_or(|only| name == only));
        ensure!(
            !(is_changed && before.gates),
            "pod {} was in service when its image was changed: {before:?}",
            now.name
        );
    }
    Ok(())
}

/// No pod's images change more often than this, and containers restart only for a change of their
/// image.
pub(crate) fn restarts_are_for_image_changes(record: &Record, most_changes: usize) -> Result<()> {
    let mut pods: BTreeMap<&str, (usize, i32)> = BTreeMap::new();
    for Step { before, now } in steps(record) {
        let (changes, restarts) = pods.entry(&now.uid).or_default();
        *changes += changed_images(before, now).count();
        *restarts += now.restarts() - before.restarts();
        ensure!(
            *changes <= most_changes,
            "the image of pod {} was changed {changes} times",
            now.name
        );
        ensure!(
            usize::try_from(*restarts)? <= *changes,
            "pod {} restarted {restarts} times for {changes} changes of its image",
            now.name
        );
    }
    Ok(())
}

/// No pod is updated while it has the label of a hook, and none returns into service before it has
/// the label again.
pub(crate) fn updates_wait_for(record: &Record, hook: &str) -> Result<()> {
    for Step { before, now } in steps(record) {
        let (state, held) = (
            now.label(label::LIFECYCLE_STATE),
            !now.label(hook).is_empty(),
        );
        let is_updated = state == UPDATING || changed_images(before, now).next().is_some();
        ensure!(
            !(is_updated && held),
            "pod {} was updated while its hook held it: {now:?}",
            now.name
        );
        let is_back = before.label(label::LIFECYCLE_STATE) == UPDATED && state == NORMAL;
        ensure!(
            !is_back || held,
            "pod {} came back into service without its hook: {now:?}",
            now.name
        );
    }
    Ok(())
}

/// No pod enters service before it has the label of a hook.
pub(crate) fn service_waits_for(record: &Record, hook: &str) -> Result<()> {
    for Step { now, .. } in steps(record) {
        let is_in_service = now.label(label::LIFECYCLE_STATE) == NORMAL;
        let is_let_in = !now.label(hook).is_empty();
        ensure!(
            !is_in_service || is_let_in,
            "pod {} came into service without its hook: {now:?}",
            now.name
        );
    }
    Ok(())
}

/// No pod is deleted while it has the label of a hook.
pub(crate) fn deletions_wait_for(record: &Record, hook: &str) -> Result<()> {
    for pod in deleted(record) {
        ensure!(
            pod.label(hook).is_empty(),
            "pod {} was deleted while its hook held it: {pod:?}",
            pod.name
        );
    }
    Ok(())
}

/// No pod of the newest revision is deleted.
pub(crate) fn newest_pods_stay(record: &Record, newest: &str) -> Result<()> {
    for pod in deleted(record) {
        ensure!(
            pod.revision != newest,
            "pod {} was deleted, and is of the newest revision: {pod:?}",
            pod.name
        );
    }
    Ok(())
}

/// Only the pod of this name is deleted.
pub(crate) fn others_stay(record: &Record, told_to_go: &str) -> Result<()> {
    for pod in deleted(record) {
        ensure!(
            pod.name == told_to_go,
            "pod {} was deleted, and {told_to_go} was told to go",
            pod.name
        );
    }
    Ok(())
}

/// Only pods for which `such` is true are deleted.
pub(crate) fn only_such_go(
    record: &Record,
    what: &str,
    such: impl Fn(&PodView) -> bool,
) -> Result<()> {
    let other = deleted(record).into_iter().find(|pod| !such(pod));
    ensure!(
        other.is_none(),
        "a pod was deleted, and only one that {what} may be: {other:?}"
    );
    Ok(())
}

/// The pods are the same as before: each with its name, uid, node and address.
pub(crate) fn pods_are_the_same(
    before: &BTreeMap<String, PodView>,
    after: &BTreeMap<String, PodView>,
) -> Result<()> {
    let identities = |pods: &BTreeMap<String, PodView>| -> Vec<_> {
        pods.values()
            .map(|pod| {
                (
                    pod.name.clone(),
                    pod.uid.clone(),
                    pod.node.clone(),
                    pod.ip.clone(),
                )
            })
            .collect()
    };
    ensure!(
        identities(before) == identities(after),
        "not the same pods: before {before:?}, after {after:?}"
    );
    Ok(())
}

/// The apiserver carried out exactly so many writes of each of these sorts.
pub(crate) fn writes_are<'a>(
    ledger: &Ledger,
    wanted: impl IntoIterator<Item = (Method, &'a str, usize)>,
) -> Result<()> {
    for (method, resource, times) in wanted {
        let done = ledger.done(&method, resource);
        // The write of the webhook's new paths may also contain one of these.
        let more = if resource == PATHS {
            ledger.renewals()
        } else {
            0
        };
        ensure!(
            (done..=done + more).contains(&times),
            "{done} times {method} {resource} was carried out, not {times} times"
        );
    }
    Ok(())
}

/// A claim by the id of its instance and its name, and how many writes had arrived when it existed.
type Claims = BTreeMap<(String, String), usize>;

/// No claim is created twice.
pub(crate) fn no_claim_is_made_twice(ledger: &Ledger) -> Result<()> {
    claims(ledger).map(drop)
}

/// Each pod has at least one claim, and is created only when its claims exist.
pub(crate) fn claims_come_before_pods(ledger: &Ledger) -> Result<()> {
    let claims = claims(ledger)?;
    for (index, pod) in posts(ledger, "pods") {
        let name = &pod.body["metadata"]["name"];
        let mut own = claims
            .iter()
            .filter(|((of, _), _)| *of == instance(pod))
            .peekable();
        ensure!(
            own.peek().is_some(),
            "pod {name} was asked for, and its claim never"
        );
        for ((_, claim), there) in own {
            ensure!(
                *there <= index,
                "pod {name} was asked for before claim {claim} was there"
            );
        }
    }
    Ok(())
}

/// The claims that were created.
fn claims(ledger: &Ledger) -> Result<Claims> {
    let mut claims = Claims::new();
    for (_, claim) in posts(ledger, "persistentvolumeclaims").filter(|(_, claim)| claim.is_done()) {
        // The claim template's name, with the id.
        let name = claim.body["metadata"]["name"].to_string();
        let is_new = claims
            .insert((instance(claim), name.clone()), claim.arrived_by_then)
            .is_none();
        ensure!(is_new, "claim {name} was made twice");
    }
    Ok(claims)
}

/// No record of a pod is written before the configuration of the pod webhook names its workload by
/// this word. The workload is not removed from it before its records are deleted. `at_first` says
/// whether both exist at the start.
pub(crate) fn entries_outlast_records(ledger: &Ledger, word: &str, at_first: bool) -> Result<()> {
    // The number of writes that had arrived before the entry, and before the end of the records.
    let (mut entry_since, mut none_since) = (at_first.then_some(0), (!at_first).then_some(0));
    for (index, write) in ledger.entries().iter().enumerate() {
        match (&write.write.method, write.write.resource.as_str()) {
            (&Method::PATCH, "mutatingwebhookconfigurations") if write.is_done() => {
                let mut entries = write.body["webhooks"].as_array().into_iter().flatten();
                entry_since = entries
                    .any(|entry| names(entry, word))
                    .then_some(write.arrived_by_then);
                let is_needed =
                    entry_since.is_none() && none_since.is_none_or(|since| since > index);
                ensure!(
                    !is_needed,
                    "there is no entry any more, and there are records"
                );
            }
            (&Method::PATCH, "persistentpodstates/status") if write.is_done() => {
                let records = &write.body["status"]["podStates"];
                if records
                    .as_object()
                    .is_some_and(|records| !records.is_empty())
                {
                    ensure!(
                        entry_since.is_some_and(|since| since <= index),
                        "there are {records}, and no entry yet"
                    );
                    none_since = None;
                }
            }
            (&Method::DELETE, "persistentpodstates") if write.is_done() => {
                none_since = Some(write.arrived_by_then)
            }
            _ => {}
        }
    }
    Ok(())
}

/// Does an entry of the pod webhook contain the word of this workload?
pub(crate) fn names(entry: &Value, word: &str) -> bool {
    let mut conditions = entry["matchConditions"].as_array().into_iter().flatten();
    conditions.any(|condition| {
        condition["expression"]
            .as_str()
            .is_some_and(|text| text.contains(word))
    })
}

/// The creations of a resource, with their places in the ledger.
fn posts<'a>(
    ledger: &'a Ledger,
    resource: &'static str,
) -> impl Iterator<Item = (usize, &'a Entry)> {
    let entries = ledger.entries().iter().enumerate();
    entries.filter(move |(_, entry)| {
        entry.write.method == Method::POST && entry.write.resource == resource
    })
}

fn instance(entry: &Entry) -> String {
    entry.body["metadata"]["labels"][label::CLONESET_INSTANCE_ID].to_string()
}

/// No image changes before the pod has been out of service for the grace period. The times in the
/// writes count, because they are the times of the controller's decisions.
pub(crate) fn grace_goes_by(ledger: &Ledger, grace: SignedDuration) -> Result<()> {
    let mut out_of_service: BTreeMap<&str, Timestamp> = BTreeMap::new();
    for entry in ledger
        .entries()
        .iter()
        .filter(|entry| entry.is_done() && entry.write.method == Method::PATCH)
    {
        let (pod, metadata) = (entry.write.name.as_str(), &entry.body["metadata"]);
        match metadata["labels"][label::LIFECYCLE_STATE].as_str() {
            Some(UPDATING) => {
                let since = time(&metadata["annotations"][annotation::LIFECYCLE_TIMESTAMP])?;
                out_of_service.insert(pod, since);
            }
            Some(_) => drop(out_of_service.remove(pod)),
            None => {}
        }
        // The pod carries the permission for its next containers to start.
        if entry.write.resource != "pods" || entry.body["spec"].is_null() {
            continue;
        }
        let state = metadata["annotations"][annotation::INPLACE_UPDATE_STATE]
            .as_str()
            .unwrap_or_default();
        let state: Value =
            serde_json::from_str(state).with_context(|| format!("no record in {}", entry.body))?;
        let since = out_of_service
            .get(pod)
            .with_context(|| format!("pod {pod} was patched in service"))?;
        let waited = time(&state["updateTimestamp"])?.duration_since(*since);
        ensure!(
            waited >= grace,
            "pod {pod} was patched after {waited:#} out of service, not {grace:#}"
        );
    }
    Ok(())
}

fn time(value: &Value) -> Result<Timestamp> {
    let text = value
        .as_str()
        .with_context(|| format!("{value} is no time"))?;
    text.parse().with_context(|| format!("{text:?} is no time"))
}

/// The names of the containers whose images change.
fn changed_images<'a>(before: &'a PodView, after: &'a PodView) -> impl Iterator<Item = &'a str> {
    let image =
        |pod: &'a PodView, name: &str| pod.containers.get(name).map(|container| &container.wanted);
    let names = after.containers.keys().map(String::as_str);
    names.filter(move |name| image(before, name) != image(after, name))
}
