//! Nodes: their images, the pulls of images, and the result of a drain.

use std::collections::BTreeMap;

use berth_workload::objects::resource::{NODE_IMAGES, NODES};
use serde_json::{Value, json};

use crate::objects::{self, items, number, text};
use crate::session::Session;

use super::answers::Refused;
use super::read::State;

/// The most pulls in the line of a node.
const SHOWN_PULLS: usize = 5;

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
    let (images, drain) = futures::join!(pulls_of(session, name), state.planner.drain(name));
    let mut unread = Vec::new();
    let all = images.unwrap_or_else(|refused| {
        unread.push(refused.sentence);
        Vec::new()
    });
    let drain = drain.unwrap_or_else(|sentence| {
        unread.push(sentence);
        Value::Null
    });
    let notes = items(&drain, "/notes").filter_map(Value::as_str);
    unread.extend(notes.map(str::to_owned));
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
        "drain": items(&drain, "/pods").collect::<Vec<_>>(),
        "drained": items(&drain, "/sentences").collect::<Vec<_>>(),
        "unread": unread,
    }))
}

#[cfg(test)]
mod tests;
