//! Dry runs of pods' creations. They show the controller that the apiserver calls the webhook for
//! the containers of a SidecarSet, and that a replica answers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use berth_api::v1beta1::sidecarset::SidecarSet;
use berth_kinds::sidecarset::InjectionCalls;
use berth_runtime::client::{self, DryRun, Failed};
use berth_runtime::object::PODS;
use berth_webhook::NO_TOKEN;
use berth_webhook::pods::{PROBE, says_applied, says_left_out};
use berth_workload::objects::pod::Pod;
use kube::Client;
use serde_json::{Value, json};

use super::probes::Calls;
use super::{Injection, is_paused};

/// How long an answer counts for a pod that is about to be replaced.
const FRESH_FOR_POD: Duration = Duration::from_secs(5);
/// The most namespaces that are tried at once. More than one, because another admission webhook may
/// refuse pods in one of them.
const NAMESPACES: usize = 3;
/// How long the apiserver may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest pod that is read.
const LARGEST_POD: usize = 4 << 20;

impl Injection {
    /// Whether the apiserver calls the webhook for pods that the SidecarSet selects and a replica
    /// answers, and when to look again. Pods with these labels, in one of these namespaces, get the
    /// containers; if `labels` is `None`, no labels match.
    pub(crate) async fn probed(
        &self,
        client: &Client,
        set: &SidecarSet,
        (namespaces, labels): (&[String], Option<&BTreeMap<String, String>>),
    ) -> (InjectionCalls, Option<Duration>) {
        let injection_calls = self.injection_calls(set);
        if !matches!(
            injection_calls,
            InjectionCalls::Yes | InjectionCalls::Unknown
        ) || is_paused(set)
            || namespaces.is_empty()
        {
            return (injection_calls, None);
        }
        let name = set.metadata.name.clone().unwrap_or_default();
        let Some(labels) = labels else {
            let why = format!(
                "SidecarSet {name}: no labels match spec.selector and the objectSelector that others added to \
                 kruise-mutating-webhook-configuration, so no pod gets the containers: change one of them"
            );
            return (InjectionCalls::Unanswered(why), None);
        };
        let selectors = json!([set.spec.selector, set.spec.namespace_selector]).to_string();
        let known = self.probes.calls(&name, &selectors);
        let (sets, failures) = (
            self.sets(),
            known.as_ref().map_or(0, |calls| calls.failures),
        );
        let calls = match known.filter(|calls| !calls.due_after(sets, Instant::now()).is_zero()) {
            Some(calls) => calls,
            None => {
                // If all of them refuse pods, the next ones are tried after the pause.
                let from = usize::try_from(failures)
                    .unwrap_or_default()
                    .saturating_mul(NAMESPACES)
                    % namespaces.len();
                let (before, after) = namespaces.split_at(from);
                let why = tried(client, &name, after.iter().chain(before), labels).await;
                let failures = if why.is_some() {
                    failures.saturating_add(1)
                } else {
                    0
                };
                let calls = Calls {
                    selectors,
                    at: Instant::now(),
                    failures,
                    why,
                };
                self.probes.lock().entry(name.clone()).or_default().calls = Some(calls.clone());
                calls
            }
        };
        // Dry runs continue, because they cause the calls that show a valid token again.
        let injection_calls = if self.asks.lacks_token() {
            InjectionCalls::Unanswered(format!("SidecarSet {name}: {NO_TOKEN}"))
        } else {
            calls.injection_calls()
        };
        (injection_calls, Some(calls.due_after(sets, Instant::now())))
    }

    /// Why the successor of the pod would lack the containers of the SidecarSet.
    pub(crate) async fn fruitless(
        &self,
        client: &Client,
        set: &SidecarSet,
        pod: &Pod,
    ) -> Option<String> {
        let name = set.metadata.name.clone().unwrap_or_default();
        let known = self
            .probes
            .lock()
            .get(&name)
            .and_then(|known| known.pod.clone());
        if let Some((uid, at, why)) = known
            && *uid == *pod.metadata.uid
            && at.elapsed() < FRESH_FOR_POD
        {
            return why;
        }
        let why = match rehearsed(client, pod).await {
            Ok(said) => lacks(&name, &said),
            Err(failed) => Some(format!("the apiserver does not say: {failed}")),
        };
        let tried = (pod.metadata.uid.to_string(), Instant::now(), why.clone());
        self.probes.lock().entry(name).or_default().pod = Some(tried);
        why
    }
}

/// Why no dry run in the first of these namespaces was answered for the SidecarSet.
async fn tried<'a>(
    client: &Client,
    set: &str,
    namespaces: impl Iterator<Item = &'a String>,
    labels: &BTreeMap<String, String>,
) -> Option<String> {
    let mut first = None;
    for namespace in namespaces.take(NAMESPACES) {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": PROBE, "labels": labels},
            "spec": {"containers": [{"name": "probe", "image": "probe"}]},
        });
        let said = dry_run(client, namespace, &pod).await;
        let (why, is_of_namespace) = match &said {
            Ok(said) if says_applied(&said.warnings, set) => return None,
            Ok(DryRun {
                refusal: Some(refusal),
                ..
            }) => (refusal.message.clone(), refusal.code < 500),
            Ok(_) => ("no replica answered the webhook's call".to_owned(), false),
            Err(failed) => (failed.message.clone(), false),
        };
        first.get_or_insert_with(|| {
            format!(
                "SidecarSet {set}: by a dry run of a pod's creation in namespace {namespace} no pod gets the containers: {why}; see that a \
                 replica of kruise-controller-manager is ready and that the apiserver reaches the Service kruise-webhook-service"
            )
        });
        if !is_of_namespace {
            break;
        }
    }
    first
}

/// The apiserver's code for a pod that is invalid.
const INVALID: u16 = 422;

/// Why a pod with this answer of the apiserver lacks the containers, or cannot be created. A quota
/// that the pod itself uses up until it is replaced is no cause. A pod that is invalid with the
/// containers, because it lacks a volume of theirs, has no successor.
fn lacks(set: &str, said: &DryRun) -> Option<String> {
    if let Some(why) = says_left_out(&said.warnings, set) {
        return Some(why.to_owned());
    }
    let refusal = said
        .refusal
        .as_ref()
        .map_or("no replica answered the webhook's call", |refusal| {
            &refusal.message
        });
    let is_invalid = said
        .refusal
        .as_ref()
        .is_some_and(|refusal| refusal.code == INVALID);
    (is_invalid || !says_applied(&said.warnings, set)).then(|| refusal.to_owned())
}

async fn dry_run(client: &Client, namespace: &str, pod: &Value) -> Result<DryRun, Failed> {
    client::dry_run(client, &PODS.collection(namespace)?, pod, PATIENCE).await
}

/// Tries to create a pod like this one.
async fn rehearsed(client: &Client, pod: &Pod) -> Result<DryRun, Failed> {
    let metadata = &pod.metadata;
    let path = PODS.path(&metadata.namespace, &metadata.name)?;
    let read: Value = client::get_within(client, &path, LARGEST_POD).await?;
    dry_run(client, &metadata.namespace, &like(&read)).await
}

/// A new pod with the fields that another was created with.
fn like(pod: &Value) -> Value {
    let mut spec = pod["spec"].clone();
    if let Some(spec) = spec.as_object_mut() {
        // The scheduler writes the first field, and a creation must not have the second.
        spec.remove("nodeName");
        spec.remove("ephemeralContainers");
    }
    let metadata = json!({
        "generateName": PROBE, "labels": pod["metadata"]["labels"], "annotations": pod["metadata"]["annotations"],
    });
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

#[cfg(test)]
mod tests;
