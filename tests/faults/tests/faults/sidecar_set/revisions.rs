//! The history of a SidecarSet with a low limit of revisions: a revision stays while a pod has it
//! or new pods get it, and the latest stays, too.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use berth_e2e::objects::{self, kind};
use berth_faults::Ledger;
use http::Method;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};

use super::ending::{self, condition, text};
use super::group::Group;
use super::{Kept, MAX_UNAVAILABLE, Sidecar};
use crate::laws;
use crate::run;
use crate::scenario::Run;
use crate::sidecar_laws::HASH;
use crate::world::{ONE, PATIENCE, TWO, World};

const THREE: &str = "faults:three";
/// The last pod is created when new pods get the first image, which is not the latest.
const PODS: [&str; 3] = ["web-0", "web-1", "web-2"];
/// How many revisions are kept, if no more are needed.
const LIMIT: usize = 2;

/// A SidecarSet whose new pods get its first revision, and pods without an owner, in a namespace of
/// its own.
pub(crate) struct RevisionsRun<'a> {
    group: Group<'a>,
    /// The name of the first revision.
    first: String,
}

/// The images of the pods in the order of their names, and the images of the history with their
/// numbers.
struct Goal {
    pods: &'static [&'static str],
    history: &'static [(i64, &'static str)],
}

const BEFORE: Goal = Goal {
    pods: &[ONE, ONE],
    history: &[(1, ONE)],
};
const SECOND: Goal = Goal {
    pods: &[TWO, TWO],
    history: &[(1, ONE), (2, TWO)],
};
/// One more than the limit: one is pinned, one is in use by a pod, and one is the latest.
const HALF: [&str; 2] = [TWO, THREE];
const THIRD: Goal = Goal {
    pods: &[THREE, THREE, THREE],
    history: &[(1, ONE), (3, THREE)],
};
/// The first revision has got the number of a new one.
const AFTER: Goal = Goal {
    pods: &[ONE, ONE, ONE],
    history: &[(3, THREE), (4, ONE)],
};

impl<'a> Run<'a> for RevisionsRun<'a> {
    type Scenario = Sidecar;

    async fn begin(world: &'a World, namespace: &str, what: Sidecar) -> Result<Self> {
        Ok(RevisionsRun {
            group: Group {
                world,
                what,
                namespace: namespace.to_owned(),
            },
            first: String::new(),
        })
    }

    async fn set_up(&mut self) -> Result<()> {
        let strategy = json!({"type": "RollingUpdate", "maxUnavailable": MAX_UNAVAILABLE});
        self.group
            .make(
                ONE,
                &json!({"revisionHistoryLimit": LIMIT, "updateStrategy": strategy}),
            )
            .await?;
        self.group.asked().await?;
        for name in &PODS[..BEFORE.pods.len()] {
            self.group.create_pod(name).await?;
        }
        self.rest(&BEFORE).await?;
        let history = self.group.revisions(&self.group.name(self.set()?)).await?;
        self.first = text(&history.first().context("it has no revision")?["metadata"]["name"]);
        let pinned = json!({"revision": {"revisionName": self.first, "policy": "Always"}});
        self.group
            .patch(self.set()?, &json!({"spec": {"injectionStrategy": pinned}}))
            .await?;
        self.rest(&BEFORE).await
    }

    async fn act(&self) -> Result<()> {
        self.group.set_image(TWO, &json!({})).await?;
        self.until("all pods have the second image", async || {
            self.flaw(&SECOND).await
        })
        .await?;
        self.group
            .set_image(THREE, &json!({"updateStrategy": {"partition": "50%"}}))
            .await?;
        self.until("one of two pods has the third image", async || {
            self.has_half().await
        })
        .await?;
        self.group.create_pod(PODS[2]).await?;
        self.until("the new pod serves with the first image", async || {
            self.is_pinned(PODS[2]).await
        })
        .await?;
        let all = json!({"spec": {"updateStrategy": {"partition": 0}}});
        self.group.patch(self.set()?, &all).await?;
        self.until("all pods have the third image", async || {
            self.flaw(&THIRD).await
        })
        .await?;
        self.group.set_image(ONE, &json!({})).await
    }

    async fn look(&self) -> Result<(Value, Option<String>)> {
        self.look_for(&AFTER).await
    }

    async fn check(&self, _ending: &Value) -> Result<()> {
        let counts = [
            (Method::POST, "pods", 0),
            (Method::DELETE, "pods", 0),
            (Method::POST, "controllerrevisions", 2),
            (Method::PATCH, "controllerrevisions", 1),
            (Method::DELETE, "controllerrevisions", 1),
        ];
        let ledger = self.group.world.controller.ledger();
        laws::writes_are(&ledger, counts)?;
        only_the_second_goes(&ledger, &self.group.name(self.set()?), &self.first)
    }

    async fn clean_up(&self) -> Result<()> {
        for name in PODS {
            self.group
                .delete(&self.group.namespace, kind::POD, name)
                .await?;
        }
        self.group.clean_up().await
    }
}

impl RevisionsRun<'_> {
    fn set(&self) -> Result<Kept> {
        self.group
            .sets()
            .first()
            .copied()
            .context("there is no SidecarSet")
    }

    async fn rest(&self, goal: &Goal) -> Result<()> {
        run::rest(&self.group.world.controller, || self.look_for(goal))
            .await
            .map(drop)
    }

    /// Waits until there is no flaw any more; the controller may have more to do then.
    async fn until(
        &self,
        what: &str,
        flaw: impl AsyncFn() -> Result<Option<String>>,
    ) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while let Some(flaw) = flaw().await? {
            ensure!(
                Instant::now() < deadline,
                "timed out after {PATIENCE:?} until {what}: {flaw}"
            );
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    async fn flaw(&self, goal: &Goal) -> Result<Option<String>> {
        Ok(self.look_for(goal).await?.1)
    }

    /// The difference from the state in which either of the two pods has the new image.
    async fn has_half(&self) -> Result<Option<String>> {
        let pods = self.group.pods().await?;
        let mut images: Vec<_> = pods.iter().map(|pod| self.image(&pod["spec"])).collect();
        images.sort_unstable_by_key(|image| image == THREE);
        let history = self.group.revisions(&self.group.name(self.set()?)).await?;
        let is_done = images == HALF && history.len() > LIMIT;
        Ok((!is_done).then(|| format!("pods have {images:?}, and the history is {history:?}")))
    }

    /// A container whose image changes again before the container was created restarts once less.
    async fn is_pinned(&self, pod: &str) -> Result<Option<String>> {
        let pod = objects::get(
            &self.group.world.client,
            &self.group.namespace,
            kind::POD,
            pod,
        )
        .await?;
        let is_done =
            self.image(&pod["spec"]) == ONE && condition(&pod, "Ready")["status"] == "True";
        Ok((!is_done).then(|| pod.to_string()))
    }

    /// The image of the SidecarSet's container.
    fn image(&self, spec: &Value) -> String {
        let container = self.group.sets().first().map_or("", |set| set.container);
        let own = spec["containers"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|it| it["name"] == container);
        own.map(|own| text(&own["image"])).unwrap_or_default()
    }

    /// The state, and the reason why it is not the goal, if it is not.
    async fn look_for(&self, goal: &Goal) -> Result<(Value, Option<String>)> {
        let name = self.group.name(self.set()?);
        let set = objects::get(&self.group.world.client, "", kind::SIDECAR_SET, &name).await?;
        let (status, pods) = (ending::status(&set), self.group.pods().await?);
        let history = self.group.revisions(&name).await?;
        let history: Vec<_> = history
            .iter()
            .map(|it| {
                (
                    it["revision"].as_i64().unwrap_or_default(),
                    self.image(&it["data"]["spec"]),
                )
            })
            .collect();
        let images: Vec<_> = pods.iter().map(|pod| self.image(&pod["spec"])).collect();
        let all = ["matchedPods", "updatedPods", "updatedReadyPods"];
        let wanted = goal
            .history
            .iter()
            .map(|(number, image)| (*number, (*image).to_owned()));
        let is_done = images == goal.pods
            && history.iter().cloned().eq(wanted)
            && all.iter().all(|count| status[count] == goal.pods.len())
            && status["observedGeneration"] == true;
        let now = json!({"set": status, "pods": ending::pods(&pods, false), "history": history});
        let now = ending::without_namespace(&now, &self.group.namespace)?;
        let flaw = (!is_done).then(|| {
            format!(
                "pods are to have {:?}, the history {:?}: {now}",
                goal.pods, goal.history
            )
        });
        Ok((now, flaw))
    }
}

/// Only the revision of the second image is deleted, after no pod has it any more.
fn only_the_second_goes(ledger: &Ledger, set: &str, first: &str) -> Result<()> {
    let mut has: BTreeMap<&str, String> = PODS.map(|pod| (pod, first.to_owned())).into();
    let mut made = Vec::new();
    for entry in ledger.entries().iter().filter(|entry| entry.is_done()) {
        let write = &entry.write;
        match (&write.method, write.resource.as_str()) {
            (&Method::POST, "controllerrevisions") => {
                made.push(text(&entry.body["metadata"]["name"]))
            }
            (&Method::PATCH, "pods") => {
                let records = text(&entry.body["metadata"]["annotations"][HASH]);
                let records: Value = serde_json::from_str(&records).unwrap_or_default();
                has.insert(&write.name, text(&records[set]["controllerRevision"]));
            }
            (&Method::DELETE, "controllerrevisions") => {
                ensure!(
                    Some(&write.name) == made.first(),
                    "{} is deleted, of {first} and {made:?}",
                    write.name
                );
                let users: Vec<_> = has
                    .iter()
                    .filter(|(_, revision)| **revision == write.name)
                    .collect();
                ensure!(
                    users.is_empty(),
                    "{} is deleted, and pods have it: {users:?}",
                    write.name
                );
            }
            _ => {}
        }
    }
    ensure!(
        made.len() == 2 && made.iter().all(|name| name != first),
        "{made:?} were made beside {first}"
    );
    Ok(())
}
