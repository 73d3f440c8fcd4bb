//! The plan of the controller for a workload, read for its tree.

use std::collections::BTreeSet;

use berth_controller::plugin::{Explained, ExplainedObject};
use berth_controller::settings::published::Published;

use crate::exit::sentence;
use crate::session::Session;
use crate::text::clean;

/// What plans are made with.
pub struct Planner {
    settings: Published,
    /// What the user should know about the settings.
    pub note: Option<String>,
}

impl Planner {
    /// Reads the settings of the controller.
    pub async fn new(session: &Session) -> Self {
        let (settings, note) = session.settings().await;
        Self {
            settings,
            note: note.map(|note| clean(&note)),
        }
    }

    /// The plan for an object.
    ///
    /// # Errors
    /// The user may not read what the plan needs, or the apiserver did not answer within
    /// `--request-timeout`.
    pub async fn explain(
        &self,
        session: &Session,
        plural: &str,
        name: &str,
    ) -> anyhow::Result<Explained> {
        let object = ExplainedObject {
            kind: plural,
            namespace: &session.namespace,
            name,
            node: None,
        };
        session.explain(&self.settings, object).await
    }
}

/// The plan, or a sentence why there is none.
pub fn split(plan: anyhow::Result<Explained>) -> (Option<Explained>, Option<String>) {
    match plan {
        Ok(plan) => (Some(plan), None),
        Err(error) => {
            let note = format!("why pods wait: {}", sentence(&error));
            (None, Some(note))
        }
    }
}

/// What the plan says about a pod, in lines.
pub fn why(plan: Option<&Explained>, pod: &str) -> Vec<String> {
    let Some(plan) = plan else {
        return vec![format!("{pod}: there is no plan")];
    };
    let mut lines = Vec::new();
    for stage in &plan.plan.stages {
        let is_its = |(kind, namespace, name): (&str, String, String)| {
            kind == "Pod" && (name == pod || format!("{namespace}/{name}") == pod)
        };
        for step in &stage.steps {
            let mut objects = step
                .objects()
                .map(|(kind, namespace, name)| (kind, namespace.to_string(), name.to_string()));
            if objects.any(is_its) {
                lines.push(format!("now: {}: {}", stage.name, step.reason));
            }
        }
    }
    let waiting = plan.plan.waiting.iter().filter(|one| one.pod == pod);
    lines.extend(waiting.map(|one| one.reason.clone()));
    if lines.is_empty() {
        lines.push("nothing is planned; `kubectl berth why pod` also names its budgets".to_owned());
    }
    let mut seen = BTreeSet::new();
    lines.retain(|line| seen.insert(line.clone()));
    lines
        .iter()
        .map(|line| clean(&format!("{pod}: {line}")))
        .collect()
}
