//! ContainerRecreateRequests: the named containers are restarted in place, each once, and no
//! others.

pub(crate) mod laws;
mod run;

use anyhow::Result;
use berth_api::names::condition::PRE_RECREATE_GRACE;
use berth_e2e::objects::{self, kind};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use self::run::RecreateRun;
use crate::group::WorldKind;
use crate::run::{Attempt, Outcome};
use crate::scenario::Scenario;
use crate::world::PATIENCE;

const POD: &str = "web";
/// The containers of the pod.
const APP: &str = "app";
const SIDE: &str = "side";
/// Requests. Of two requests created in one second, the later one comes first by its name, so each
/// may begin before the controller sees the other.
const ONCE: &str = "once";
const LATER: &str = "later";
/// Longer than any run.
const LONG: i64 = 3600;

/// An action of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recreate {
    /// A container is restarted.
    One,
    /// Two containers are restarted, one after the other.
    Ordered,
    /// A container is restarted after the pod has been out of service for a while.
    Unready,
    /// The request is deleted while the pod is out of service for it.
    Deleted,
    /// Two requests exist for one pod.
    Two,
    /// The deadline passes before anything was done.
    OutOfTime,
    /// A container is restarted by force.
    Forced,
}

/// All scenarios, in the order of their numbers.
pub(crate) const SCENARIOS: &[&dyn Scenario] = &[
    &Recreate::One,
    &Recreate::Ordered,
    &Recreate::Unready,
    &Recreate::Deleted,
    &Recreate::Two,
    &Recreate::OutOfTime,
    &Recreate::Forced,
];

/// The result of a scenario, for any injected fault.
struct Expected {
    /// Restarts of the app container and of its neighbor.
    restarts: [u64; 2],
    /// The requests in the end, with their messages.
    requests: &'static [(&'static str, &'static str)],
}

impl Scenario for Recreate {
    fn name(&self) -> &'static str {
        match self {
            Recreate::One => "recreate_one",
            Recreate::Ordered => "recreate_ordered",
            Recreate::Unready => "recreate_unready",
            Recreate::Deleted => "recreate_deleted",
            Recreate::Two => "recreate_two",
            Recreate::OutOfTime => "recreate_out_of_time",
            Recreate::Forced => "recreate_forced",
        }
    }

    fn worlds(&self) -> &'static [WorldKind] {
        &[WorldKind::Simulated]
    }

    fn watched(&self) -> Vec<&'static str> {
        let mut watched = vec!["containerrecreaterequests", "pods"];
        watched.extend((self.expected().restarts != [0, 0]).then_some("nodeimages"));
        watched
    }

    /// A request that is created while the controller is away is filled in later.
    fn merged(&self) -> &'static [&'static str] {
        &[
            "containerrecreaterequests/status",
            "containerrecreaterequests",
            "nodeimages",
        ]
    }

    fn run<'a>(&self, attempt: Attempt<'a>) -> LocalBoxFuture<'a, Result<Outcome>> {
        crate::run::run::<RecreateRun<'_>>(*self, attempt).boxed_local()
    }
}

impl Recreate {
    fn expected(self) -> Expected {
        let one = Expected {
            restarts: [1, 0],
            requests: &[(ONCE, "")],
        };
        match self {
            Recreate::One | Recreate::Unready | Recreate::Forced => one,
            Recreate::Ordered => Expected {
                restarts: [1, 1],
                ..one
            },
            Recreate::Two => Expected {
                restarts: [1, 1],
                requests: &[(LATER, ""), (ONCE, "")],
            },
            Recreate::Deleted => Expected {
                restarts: [0, 0],
                requests: &[],
            },
            Recreate::OutOfTime => Expected {
                restarts: [0, 0],
                requests: &[(ONCE, "recreating has exceeded the activeDeadlineSeconds")],
            },
        }
    }

    /// A request that restarts these containers with these settings.
    fn request(name: &str, containers: &[&str], fields: Value) -> Value {
        let containers: Vec<_> = containers
            .iter()
            .map(|name| json!({"name": name}))
            .collect();
        let mut spec = fields;
        (spec["podName"], spec["containers"]) = (json!(POD), json!(containers));
        json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest", "metadata": {"name": name}, "spec": spec,
        })
    }

    /// Carries out the action.
    async fn act(self, run: &RecreateRun<'_>) -> Result<()> {
        let (client, namespace) = (&run.world.client, &*run.namespace);
        let strategy = |fields: Value| json!({"strategy": fields});
        let unready = |seconds: i64| strategy(json!({"unreadyGracePeriodSeconds": seconds}));
        match self {
            Recreate::One => run.create(&Self::request(ONCE, &[APP], json!({}))).await,
            Recreate::Ordered => {
                run.create(&Self::request(
                    ONCE,
                    &[APP, SIDE],
                    strategy(json!({"orderedRecreate": true})),
                ))
                .await
            }
            Recreate::Unready => run.create(&Self::request(ONCE, &[APP], unready(0))).await,
            Recreate::Deleted => {
                run.create(&Self::request(ONCE, &[APP], unready(LONG)))
                    .await?;
                let is_out = |request: &Value| {
                    let mut conditions = request["status"]["conditions"]
                        .as_array()
                        .into_iter()
                        .flatten();
                    conditions.any(|condition| condition["type"] == PRE_RECREATE_GRACE)
                };
                let of = kind::CONTAINER_RECREATE_REQUEST;
                objects::until(client, namespace, of, ONCE, PATIENCE, is_out).await?;
                objects::delete(client, namespace, of, ONCE, &DeleteParams::background()).await?;
                objects::until_gone(client, namespace, of, ONCE, PATIENCE).await
            }
            Recreate::Two => {
                run.create(&Self::request(ONCE, &[APP], json!({}))).await?;
                run.create(&Self::request(LATER, &[SIDE], json!({}))).await
            }
            Recreate::OutOfTime => {
                let mut fields = unready(LONG);
                fields["activeDeadlineSeconds"] = json!(3);
                run.create(&Self::request(ONCE, &[APP], fields)).await
            }
            Recreate::Forced => {
                run.create(&Self::request(
                    ONCE,
                    &[APP],
                    strategy(json!({"forceRecreate": true})),
                ))
                .await
            }
        }
    }
}
