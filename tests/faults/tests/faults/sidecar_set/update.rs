//! Pods get new images of their SidecarSets in place: pods without an owner, or of a CloneSet that
//! changes them as well.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_api::names::label::IMAGE_PREDOWNLOAD_CREATED;
use berth_e2e::objects::{self, APP, CONTAINER, kind};
use berth_e2e::record::{Moment, PodView, Record};
use berth_e2e::watch::PodWatch;
use http::Method;
use serde_json::{Value, json};

use super::ending::{self, condition, text};
use super::group::Group;
use super::{Kept, MAX_UNAVAILABLE, SET, Sidecar};
use crate::clone_set::{REPLICAS, Rollout};
use crate::pod_ending::PodEnding;
use crate::run;
use crate::scenario::Run;
use crate::sidecar_laws::{EMPTY, HASH, Held, Writers, form};
use crate::world::{ONE, PATIENCE, TWO, World};
use crate::{images, laws, sidecar_laws};

/// The condition of a pod.
const UPGRADABLE: &str = "SidecarSetUpgradable";
const PODS: [&str; 4] = ["web-0", "web-1", "web-2", "web-3"];

/// SidecarSets, and pods in a namespace of its own.
pub(crate) struct UpdateRun<'a> {
    group: Group<'a>,
    watch: PodWatch,
    /// The end of the set-up, counted from the start of the watch.
    from: Duration,
}

impl<'a> Run<'a> for UpdateRun<'a> {
    type Scenario = Sidecar;

    async fn begin(world: &'a World, namespace: &str, what: Sidecar) -> Result<Self> {
        let watch = PodWatch::start(
            &world.client,
            namespace,
            &format!("{APP}={SET}"),
            Instant::now(),
        )
        .await?;
        Ok(UpdateRun {
            group: Group {
                world,
                what,
                namespace: namespace.to_owned(),
            },
            watch,
            from: Duration::ZERO,
        })
    }

    async fn set_up(&mut self) -> Result<()> {
        // It updates nothing yet, so that the status reports no pod of it.
        let strategy = json!({"type": "NotUpdate", "maxUnavailable": MAX_UNAVAILABLE});
        self.group
            .make(ONE, &json!({"updateStrategy": strategy}))
            .await?;
        if self.has_owner() {
            self.group.injects().await?;
            let set = Rollout::Quick.clone_set();
            objects::create(&self.group.world.client, &self.group.namespace, &set).await?;
        } else {
            self.group.asked().await?;
            for name in PODS {
                self.group.create_pod(name).await?;
            }
        }
        run::rest(&self.group.world.controller, || self.look_for(ONE)).await?;
        self.caught_up(ONE).await?;
        self.from = self.watch.began().elapsed();
        Ok(())
    }

    async fn act(&self) -> Result<()> {
        if self.has_owner() {
            let client = &self.group.world.client;
            let patch = objects::image_patch(&Rollout::Quick.clone_set(), TWO);
            objects::patch(client, &self.group.namespace, kind::CLONE_SET, SET, &patch).await?;
        }
        self.group
            .set_image(TWO, &json!({"updateStrategy": {"type": "RollingUpdate"}}))
            .await
    }

    async fn look(&self) -> Result<(Value, Option<String>)> {
        self.look_for(TWO).await
    }

    async fn check(&self, _ending: &Value) -> Result<()> {
        self.caught_up(TWO).await?;
        let record = self.watch.record()?.since(self.from);
        self.check_writes(&record)?;
        laws::begins_with(&record, self.pods())?;
        laws::pods_are_created(&record, 0)?;
        let sets = self.group.sets();
        let held = sets
            .iter()
            .map(|set| self.held(*set, &record))
            .collect::<Result<Vec<_>>>()?;
        for set in &held {
            self.has_a_revision_for_each_form(set).await?;
        }
        let writers = Writers {
            sets: &held,
            each: MAX_UNAVAILABLE,
            has_owner: self.has_owner(),
        };
        sidecar_laws::check(&record, &writers)?;
        if self.has_owner() {
            laws::no_image_changes_in_service(&record, Some(CONTAINER))?;
            laws::restarts_are_for_image_changes(&record, 1 + sets.len())?;
        }
        Ok(())
    }

    async fn clean_up(&self) -> Result<()> {
        if self.has_owner() {
            self.group
                .delete(&self.group.namespace, kind::CLONE_SET, SET)
                .await?;
        } else {
            for name in PODS {
                self.group
                    .delete(&self.group.namespace, kind::POD, name)
                    .await?;
            }
        }
        self.group.clean_up().await
    }
}

impl UpdateRun<'_> {
    /// The pods belong to a CloneSet.
    fn has_owner(&self) -> bool {
        self.group.what == Sidecar::Rollout
    }

    fn is_ahead(&self) -> bool {
        self.group.what == Sidecar::Ahead
    }

    fn pods(&self) -> usize {
        if self.has_owner() {
            REPLICAS
        } else {
            PODS.len()
        }
    }

    /// Waits until the record has the current pods with this image.
    async fn caught_up(&self, image: &str) -> Result<()> {
        let all_have_it = |now: &Moment<'_>| {
            let has_it = |pod: &PodView| pod.containers.values().any(|it| it.wanted == image);
            now.available(Duration::ZERO) == self.pods()
                && now.pods.values().all(|standing| has_it(standing.pod))
        };
        self.watch
            .until("all pods serve with their images", PATIENCE, all_have_it)
            .await
            .map(drop)
    }

    fn check_writes(&self, record: &Record) -> Result<()> {
        let (sets, pods, what) = (self.group.sets().len(), self.pods(), self.group.what);
        let counts = [
            (Method::POST, "pods", 0),
            (Method::DELETE, "pods", 0),
            (
                Method::POST,
                "controllerrevisions",
                sets + usize::from(self.has_owner()),
            ),
            // The label that its images are pulled ahead.
            (
                Method::PATCH,
                "controllerrevisions",
                usize::from(self.is_ahead()),
            ),
            (Method::DELETE, "controllerrevisions", 0),
            // The two hashes, written once for each set as its containers change.
            (Method::PATCH, "sidecarsets", sets),
            (Method::PATCH, "mutatingwebhookconfigurations", 0),
            (Method::POST, "imagepulljobs", usize::from(self.is_ahead())),
            (
                Method::DELETE,
                "imagepulljobs",
                usize::from(self.is_ahead()),
            ),
        ];
        let ledger = self.group.world.controller.ledger();
        laws::writes_are(&ledger, counts)?;
        if self.is_ahead() {
            sidecar_laws::jobs_come_before_images(&ledger)?;
        }
        let names: Vec<_> = record
            .last()
            .pods
            .values()
            .map(|standing| standing.pod.name.as_str())
            .collect();
        if self.has_owner() {
            let says = |body: &Value| !body["metadata"]["annotations"][HASH].is_null();
            sidecar_laws::each_pod_is_written(&ledger, &names, ("pods", what.writes()), says)?;
            let says = |body: &Value| body.to_string().contains(UPGRADABLE);
            return sidecar_laws::each_pod_is_written(&ledger, &names, ("pods/status", sets), says);
        }
        let counts = [
            (Method::PATCH, "pods", pods * what.writes()),
            (Method::PATCH, "pods/status", pods * sets),
        ];
        laws::writes_are(&ledger, counts)?;
        sidecar_laws::each_pod_is_written(&ledger, &names, ("pods", what.writes()), |_| true)?;
        sidecar_laws::each_pod_is_written(&ledger, &names, ("pods/status", sets), |_| true)
    }

    /// The SidecarSet with the records of it in pods, at first and in the end.
    fn held(&self, set: Kept, record: &Record) -> Result<Held> {
        let name = self.group.name(set);
        let form_at = |moment: Moment<'_>| {
            let pod = moment
                .pods
                .values()
                .next()
                .map(|standing| standing.pod)
                .context("there are no pods")?;
            form(pod, &name)
        };
        let forms = [
            form_at(record.moments().next().unwrap_or_default())?,
            form_at(record.last())?,
        ];
        let [old, new] = &forms;
        ensure!(
            old.0 != new.0 && old.1 != new.1,
            "its record is as before: {forms:?}"
        );
        Ok(Held {
            container: set.container,
            is_hot: set.is_hot,
            forms,
            name,
        })
    }

    /// The history has exactly the revisions that pods had and have, each once.
    async fn has_a_revision_for_each_form(&self, set: &Held) -> Result<()> {
        let revisions = self.group.revisions(&set.name).await?;
        let has = |revision: &Value| {
            let metadata = &revision["metadata"];
            (
                text(&metadata["annotations"][HASH]),
                text(&metadata["name"]),
            )
        };
        let found: Vec<_> = revisions.iter().map(has).collect();
        ensure!(
            found == set.forms,
            "the history is {found:?}, and pods had {:?}",
            set.forms
        );
        Ok(())
    }

    /// The state, and the reason why not all containers have this image.
    async fn look_for(&self, image: &str) -> Result<(Value, Option<String>)> {
        let (client, namespace) = (&self.group.world.client, &self.group.namespace);
        let pods = self.group.pods().await?;
        let mut sets = BTreeMap::new();
        let mut flaw = None;
        for set in self.group.sets() {
            let object =
                objects::get(client, "", kind::SIDECAR_SET, &self.group.name(*set)).await?;
            let status = ending::status(&object);
            flaw = flaw.or(self.set_flaw(*set, &status, &pods, image));
            sets.insert(set.suffix, status);
        }
        let mut now = json!({"sets": sets, "pods": ending::pods(&pods, self.has_owner())});
        if self.has_owner() {
            let owner = objects::get(client, namespace, kind::CLONE_SET, SET).await?;
            flaw = flaw.or(owner_flaw(&owner, &pods, image)?);
            now["owner"] = ending::status(&owner);
        }
        if self.is_ahead() {
            let (pulls, left) = self.pulls().await?;
            flaw = flaw.or(left);
            now["pulls"] = pulls;
        }
        let now = ending::without_namespace(&now, namespace)?;
        let flaw = flaw.map(|flaw| format!("{flaw}: {now}"));
        Ok((now, flaw))
    }

    /// The labels about images that are pulled ahead, and a flaw if anything is left of their jobs:
    /// the jobs end when no pod waits.
    async fn pulls(&self) -> Result<(Value, Option<String>)> {
        let (client, namespace) = (&self.group.world.client, &self.group.namespace);
        let mut labels = Vec::new();
        for set in self.group.sets() {
            let revisions = self.group.revisions(&self.group.name(*set)).await?;
            let label = |revision: &Value| {
                revision["metadata"]["labels"][IMAGE_PREDOWNLOAD_CREATED].clone()
            };
            labels.extend(revisions.iter().map(label));
        }
        let jobs = objects::list(client, namespace, kind::IMAGE_PULL_JOB, "")
            .await?
            .len();
        let (repository, _) = TWO.split_once(':').context("the image has no tag")?;
        let nodes = objects::list(client, "", kind::NODE_IMAGE, "").await?;
        let asked: usize = nodes
            .iter()
            .map(|node| images::asked(node, repository).len())
            .sum();
        let told: usize = nodes
            .iter()
            .map(|node| images::told(node, repository).len())
            .sum();
        let flaw = (jobs + asked + told > 0).then(|| {
            format!("{jobs} jobs are left, {asked} images are requested and {told} reported")
        });
        Ok((json!(labels), flaw))
    }

    /// The first difference from the wanted state with this image.
    fn set_flaw(&self, set: Kept, status: &Value, pods: &[Value], image: &str) -> Option<String> {
        let all = [
            "matchedPods",
            "updatedPods",
            "readyPods",
            "updatedReadyPods",
        ];
        let is_told = all.iter().all(|count| status[count] == self.pods())
            && status["injection"]["injected"] == self.pods()
            && status["observedGeneration"] == true;
        let is_upgradable = |pod: &Value| {
            let condition = condition(pod, UPGRADABLE);
            let sets: Value =
                serde_json::from_str(&text(&condition["message"])).unwrap_or_default();
            condition["status"] == "True" && sets[self.group.name(set)] == true
        };
        let wanted = if set.is_hot {
            vec![EMPTY, image]
        } else {
            vec![image]
        };
        let has_it = |pod: &&Value| {
            let own = pod["spec"]["containers"].as_array().into_iter().flatten();
            let own = own.filter(|it| text(&it["name"]).starts_with(set.container));
            let mut images: Vec<_> = own
                .map(|it| it["image"].as_str().unwrap_or_default())
                .collect();
            images.sort_unstable();
            images == wanted
                && (image == ONE || is_upgradable(pod))
                && condition(pod, "Ready")["status"] == "True"
        };
        let done = pods.iter().filter(has_it).count();
        let is_done = is_told && done == self.pods() && pods.len() == self.pods();
        (!is_done).then(|| {
            format!(
                "{done} of {} pods are as {} wants them",
                pods.len(),
                set.suffix
            )
        })
    }
}

/// The reason why the CloneSet has not finished its update to this image.
fn owner_flaw(owner: &Value, pods: &[Value], image: &str) -> Result<Option<String>> {
    for pod in pods {
        let own = pod["spec"]["containers"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|it| it["name"] == CONTAINER);
        let has_it = own.is_some_and(|own| own["image"] == image);
        if !has_it || !PodEnding::read(pod, true)?.is_in_service() {
            return Ok(Some(format!(
                "pod {} is not as its CloneSet wants it",
                pod["metadata"]["name"]
            )));
        }
    }
    Ok((!objects::is_done(owner)).then(|| "the CloneSet is not done".to_owned()))
}
