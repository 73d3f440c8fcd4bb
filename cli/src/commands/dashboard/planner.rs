//! Plans, made by the controller's own code.
//!
//! The code of a plan stays on one thread, and the server's tasks may not. They send questions to
//! one maker of plans, which makes one at a time and thereby limits the load on the apiserver.

use std::sync::Arc;
use std::time::Duration;

use berth_controller::plugin::{Explained, ExplainedObject};
use berth_controller::settings::published::Published;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::commands::drain;
use crate::exit::sentence;
use crate::session::Session;

/// The most steps of a stage that are shown.
const STEPS: usize = 50;
/// The most questions that wait.
const QUEUE: usize = 64;
/// The time after which the controller's settings are read again.
const SETTINGS: Duration = Duration::from_secs(60);

/// The object of a plan.
#[derive(Debug)]
pub(super) struct PlanOf {
    /// The kind, plural.
    pub(super) kind: &'static str,
    /// The namespace; empty for cluster-scoped kinds.
    pub(super) namespace: String,
    /// The name.
    pub(super) name: String,
}

/// What the maker of plans makes.
#[derive(Debug)]
enum Wanted {
    /// The plan of an object.
    Plan(PlanOf),
    /// The result of a drain of a node.
    Drain(String),
}

type Question = (Wanted, oneshot::Sender<Result<Value, String>>);

/// The way to the maker of plans.
#[derive(Debug, Clone)]
pub(super) struct Planner(mpsc::Sender<Question>);

/// The maker of plans.
pub(super) struct Plans {
    session: Arc<Session>,
    questions: mpsc::Receiver<Question>,
    settings: Option<(Published, Instant)>,
}

/// A maker of plans, and the way to it.
pub(super) fn new(session: Arc<Session>) -> (Planner, Plans) {
    let (sender, questions) = mpsc::channel(QUEUE);
    let plans = Plans {
        session,
        questions,
        settings: None,
    };
    (Planner(sender), plans)
}

impl Planner {
    /// The plan of an object.
    ///
    /// # Errors
    /// The cause, as a sentence.
    pub(super) async fn plan(&self, of: PlanOf) -> Result<Value, String> {
        self.make(Wanted::Plan(of)).await
    }

    /// The result of a drain of a node, as `kubectl berth drain` decides it.
    ///
    /// # Errors
    /// As [`Self::plan`].
    pub(super) async fn drain(&self, node: &str) -> Result<Value, String> {
        self.make(Wanted::Drain(node.to_owned())).await
    }

    async fn make(&self, of: Wanted) -> Result<Value, String> {
        let (sender, answer) = oneshot::channel();
        let ended = |_| "the dashboard ends".to_owned();
        self.0.send((of, sender)).await.map_err(|_| ended(()))?;
        answer.await.map_err(|_| ended(()))?
    }
}

impl Plans {
    /// Makes plans as long as there are questions.
    pub(super) async fn make(mut self) {
        while let Some((of, answer)) = self.questions.recv().await {
            // A reader that left needs no plan.
            if answer.is_closed() {
                continue;
            }
            let made = match &of {
                Wanted::Plan(of) => self.one(of).await,
                Wanted::Drain(node) => self.drain(node).await,
            };
            let _ = answer.send(made.map_err(|error| sentence(&error)));
        }
    }

    async fn drain(&self, node: &str) -> anyhow::Result<Value> {
        let drain = drain::answer(&self.session, node);
        self.session.within(drain).await?
    }

    async fn one(&mut self, of: &PlanOf) -> anyhow::Result<Value> {
        let settings = match self.settings.take() {
            Some((settings, read)) if read.elapsed() < SETTINGS => (settings, read),
            _ => {
                let settings = self.session.within(self.session.settings()).await?.0;
                (settings, Instant::now())
            }
        };
        let object = ExplainedObject {
            kind: of.kind,
            namespace: &of.namespace,
            name: &of.name,
            node: None,
        };
        let explained = self.session.explain(&settings.0, object).await;
        self.settings = Some(settings);
        Ok(data(&explained?))
    }
}

/// A plan as the page shows it: without the objects that it writes.
fn data(explained: &Explained) -> Value {
    let stages = explained
        .plan
        .stages
        .iter()
        .filter(|stage| !stage.steps.is_empty());
    let stages = stages.map(|stage| {
        let steps = stage.steps.iter().take(STEPS).map(|step| {
            let writes = step.actions.iter().map(|action| action.write().to_string());
            json!({"reason": step.reason, "writes": writes.collect::<Vec<_>>()})
        });
        let steps: Vec<_> = steps.collect();
        json!({"name": stage.name, "count": stage.steps.len(), "steps": steps})
    });
    json!({
        "blocked": explained.blocked,
        "now": stages.collect::<Vec<_>>(),
        "waiting": explained.plan.waiting,
        "unread": explained.unread,
    })
}
