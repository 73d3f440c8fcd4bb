//! Images on nodes: jobs that pull, and nodes that join and leave.
//!
//! `simnode` simulates the nodes. Each run pulls images of a repository of its own, so that nothing
//! is left of the run before.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use berth_e2e::objects::{self, kind};
use berth_simnode::nodes::node;
use berth_simnode::now;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use http::Method;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::group::WorldKind;
use crate::laws;
use crate::nodes::Recorder;
use crate::run::{self, Attempt, Outcome};
use crate::scenario::{Run, Scenario};
use crate::world::{NODES, PATIENCE, World};

const JOB: &str = "pull";
const JOB_KIND: &str = "apps.kruise.io/v1beta1/ImagePullJob";
/// How many nodes pull at a time.
const PARALLELISM: usize = 2;
/// How often a pull is tried again, by default and after the change.
const TRIES: [i32; 2] = [3, 7];
/// Nodes that join; the first leaves again.
const GUESTS: [&str; 2] = ["sim-7", "sim-8"];

/// An action of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Images {
    /// A job is created, and ends when all nodes have its image.
    Pull,
    /// A job that never ends gets another backoffLimit.
    Changed,
    /// A job that never ends is deleted.
    Deleted,
    /// A job is created that is deleted after it has ended.
    Expired,
    /// Two nodes join, and pull for a job that never ends; one of them leaves.
    Nodes,
}

/// The result of a scenario, for any injected fault.
struct Expected {
    /// Nodes in the end.
    nodes: usize,
    /// The tag that all NodeImages request, if there is a job.
    tag: Option<&'static str>,
    /// The backoffLimit of these pulls.
    tries: i32,
    /// There is a job in the end.
    job: bool,
    /// NodeImages that are created.
    creates: usize,
    /// NodeImages that are deleted.
    deletes: usize,
    /// Jobs that the controller deletes.
    expires: usize,
}

/// All scenarios, in the order of their numbers.
pub(crate) const SCENARIOS: &[&dyn Scenario] = &[
    &Images::Pull,
    &Images::Changed,
    &Images::Deleted,
    &Images::Expired,
    &Images::Nodes,
];

impl Scenario for Images {
    fn name(&self) -> &'static str {
        match self {
            Images::Pull => "pull",
            Images::Changed => "pull_changed",
            Images::Deleted => "pull_deleted",
            Images::Expired => "pull_expired",
            Images::Nodes => "nodes",
        }
    }

    fn worlds(&self) -> &'static [WorldKind] {
        &WorldKind::SIMULATED
    }

    fn watched(&self) -> Vec<&'static str> {
        let mut watched = vec!["imagepulljobs", "nodeimages"];
        watched.extend((*self == Images::Nodes).then_some("nodes"));
        watched
    }

    fn merged(&self) -> &'static [&'static str] {
        &["imagepulljobs/status", "nodeimages"]
    }

    fn run<'a>(&self, attempt: Attempt<'a>) -> LocalBoxFuture<'a, Result<Outcome>> {
        run::run::<ImagesRun<'_>>(*self, attempt).boxed_local()
    }
}

impl Images {
    fn expected(self) -> Expected {
        let pull = Expected {
            nodes: NODES,
            tag: Some("one"),
            tries: TRIES[0],
            job: true,
            creates: 0,
            deletes: 0,
            expires: 0,
        };
        match self {
            Images::Pull => pull,
            Images::Changed => Expected {
                tries: TRIES[1],
                ..pull
            },
            Images::Deleted => Expected {
                tag: None,
                job: false,
                ..pull
            },
            Images::Expired => Expected {
                tag: None,
                job: false,
                expires: 1,
                ..pull
            },
            Images::Nodes => Expected {
                nodes: NODES + 1,
                creates: 2,
                deletes: 1,
                ..pull
            },
        }
    }

    /// Whether the job exists before.
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

/// A repository and a job in a namespace of its own, and the nodes.
pub(crate) struct ImagesRun<'a> {
    world: &'a World,
    what: Images,
    namespace: String,
    seen: Recorder,
}

impl<'a> Run<'a> for ImagesRun<'a> {
    type Scenario = Images;

    async fn begin(world: &'a World, namespace: &str, what: Images) -> Result<Self> {
        let seen = Recorder::start(&world.client).await?;
        Ok(ImagesRun {
            world,
            what,
            namespace: namespace.to_owned(),
            seen,
        })
    }

    async fn set_up(&mut self) -> Result<()> {
        if !self.what.has_job() {
            return Ok(());
        }
        self.create_job().await?;
        run::rest(&self.world.controller, || {
            self.look_for(Images::Pull.expected())
        })
        .await
        .map(drop)
    }

    async fn act(&self) -> Result<()> {
        let client = &self.world.client;
        match self.what {
            Images::Pull | Images::Expired => self.create_job().await,
            Images::Changed => {
                let tries = json!({"spec": {"pullPolicy": {"backoffLimit": TRIES[1]}}});
                objects::patch(client, &self.namespace, JOB_KIND, JOB, &tries)
                    .await
                    .map(|_| ())
            }
            Images::Deleted => self.delete(JOB_KIND, JOB).await,
            Images::Nodes => {
                for name in GUESTS {
                    objects::create(client, "", &node(name, &now())).await?;
                }
                let all_have_it = |job: &Value| job["status"]["succeeded"] == NODES + GUESTS.len();
                objects::until(
                    client,
                    &self.namespace,
                    JOB_KIND,
                    JOB,
                    PATIENCE,
                    all_have_it,
                )
                .await?;
                self.delete("v1/Node", GUESTS[0]).await
            }
        }
    }

    async fn look(&self) -> Result<(Value, Option<String>)> {
        self.look_for(self.what.expected()).await
    }

    async fn check(&self, _ending: &Value) -> Result<()> {
        let wanted = self.what.expected();
        let counts = [
            (Method::POST, "nodeimages", wanted.creates),
            (Method::DELETE, "nodeimages", wanted.deletes),
            (Method::POST, "imagepulljobs", 0),
            (Method::DELETE, "imagepulljobs", wanted.expires),
        ];
        laws::writes_are(&self.world.controller.ledger(), counts)?;
        self.seen.check(&self.namespace, PARALLELISM)
    }

    /// Deletes all objects of the run, and waits until no NodeImage requests a pull.
    async fn clean_up(&self) -> Result<()> {
        self.delete(JOB_KIND, JOB).await?;
        for name in GUESTS {
            self.delete("v1/Node", name).await?;
        }
        let nothing = || {
            self.look_for(Expected {
                nodes: NODES,
                tag: None,
                ..Images::Deleted.expected()
            })
        };
        run::rest(&self.world.controller, nothing).await.map(drop)
    }
}

impl ImagesRun<'_> {
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
        objects::create(&self.world.client, &self.namespace, &job)
            .await
            .map(|_| ())
    }

    /// Deletes an object, if it exists.
    async fn delete(&self, kind: &str, name: &str) -> Result<()> {
        let (version, kind) = kind.rsplit_once('/').context("no version")?;
        let api = objects::api_of(
            &self.world.client,
            &self.namespace,
            &json!({"apiVersion": version, "kind": kind}),
        )?;
        match api.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            done => Ok(done.map(|_| ())?),
        }
    }

    /// The job, with the pulls that each NodeImage requests and reports, and the reason why that is
    /// not the wanted state, if it is not.
    async fn look_for(&self, wanted: Expected) -> Result<(Value, Option<String>)> {
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
            let name = node["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            (
                name,
                json!({"asked": asked(node, &self.namespace), "tries": tries(node, &self.namespace), "told": told(node, &self.namespace)}),
            )
        };
        let nodes: BTreeMap<_, _> = nodes.iter().map(node).collect();
        let seen = json!({"jobs": jobs.iter().map(job).collect::<Vec<_>>(), "nodes": nodes});
        // Messages contain the image's name.
        let seen = serde_json::from_str(&seen.to_string().replace(&self.namespace, "NAMESPACE"))?;
        let flaw = flaw(&seen, &wanted);
        Ok((seen, flaw))
    }
}

/// The tags of a repository in a NodeImage's spec.
pub(crate) fn asked(node: &Value, repository: &str) -> Vec<String> {
    let tags = node["spec"]["images"][repository]["tags"]
        .as_array()
        .into_iter()
        .flatten();
    tags.filter_map(|tag| tag["tag"].as_str().map(str::to_owned))
        .collect()
}

/// The backoffLimit of each of these tags.
fn tries(node: &Value, repository: &str) -> Vec<Value> {
    let tags = node["spec"]["images"][repository]["tags"]
        .as_array()
        .into_iter()
        .flatten();
    tags.map(|tag| tag["pullPolicy"]["backoffLimit"].clone())
        .collect()
}

/// The tags of a repository in a NodeImage's status, with their phases.
pub(crate) fn told(node: &Value, repository: &str) -> BTreeMap<String, String> {
    let tags = node["status"]["imageStatuses"][repository]["tags"]
        .as_array()
        .into_iter()
        .flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    tags.map(|tag| (text(&tag["tag"]), text(&tag["phase"])))
        .collect()
}

/// The first difference from a good ending; `None` if there is none.
fn flaw(now: &Value, wanted: &Expected) -> Option<String> {
    let jobs = now["jobs"].as_array().map_or(0, Vec::len);
    if jobs != usize::from(wanted.job) {
        return Some(format!("there are {jobs} jobs: {now}"));
    }
    let status = &now["jobs"][0]["status"];
    let counts = [
        ("desired", wanted.nodes),
        ("succeeded", wanted.nodes),
        ("active", 0),
        ("failed", 0),
    ];
    if wanted.job
        && counts
            .into_iter()
            .any(|(count, number)| status[count] != number)
    {
        return Some(format!("the job's status is wrong: {now}"));
    }
    let nodes = now["nodes"].as_object().into_iter().flatten();
    let has_it = |node: &Value| match wanted.tag {
        Some(tag) => {
            let is_asked = node["asked"] == json!([tag]) && node["tries"] == json!([wanted.tries]);
            is_asked && node["told"] == json!({tag: "Succeeded"})
        }
        None => node["asked"] == json!([]) && node["told"] == json!({}),
    };
    let (good, all) = (
        nodes.clone().filter(|(_, node)| has_it(node)).count(),
        nodes.count(),
    );
    ((good, all) != (wanted.nodes, wanted.nodes))
        .then(|| format!("{good} of {all} nodes are as wanted: {now}"))
}
