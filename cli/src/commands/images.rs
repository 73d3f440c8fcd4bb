//! `kubectl berth images`: on which nodes the images of a workload are, and what a node pulls.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::image::{normalised, pins, same_id, split};
use berth_api::names::condition::RUNTIME_READY;
use berth_workload::objects::resource::{NODE_IMAGES, PODS};
use clap::Args;
use jiff::Timestamp;
use serde_json::Value;

use super::get::header::images_of_template;
use super::get::revisions::is_own;
use super::get::world::{World, check, pod_query};
use crate::exit::{Exit, WrongUsage};
use crate::kinds::{self, NamedKind};
use crate::objects::{condition, items, name, namespace, number, selector, text};
use crate::session::Session;
use crate::text::{age_of, clean, table};

/// The workload, or the node.
#[derive(Debug, Args)]
pub struct Images {
    /// TYPE/NAME, or TYPE NAME.
    #[arg(num_args = 0..=2, value_name = "TYPE/NAME")]
    pub object: Vec<String>,
    /// The pulls of a node, by its NodeImage.
    #[arg(long, conflicts_with = "object")]
    pub node: Option<String>,
}

impl Images {
    /// Prints the table once.
    ///
    /// # Errors
    /// The object does not exist, the user may not read it, or the apiserver did not answer.
    pub async fn run(&self, session: &Session) -> anyhow::Result<Exit> {
        match (&self.node, self.object.as_slice()) {
            (Some(node), _) => of_node(session, node).await,
            (None, []) => Err(WrongUsage(
                "name a workload, TYPE/NAME, or a node, --node NAME".to_owned(),
            )
            .into()),
            (None, object) => {
                let (kind, name) = kinds::object(object)?;
                check(&kind)?;
                of_workload(session, &kind, &name).await
            }
        }
    }
}

async fn of_workload(session: &Session, kind: &NamedKind, name: &str) -> anyhow::Result<Exit> {
    let (world, refused) = pods_of(session, kind, name).await?;
    if let Some(refused) = refused {
        anstream::eprintln!("note: {refused}");
        return Ok(Exit::Failed);
    }
    let node_images = match session.list_if_allowed(NODE_IMAGES, "", "").await? {
        Ok(all) => Some(all),
        Err(refused) => {
            let lacks = "pulls are not known, only the images that pods run";
            anstream::eprintln!("note: {lacks}: {refused}");
            None
        }
    };
    let rows = places(&world, node_images.as_deref());
    if rows.is_empty() {
        anstream::eprintln!("no pod of {} {name:?} has a node", kind.singular());
        return Ok(Exit::Done);
    }
    let cells = rows.iter().map(|row| {
        [&row.image, &row.node, &row.state, &row.detail]
            .map(String::clone)
            .to_vec()
    });
    anstream::println!("{}", table(&["IMAGE", "NODE", "STATE", "DETAIL"], cells));
    Ok(Exit::Done)
}

/// A workload with its own pods, as the apiserver has them, and a refusal to list them.
///
/// # Errors
/// The object does not exist, the user may not read it, or the apiserver did not answer.
pub async fn pods_of(
    session: &Session,
    kind: &NamedKind,
    name: &str,
) -> anyhow::Result<(World, Option<String>)> {
    let mut world = World {
        plural: kind.resource.plural,
        object: session.get(kind, name).await?,
        ..World::default()
    };
    let (at, labels) = match pod_query(world.plural, &world.object) {
        Some(query) => (query.namespace, query.labels),
        None => match selector(&world.object) {
            Some(labels) => (namespace(&world.object).to_owned(), labels),
            None => return Ok((world, None)),
        },
    };
    let refused = match session.list_if_allowed(PODS, &at, &labels).await? {
        Ok(pods) => {
            world.pods = pods;
            None
        }
        Err(refused) => Some(refused),
    };
    let mut pods = std::mem::take(&mut world.pods);
    // The pods of a UnitedDeployment belong to the workloads of its subsets.
    pods.retain(|pod| world.plural == "uniteddeployments" || is_own(&world, pod));
    world.pods = pods;
    Ok((world, refused))
}

/// An image on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The image, as the template has it.
    pub image: String,
    /// The node.
    pub node: String,
    /// `present`, `pulling`, `waiting`, `failed` or `missing`; `unknown` without NodeImages.
    pub state: String,
    /// How far the pull is, or a pod that runs the image.
    pub detail: String,
}

/// Each image of the workload's template on each node of its pods.
pub fn places(world: &World, node_images: Option<&[Value]>) -> Vec<Place> {
    let mut by_node: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for pod in &world.pods {
        let node = text(pod, "/spec/nodeName");
        if !node.is_empty() {
            by_node.entry(node).or_default().push(pod);
        }
    }
    let images: BTreeSet<_> = images_of_template(&world.object).into_iter().collect();
    let mut places = Vec::new();
    for image in images {
        for (node, pods) in &by_node {
            let node_image = node_images
                .into_iter()
                .flatten()
                .find(|one| name(one) == *node);
            let (state, detail) = place(&image, pods, node_image, node_images.is_some());
            places.push(Place {
                image: image.clone(),
                node: (*node).to_owned(),
                state: state.to_owned(),
                detail,
            });
        }
    }
    places
}

fn place(
    image: &str,
    pods: &[&Value],
    node_image: Option<&Value>,
    may_read: bool,
) -> (&'static str, String) {
    let pull = node_image.and_then(|of| tag_status(of, image));
    let user = pods.iter().find(|pod| runs(pod, image, pull));
    if let Some(user) = user {
        return ("present", format!("pod {} runs it", name(user)));
    }
    match (pull, node_image) {
        (Some(pull), _) => match text(pull, "/phase") {
            "Succeeded" => ("present", size(pull)),
            "Pulling" => ("pulling", progress(pull)),
            "Failed" => ("failed", text(pull, "/message").to_owned()),
            _ => ("waiting", text(pull, "/message").to_owned()),
        },
        (None, Some(_)) => (
            "missing",
            "no pod runs it, and no pull is listed".to_owned(),
        ),
        (None, None) if may_read => ("unknown", "the node has no NodeImage".to_owned()),
        (None, None) => ("unknown", String::new()),
    }
}

/// The status of an image's pull in a NodeImage.
fn tag_status<'a>(node_image: &'a Value, image: &str) -> Option<&'a Value> {
    let (name, tag) = split(image).ok()?;
    let image = &node_image["status"]["imageStatuses"][&name];
    items(image, "/tags").find(|one| text(one, "/tag") == tag)
}

/// Whether a container of the pod has run with the image.
fn runs(pod: &Value, image: &str, pull: Option<&Value>) -> bool {
    let lists = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let mut statuses = lists.iter().flat_map(|pointer| items(pod, pointer));
    let ids = || {
        let all = pull.into_iter().flat_map(|pull| items(pull, "/imageIDs"));
        all.filter_map(Value::as_str)
    };
    statuses.any(|one| {
        let id = text(one, "/imageID");
        let is_of_name = normalised(text(one, "/image")) == normalised(image);
        !id.is_empty() && (is_of_name || pins(image, id) || ids().any(|known| same_id(known, id)))
    })
}

/// How far a pull is.
fn progress(pull: &Value) -> String {
    let (done, total) = (number(pull, "/bytesDone"), number(pull, "/bytesTotal"));
    match total {
        0 => format!("{}%", number(pull, "/progress")),
        _ => format!(
            "{}%, {} of {}",
            number(pull, "/progress"),
            bytes(done),
            bytes(total)
        ),
    }
}

fn size(pull: &Value) -> String {
    match number(pull, "/bytesTotal") {
        0 => String::new(),
        total => bytes(total),
    }
}

/// A number of bytes in MiB with one digit, or in KiB below.
pub fn bytes(bytes: i64) -> String {
    const MIB: i64 = 1 << 20;
    let bytes = bytes.max(0);
    if bytes < MIB {
        return format!(
            "{} KiB",
            bytes.div_euclid(1 << 10) + i64::from(bytes % (1 << 10) > 0)
        );
    }
    let tenths = bytes.saturating_mul(10) / MIB;
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

async fn of_node(session: &Session, node: &str) -> anyhow::Result<Exit> {
    let kind = kinds::parse("nodeimages")?;
    let node_image = session.get(&kind, node).await?;
    for line in summary(&node_image) {
        anstream::println!("{}", clean(&line));
    }
    let rows = pulls(&node_image, Timestamp::now());
    if rows.is_empty() {
        anstream::println!("No pulls are listed.");
        return Ok(Exit::Done);
    }
    let header = [
        "IMAGE", "TAG", "PHASE", "PROGRESS", "SIZE", "AGE", "MESSAGE",
    ];
    anstream::println!("{}", table(&header, rows));
    Ok(Exit::Done)
}

/// The state of a node's daemon and the number of its pulls, in lines.
pub fn summary(node_image: &Value) -> Vec<String> {
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

/// The pulls of a NodeImage: failed ones, running ones, and then the others.
pub fn pulls(node_image: &Value, now: Timestamp) -> Vec<Vec<String>> {
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
            size(pull),
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

#[cfg(test)]
mod tests;
