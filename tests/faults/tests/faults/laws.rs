//! What holds at every instant of a case, whoever dies.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use berth_api::names::lifecycle_state::{NORMAL, UPDATED, UPDATING};
use berth_api::names::{annotation, label};
use berth_e2e::record::{Moment, PodView, Record, Standing, seconds};
use berth_faults::{Entry, Ledger};
use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::clone_set::Rollout;
use crate::owner::{HOOK, READY};

/// What has happened to a pod so far.
#[derive(Default)]
struct Past {
    image_changes: usize,
    restarts: i32,
}

/// Checks the record of the pods. `revision` is the name of the newest in the end, `told_to_go` that of the only pod that may
/// go, where there is one.
pub(crate) fn check_record(rollout: Rollout, record: &Record, revision: &str, told_to_go: Option<&str>) -> Result<()> {
    let last = record.last();
    let newest = last.label_of(revision).with_context(|| format!("no pod is of {revision}: {}", last.describe()))?;
    check_limits(rollout, record, newest)?;
    let mut pods: BTreeMap<&str, Past> = BTreeMap::new();
    let mut before = Moment::default();
    for (number, moment) in record.moments().enumerate() {
        for (uid, standing) in &moment.pods {
            let past = pods.entry(uid).or_default();
            let last = before.pods.get(uid).unwrap_or(standing);
            check_containers(rollout, past, last.pod, standing.pod)?;
            check_hooks(rollout, last.pod, standing.pod)?;
        }
        for (uid, Standing { pod: last, .. }) in before.pods.iter().filter(|(_, before)| !before.pod.terminating) {
            // What no node has is gone without having been on its way out.
            match moment.pods.get(uid) {
                Some(now) if now.pod.terminating => check_end(rollout, now.pod, newest, told_to_go)?,
                Some(_) => {}
                None => check_end(rollout, last, newest, told_to_go)?,
            }
        }
        if number == 0 {
            ensure!(moment.pods.len() == rollout.pods_before(), "it began with other pods: {}", moment.describe());
        }
        before = moment;
    }
    let (seen, wanted) = (pods.len() - rollout.pods_before(), rollout.expected().creates);
    ensure!(seen == wanted, "{seen} pods were created, not {wanted}");
    Ok(())
}

fn check_limits(rollout: Rollout, record: &Record, newest: &str) -> Result<()> {
    let violations = rollout.limits(newest).violations(record);
    let Some(first) = violations.first() else { return Ok(()) };
    let before = record.moments().take_while(|moment| moment.at <= first.at);
    let told: Vec<_> = before.map(|moment| format!("{}: {}", seconds(moment.at), moment.describe())).collect();
    bail!("{} moments break a promise, the first: {first}; so far:\n{}", violations.len(), told.join("\n"))
}

/// No image changes in service or too often, and no container restarts without need.
fn check_containers(rollout: Rollout, past: &mut Past, last: &PodView, now: &PodView) -> Result<()> {
    let changes = changed_images(last, now);
    ensure!(changes == 0 || !last.gates, "pod {} was in service when its image was changed: {last:?}", now.name);
    past.image_changes += changes;
    past.restarts += now.restarts() - last.restarts();
    let Past { image_changes, restarts } = *past;
    ensure!(
        image_changes <= rollout.expected().image_changes,
        "the image of pod {} was changed {image_changes} times",
        now.name
    );
    ensure!(
        usize::try_from(restarts)? <= image_changes,
        "pod {} restarted {restarts} times for {image_changes} changes of its image",
        now.name
    );
    Ok(())
}

/// No hook is passed over.
fn check_hooks(rollout: Rollout, last: &PodView, now: &PodView) -> Result<()> {
    let (state, held) = (now.label(label::LIFECYCLE_STATE), !now.label(HOOK).is_empty());
    match rollout {
        Rollout::Hooks => {
            let is_updated = state == UPDATING || changed_images(last, now) > 0;
            ensure!(!(is_updated && held), "pod {} was updated while its hook held it: {now:?}", now.name);
            let is_back = last.label(label::LIFECYCLE_STATE) == UPDATED && state == NORMAL;
            ensure!(!is_back || held, "pod {} came back into service without its hook: {now:?}", now.name);
        }
        Rollout::Guarded => {
            let is_let_in = !now.label(READY).is_empty();
            ensure!(state != NORMAL || is_let_in, "pod {} came into service without its hook: {now:?}", now.name);
        }
        _ => {}
    }
    Ok(())
}

/// A pod goes that nothing holds, that is not as wanted, and that was told to where one is.
fn check_end(rollout: Rollout, pod: &PodView, newest: &str, told_to_go: Option<&str>) -> Result<()> {
    let is_held = rollout == Rollout::Guarded && !pod.label(HOOK).is_empty();
    ensure!(!is_held, "pod {} was deleted while its hook held it: {pod:?}", pod.name);
    let is_wanted = matches!(rollout, Rollout::Recreate | Rollout::Claims) && pod.revision == newest;
    ensure!(!is_wanted, "pod {} was deleted, and is of the newest revision: {pod:?}", pod.name);
    if let Some(told) = told_to_go {
        ensure!(pod.name == told, "pod {} was deleted, and {told} was told to go", pod.name);
    }
    Ok(())
}

/// Checks what the controller did against what it had to do.
pub(crate) fn check_writes(rollout: Rollout, ledger: &Ledger) -> Result<()> {
    let wanted = rollout.expected();
    for (method, resource, times) in [
        (Method::POST, "pods", wanted.creates),
        (Method::DELETE, "pods", wanted.deletes),
        (Method::POST, "persistentvolumeclaims", wanted.claims),
        // Garbage collection deletes them, after their pods.
        (Method::DELETE, "persistentvolumeclaims", 0),
        (Method::POST, "configmaps", wanted.barriers),
        (Method::POST, "controllerrevisions", wanted.revisions),
        (Method::DELETE, "controllerrevisions", 0),
        (Method::PATCH, "clonesets", wanted.cleaned),
    ] {
        let done = ledger.done(&method, resource);
        ensure!(done == times, "{done} times {method} {resource} was carried out, not {times} times");
    }
    check_claims(rollout, ledger)?;
    check_grace(rollout, ledger)
}

/// A pod is asked for when its claim is there, and no claim is made twice.
fn check_claims(rollout: Rollout, ledger: &Ledger) -> Result<()> {
    let id = |entry: &Entry| entry.body["metadata"]["labels"][label::CLONESET_INSTANCE_ID].to_string();
    let posts = |resource: &'static str| {
        let entries = ledger.entries().iter().enumerate();
        entries.filter(move |(_, entry)| entry.write.method == Method::POST && entry.write.resource == resource)
    };
    // By instance id and name, which is that of the template with the id: how many writes had arrived when it was there.
    let mut claims = BTreeMap::new();
    for (_, claim) in posts("persistentvolumeclaims").filter(|(_, claim)| claim.is_done()) {
        let name = claim.body["metadata"]["name"].to_string();
        let is_new = claims.insert((id(claim), name.clone()), claim.arrived_by_then).is_none();
        ensure!(is_new, "claim {name} was made twice");
    }
    if rollout.expected().claims == 0 {
        return Ok(());
    }
    for (index, pod) in posts("pods") {
        let name = &pod.body["metadata"]["name"];
        let mut own = claims.iter().filter(|((of, _), _)| *of == id(pod)).peekable();
        ensure!(own.peek().is_some(), "pod {name} was asked for, and its claim never");
        for ((_, claim), there) in own {
            ensure!(*there <= index, "pod {name} was asked for before claim {claim} was there");
        }
    }
    Ok(())
}

/// No image changes before the pod has been out of service for the grace period: by the times that the writes carry, for
/// these are when the controller decided.
fn check_grace(rollout: Rollout, ledger: &Ledger) -> Result<()> {
    let grace = SignedDuration::from_secs(rollout.grace_seconds());
    let mut out_of_service: BTreeMap<&str, Timestamp> = BTreeMap::new();
    for entry in ledger.entries().iter().filter(|entry| entry.is_done() && entry.write.method == Method::PATCH) {
        let (pod, metadata) = (entry.write.name.as_str(), &entry.body["metadata"]);
        match metadata["labels"][label::LIFECYCLE_STATE].as_str() {
            Some(UPDATING) => {
                let since = time(&metadata["annotations"][annotation::LIFECYCLE_TIMESTAMP])?;
                out_of_service.insert(pod, since);
            }
            Some(_) => drop(out_of_service.remove(pod)),
            None => {}
        }
        // That the next containers of a new pod may start is written on the pod.
        if entry.write.resource != "pods" || entry.body["spec"].is_null() {
            continue;
        }
        let state = metadata["annotations"][annotation::INPLACE_UPDATE_STATE].as_str().unwrap_or_default();
        let state: Value = serde_json::from_str(state).with_context(|| format!("no record in {}", entry.body))?;
        let since = out_of_service.get(pod).with_context(|| format!("pod {pod} was patched in service"))?;
        let waited = time(&state["updateTimestamp"])?.duration_since(*since);
        ensure!(waited >= grace, "pod {pod} was patched after {waited:#} out of service, not {grace:#}");
    }
    Ok(())
}

fn time(value: &Value) -> Result<Timestamp> {
    let text = value.as_str().with_context(|| format!("{value} is no time"))?;
    text.parse().with_context(|| format!("{text:?} is no time"))
}

/// Checks that these are the pods of before.
pub(crate) fn check_same(before: &BTreeMap<String, PodView>, after: &BTreeMap<String, PodView>) -> Result<()> {
    let identities = |pods: &BTreeMap<String, PodView>| -> Vec<_> {
        pods.values().map(|pod| (pod.name.clone(), pod.uid.clone(), pod.node.clone(), pod.ip.clone())).collect()
    };
    ensure!(identities(before) == identities(after), "not the same pods: before {before:?}, after {after:?}");
    Ok(())
}

fn changed_images(before: &PodView, after: &PodView) -> usize {
    let image = |pod: &PodView, name: &str| pod.containers.get(name).map(|container| container.wanted.clone());
    after.containers.keys().filter(|name| image(before, name) != image(after, name)).count()
}
