//! The reviews by subject, and the turns in which the webhook calls the apiserver and the budgets
//! about them.

pub(crate) mod admission;
pub(crate) mod conversion;
pub(super) mod disrupt;
pub(super) mod evict;
mod gate;
mod guard;
pub(crate) mod inject;
pub(crate) mod pin;
pub(super) mod pod_review;
mod recreate;
pub(super) mod refusal;
pub(super) mod review_kinds;

use tokio::time::Instant;

use super::judge::Judge;
use super::turns::Turns;
use crate::pods::NotYet;
use crate::pods::missing::Missing;
use crate::server::reviews::refusal::{Refusal, no_review, unanswered};
use crate::server::reviews::review_kinds::Handler;
use admission::Look;
use pod_review::Unanswered;

/// Limits of concurrent calls to the apiserver and the budgets.
pub(super) struct Asking {
    /// Calls to the apiserver about templates, in the controller's name.
    templates: Turns,
    /// Calls to the apiserver about namespaces. They have turns of their own, so that a pod does
    /// not wait for templates.
    namespaces: Turns,
    /// Calls to the apiserver about the pods of requests.
    requests: Turns,
    /// Calls to the apiserver about the pods of evictions. They have turns of their own, so that a
    /// flood of requests delays no drain.
    evictions: Turns,
    /// Calls to budgets. Each call is several reads and a write.
    budgets: Turns,
    /// Calls to the apiserver about the contents of namespaces and kinds. These are lists, so only
    /// a few of them are held in memory.
    deletions: Turns,
    /// Pods that reviews named and that do not exist.
    missing: Missing,
}

impl Default for Asking {
    fn default() -> Self {
        Self {
            templates: Turns::new(8),
            namespaces: Turns::new(8),
            requests: Turns::new(8),
            evictions: Turns::new(8),
            budgets: Turns::new(32),
            deletions: Turns::new(2),
            missing: Missing::default(),
        }
    }
}

/// A question that only the apiserver can answer.
pub(super) enum Question {
    Template(admission::Question),
    Namespace(inject::Question),
    Pod(recreate::Question),
    Eviction(evict::Question),
    Budgets(disrupt::Question),
    Deletion(guard::Question),
}

impl Question {
    /// The namespace whose turn it takes.
    pub(super) fn namespace(&self) -> &str {
        match self {
            Self::Template(question) => question.namespace(),
            Self::Namespace(question) => question.namespace(),
            Self::Pod(question) => question.namespace(),
            Self::Eviction(question) => question.namespace(),
            Self::Budgets(question) => question.namespace(),
            Self::Deletion(question) => question.namespace(),
        }
    }

    /// The answer to a review whose caller waits since then.
    pub(super) async fn answer(
        self,
        namespace: &str,
        (judge, asking): (&Judge, &Asking),
        began: Instant,
    ) -> Result<Vec<u8>, Refusal> {
        match self {
            Self::Template(question) => {
                let answered = match asking.templates.take(namespace).await {
                    Some(_asking) => question.answer(judge).await,
                    // Without an answer nothing is refused: the controller checks the object again.
                    None => question.overloaded(),
                };
                answered.map_err(|error| no_review(&error))
            }
            Self::Pod(question) => {
                let answered = match asking.requests.take(namespace).await {
                    Some(_asking) => question.answer(judge, &asking.missing).await,
                    None => question.overloaded(),
                };
                answered.map_err(|error| no_review(&error))
            }
            Self::Budgets(question) => {
                let turn = asking.budgets.take(namespace);
                let turn = tokio::time::timeout_at(began + disrupt::PATIENCE, turn).await;
                let answered = match turn.ok().flatten() {
                    Some(_asking) => question.answer(judge, began).await,
                    None => question.overloaded(judge),
                };
                answered.map_err(unanswered)
            }
            Self::Namespace(question) => asking.namespace(question, namespace, judge).await,
            Self::Eviction(question) => asking.pod_of(question, namespace, judge).await,
            Self::Deletion(question) => asking.contents_of(question, namespace, judge).await,
        }
    }
}

impl Asking {
    async fn namespace(
        &self,
        question: inject::Question,
        namespace: &str,
        judge: &Judge,
    ) -> Result<Vec<u8>, Refusal> {
        let answered = async {
            let turn = self.namespaces.take(namespace).await;
            let _asking = turn.ok_or_else(inject::Question::overloaded)?;
            question.answer(judge).await
        };
        let answered = tokio::time::timeout(inject::PATIENCE, answered).await;
        answered
            .unwrap_or_else(|_| Err(inject::Question::overloaded()))
            .map_err(unanswered)
    }

    async fn pod_of(
        &self,
        question: evict::Question,
        namespace: &str,
        judge: &Judge,
    ) -> Result<Vec<u8>, Refusal> {
        let uid = async {
            let turn = self.evictions.take(namespace).await;
            let _asking = turn.ok_or(NotYet("pods of so many evictions"))?;
            question.pods_uid(&judge.client, &self.missing).await
        };
        let uid = tokio::time::timeout(recreate::PATIENCE, uid).await;
        let uid = uid.unwrap_or(Err(NotYet("pods in time")));
        question.answer(uid, judge).map_err(unanswered)
    }

    async fn contents_of(
        &self,
        question: guard::Question,
        namespace: &str,
        judge: &Judge,
    ) -> Result<Vec<u8>, Refusal> {
        let counted = async {
            let turn = self.deletions.take(namespace).await;
            let _asking = turn.ok_or(guard::Unlisted::Busy)?;
            question.count(&judge.client).await
        };
        let counted = tokio::time::timeout(guard::PATIENCE, counted).await;
        let counted = counted.unwrap_or(Err(guard::Unlisted::Late));
        question
            .answer(counted, judge)
            .map_err(|error| no_review(&error))
    }
}

/// Does the part that needs no waiting.
pub(super) fn look(
    handler: Handler,
    bytes: &[u8],
    judge: &Judge,
) -> Result<Look<Question>, Refusal> {
    let answer = match (handler, &judge.records, &judge.injector) {
        (Handler::Validate(asker), ..) => {
            let look = admission::look(bytes, judge, asker).map_err(|error| no_review(&error))?;
            return Ok(look.map(Question::Template));
        }
        (Handler::Recreate, ..) => {
            return Ok(recreate::look(bytes, judge)
                .map_err(|error| no_review(&error))?
                .map(Question::Pod));
        }
        (Handler::Disrupt, ..) => {
            return Ok(disrupt::look(bytes)
                .map_err(|error| no_review(&error))?
                .map(Question::Budgets));
        }
        (Handler::Guard, ..) => {
            return Ok(guard::look(bytes)
                .map_err(|error| no_review(&error))?
                .map(Question::Deletion));
        }
        (Handler::Evict, ..) => {
            return Ok(evict::look(bytes)
                .map_err(|error| no_review(&error))?
                .map(Question::Eviction));
        }
        (Handler::Inject, _, Some(injector)) => {
            return Ok(inject::look(bytes, &**injector)
                .map_err(unanswered)?
                .map(Question::Namespace));
        }
        (Handler::Pin, Some(records), _) => pin::review(bytes, &**records),
        (Handler::Gate, ..) => {
            gate::review(bytes, judge.injector.as_deref()).map_err(Unanswered::NoReview)
        }
        (Handler::Convert | Handler::Pin | Handler::Inject, ..) => {
            conversion::review(bytes).map_err(Unanswered::NoReview)
        }
    };
    answer.map(Look::Answer).map_err(unanswered)
}

/// Whether a body is read as the review of a pod that is taken out of service.
pub fn reads_disruption(body: &[u8]) -> bool {
    disrupt::look(body).is_ok()
}

/// Whether a body is read as the review of an eviction.
pub fn reads_eviction(body: &[u8]) -> bool {
    evict::look(body).is_ok()
}
