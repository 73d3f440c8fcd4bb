//! StatefulSets: pods that are created, changed and deleted, in order or all at once, with their
//! claims and the records of their places.

mod ending;
mod expected;
mod manifest;
mod run;

use anyhow::Result;
use berth_api::names::annotation::{
    AUTO_GENERATE_PERSISTENT_POD_STATE, PREFERRED_PERSISTENT_TOPOLOGY,
};
use berth_api::names::label;
use berth_e2e::objects::{self, kind};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use kube::api::PropagationPolicy;
use serde_json::{Value, json};

use self::manifest::{LARGER, SIZE, START};
use self::run::StatefulRun;
use crate::group::WorldKind;
use crate::run::{Attempt, Outcome};
use crate::scenario::Scenario;
use crate::world::{ONE, PATIENCE, TWO};
use crate::{owner, volumes};

pub(crate) use self::manifest::pod_template;

const SET: &str = "db";
const REPLICAS: usize = 3;

/// An action of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stateful {
    /// A set is created, and makes its pods one after the other.
    Created,
    /// A set is created, and makes its pods at once.
    CreatedAtOnce,
    /// It gets fewer pods, one after the other, and their claims are deleted with them.
    Smaller,
    /// The same, all at once, and their claims stay.
    SmallerAtOnce,
    /// It gets another image, by new pods, one after the other.
    Replaced,
    /// It gets another image in place, after a grace period.
    InPlace,
    /// An ordinal is reserved, and another pod is created for it first.
    Reserved,
    /// It requests records of its pods' places, and a pod is deleted.
    Recorded,
    /// It gets more pods.
    Bigger,
    /// One of its pods gets the label that requests its deletion.
    SpecifiedDelete,
    /// It gets one more claim template, so its pods are replaced.
    ClaimTemplateAdded,
    /// It is deleted without its pods, and created again.
    Adopted,
    /// Its claims grow, each before its pod gets another image by a new one; the test enlarges
    /// their volumes.
    Resized,
    /// Its ordinals begin higher, and claims of pods that are out of range then are deleted with
    /// them.
    MovedUp,
    /// Its ordinals begin lower.
    MovedDown,
    /// It gets fewer pods, and the hook's owner lets them be deleted.
    Guarded,
    /// It gets another image in place, and the hook's owner lets each pod into the update and out
    /// of it.
    Hooked,
    /// It requests records of its pods' places, then other ones, and then none.
    Generated,
}

/// All scenarios, in the order of their numbers.
pub(crate) const SCENARIOS: &[&dyn Scenario] = &[
    &Stateful::Created,
    &Stateful::CreatedAtOnce,
    &Stateful::Smaller,
    &Stateful::SmallerAtOnce,
    &Stateful::Replaced,
    &Stateful::InPlace,
    &Stateful::Reserved,
    &Stateful::Recorded,
    &Stateful::Bigger,
    &Stateful::SpecifiedDelete,
    &Stateful::ClaimTemplateAdded,
    &Stateful::Adopted,
    &Stateful::Resized,
    &Stateful::MovedUp,
    &Stateful::MovedDown,
    &Stateful::Guarded,
    &Stateful::Hooked,
    &Stateful::Generated,
];

impl Scenario for Stateful {
    fn name(&self) -> &'static str {
        match self {
            Stateful::Created => "stateful_created",
            Stateful::CreatedAtOnce => "stateful_created_at_once",
            Stateful::Smaller => "stateful_smaller",
            Stateful::SmallerAtOnce => "stateful_smaller_at_once",
            Stateful::Replaced => "stateful_replaced",
            Stateful::InPlace => "stateful_in_place",
            Stateful::Reserved => "stateful_reserved",
            Stateful::Recorded => "stateful_recorded",
            Stateful::Bigger => "stateful_bigger",
            Stateful::SpecifiedDelete => "stateful_specified_delete",
            Stateful::ClaimTemplateAdded => "stateful_claim_template_added",
            Stateful::Adopted => "stateful_adopted",
            Stateful::Resized => "stateful_resized",
            Stateful::MovedUp => "stateful_moved_up",
            Stateful::MovedDown => "stateful_moved_down",
            Stateful::Guarded => "stateful_guarded",
            Stateful::Hooked => "stateful_hooked",
            Stateful::Generated => "stateful_generated",
        }
    }

    fn worlds(&self) -> &'static [WorldKind] {
        &[WorldKind::Simulated]
    }

    fn watched(&self) -> Vec<&'static str> {
        let mut watched = vec!["statefulsets", "pods", "persistentvolumeclaims"];
        let has_records = matches!(self, Stateful::Recorded | Stateful::Generated);
        watched.extend(has_records.then_some("persistentpodstates"));
        watched
    }

    fn merged(&self) -> &'static [&'static str] {
        &["statefulsets/status", "persistentpodstates/status"]
    }

    fn run<'a>(&self, attempt: Attempt<'a>) -> LocalBoxFuture<'a, Result<Outcome>> {
        crate::run::run::<StatefulRun<'_>>(*self, attempt).boxed_local()
    }
}

impl Stateful {
    /// Whether the set exists before.
    fn has_set(self) -> bool {
        !matches!(self, Stateful::Created | Stateful::CreatedAtOnce)
    }

    /// Carries out the action.
    async fn act(self, run: &StatefulRun<'_>) -> Result<()> {
        let (client, namespace) = (&run.world.client, &*run.namespace);
        match self {
            Stateful::Created | Stateful::CreatedAtOnce => run.create().await,
            Stateful::Smaller | Stateful::SmallerAtOnce => run.patch(json!({"replicas": 1})).await,
            Stateful::Replaced | Stateful::InPlace => run.patch(self.second_image(namespace)).await,
            Stateful::Reserved => run.patch(json!({"reserveOrdinals": [1]})).await,
            Stateful::Recorded => {
                run.delete(kind::POD, "db-1", PropagationPolicy::Background)
                    .await
            }
            Stateful::Bigger => run.patch(json!({"replicas": REPLICAS + 1})).await,
            Stateful::SpecifiedDelete => {
                let asks = json!({"metadata": {"labels": {label::SPECIFIED_DELETE: "true"}}});
                run.patch_object(kind::POD, "db-1", &asks).await
            }
            Stateful::ClaimTemplateAdded => {
                let templates =
                    ["data", "logs"].map(|name| self.claim_template(namespace, name, SIZE));
                run.patch(json!({"volumeClaimTemplates": templates})).await
            }
            Stateful::Adopted => make_again(run).await,
            Stateful::Resized => {
                let mut spec = self.second_image(namespace);
                spec["volumeClaimTemplates"] =
                    json!([self.claim_template(namespace, "data", LARGER)]);
                run.patch(spec).await?;
                volumes::grow_as_asked((client, namespace), REPLICAS, is_untouched).await
            }
            Stateful::MovedUp => run.patch(json!({"ordinals": {"start": START}})).await,
            Stateful::MovedDown => run.patch(json!({"ordinals": null})).await,
            Stateful::Guarded => {
                run.patch(json!({"replicas": 1})).await?;
                owner::let_go(client, namespace, REPLICAS - 1).await
            }
            Stateful::Hooked => {
                run.patch(self.second_image(namespace)).await?;
                owner::let_all_through(client, namespace, REPLICAS).await
            }
            Stateful::Generated => records_come_and_go(run).await,
        }
    }

    fn second_image(self, namespace: &str) -> Value {
        let mut containers = self.set(namespace)["spec"]["template"]["spec"]["containers"].take();
        containers[0]["image"] = TWO.into();
        json!({"template": {"spec": {"containers": containers}}})
    }
}

fn is_untouched(pod: &Value) -> bool {
    pod["spec"]["containers"][0]["image"] == ONE && pod["metadata"]["deletionTimestamp"].is_null()
}

async fn make_again(run: &StatefulRun<'_>) -> Result<()> {
    run.delete(kind::STATEFUL_SET, SET, PropagationPolicy::Orphan)
        .await?;
    objects::until_gone(
        &run.world.client,
        &run.namespace,
        kind::STATEFUL_SET,
        SET,
        PATIENCE,
    )
    .await?;
    run.create().await
}

/// Each request is fulfilled before the next.
async fn records_come_and_go(run: &StatefulRun<'_>) -> Result<()> {
    let until = async |is_so: &dyn Fn(&Value) -> bool| {
        let is_recorded = |state: &Value| {
            let status = &state["status"];
            let is_of_spec = status["observedGeneration"] == state["metadata"]["generation"];
            is_of_spec && ending::has_all(&status["podStates"]) && is_so(&state["spec"])
        };
        objects::until(
            &run.world.client,
            &run.namespace,
            kind::PERSISTENT_POD_STATE,
            SET,
            PATIENCE,
            is_recorded,
        )
        .await
    };
    run.annotate(json!({AUTO_GENERATE_PERSISTENT_POD_STATE: "true"}))
        .await?;
    until(&|spec| spec["requiredPersistentTopology"]["keys"][0] == "kubernetes.io/hostname")
        .await?;
    run.annotate(json!({PREFERRED_PERSISTENT_TOPOLOGY: "kubernetes.io/os"}))
        .await?;
    until(&|spec| {
        spec["preferredPersistentTopology"][0]["preference"]["keys"][0] == "kubernetes.io/os"
    })
    .await?;
    run.annotate(json!({AUTO_GENERATE_PERSISTENT_POD_STATE: null}))
        .await
}
