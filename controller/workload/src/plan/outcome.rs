//! The result of a plan.

use super::Write;

/// The result of a plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Failed actions in the order of their failures. Empty if the whole plan was executed.
    pub failures: Vec<Failure>,
}

/// One failed action.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The operation.
    pub write: Write,
    /// The object's namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// The object's name.
    pub object: String,
    /// The server's message.
    pub message: String,
    /// The HTTP status, 0 without an answer.
    pub code: u16,
    /// Whether the same action fails again until the workload changes (HTTP 400, 403, 422).
    pub permanent: bool,
    /// Whether the object is gone or has changed (HTTP 404, 409), or its name as a revision is
    /// taken. That is no failure, because the controller decides again.
    pub outdated: bool,
    /// Whether the name of the object to create belongs to another object, which was read to know
    /// this.
    pub taken: bool,
    /// Whether the pod's node can never do this resize: it has too few resources, or its operating
    /// system cannot resize.
    pub infeasible: bool,
}

impl Failure {
    /// The refusal of a pod budget: nothing was written.
    pub fn of_budget(write: Write, (namespace, object): (&str, &str), message: String) -> Self {
        let (namespace, object) = (namespace.to_owned(), object.to_owned());
        Self {
            write,
            namespace,
            object,
            message,
            code: 429,
            permanent: true,
            outdated: false,
            taken: false,
            infeasible: false,
        }
    }

    /// Whether a pod budget refused the action.
    pub fn is_of_budget(&self) -> bool {
        self.code == 429 && self.permanent
    }
}

impl Outcome {
    /// Whether an action failed that is not just decided again.
    pub fn has_failed(&self) -> bool {
        self.failures.iter().any(|failure| !failure.outdated)
    }

    /// The server's message about the first failed action among these, without failures because of
    /// a changed object.
    pub fn first(&self, is_ours: impl Fn(Write) -> bool) -> Option<String> {
        let mut failures = self
            .failures
            .iter()
            .filter(|failure| !failure.outdated && !failure.is_of_budget());
        failures
            .find(|failure| is_ours(failure.write))
            .map(|failure| failure.message.clone())
    }
}
