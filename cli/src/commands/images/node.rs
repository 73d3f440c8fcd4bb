//! The images of a node: the pulls of its NodeImage, and what its kubelet reports.

use berth_api::image::{join, normalised, split};
use berth_api::names::condition::RUNTIME_READY;
use berth_workload::objects::resource::NODES;
use jiff::Timestamp;
use kube::api::ListParams;
use serde_json::Value;

use super::status::{bytes, size};
use crate::exit::Exit;
use crate::kinds;
use crate::objects::{condition, items, name, number, text};
use crate::session::Session;
use crate::text::{age_of, clean, fitted, note, table, width};

const HEADER: [&str; 7] = [
    "IMAGE", "TAG", "PHASE", "PROGRESS", "SIZE", "AGE", "MESSAGE",
];

/// Prints the images of a node.
///
/// # Errors
/// The node has no NodeImage, the user may not read it, or the apiserver did not answer.
pub(super) async fn run(session: &Session, node: &str) -> anyhow::Result<Exit> {
    let node_image = session.get(&kinds::parse("nodeimages")?, node).await?;
    let found = match node_of(session, node).await? {
        Ok(found) => found,
        Err(refused) => {
            note(&format!(
                "images that no pull lists are not known: {refused}"
            ));
            Value::Null
        }
    };
    for line in summary(&node_image) {
        anstream::println!("{}", fitted(&clean(&line), width()));
    }
    let mut rows = pulls(&node_image, &found, Timestamp::now());
    rows.extend(others(&node_image, &found));
    if rows.is_empty() {
        anstream::println!("No images are listed.");
        return Ok(Exit::Done);
    }
    anstream::println!("{}", table(&HEADER, rows));
    Ok(Exit::Done)
}

/// The Node, or the apiserver's sentence if the user may not read it.
async fn node_of(session: &Session, node: &str) -> anyhow::Result<Result<Value, String>> {
    let by_name = ListParams::default().fields(&format!("metadata.name={node}"));
    let api = session.api(NODES);
    match session.within(api.list(&by_name)).await? {
        Ok(list) => {
            let found = list.items.into_iter().next();
            let found = found.map(serde_json::to_value).transpose()?;
            Ok(Ok(found.unwrap_or_default()))
        }
        Err(kube::Error::Api(refused)) if refused.code == 403 => Ok(Err(refused.message.clone())),
        Err(error) => Err(error.into()),
    }
}

/// The state of a node's daemon and the number of its pulls, in lines.
pub(super) fn summary(node_image: &Value) -> Vec<String> {
    let of = |field: &str| number(node_image, &format!("/status/{field}"));
    let runtime = match condition(node_image, RUNTIME_READY) {
        Some(ready) => {
            let message = text(ready, "/message");
            match text(ready, "/status") {
                "True" => format!("the runtime answers: {message}"),
                _ => format!("the runtime does not answer: {message}"),
            }
        }
        None => "no daemon has reported yet".to_owned(),
    };
    let pulls = format!(
        "{} pulls: {} succeeded, {} in work, {} waiting, {} failed",
        of("desired"),
        of("succeeded"),
        of("pulling"),
        of("waiting"),
        of("failed")
    );
    vec![format!("Node {}: {runtime}", name(node_image)), pulls]
}

/// The pulls of a NodeImage: failed ones, running ones, and then the others. The Node has the size
/// of an image if the pull has none.
pub(super) fn pulls(node_image: &Value, node: &Value, now: Timestamp) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let statuses = &node_image["status"]["imageStatuses"];
    let asked = node_image["spec"]["images"]
        .as_object()
        .into_iter()
        .flatten();
    let asked = asked.flat_map(|(image, of)| items(of, "/tags").map(move |tag| (image, tag)));
    for (image, tag) in asked {
        let tag = text(tag, "/tag");
        let mut known = items(&statuses[image], "/tags");
        let unknown = Value::Null;
        let pull = known
            .find(|one| text(one, "/tag") == tag)
            .unwrap_or(&unknown);
        let phase = match text(pull, "/phase") {
            "" => "Waiting",
            phase => phase,
        };
        let began = text(pull, "/startTime");
        let ended = text(pull, "/completionTime");
        let since = if ended.is_empty() { began } else { ended };
        let age = if since.is_empty() {
            "-".to_owned()
        } else {
            age_of(since, now)
        };
        rows.push(vec![
            image.clone(),
            tag.to_owned(),
            phase.to_owned(),
            format!("{}%", number(pull, "/progress")),
            match size(pull) {
                size if size.is_empty() => size_on(node, &join(image, tag)),
                size => size,
            },
            age,
            text(pull, "/message").to_owned(),
        ]);
    }
    let place = |row: &Vec<String>| {
        let phases = ["Failed", "Pulling", "Waiting", "Succeeded"];
        phases
            .iter()
            .position(|phase| row.get(2).is_some_and(|word| word == phase))
    };
    rows.sort_by_key(place);
    rows
}

/// The images that the kubelet reports, and no pull lists.
fn others(node_image: &Value, node: &Value) -> Vec<Vec<String>> {
    let of_spec = node_image["spec"]["images"].as_object();
    let listed = of_spec.into_iter().flatten().flat_map(|(image, of)| {
        items(of, "/tags").map(move |tag| normalised(&join(image, text(tag, "/tag"))))
    });
    let listed: Vec<_> = listed.collect();
    let mut rows = Vec::new();
    for image in items(node, "/status/images") {
        let names: Vec<_> = items(image, "/names").filter_map(Value::as_str).collect();
        if names.iter().any(|name| listed.contains(&normalised(name))) {
            continue;
        }
        // The kubelet lists digests first, and people know images by their tags.
        let tagged = names.iter().find(|name| !name.contains('@'));
        let Some(Ok((name, tag))) = tagged.or(names.first()).map(|name| split(name)) else {
            continue;
        };
        let size = bytes(number(image, "/sizeBytes"));
        let cells = [name, tag, "Present".to_owned(), String::new(), size];
        rows.push(
            cells
                .into_iter()
                .chain(["-".to_owned(), String::new()])
                .collect(),
        );
    }
    rows.sort();
    rows
}

/// The size of an image as the kubelet reports it, or an empty text.
fn size_on(node: &Value, image: &str) -> String {
    let wanted = normalised(image);
    let names = |one: &&Value| {
        let mut names = items(one, "/names").filter_map(Value::as_str);
        names.any(|name| normalised(name) == wanted)
    };
    let found = items(node, "/status/images").find(names);
    found.map_or_else(String::new, |one| bytes(number(one, "/sizeBytes")))
}

#[cfg(test)]
mod tests;
