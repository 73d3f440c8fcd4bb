//! Images on nodes: jobs that pull, and nodes that come and go.
//!
//! The nodes are those that `simnode` plays. Each case pulls images of a repository of its own, so that nothing is left of
//! the case before.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use berth_e2e::objects::{self, kind};
use berth_faults::Fault;
use berth_simnode::nodes::node;
use berth_simnode::now;
use http::Method;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::laws;
use crate::nodes::Recorder;
use crate::run;
use crate::world::{NODES, PATIENCE, World};

const JOB: &str = "pull";
const JOB_KIND: &str = "apps.kruise.io/v1beta1/ImagePullJob";
/// So many nodes pull at a time.
const PARALLELISM: usize = 2;
/// Nodes that come; the first goes again.
const GUESTS: [&str; 2] = ["sim-7", "sim-8"];

/// A thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Images {
    /// A job is created, and ends when all nodes have its image.
    Pull,
    /// A job that never ends gets another image.
    Changed,
    /// A job that never ends is deleted.
    Deleted,
    /// A job is created that goes when it has ended.
    Expired,
    /// Two nodes come, and pull for a job that never ends; one of them goes.
    Nodes,
}

/// What it comes to, whatever befalls the controller.
struct Expected {
    /// Nodes in the end.
    nodes: usize,
    /// The tag that all nodes have been asked for, where there is a job to ask.
    tag: Option<&'static str>,
    /// There is a job in the end.
    job: bool,
    /// NodeImages that are created.
    creates: usize,
    /// NodeImages that are deleted.
    deletes: usize,
    /// Jobs that the controller deletes.
    expires: usize,
}

impl Images {
    pub(crate) const ALL: [Images; 5] =
        [Images::Pull, Images::Changed, Images::Deleted, Images::Expired, Images::Nodes];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Images::Pull => "pull",
            Images::Changed => "pull_changed",
            Images::Deleted => "pull_deleted",
            Images::Expired => "pull_expired",
            Images::Nodes => "nodes",
        }
    }

    /// The resources whose events matter to it.
    pub(crate) fn watched(self) -> Vec<&'static str> {
        let mut watched = vec!["imagepulljobs", "nodeimages"];
        watched.extend((self == Images::Nodes).then_some("nodes"));
        watched
    }

    fn expected(self) -> Expected {
        let pull = Expected { nodes: NODES, tag: Some("one"), job: true, creates: 0, deletes: 0, expires: 0 };
        match self {
            Images::Pull => pull,
            Images::Changed => Expected { tag: Some("two"), ..pull },
            Images::Deleted => Expected { tag: None, job: false, ..pull },
            Images::Expired => Expected { tag: None, job: false, expires: 1, ..pull },
            Images::Nodes => Expected { nodes: NODES + 1, creates: 2, deletes: 1, ..pull },
        }
    }

    /// The job is there before.
    fn has_job(self) -> bool {
        matches!(self, Images::Changed | Images::Deleted | Images::Nodes)
    }

    fn completion_policy(self) -> Value {
        match self {
            Images::Pull => json!({"type": "Always"}),
            Images::Expired => json!({"type": "Always", "ttlSecondsAfterFinished": 1}),
            Images::Changed | Images::Deleted | Images::Nodes => json!({"type": "Never"}),
        }
    }
}

/// A run.
pub(crate) struct Case<'a> {
    world: &'a World,
    what: Images,
    pub(crate) namespace: String,
    seen: Recorder,
}

impl<'a> Case<'a> {
    pub(crate) async fn new(world: &'a World, what: Images) -> Result<Case<'a>> {
        let namespace = world.namespace(what.name());
        objects::make_namespace(&world.client, &namespace).await?;
        let seen = Recorder::start(&world.client).await?;
        Ok(Case { world, what, namespace, seen })
    }

    /// Does it with a fault, and checks everything. `expected` is how it ends without one.
    pub(crate) async fn attempt(&self, fault: Fault, expected: Option<&Value>) -> Result<Value> {
        let controller = &self.world.controller;
        controller.begin(&self.namespace, Fault::None);
        if self.what.has_job() {
            self.create_job().await?;
            let all_have_it = async || self.look().await.map(|now| (now.clone(), flaw(&now, &Images::Pull.expected())));
            run::rest(controller, all_have_it).await?;
        }
        let wanted = self.what.expected();
        let differs = |now: &Value| match expected {
            Some(expected) => {
                (now != expected).then(|| format!("it should have ended so:\n{expected}\nand is so:\n{now}"))
            }
            None => flaw(now, &wanted),
        };
        let look = async || self.look().await.map(|now| (now.clone(), differs(&now)));
        let ending = run::ended(self.world, (&self.namespace, fault), self.act(), look).await?;
        self.check_writes(&wanted)?;
        self.seen.check(&self.namespace, PARALLELISM)?;
        Ok(ending)
    }

    async fn act(&self) -> Result<()> {
        let client = &self.world.client;
        match self.what {
            Images::Pull | Images::Expired => self.create_job().await,
            Images::Changed => {
                let image = json!({"spec": {"image": self.image("two")}});
                objects::patch(client, &self.namespace, JOB_KIND, JOB, &image).await.map(|_| ())
            }
            Images::Deleted => self.delete(JOB_KIND, JOB).await,
            Images::Nodes => {
                for name in GUESTS {
                    objects::create(client, "", &node(name, &now())).await?;
                }
                let all_have_it = |job: &Value| job["status"]["succeeded"] == NODES + GUESTS.len();
                objects::until(client, &self.namespace, JOB_KIND, JOB, PATIENCE, all_have_it).await?;
                self.delete("v1/Node", GUESTS[0]).await
            }
        }
    }

    fn image(&self, tag: &str) -> String {
        format!("{}:{tag}", self.namespace)
    }

    async fn create_job(&self) -> Result<()> {
        let job = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob", "metadata": {"name": JOB},
            "spec": {
                "image": self.image("one"), "parallelism": PARALLELISM,
                "completionPolicy": self.what.completion_policy(),
            },
        });
        objects::create(&self.world.client, &self.namespace, &job).await.map(|_| ())
    }

    /// Deletes an object, if it is there.
    async fn delete(&self, kind: &str, name: &str) -> Result<()> {
        let (version, kind) = kind.rsplit_once('/').context("no version")?;
        let api = objects::api_of(&self.world.client, &self.namespace, &json!({"apiVersion": version, "kind": kind}))?;
        match api.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            done => Ok(done.map(|_| ())?),
        }
    }

    /// Everything that a user could find to be different: the job, and what each node was asked for and has told of it.
    async fn look(&self) -> Result<Value> {
        let client = &self.world.client;
        let jobs = objects::list(client, &self.namespace, JOB_KIND, "").await?;
        let nodes = objects::list(client, "", kind::NODE_IMAGE, "").await?;
        let job = |job: &Value| {
            let mut status = job["status"].clone();
            for time in ["startTime", "completionTime"] {
                status[time] = (!status[time].is_null()).into();
            }
            json!({"status": status, "finalizers": job["metadata"]["finalizers"]})
        };
        let node = |node: &Value| {
            let name = node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            (name, json!({"asked": asked(node, &self.namespace), "told": told(node, &self.namespace)}))
        };
        let nodes: BTreeMap<_, _> = nodes.iter().map(node).collect();
        let seen = json!({"jobs": jobs.iter().map(job).collect::<Vec<_>>(), "nodes": nodes});
        // Messages name the image.
        Ok(serde_json::from_str(&seen.to_string().replace(&self.namespace, "NAMESPACE"))?)
    }

    fn check_writes(&self, wanted: &Expected) -> Result<()> {
        let counts = [
            (Method::POST, "nodeimages", wanted.creates),
            (Method::DELETE, "nodeimages", wanted.deletes),
            (Method::POST, "imagepulljobs", 0),
            (Method::DELETE, "imagepulljobs", wanted.expires),
        ];
        laws::writes_are(&self.world.controller.ledger(), counts)
    }

    /// Takes away what there is, and waits until no node is asked for anything.
    pub(crate) async fn clean_up(&self) -> Result<()> {
        self.delete(JOB_KIND, JOB).await?;
        for name in GUESTS {
            self.delete("v1/Node", name).await?;
        }
        let nothing = Expected { nodes: NODES, tag: None, ..Images::Deleted.expected() };
        let look = async || self.look().await.map(|now| ((), flaw(&now, &nothing)));
        run::rest(&self.world.controller, look).await
    }
}

/// The tags of a repository that a node is asked for.
pub(crate) fn asked(node: &Value, repository: &str) -> Vec<String> {
    let tags = node["spec"]["images"][repository]["tags"].as_array().into_iter().flatten();
    tags.filter_map(|tag| tag["tag"].as_str().map(str::to_owned)).collect()
}

/// The tags of a repository that a node has told of, with their phases.
pub(crate) fn told(node: &Value, repository: &str) -> BTreeMap<String, String> {
    let tags = node["status"]["imageStatuses"][repository]["tags"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    tags.map(|tag| (text(&tag["tag"]), text(&tag["phase"]))).collect()
}

/// Why this is no good ending; none when it is one.
fn flaw(now: &Value, wanted: &Expected) -> Option<String> {
    let jobs = now["jobs"].as_array().map_or(0, Vec::len);
    if jobs != usize::from(wanted.job) {
        return Some(format!("there are {jobs} jobs: {now}"));
    }
    let status = &now["jobs"][0]["status"];
    let counts = [("desired", wanted.nodes), ("succeeded", wanted.nodes), ("active", 0), ("failed", 0)];
    if wanted.job && counts.into_iter().any(|(count, number)| status[count] != number) {
        return Some(format!("the job's status is wrong: {now}"));
    }
    let nodes = now["nodes"].as_object().into_iter().flatten();
    let has_it = |node: &Value| match wanted.tag {
        Some(tag) => node["asked"] == json!([tag]) && node["told"] == json!({tag: "Succeeded"}),
        None => node["asked"] == json!([]) && node["told"] == json!({}),
    };
    let (good, all) = (nodes.clone().filter(|(_, node)| has_it(node)).count(), nodes.count());
    ((good, all) != (wanted.nodes, wanted.nodes)).then(|| format!("{good} of {all} nodes are as wanted: {now}"))
}
