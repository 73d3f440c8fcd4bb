//! Nodes: their images, the pulls of images, and the result of a drain.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::names::annotation::MIRROR_POD;
use berth_workload::objects::resource::{
    DISTRIBUTED_POD_DISRUPTION_BUDGETS, NODE_IMAGES, NODES, POD_DISRUPTION_BUDGETS,
    POD_UNAVAILABLE_BUDGETS, PODS,
};
use berth_workload::objects::selector::Selector;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::exit::sentence;
use crate::objects::{self, items, number, text};
use crate::session::Session;

use super::answers::Refused;
use super::planner::PlanOf;
use super::read::State;

/// The most pods of a node whose drain is shown; a kubelet has 110 by default.
const MOST_PODS: u32 = 500;
/// The most pulls in the line of a node.
const SHOWN_PULLS: usize = 5;
/// The most budgets that one node is compared with.
const MOST_BUDGETS: usize = 50;

/// All nodes in a line each.
pub(super) async fn list(session: &Session) -> Result<Value, Refused> {
    let (nodes, images) = futures::join!(
        session.list_if_allowed(NODES, "", ""),
        session.list_if_allowed(NODE_IMAGES, "", ""),
    );
    let mut unread = Vec::new();
    let mut known = |list: Result<Vec<Value>, String>| {
        list.unwrap_or_else(|sentence| {
            unread.push(sentence);
            Vec::new()
        })
    };
    let (nodes, images) = (known(nodes?), known(images?));
    let by_name: BTreeMap<_, _> = images.iter().map(|one| (objects::name(one), one)).collect();
    let lines = nodes
        .iter()
        .map(|node| line(node, by_name.get(objects::name(node)).copied()));
    let lines: Vec<_> = lines.collect();
    Ok(json!({"nodes": lines, "unread": unread}))
}

fn line(node: &Value, images: Option<&Value>) -> Value {
    let ready = objects::condition(node, "Ready").is_some_and(|ready| ready["status"] == "True");
    let bytes: i64 = items(node, "/status/images")
        .map(|image| number(image, "/sizeBytes"))
        .sum();
    let pulls = images.map(pulls).unwrap_or_default();
    let unfinished = pulls.iter().filter(|pull| pull["phase"] != "Succeeded");
    let counts = |field: &str| images.map(|one| number(one, &format!("/status/{field}")));
    json!({
        "name": objects::name(node),
        "ready": ready,
        "cordoned": node.pointer("/spec/unschedulable") == Some(&json!(true)),
        "created": text(node, "/metadata/creationTimestamp"),
        "kubelet": text(node, "/status/nodeInfo/kubeletVersion"),
        "images": items(node, "/status/images").count(),
        "imageBytes": bytes,
        "pulls": {
            "desired": counts("desired"),
            "succeeded": counts("succeeded"),
            "failed": counts("failed"),
            "pulling": counts("pulling"),
            "shown": unfinished.take(SHOWN_PULLS).collect::<Vec<_>>(),
        },
    })
}

/// The pulls in a NodeImage.
fn pulls(images: &Value) -> Vec<Value> {
    let statuses = images
        .pointer("/status/imageStatuses")
        .and_then(Value::as_object);
    let mut pulls = Vec::new();
    for (image, status) in statuses.into_iter().flatten() {
        for tag in items(status, "/tags") {
            pulls.push(json!({
                "image": format!("{image}:{}", text(tag, "/tag")),
                "phase": text(tag, "/phase"),
                "progress": number(tag, "/progress"),
                "bytesDone": tag.get("bytesDone"),
                "bytesTotal": tag.get("bytesTotal"),
                "message": text(tag, "/message"),
            }));
        }
    }
    pulls
}

/// The pulls of a node; none without a NodeImage.
async fn pulls_of(session: &Session, node: &str) -> Result<Vec<Value>, Refused> {
    let images = session.api_in(NODE_IMAGES, "");
    match session.within(images.get_opt(node)).await? {
        Ok(Some(images)) => {
            let images = serde_json::to_value(images).map_err(anyhow::Error::from)?;
            Ok(pulls(&images))
        }
        Ok(None) => Ok(Vec::new()),
        Err(error) => Err(anyhow::Error::from(error).into()),
    }
}

/// A node: its images, its pulls, and the result of a drain of each of its pods.
pub(super) async fn show(state: &State, name: &str) -> Result<Value, Refused> {
    let session = &state.session;
    let node = session.within(session.api_in(NODES, "").get(name)).await?;
    let node = node
        .map_err(anyhow::Error::from)
        .and_then(|node| Ok(serde_json::to_value(node)?))?;
    let (images, drain) = futures::join!(pulls_of(session, name), drain(state, name));
    let mut unread = Vec::new();
    let all = images.unwrap_or_else(|refused| {
        unread.push(refused.sentence);
        Vec::new()
    });
    let drain = drain.unwrap_or_else(|refused| {
        unread.push(refused.sentence);
        Drain::default()
    });
    unread.extend(drain.unread);
    let images = items(&node, "/status/images").map(|image| {
        let names = items(image, "/names").filter_map(Value::as_str);
        // A name with a tag is for people, a name with a digest is not.
        let name = names.min_by_key(|name| (name.contains('@'), name.len()));
        json!({"name": name, "bytes": number(image, "/sizeBytes")})
    });
    Ok(json!({
        "summary": line(&node, None),
        "images": images.collect::<Vec<_>>(),
        "pulls": all,
        "drain": drain.pods,
        "unread": unread,
    }))
}

#[derive(Default)]
struct Drain {
    pods: Vec<Value>,
    unread: Vec<String>,
}

/// The result of a drain now, pod by pod.
async fn drain(state: &State, node: &str) -> Result<Drain, Refused> {
    let session = &state.session;
    let on_node = ListParams::default()
        .fields(&format!("spec.nodeName={node}"))
        .limit(MOST_PODS);
    let listed = session
        .within(session.api_in(PODS, "").list(&on_node))
        .await?;
    let listed = listed.map_err(anyhow::Error::from)?;
    let pods: Result<Vec<_>, _> = listed.items.iter().map(serde_json::to_value).collect();
    let pods = pods.map_err(anyhow::Error::from)?;
    let namespaces: BTreeSet<_> = pods.iter().map(objects::namespace).collect();
    let (mut held, mut unread) = (Answers::new(), Vec::new());
    for namespace in namespaces {
        match session
            .list_if_allowed(POD_DISRUPTION_BUDGETS, namespace, "")
            .await?
        {
            Ok(budgets) => native(&pods, namespace, &budgets, &mut held),
            Err(sentence) => unread.push(sentence),
        }
        own_budgets(state, (node, namespace), &mut held, &mut unread).await;
    }
    let lines = pods.iter().map(|pod| {
        let of = (
            objects::namespace(pod).to_owned(),
            objects::name(pod).to_owned(),
        );
        let held = held.get(&of).map(|answers| answers.join("; "));
        json!({"namespace": of.0, "name": of.1, "answer": answer(pod, held)})
    });
    Ok(Drain {
        pods: lines.collect(),
        unread,
    })
}

/// The answers of budgets by namespace and name of a pod.
type Answers = BTreeMap<(String, String), Vec<String>>;

/// Asks the budgets of Berth in a namespace.
async fn own_budgets(
    state: &State,
    (node, namespace): (&str, &str),
    held: &mut Answers,
    unread: &mut Vec<String>,
) {
    for resource in [POD_UNAVAILABLE_BUDGETS, DISTRIBUTED_POD_DISRUPTION_BUDGETS] {
        let budgets = match state.session.list_if_allowed(resource, namespace, "").await {
            Ok(Ok(budgets)) => budgets,
            Ok(Err(sentence)) => return unread.push(sentence),
            Err(error) => return unread.push(sentence(&error)),
        };
        for budget in budgets.iter().take(MOST_BUDGETS) {
            let of = PlanOf {
                kind: resource.plural,
                namespace: namespace.to_owned(),
                name: objects::name(budget).to_owned(),
                node: Some(node.to_owned()),
            };
            match state.planner.plan(of).await {
                Ok(plan) => {
                    for one in items(&plan, "/drain/pods") {
                        let pod = text(one, "/pod");
                        let pod = pod.rsplit_once('/').map_or(pod, |(_, pod)| pod);
                        let key = (namespace.to_owned(), pod.to_owned());
                        held.entry(key)
                            .or_default()
                            .push(text(one, "/reason").to_owned());
                    }
                }
                Err(sentence) => unread.push(sentence),
            }
        }
    }
}

/// Adds the PodDisruptionBudgets that select a pod.
fn native(pods: &[Value], namespace: &str, budgets: &[Value], held: &mut Answers) {
    for budget in budgets {
        let selector = serde_json::from_value(budget["spec"]["selector"].clone()).ok();
        let Some(Ok(selector)) = selector.map(|selector| Selector::new(&selector)) else {
            continue;
        };
        let allowed = number(budget, "/status/disruptionsAllowed");
        let name = objects::name(budget);
        let says = match allowed {
            0 => format!("PodDisruptionBudget {name} allows no disruption now"),
            _ => format!("PodDisruptionBudget {name} allows {allowed} now"),
        };
        for pod in pods
            .iter()
            .filter(|pod| objects::namespace(pod) == namespace)
        {
            if selector.matches(|key| pod["metadata"]["labels"][key].as_str()) {
                let key = (namespace.to_owned(), objects::name(pod).to_owned());
                held.entry(key).or_default().push(says.clone());
            }
        }
    }
}

/// The result of a drain for a pod, without or with the answers of its budgets.
fn answer(pod: &Value, held: Option<String>) -> String {
    let owner = objects::controller(pod);
    let kind = owner.map_or("", |owner| text(owner, "/kind"));
    let ended = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
    match held {
        _ if pod["metadata"]["annotations"][MIRROR_POD].is_string() => {
            "stays: a static pod".to_owned()
        }
        _ if kind == "DaemonSet" => {
            "stays: `kubectl drain --ignore-daemonsets` leaves it".to_owned()
        }
        _ if ended => "goes: it has ended".to_owned(),
        Some(held) => held,
        None if owner.is_none() => {
            "stays: no controller would replace it; `kubectl drain --force` deletes it".to_owned()
        }
        None => "goes: no budget holds it".to_owned(),
    }
}

#[cfg(test)]
mod tests;
