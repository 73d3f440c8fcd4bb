//! UnitedDeployments: subsets that come, go and return, workloads of another kind, rollouts by
//! partitions, and domains that are lost and come back.

mod domain;
mod ending;
mod expected;
pub(crate) mod laws;
mod manifest;
mod run;

use anyhow::Result;
use berth_e2e::objects::{self, kind};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use self::run::UnitedRun;
use crate::group::WorldKind;
use crate::run::{Attempt, Outcome};
use crate::scenario::Scenario;
use crate::world::{PATIENCE, TWO};

/// The name of every UnitedDeployment, so that its revisions have the same names in every run.
const UNITED: &str = "web";
/// Subsets.
const FIRST: &str = "a";
const SECOND: &str = "b";
const THIRD: &str = "c";

/// An action of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum United {
    /// A UnitedDeployment is created.
    Created,
    /// A subset joins the list.
    SubsetAdded,
    /// A subset leaves the list.
    SubsetRemoved,
    /// A subset leaves the list, and comes back with other nodes.
    SubsetReturned,
    /// CloneSets become Deployments.
    KindChanged,
    /// CloneSets become Advanced StatefulSets.
    KindStateful,
    /// Another image reaches one pod of the first subset, then the subset, then the other subset.
    RolledOut,
    /// A domain is lost and its replicas move; it comes back and gets pods by a scale.
    DomainLost,
    /// A domain is lost and gets substitutes; it comes back and the substitutes go.
    DomainReserved,
    /// The UnitedDeployment is deleted without its workloads, and created again.
    Adopted,
}

/// All scenarios, in the order of their numbers.
pub(crate) const SCENARIOS: &[&dyn Scenario] = &[
    &United::Created,
    &United::SubsetAdded,
    &United::SubsetRemoved,
    &United::SubsetReturned,
    &United::KindChanged,
    &United::KindStateful,
    &United::RolledOut,
    &United::DomainLost,
    &United::DomainReserved,
    &United::Adopted,
];

impl Scenario for United {
    fn name(&self) -> &'static str {
        match self {
            United::Created => "united_created",
            United::SubsetAdded => "united_subset_added",
            United::SubsetRemoved => "united_subset_removed",
            United::SubsetReturned => "united_subset_returned",
            United::KindChanged => "united_kind_changed",
            United::KindStateful => "united_kind_stateful",
            United::RolledOut => "united_rolled_out",
            United::DomainLost => "united_domain_lost",
            United::DomainReserved => "united_domain_reserved",
            United::Adopted => "united_adopted",
        }
    }

    fn worlds(&self) -> &'static [WorldKind] {
        &[WorldKind::Simulated]
    }

    /// The CloneSet scenarios already hide pods and revisions from the CloneSet controller.
    fn watched(&self) -> Vec<&'static str> {
        let mut watched = vec!["uniteddeployments", "clonesets"];
        watched.extend((*self == United::KindChanged).then_some("deployments"));
        watched.extend((*self == United::KindStateful).then_some("statefulsets"));
        let looks_at_pods = matches!(
            self,
            United::RolledOut | United::DomainLost | United::DomainReserved
        );
        watched.extend(looks_at_pods.then_some("pods"));
        watched.extend((*self == United::Adopted).then_some("controllerrevisions"));
        watched
    }

    fn merged(&self) -> &'static [&'static str] {
        &[
            "uniteddeployments/status",
            "clonesets/status",
            "statefulsets/status",
            "nodeimages",
        ]
    }

    fn run<'a>(&self, attempt: Attempt<'a>) -> LocalBoxFuture<'a, Result<Outcome>> {
        crate::run::run::<UnitedRun<'_>>(*self, attempt).boxed_local()
    }
}

impl United {
    /// Carries out the action.
    async fn act(self, run: &UnitedRun<'_>) -> Result<()> {
        match self {
            United::Created => run.create().await,
            United::SubsetAdded => run.set_subsets(&[FIRST, SECOND, THIRD]).await,
            United::SubsetRemoved => run.set_subsets(&[FIRST, SECOND]).await,
            United::SubsetReturned => {
                run.set_subsets(&[FIRST]).await?;
                run.until_none_of(SECOND, &[kind::POD, kind::CLONE_SET])
                    .await?;
                run.set_subsets(&[FIRST, SECOND]).await
            }
            United::KindChanged | United::KindStateful => {
                run.patch(&json!({"template": self.second_template()}))
                    .await
            }
            United::RolledOut => roll_out(run).await,
            United::DomainLost => lose_for_good(run).await,
            United::DomainReserved => lose_with_reservation(run).await,
            United::Adopted => {
                let (client, how) = (&run.world.client, DeleteParams::orphan());
                objects::delete(
                    client,
                    &run.namespace,
                    kind::UNITED_DEPLOYMENT,
                    UNITED,
                    &how,
                )
                .await?;
                objects::until_gone(
                    client,
                    &run.namespace,
                    kind::UNITED_DEPLOYMENT,
                    UNITED,
                    PATIENCE,
                )
                .await?;
                run.create().await
            }
        }
    }
}

async fn roll_out(run: &UnitedRun<'_>) -> Result<()> {
    let is_updated = |pods: usize| move |status: &Value| status["updatedReadyReplicas"] == pods;
    let partitions =
        |first: usize| json!({"manualUpdate": {"partitions": {FIRST: first, SECOND: 9}}});
    let template = run.what.template(TWO);
    run.patch(&json!({"template": template, "updateStrategy": partitions(1)}))
        .await?;
    run.until(is_updated(1)).await?;
    run.patch(&json!({"updateStrategy": partitions(0)})).await?;
    run.until(is_updated(2)).await?;
    run.patch(&json!({"updateStrategy": {"manualUpdate": null}}))
        .await
}

/// The pod of the first subset finds no node any more, so that the other subset gets its replica.
async fn lose_for_good(run: &UnitedRun<'_>) -> Result<()> {
    run.lose_domain().await?;
    run.until(|status| status["subsetStatuses"][1]["readyReplicas"] == 2)
        .await?;
    // The subset's pod would find a node again while its CloneSet has yet to delete it.
    run.until_none_of(FIRST, &[kind::POD]).await?;
    run.domain.come_back();
    // Until the first subset recovers, every new replica is the other subset's.
    let strategy = json!({"adaptive": {"unschedulableDuration": 1}});
    run.patch(&json!({"topology": {"scheduleStrategy": strategy}}))
        .await?;
    run.until(|status| status["subsetStatuses"][0]["conditions"][0]["reason"] == "recover")
        .await?;
    run.patch(&json!({"replicas": 3})).await
}

/// A pod of the first subset finds no node any more, so that the other subset runs a substitute.
async fn lose_with_reservation(run: &UnitedRun<'_>) -> Result<()> {
    run.lose_domain().await?;
    run.until(|status| {
        status["reservedPods"] == 1 && status["subsetStatuses"][1]["readyReplicas"] == 1
    })
    .await?;
    run.domain.come_back();
    Ok(())
}
