//! What holds at every instant of a case, whoever dies.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use berth_api::names::{annotation, label};
use berth_e2e::record::{PodView, Record, seconds};
use berth_faults::Ledger;
use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::rollout::Rollout;

/// What has happened to a pod so far.
struct Past<'a> {
    last: &'a PodView,
    image_changes: usize,
    restarts: i32,
}

/// Checks the record of the pods.
pub(crate) fn check_record(rollout: Rollout, record: &Record) -> Result<()> {
    let wanted = rollout.expected();
    let violations = rollout.limits().violations(record);
    if let Some(first) = violations.first() {
        let before = record.moments().take_while(|moment| moment.at <= first.at);
        let told: Vec<_> = before.map(|moment| format!("{}: {}", seconds(moment.at), moment.describe())).collect();
        bail!("{} moments break a promise, the first: {first}; so far:\n{}", violations.len(), told.join("\n"));
    }

    let mut pods: BTreeMap<&str, Past<'_>> = BTreeMap::new();
    for moment in record.moments() {
        for (uid, standing) in moment.pods {
            let now = standing.pod;
            let past = pods.entry(uid).or_insert(Past { last: now, image_changes: 0, restarts: 0 });
            let last = std::mem::replace(&mut past.last, now);
            let changes = changed_images(last, now);
            if changes > 0 {
                past.image_changes += changes;
                ensure!(!last.gates, "pod {} was in service when its image was changed: {last:?}", now.name);
            }
            past.restarts += now.restarts() - last.restarts();
            ensure!(
                past.image_changes <= wanted.image_changes,
                "the image of pod {} was changed {} times",
                now.name,
                past.image_changes
            );
            ensure!(
                usize::try_from(past.restarts)? <= past.image_changes,
                "pod {} restarted {} times for {} changes of its image",
                now.name,
                past.restarts,
                past.image_changes
            );
        }
    }
    let before = record.moments().next().map_or(0, |moment| moment.pods.len());
    let seen = pods.len() - before;
    ensure!(seen == wanted.creates, "{seen} pods were created, not {}", wanted.creates);
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
    ] {
        let done = ledger.done(&method, resource);
        ensure!(done == times, "{done} times {method} {resource} was carried out, not {times} times");
    }
    check_grace(rollout, ledger)
}

/// No image changes before the pod has been out of service for the grace period: by the times that the writes carry, for
/// these are when the controller decided.
fn check_grace(rollout: Rollout, ledger: &Ledger) -> Result<()> {
    let grace = SignedDuration::from_secs(rollout.grace_seconds());
    let mut out_of_service: BTreeMap<&str, Timestamp> = BTreeMap::new();
    for entry in ledger.entries().iter().filter(|entry| entry.is_done() && entry.write.method == Method::PATCH) {
        let (pod, metadata) = (entry.write.name.as_str(), &entry.body["metadata"]);
        match metadata["labels"][label::LIFECYCLE_STATE].as_str() {
            Some("Updating") => {
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
