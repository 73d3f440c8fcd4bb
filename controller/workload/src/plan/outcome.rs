//! What came of a plan.

use super::Deed;

/// What came of a plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Failed actions in the order in which they failed. Empty: the whole plan was executed.
    pub failures: Vec<Failure>,
}

/// One failed action.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// What was to be done.
    pub deed: Deed,
    /// The object's namespace, empty where it is in none.
    pub namespace: String,
    /// The object's name.
    pub object: String,
    /// The server's message.
    pub message: String,
    /// The HTTP status, 0 where there was no answer.
    pub code: u16,
    /// The same action will fail in the same way until the workload changes (HTTP 400, 403, 422).
    pub permanent: bool,
    /// The object is gone, or not as it was seen (HTTP 404, 409), or its name as a revision is taken: no failure, it is
    /// decided on anew.
    pub outdated: bool,
    /// The name of the object that was to be created is another object's, which was read to know it.
    pub taken: bool,
    /// The pod's node can never do this resize: it has not so much, or its operating system does not resize.
    pub infeasible: bool,
}

impl Failure {
    /// What a budget of pods does not allow now: nothing was tried.
    pub fn of_budget(deed: Deed, (namespace, object): (&str, &str), message: String) -> Self {
        let (namespace, object) = (namespace.to_owned(), object.to_owned());
        Self {
            deed,
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

    /// Whether it is that.
    pub fn is_of_budget(&self) -> bool {
        self.code == 429 && self.permanent
    }
}

impl Outcome {
    /// Whether anything failed that is not just decided on anew.
    pub fn has_failed(&self) -> bool {
        self.failures.iter().any(|failure| !failure.outdated)
    }

    /// The server's message about the first of these deeds that failed, and not because the object had changed.
    pub fn first(&self, is_ours: impl Fn(Deed) -> bool) -> Option<String> {
        let mut told = self
            .failures
            .iter()
            .filter(|failure| !failure.outdated && !failure.is_of_budget());
        told.find(|failure| is_ours(failure.deed))
            .map(|failure| failure.message.clone())
    }
}
