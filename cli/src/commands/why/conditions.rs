//! The answer for objects whose controller makes no plan: their status in words.

use serde_json::Value;

use crate::objects::{items, name, namespace, number, text};

/// The counts of a job in its status, in the order of the answer.
const COUNTS: [&str; 5] = ["desired", "active", "completed", "succeeded", "failed"];

/// Most pods of a node that the answer names.
const NAMED: usize = 10;

/// The answer for a node, of all pods, or why they cannot be read.
pub(super) fn node(node: &Value, pods: &Result<Vec<Value>, String>) -> Vec<String> {
    let mut lines = lines(node);
    let own = name(node);
    let cordoned = if node["spec"]["unschedulable"] == true {
        format!("Cordoned: yes; `kubectl uncordon {own}` lets new pods come")
    } else {
        "Cordoned: no".to_owned()
    };
    let pods = match pods {
        Ok(pods) => {
            let pods = pods.iter().filter(|pod| text(pod, "/spec/nodeName") == own);
            let all: Vec<_> = pods
                .map(|pod| format!("{}/{}", namespace(pod), name(pod)))
                .collect();
            let mut named: Vec<_> = all.iter().take(NAMED).cloned().collect();
            if let more @ 1.. = all.len().saturating_sub(NAMED) {
                named.push(format!("{more} more"));
            }
            match all.len() {
                0 => "Pods: none".to_owned(),
                some => format!("Pods: {some}: {}", named.join(", ")),
            }
        }
        Err(why) => format!("Pods: not known: {why}"),
    };
    lines.splice(1..1, [cordoned, pods]);
    lines.push(format!(
        "A drain: `kubectl berth drain {own} --dry-run` says more"
    ));
    lines
}

/// The status of an object, line by line.
pub(super) fn lines(object: &Value) -> Vec<String> {
    let place = match namespace(object) {
        "" => name(object).to_owned(),
        namespace => format!("{namespace}/{}", name(object)),
    };
    let mut lines = vec![format!("{} {place}", text(object, "/kind"))];
    let counts: Vec<_> = COUNTS
        .iter()
        .filter(|count| object["status"][**count].is_number())
        .map(|count| format!("{count} {}", number(object, &format!("/status/{count}"))))
        .collect();
    if !counts.is_empty() {
        lines.push(format!("Counts: {}", counts.join(", ")));
    }
    let message = text(object, "/status/message");
    if !message.is_empty() {
        lines.push(format!("Now: {message}"));
    }
    lines.extend(items(object, "/status/conditions").map(|one| {
        let word = |field: &str| text(one, field).to_owned();
        let line = format!("{} is {}", word("/type"), word("/status"));
        let (reason, message) = (word("/reason"), word("/message"));
        match (reason.is_empty(), message.is_empty()) {
            (true, true) => line,
            (false, true) => format!("{line}: {reason}"),
            (true, false) => format!("{line}: {message}"),
            (false, false) => format!("{line} ({reason}): {message}"),
        }
    }));
    let failed: Vec<_> = items(object, "/status/failedNodes")
        .filter_map(Value::as_str)
        .collect();
    if !failed.is_empty() {
        lines.push(format!("Failed on nodes: {}", failed.join(", ")));
    }
    lines.extend(pulls(object));
    if lines.len() == 1 {
        lines.push("Its status says nothing.".to_owned());
    }
    lines
}

/// The images of a NodeImage that are not there yet.
fn pulls(object: &Value) -> Vec<String> {
    let images = object
        .pointer("/status/imageStatuses")
        .and_then(Value::as_object);
    let mut lines = Vec::new();
    for (image, status) in images.into_iter().flatten() {
        for tag in items(status, "/tags") {
            let phase = text(tag, "/phase");
            if ["", "Succeeded"].contains(&phase) {
                continue;
            }
            let mut line = format!("Image {image}:{} is {phase}", text(tag, "/tag"));
            if let Some(progress) = tag["progress"].as_i64() {
                line = format!("{line}, {progress}%");
            }
            let message = text(tag, "/message");
            if !message.is_empty() {
                line = format!("{line}: {message}");
            }
            lines.push(line);
        }
    }
    lines
}

#[cfg(test)]
mod tests;
