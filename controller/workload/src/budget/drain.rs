//! Predicts what a drain of a node would get now. A drain evicts one pod after the other, and each
//! pod reserves from what the pods before it have left. Nothing is written.

use berth_api::names::annotation::{MIRROR_POD, PUB_NO_PROTECT};
use berth_api::v1beta1::podunavailablebudget::ProtectedOperation;
use jiff::Timestamp;

use super::federation::{Brings, Shared, Silence};
use super::judge::{Account, Decision, kept};
use super::ledger::Request;
use super::webhook_calls::WebhookCalls;
use crate::budget::native::{self, NativeBudget};
use crate::objects::pod::Pod;

/// The holder of the predicted reservations, as refusals name it.
const HOLDER: &str = "this drain";
/// Most nodes that a message names.
const NAMED: usize = 10;

/// The budgets of a namespace: first as the explanation has read them, then with the predicted
/// reservations.
#[derive(Debug, Clone)]
pub struct Drain<'a> {
    /// Berth's budgets, in the order of reservations.
    pub budgets: Vec<Budget<'a>>,
    /// Kubernetes' own budgets.
    pub natives: Vec<NativeBudget>,
    /// The index in `budgets` of the budget that the result reports on.
    pub reported: usize,
}

/// A budget of one of Berth's kinds.
#[derive(Debug, Clone)]
pub struct Budget<'a> {
    /// The account that pods reserve from.
    pub account: Account<'a>,
    /// How many pods workloads want now, if they say it. A refusal is decided again with this
    /// number.
    pub total: Option<usize>,
    /// The budgets that it names.
    pub others: Vec<Other>,
    /// Whether the apiserver calls the webhook before pods of this budget leave.
    pub webhook_calls: WebhookCalls,
}

/// A budget that another one names.
#[derive(Debug, Clone)]
pub struct Other {
    /// Its contribution, as it was read.
    pub brings: Result<Brings, Silence>,
    /// How many of its pods another budget already contributes.
    pub shared: Shared,
    /// Its place in this drain, if its pods may leave in the same drain.
    pub place: Option<Place>,
}

/// The place of a budget that pods reserve from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// An index in [`Drain::budgets`].
    Ours(usize),
    /// An index in [`Drain::natives`].
    Native(usize),
}

/// A pod on the node.
#[derive(Debug)]
pub struct Resident<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// Whether it serves, as budgets count.
    pub is_available: bool,
    /// The indexes of Berth's budgets that hold the pod, in their order.
    pub holding: Vec<usize>,
}

/// The predicted result of a drain for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvictionDecision {
    /// A drain does not evict the pod, for this reason.
    Skipped(&'static str),
    /// The eviction is allowed and uses one of the allowed disruptions.
    Allowed {
        /// How many more disruptions are allowed afterwards.
        left: i32,
    },
    /// The eviction is allowed and uses no allowed disruption, for this reason.
    AllowedFree(String),
    /// The eviction is refused, for this reason.
    Refused(String),
    /// The eviction is refused only because the budget allows no more pods out of service.
    UsedUp {
        /// The index of the budget that refuses.
        budget: usize,
        /// The message of this budget.
        message: String,
    },
}

impl EvictionDecision {
    /// Whether the eviction is refused.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::UsedUp { .. })
    }

    /// The result as a message.
    pub fn words(&self) -> String {
        match self {
            Self::Skipped(why) => format!("would be left where it is: {why}"),
            Self::Allowed { left } if *left > 0 => format!("would go, and {left} more may then"),
            Self::Allowed { .. } => "would go, and no more may then".to_owned(),
            Self::AllowedFree(why) => format!("would go, and take nothing: {why}"),
            Self::Refused(message) | Self::UsedUp { message, .. } => {
                format!("would be refused: {message}")
            }
        }
    }
}

impl Drain<'_> {
    /// The result for each pod of a node, in one round and in the order of `pods`.
    pub fn round(mut self, pods: &[Resident<'_>], now: Timestamp) -> Vec<EvictionDecision> {
        pods.iter().map(|one| self.evict(one, now)).collect()
    }

    fn evict(&mut self, one: &Resident<'_>, now: Timestamp) -> EvictionDecision {
        if let Some(decision) = unreviewed(one.pod) {
            return decision;
        }
        let before: Vec<_> = one
            .holding
            .iter()
            .map(|at| (*at, self.budgets[*at].account.status.clone()))
            .collect();
        let reserved = self.reserve(one, now);
        let decision = match native::refused(one.pod, &self.natives) {
            // A native budget that Berth keeps repeats the refusal of Berth's budget, now or in a
            // moment. The message of Berth's budget has more details.
            Some(refused) if !refused.is_ours || !reserved.is_refusal() => {
                EvictionDecision::Refused(refused.message)
            }
            _ => reserved,
        };
        if decision.is_refusal() {
            for (at, status) in before {
                self.budgets[at].account.status = status;
            }
        } else if native::review_evictions(one.pod) {
            let holding = self
                .natives
                .iter_mut()
                .filter(|native| native.selects(&one.pod.metadata));
            holding.for_each(|native| native.take(one.pod));
        }
        decision
    }

    /// Reserves from all of Berth's budgets that hold the pod. If one of them refuses, the caller
    /// releases the other reservations.
    fn reserve(&mut self, one: &Resident<'_>, now: Timestamp) -> EvictionDecision {
        let is_called =
            |at: &usize| !matches!(self.budgets[*at].webhook_calls, WebhookCalls::Never(_));
        let reviewing: Vec<usize> = one.holding.iter().copied().filter(is_called).collect();
        let counts_others = reviewing
            .iter()
            .any(|at| self.budgets[*at].account.floor.is_some());
        if let Some(why) = kept(&one.pod.metadata, reviewing.len(), counts_others) {
            return EvictionDecision::Refused(why);
        }
        let before = self.budgets[self.reported].account.status.current_available;
        let mut reserved = Vec::new();
        for at in reviewing {
            let request = self.request(at, one);
            match self.ask(at, &request, now) {
                Decision::Free => {}
                Decision::Reserved | Decision::Passed(_) => reserved.push((at, request)),
                Decision::Refused(message) => return EvictionDecision::Refused(message),
                Decision::UsedUp(message) => {
                    return EvictionDecision::UsedUp {
                        budget: at,
                        message,
                    };
                }
            }
        }
        for (at, request) in &reserved {
            if let Some(message) = self.budgets[*at]
                .account
                .confirm(request, &self.others(*at))
            {
                return EvictionDecision::Refused(message);
            }
        }
        let status = &self.budgets[self.reported].account.status;
        match reserved.iter().find(|(at, _)| *at == self.reported) {
            Some(_) if status.current_available < before => EvictionDecision::Allowed {
                left: status.unavailable_allowed,
            },
            Some((_, request)) if request.is_available => {
                EvictionDecision::AllowedFree("it was allowed to go already".to_owned())
            }
            Some(_) => EvictionDecision::AllowedFree("it is not available".to_owned()),
            None => EvictionDecision::AllowedFree(self.unheld(one)),
        }
    }

    /// The decision of one budget. If it refuses by its written numbers, it decides again by the
    /// number of pods that workloads want now.
    fn ask(&mut self, at: usize, request: &Request, now: Timestamp) -> Decision {
        let (others, requests) = (self.others(at), [(request.clone(), false)]);
        let Budget { account, total, .. } = &mut self.budgets[at];
        let mut judge = |total| {
            account
                .judge(&requests, (total, &others), now)
                .decisions
                .remove(0)
        };
        let decision = judge(None);
        if decision.is_refusal() && total.is_some() {
            judge(*total)
        } else {
            decision
        }
    }

    fn request(&self, at: usize, one: &Resident<'_>) -> Request {
        let rules = self.budgets[at].account.rules;
        let is_healthy = rules
            .as_ref()
            .is_ok_and(|rules| rules.finds_healthy(one.pod));
        Request {
            pod: one.pod.metadata.name.to_string(),
            uid: one.pod.metadata.uid.to_string(),
            operation: ProtectedOperation::Evict,
            holder: HOLDER.to_owned(),
            is_available: one.is_available && is_healthy,
            generation: None,
            container_ids: Vec::new(),
            resizes: false,
            grant: None,
            is_again: false,
            is_repair: false,
            passes: false,
        }
    }

    /// The contributions of the budgets that a budget names, less the predicted reservations.
    fn others(&self, at: usize) -> Vec<Result<Brings, Silence>> {
        self.budgets[at]
            .others
            .iter()
            .map(|other| self.brings(other))
            .collect()
    }

    fn brings(&self, other: &Other) -> Result<Brings, Silence> {
        let as_read = other.brings.clone()?;
        let now = match other.place {
            Some(Place::Ours(at)) => Brings::of_account(&self.budgets[at].account.status),
            Some(Place::Native(at)) => Brings::of_native(&self.natives[at])?,
            None => return Ok(as_read),
        };
        Ok(now.without(other.shared).at_most(as_read))
    }

    /// Why the reported budget does not decide on a pod.
    fn unheld(&self, one: &Resident<'_>) -> String {
        let Budget {
            account,
            webhook_calls,
            ..
        } = &self.budgets[self.reported];
        if !one.holding.contains(&self.reported) {
            let is_free = one.pod.metadata.annotation(PUB_NO_PROTECT) == Some("true");
            let why = if is_free {
                "annotation pub.kruise.io/no-protect is true"
            } else {
                "spec.ignoredPodSelector selects it"
            };
            return why.to_owned();
        }
        match (webhook_calls, account.rules) {
            (WebhookCalls::Never(why), _) => why.clone(),
            (_, Ok(rules)) if !rules.protects_from(ProtectedOperation::Evict) => {
                "spec.protectOperations does not name EVICT".to_owned()
            }
            _ => "no pod must stay".to_owned(),
        }
    }
}

/// The result for a pod whose eviction no budget reviews.
fn unreviewed(pod: &Pod) -> Option<EvictionDecision> {
    let is_of_daemon_set = pod
        .metadata
        .controller()
        .is_some_and(|owner| &*owner.kind == "DaemonSet" && owner.api_version.starts_with("apps/"));
    if pod.metadata.annotation(MIRROR_POD).is_some() {
        Some(EvictionDecision::Skipped("it is a mirror pod"))
    } else if pod.metadata.deletion_timestamp.is_some() {
        Some(EvictionDecision::AllowedFree(
            "it is on its way out".to_owned(),
        ))
    } else if !pod.is_active() {
        Some(EvictionDecision::AllowedFree("it has ended".to_owned()))
    } else if is_of_daemon_set {
        Some(EvictionDecision::Skipped("it is of a DaemonSet"))
    } else {
        None
    }
}

/// The pods that one round of a drain would leave on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remainder {
    /// The node.
    pub node: String,
    /// How many pods of the budget are on the node.
    pub pods: usize,
    /// How many of their evictions would be refused.
    pub refused: usize,
}

/// A message on which nodes could be drained at once, each alone, and which could not.
pub fn drainable(nodes: &[Remainder]) -> Vec<String> {
    let (held, free): (Vec<_>, Vec<_>) = nodes.iter().partition(|one| one.refused > 0);
    let free = free.iter().map(|one| one.node.clone()).collect();
    let held = held
        .iter()
        .map(|one| format!("{} ({} of {})", one.node, one.refused, one.pods))
        .collect();
    let lines: [(&str, Vec<String>); 2] = [
        (
            "one of these nodes could be drained at once now, as far as its pods go",
            free,
        ),
        (
            "of these, a drain would have to wait for some of its pods",
            held,
        ),
    ];
    let lines = lines.into_iter().filter(|(_, nodes)| !nodes.is_empty());
    lines
        .map(|(what, nodes)| format!("{what}: {}", named(nodes)))
        .collect()
}

fn named(mut nodes: Vec<String>) -> String {
    let more = nodes.len().saturating_sub(NAMED);
    nodes.truncate(NAMED);
    if more > 0 {
        nodes.push(format!("{more} more"));
    }
    nodes.join(", ")
}
