//! The answer for a pod: why it is on its node, what holds it, its sidecars and its budgets.

use berth_api::names::{annotation, label};
use berth_controller::plugin::{Explained, ExplainedObject};
use berth_controller::settings::published::Published;
use berth_workload::blocked::{NO_IMAGE, why_not_ready};
use berth_workload::objects::pod::Pod;
use berth_workload::objects::resource::{
    DISTRIBUTED_POD_DISRUPTION_BUDGETS, NODES, POD_DISRUPTION_BUDGETS, POD_UNAVAILABLE_BUDGETS,
    Resource,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};
use serde_json::Value;

use super::place::{node_selector, place};
use crate::exit::sentence;
use crate::kinds::{self, NamedKind};
use crate::objects::{controller, items, name, namespace, number, text};
use crate::session::Session;

/// The most budgets of a namespace that an answer reads.
const MOST_BUDGETS: usize = 50;

/// What was read about a pod.
struct Facts {
    pod: Value,
    /// The kind and the name of its controller, and the controller's plan.
    owner: Option<(String, Result<Explained, String>)>,
    /// For each budget of Berth in the namespace what a drain of the pod's node would get.
    budgets: Vec<(String, Result<Explained, String>)>,
    /// Kubernetes' own budgets of the namespace.
    natives: Result<Vec<Value>, String>,
    /// The nodes, if the pod has none and selects some by labels.
    nodes: Option<Result<Vec<Value>, String>>,
    /// What could not be read.
    unread: Vec<String>,
}

/// The answer for a pod, line by line.
///
/// # Errors
/// The pod does not exist, or the apiserver did not answer.
pub(super) async fn answer(
    session: &Session,
    settings: &Published,
    (kind, name): (&NamedKind, &str),
) -> anyhow::Result<Vec<String>> {
    let pod = session.get(kind, name).await?;
    let plan = async |resource: Resource, name: &str, node: Option<&str>| {
        let object = ExplainedObject {
            kind: resource.plural,
            namespace: namespace(&pod),
            name,
            node,
        };
        let explained = session.explain(settings, object).await;
        explained.map_err(|error| sentence(&error))
    };
    let owner = match controller(&pod).and_then(of_berth) {
        Some((kind, name)) => {
            let title = format!("{} {}", kind.resource.kind, name);
            Some((title, plan(kind.resource, name, None).await))
        }
        None => None,
    };
    let node = text(&pod, "/spec/nodeName");
    let (mut budgets, mut unread) = (Vec::new(), Vec::new());
    for resource in [POD_UNAVAILABLE_BUDGETS, DISTRIBUTED_POD_DISRUPTION_BUDGETS] {
        if node.is_empty() {
            continue;
        }
        match session
            .list_if_allowed(resource, namespace(&pod), "")
            .await?
        {
            Ok(all) => {
                for budget in all.iter().take(MOST_BUDGETS) {
                    let budget = crate::objects::name(budget);
                    let title = format!("{} {budget}", resource.kind);
                    budgets.push((title, plan(resource, budget, Some(node)).await));
                }
            }
            Err(why) => unread.push(why),
        }
    }
    let natives = session.list_if_allowed(POD_DISRUPTION_BUDGETS, namespace(&pod), "");
    let natives = natives.await?;
    let selects_nodes = node.is_empty() && pod["spec"]["nodeSelector"].is_object();
    let nodes = match selects_nodes {
        true => Some(session.list_if_allowed(NODES, "", "").await?),
        false => None,
    };
    Ok(lines(&Facts {
        pod,
        nodes,
        owner,
        budgets,
        natives,
        unread,
    }))
}

/// The kind and the name in an owner reference, if the owner's kind has a plan.
fn of_berth(owner: &Value) -> Option<(NamedKind, &str)> {
    let (api_version, kind) = (text(owner, "/apiVersion"), text(owner, "/kind"));
    let (group, _) = api_version.split_once('/')?;
    let kind = kinds::parse(&format!("{kind}.{group}")).ok()?;
    kind.has_plan.then_some((kind, text(owner, "/name")))
}

fn lines(facts: &Facts) -> Vec<String> {
    let pod = &facts.pod;
    let mut lines = vec![format!(
        "Pod {}/{}: {}",
        namespace(pod),
        name(pod),
        state(pod)
    )];
    lines.push(place(pod));
    let field = "spec.nodeSelector";
    let selector = facts
        .nodes
        .as_ref()
        .and_then(|nodes| node_selector(&pod["spec"], field, nodes));
    lines.extend(selector);
    lines.push(owner(facts));
    lines.extend(containers(pod));
    lines.extend(sidecars(pod));
    lines.extend(budgets(facts));
    lines.extend(facts.unread.iter().map(|why| format!("Not known: {why}")));
    lines
}

/// The state in words: the phase, and what the controller does with the pod.
fn state(pod: &Value) -> String {
    let phase = text(pod, "/status/phase");
    let is_ready =
        crate::objects::condition(pod, "Ready").is_some_and(|one| one["status"] == "True");
    let mut state = match (phase, is_ready) {
        ("Running", true) => "Running and ready".to_owned(),
        ("Running", false) => match Pod::read(&pod.to_string()) {
            Ok(read) => format!("Running, and {}", why_not_ready(&read)),
            Err(_) => "Running, not ready".to_owned(),
        },
        (other, _) => other.to_owned(),
    };
    if !text(pod, "/metadata/deletionTimestamp").is_empty() {
        state += ", is being deleted";
    }
    let lifecycle = pod["metadata"]["labels"][label::LIFECYCLE_STATE].as_str();
    match lifecycle {
        Some(lifecycle) => format!("{state}, lifecycle state {lifecycle}"),
        None => state,
    }
}

fn owner(facts: &Facts) -> String {
    let Some((title, plan)) = &facts.owner else {
        return match controller(&facts.pod) {
            Some(owner) => format!(
                "Controller: {} {}, which is not of Berth",
                text(owner, "/kind"),
                text(owner, "/name")
            ),
            None => "Controller: none".to_owned(),
        };
    };
    let plan = match plan {
        Ok(plan) => plan,
        Err(why) => return format!("Controller: {title}; its plan is not known: {why}"),
    };
    let own = name(&facts.pod);
    let place = format!("{}/{own}", namespace(&facts.pod));
    let is_own = |pod: &str| pod == own || pod == place;
    let waits = plan.plan.waiting.iter().filter(|one| is_own(&one.pod));
    let steps = plan.plan.stages.iter().flat_map(|stage| &stage.steps);
    let steps = steps.filter(|step| {
        step.objects()
            .any(|(kind, _, name)| kind == "Pod" && name == own)
    });
    let does = steps.map(|step| format!("now: {}", step.reason));
    let all: Vec<_> = does
        .chain(waits.map(|one| format!("waits: {}", one.reason)))
        .collect();
    let blocked = plan.blocked.as_ref().map(|blocked| {
        let (reason, message) = (text(blocked, "/reason"), text(blocked, "/message"));
        format!("{title} is blocked ({reason}): {message}")
    });
    match (all.is_empty(), blocked) {
        (true, None) => format!("Controller: {title}, which has nothing to do for the pod"),
        (true, Some(blocked)) => format!("Controller: {blocked}"),
        (false, _) => format!("Controller: {title}; {}", all.join("; ")),
    }
}

/// The containers that do not run, with the kubelet's reason. Missing images come first, because
/// the other containers of the pod cannot help before.
fn containers(pod: &Value) -> Vec<String> {
    let lists = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let reason = |one: &&Value| text(one, "/state/waiting/reason").to_owned();
    let mut all: Vec<_> = lists.iter().flat_map(|list| items(pod, list)).collect();
    all.sort_by_key(|one| !NO_IMAGE.contains(&&*reason(one)));
    let mut lines = Vec::new();
    for one in all {
        let title = format!("Container {}", text(one, "/name"));
        let waiting = &one["state"]["waiting"];
        let reason = text(waiting, "/reason");
        if !reason.is_empty() && reason != "PodInitializing" {
            let restarts = match number(one, "/restartCount") {
                0 => String::new(),
                count => format!(", restarts {count}"),
            };
            let message = text(waiting, "/message");
            lines.push(said(format!("{title}: {reason}{restarts}"), message));
        }
        let ended = ["/state/terminated", "/lastState/terminated"];
        let ended = ended.iter().find_map(|state| one.pointer(state));
        if let Some(ended) = ended.filter(|_| one["ready"] != true) {
            let (code, reason) = (number(ended, "/exitCode"), text(ended, "/reason"));
            let line = format!("{title} ended with exit code {code} ({reason})");
            lines.push(said(line, text(ended, "/message").trim_end()));
        }
    }
    lines
}

fn said(line: String, message: &str) -> String {
    match message {
        "" => line,
        message => format!("{line}: {message}"),
    }
}

fn sidecars(pod: &Value) -> Vec<String> {
    let annotations = &pod["metadata"]["annotations"];
    let mut lines = Vec::new();
    if let Some(sets) = annotations[annotation::SIDECARSET_INJECTED_LIST].as_str() {
        lines.push(format!(
            "Sidecars: of SidecarSets {}",
            sets.replace(',', ", ")
        ));
    }
    if let Some(refused) = annotations[annotation::SIDECARSET_REFUSED].as_str() {
        lines.push(format!("Sidecars not injected: {refused}"));
    }
    lines
}

fn budgets(facts: &Facts) -> Vec<String> {
    let own = name(&facts.pod);
    let place = format!("{}/{own}", namespace(&facts.pod));
    let mut lines = Vec::new();
    for (title, explained) in &facts.budgets {
        match explained {
            Ok(explained) => {
                let pods = explained.drain.iter().flat_map(|drain| &drain.pods);
                let of_pod = pods.filter(|one| one.pod == own || one.pod == place);
                lines.extend(of_pod.map(|one| format!("Budget {title}: {}", one.reason)));
            }
            Err(why) => lines.push(format!("Budget {title}: not known: {why}")),
        }
    }
    match &facts.natives {
        Ok(all) => lines.extend(all.iter().filter(|budget| selects(budget, &facts.pod)).map(
            |budget| {
                let allowed = number(budget, "/status/disruptionsAllowed");
                let uncounted = super::budget::uncounted(budget);
                let says = uncounted.unwrap_or(format!("allows {allowed} more pods to go"));
                format!("Budget PodDisruptionBudget {}: {says}", name(budget))
            },
        )),
        Err(why) => lines.push(format!("Not known: {why}")),
    }
    if lines.is_empty() {
        lines.push("Budgets: none holds it".to_owned());
    }
    lines
}

fn selects(budget: &Value, pod: &Value) -> bool {
    let selector = budget.pointer("/spec/selector").cloned();
    let selector = selector
        .and_then(|selector| serde_json::from_value::<LabelSelector>(selector).ok())
        .and_then(|selector| Selector::try_from(selector).ok());
    let labels = pod.pointer("/metadata/labels").cloned();
    let labels = labels.and_then(|labels| serde_json::from_value(labels).ok());
    selector.is_some_and(|selector| selector.matches(&labels.unwrap_or_default()))
}

#[cfg(test)]
mod tests;
