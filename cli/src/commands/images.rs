//! `kubectl berth images`: on which nodes the images of a workload are, what a node pulls, and a
//! pull on many nodes.

mod node;
mod pull;
mod status;

use std::collections::{BTreeMap, BTreeSet};

use berth_api::image::{normalised, pins, same_id};
use berth_workload::objects::resource::{NODE_IMAGES, NODES, PODS};
use clap::{Args, Subcommand};
use serde_json::Value;

use self::status::{bytes, size, tag_status};
use super::get::header::images_of_template;
use super::get::revisions::is_own;
use super::get::world::{World, check, pod_query};
use crate::exit::{Exit, WrongUsage};
use crate::kinds::{self, NamedKind};
use crate::objects::{items, name, namespace, number, selector, text};
use crate::session::Session;
use crate::text::{note, table};

/// The workload, the node, or a pull.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Images {
    /// A pull instead of a table.
    #[command(subcommand)]
    pub action: Option<Action>,
    /// TYPE/NAME of a workload, or the name of a node.
    #[arg(num_args = 0..=2, value_name = "TYPE/NAME | NODE")]
    pub object: Vec<String>,
    /// The images of a node.
    #[arg(long, conflicts_with = "object")]
    pub node: Option<String>,
}

/// What to do with images.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Pull an image on many nodes: `images pull IMAGE --nodes disk=ssd -w`.
    Pull(pull::Pull),
}

impl Images {
    /// Prints the table once, or pulls.
    ///
    /// # Errors
    /// The object does not exist, the user may not read it, or the apiserver did not answer.
    pub async fn run(&self, session: &Session) -> anyhow::Result<Exit> {
        if let Some(Action::Pull(pull)) = &self.action {
            return pull.run(session).await;
        }
        match (&self.node, self.object.as_slice()) {
            (Some(node), _) => node::run(session, node).await,
            (None, [node]) if !node.contains('/') => node::run(session, node).await,
            (None, []) => {
                Err(WrongUsage("name a workload, TYPE/NAME, or a node".to_owned()).into())
            }
            (None, object) => {
                let (kind, name) = kinds::object(object)?;
                if kind.resource == NODES {
                    return node::run(session, &name).await;
                }
                check(&kind)?;
                of_workload(session, &kind, &name).await
            }
        }
    }
}

async fn of_workload(session: &Session, kind: &NamedKind, name: &str) -> anyhow::Result<Exit> {
    let (world, refused) = pods_of(session, kind, name).await?;
    if let Some(refused) = refused {
        note(&refused);
        return Ok(Exit::Failed);
    }
    let node_images = match session.list_if_allowed(NODE_IMAGES, "", "").await? {
        Ok(all) => Some(all),
        Err(refused) => {
            let lacks = "pulls are not known, only the images that pods run";
            note(&format!("{lacks}: {refused}"));
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

#[cfg(test)]
mod tests;
