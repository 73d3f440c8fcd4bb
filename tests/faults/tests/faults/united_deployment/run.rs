//! One run: a UnitedDeployment in its own namespace, with a test's scheduler for one domain.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use berth_api::names::label::SUBSET_NAME;
use berth_e2e::limits::Limits;
use berth_e2e::objects::{self, APP, CONTAINER, kind};
use berth_e2e::record::{Moment, Record};
use berth_e2e::watch::PodWatch;
use berth_faults::Entry;
use http::Method;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::domain::Domain;
use super::ending::{DEPLOYMENT, look};
use super::expected::{CLONE_SETS, DEPLOYMENTS, Expected, STATEFUL_SETS};
use super::laws::{no_second_workload, no_two_generations};
use super::{FIRST, UNITED, United};
use crate::history::History;
use crate::laws;
use crate::run;
use crate::scenario::Run;
use crate::world::{PATIENCE, World};

const RESOURCES: [&str; 3] = [CLONE_SETS, DEPLOYMENTS, STATEFUL_SETS];
/// Most status writes of a run. The bound is loose, because each life of the controller can write
/// the status.
const MOST_STATUSES: usize = 60;

/// A UnitedDeployment, with the histories of its workloads and pods.
pub(crate) struct UnitedRun<'a> {
    pub(super) world: &'a World,
    pub(super) what: United,
    pub(super) namespace: String,
    pub(super) domain: Domain,
    watch: PodWatch,
    workloads: Vec<History>,
    /// End of the set-up, counted from the start of the watch.
    from: Duration,
}

impl<'a> Run<'a> for UnitedRun<'a> {
    type Scenario = United;

    async fn begin(world: &'a World, namespace: &str, what: United) -> Result<Self> {
        let watch = PodWatch::start(
            &world.client,
            namespace,
            &format!("{APP}={UNITED}"),
            Instant::now(),
        )
        .await?;
        let mut workloads = Vec::new();
        for kind in [kind::CLONE_SET, DEPLOYMENT, kind::STATEFUL_SET] {
            workloads.push(History::start(&world.client, namespace, kind).await?);
        }
        let domain = Domain::start(&world.client, namespace, world.node);
        let (namespace, from) = (namespace.to_owned(), Duration::ZERO);
        Ok(UnitedRun {
            world,
            what,
            namespace,
            domain,
            watch,
            workloads,
            from,
        })
    }

    async fn set_up(&mut self) -> Result<()> {
        if self.what != United::Created {
            self.create().await?;
            let before = Expected {
                shares: self.what.shares_before(),
                ..United::Created.expected()
            };
            run::rest(&self.world.controller, || {
                look(self.world, &self.namespace, &before)
            })
            .await?;
            self.all_serve(&before).await?;
        }
        self.from = self.watch.began().elapsed();
        Ok(())
    }

    async fn act(&self) -> Result<()> {
        self.what.act(self).await
    }

    async fn look(&self) -> Result<(Value, Option<String>)> {
        look(self.world, &self.namespace, &self.what.expected()).await
    }

    async fn check(&self, _ending: &Value) -> Result<()> {
        let wanted = self.what.expected();
        self.all_serve(&wanted).await?;
        self.check_writes(&wanted)?;
        for workloads in &self.workloads {
            no_second_workload(&workloads.until_now().await?)?;
        }
        self.check_record(&self.watch.record()?.since(self.from), &wanted)
    }

    /// Deletes the UnitedDeployment, and its workloads and pods with it.
    async fn clean_up(&self) -> Result<()> {
        let (client, how) = (&self.world.client, DeleteParams::background());
        objects::delete(
            client,
            &self.namespace,
            kind::UNITED_DEPLOYMENT,
            UNITED,
            &how,
        )
        .await
    }
}

impl UnitedRun<'_> {
    /// Waits until the record shows all wanted pods, ready.
    async fn all_serve(&self, wanted: &Expected) -> Result<()> {
        let pods: usize = wanted.shares.iter().map(|(_, replicas)| replicas).sum();
        let all_serve =
            |now: &Moment<'_>| now.pods.len() == pods && now.available(Duration::ZERO) == pods;
        self.watch
            .until("all pods serve", PATIENCE, all_serve)
            .await
            .map(drop)
    }

    /// The ledger lacks the writes of the set-up.
    fn check_writes(&self, wanted: &Expected) -> Result<()> {
        let ledger = self.world.controller.ledger();
        let gone = |resource: &str| {
            if resource == CLONE_SETS {
                wanted.deletes
            } else {
                0
            }
        };
        let made = |resource: &str| {
            if resource == wanted.resource {
                wanted.makes
            } else {
                0
            }
        };
        laws::writes_are(
            &ledger,
            RESOURCES.map(|resource| (Method::POST, resource, made(resource))),
        )?;
        laws::writes_are(
            &ledger,
            RESOURCES.map(|resource| (Method::DELETE, resource, gone(resource))),
        )?;
        let is_revision = |entry: &&Entry| {
            let Entry { write, body, .. } = entry;
            let is_post = write.method == Method::POST && write.resource == "controllerrevisions";
            is_post && body["metadata"]["ownerReferences"][0]["kind"] == "UnitedDeployment"
        };
        let revisions = ledger
            .entries()
            .iter()
            .filter(is_revision)
            .filter(|entry| entry.is_done())
            .count();
        ensure!(
            revisions == wanted.revisions,
            "{revisions} revisions were created, not {}",
            wanted.revisions
        );
        let patches: usize = RESOURCES
            .iter()
            .map(|resource| ledger.done(&Method::PATCH, resource))
            .sum();
        ensure!(
            patches == wanted.patches,
            "{patches} writes to workloads were carried out, not {}",
            wanted.patches
        );
        let statuses = ledger.done(&Method::PATCH, "uniteddeployments/status");
        ensure!(
            statuses <= MOST_STATUSES,
            "the status was written {statuses} times"
        );
        Ok(())
    }

    fn check_record(&self, record: &Record, wanted: &Expected) -> Result<()> {
        laws::begins_with(
            record,
            self.what
                .shares_before()
                .iter()
                .map(|(_, replicas)| replicas)
                .sum(),
        )?;
        laws::pods_are_created(record, wanted.pods)?;
        let active = usize::MAX;
        laws::limits_hold(
            record,
            &Limits {
                available: wanted.available,
                active,
                ..Limits::default()
            },
        )?;
        laws::no_image_changes_in_service(record, Some(CONTAINER))?;
        laws::restarts_are_for_image_changes(record, wanted.changes)?;
        if self.what == United::KindStateful {
            no_two_generations(record)
        } else {
            Ok(())
        }
    }

    pub(super) async fn create(&self) -> Result<()> {
        objects::create(&self.world.client, &self.namespace, &self.what.united())
            .await
            .map(drop)
    }

    /// Changes the spec.
    pub(super) async fn patch(&self, spec: &Value) -> Result<()> {
        let (client, patch) = (&self.world.client, json!({"spec": spec}));
        objects::patch(
            client,
            &self.namespace,
            kind::UNITED_DEPLOYMENT,
            UNITED,
            &patch,
        )
        .await
        .map(drop)
    }

    /// Replaces the list of subsets.
    pub(super) async fn set_subsets(&self, names: &[&str]) -> Result<()> {
        self.patch(&json!({"topology": {"subsets": self.what.subsets(names, "sim-1")}}))
            .await
    }

    /// Waits until the status has the present generation and satisfies the condition.
    pub(super) async fn until(&self, is_so: impl Fn(&Value) -> bool) -> Result<()> {
        let is_so = |united: &Value| {
            let status = &united["status"];
            status["observedGeneration"] == united["metadata"]["generation"] && is_so(status)
        };
        let client = &self.world.client;
        objects::until(
            client,
            &self.namespace,
            kind::UNITED_DEPLOYMENT,
            UNITED,
            PATIENCE,
            is_so,
        )
        .await
        .map(drop)
    }

    /// Waits until a subset has no object of these kinds.
    pub(super) async fn until_none_of(&self, subset: &str, kinds: &[&str]) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let (client, labels) = (&self.world.client, format!("{SUBSET_NAME}={subset}"));
        loop {
            let mut left = Vec::new();
            for kind in kinds {
                left.extend(objects::list(client, &self.namespace, kind, &labels).await?);
            }
            if left.is_empty() {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "subset {subset} has {left:?} after {PATIENCE:?}"
            );
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Makes the first subset unschedulable and deletes one of its pods.
    pub(super) async fn lose_domain(&self) -> Result<()> {
        self.domain.lose();
        let (client, labels) = (&self.world.client, format!("{SUBSET_NAME}={FIRST}"));
        let pods = objects::list(client, &self.namespace, kind::POD, &labels).await?;
        let name = pods
            .first()
            .and_then(|pod| pod["metadata"]["name"].as_str())
            .context("the first subset has no pod")?;
        objects::delete(
            client,
            &self.namespace,
            kind::POD,
            name,
            &DeleteParams::background().grace_period(0),
        )
        .await
    }
}
