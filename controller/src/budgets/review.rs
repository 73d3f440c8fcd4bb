//! The answer to a review: whether a pod may go or change, by all budgets that hold it.

pub(in crate::budgets) mod disruption;
pub(crate) mod refusals;
mod request;
mod webhook_rules;

use std::sync::Arc;

use berth_api::names::annotation::MIRROR_POD;
use berth_api::v1beta1::podunavailablebudget::ProtectedOperation;

use berth_webhook::pods::{Budgets, Change, Disruption, NotYet};
use berth_workload::budget::disruption::{is_disruption_target, is_exempt, is_own_controller};
use berth_workload::budget::native::RefusedNatively;
use berth_workload::objects::pod::Pod;
use futures::FutureExt;
use futures::future::{BoxFuture, try_join};

use crate::budgets::budget::{Budget, Holds};
use crate::budgets::catalog::holding::{Holding, Uncached};
use crate::budgets::review::disruption::{operation, replaced, shown_uid};
use crate::budgets::{BudgetStores, PodBudgets, UNREAD};
use berth_runtime::events::Owner;
use berth_workload::budget::ledger::Request;
use berth_workload::objects::resource::PODS;
use berth_workload::plan::Event;

/// The most budgets that a warning names.
const NAMED: usize = 3;
/// The refusal of an eviction without a uid. The webhook that runs before this one should have set
/// it.
const UNBOUND: &str =
    "the eviction is bound to no uid of a pod, for no replica answered in time: try again";

impl PodBudgets {
    pub(in crate::budgets) async fn review(
        &self,
        disruption: Disruption,
    ) -> Result<Option<String>, NotYet> {
        // The webhook was called by an entry from before a feature gate was turned off. If another
        // replica leads, its feature gates decide.
        if !self.asks_for(operation(&disruption)) && self.rules.asks.are_its_own() {
            return Ok(None);
        }
        let stores = self
            .parts
            .stores
            .as_ref()
            .filter(|_| self.is_synced())
            .ok_or(UNREAD)?;
        if self.is_missing(stores, &disruption) {
            return Ok(None);
        }
        // Both reads run at the same time: the budgets of the namespace, and the pod, whose labels
        // say which of them hold it.
        let (pod, unseen) = try_join(
            self.pod(stores, &disruption),
            self.unseen(&disruption.namespace),
        )
        .await?;
        let pod = match pod {
            None => return Ok(None),
            Some(Ok(pod)) => pod,
            Some(Err(why)) => return Ok(self.refused_unread(&disruption, &unseen, &why)),
        };
        let is_mirror = pod.metadata.annotation(MIRROR_POD).is_some();
        if is_mirror || pod.metadata.deletion_timestamp.is_some() || !pod.is_active() {
            return Ok(None);
        }
        let holding = self.holding_with(&pod.metadata, &unseen);
        let passes = self.passes(&disruption);
        // Any client that learned the path may name such a user in a review. Kubernetes marks the
        // pod before it deletes the pod.
        let is_forged = passes
            && !is_exempt(&disruption.groups, &self.settings.exempt)
            && !is_disruption_target(&pod);
        if holding.is_free() || is_forged {
            return Ok(None);
        }
        let mut request = self
            .request(
                stores,
                &pod,
                operation(&disruption),
                disruption.user.clone(),
            )
            .await?;
        (request.container_ids, request.resizes) = replaced(&pod, &disruption);
        request.passes = passes;
        if is_own_controller(&pod.metadata, &disruption.user, &self.settings.own_user) {
            request = request.by_own_workload(&pod);
        }
        let refusal = self
            .refusal(stores, (&pod, &holding), &request, &disruption)
            .await?;
        let is_counted = !disruption.is_dry_run && shown_uid(&disruption).is_some();
        if let Some(refusal) = refusal.as_ref().filter(|_| is_counted) {
            self.tell(&pod, request.operation, refusal);
            self.parts.refusals.count(&pod, &request.holder);
        }
        Ok(refusal)
    }

    /// The refusal of the budgets that hold a pod, or of the apiserver; `None` if the request may
    /// go.
    async fn refusal(
        &self,
        stores: &BudgetStores,
        (pod, holding): (&Arc<Pod>, &Holding),
        request: &Request,
        disruption: &Disruption,
    ) -> Result<Option<String>, NotYet> {
        let refused = match disruption.change {
            // A grant is for one pod. By the time an eviction without a uid is carried out, another
            // pod may have the name.
            Change::Evict if disruption.uid.is_none() => Some(RefusedNatively {
                message: UNBOUND.to_owned(),
                is_ours: false,
            }),
            // A request that the apiserver would refuse later must not reserve.
            Change::Evict => self.refused_natively(stores, pod).await?,
            _ => None,
        };
        let reserve = async |is_dry_run| {
            let refusal = self.reserve(pod, holding, request, is_dry_run).await?;
            Ok(refusal.map(|refusal| refusal.message))
        };
        match refused {
            // A native budget that we maintain gives the same answer as its budget, now or a moment
            // later; the budget's message has more details.
            Some(refused)
                if refused.is_ours && !request.passes && reserve(true).await?.is_some() =>
            {
                reserve(disruption.is_dry_run).await
            }
            // Nothing is reserved for a request that the apiserver refuses itself, or for an
            // eviction that names no pod.
            Some(_) if request.passes => Ok(None),
            Some(refused) => Ok(Some(refused.message)),
            None => reserve(disruption.is_dry_run).await,
        }
    }

    /// Whether the pod is missing: neither the request nor the store shows a pod of this name, and
    /// the apiserver had none a moment ago.
    fn is_missing(
        &self,
        stores: &BudgetStores,
        Disruption {
            namespace,
            pod,
            object,
            uid,
            ..
        }: &Disruption,
    ) -> bool {
        let is_shown =
            object.is_some() || uid.is_some() || stores.pods.get(namespace, pod).is_some();
        !is_shown && self.catalog.missing.has(namespace, pod)
    }

    /// The refusal for a pod that cannot be read: a budget of its namespace may hold it.
    fn refused_unread(
        &self,
        disruption: &Disruption,
        unseen: &Uncached,
        why: &str,
    ) -> Option<String> {
        let Disruption { namespace, pod, .. } = disruption;
        let may_go = self.fails_open(disruption)
            || (self.in_namespace(namespace).is_empty() && unseen.is_empty());
        (!may_go).then(|| {
            format!(
                "pod {pod} cannot be read, so no budget can say whether it may go: {why}; to let it go, delete the budgets \
                 of namespace {namespace} first"
            )
        })
    }
}

impl PodBudgets {
    /// Publishes an event of a pod that had to stay.
    pub(in crate::budgets) fn tell(&self, pod: &Pod, operation: ProtectedOperation, refusal: &str) {
        let reason = if operation.is_change() {
            "PubPreventPodUpdate"
        } else {
            "PubPreventPodDeletion"
        };
        self.record(pod, reason, refusal.to_owned());
    }

    fn record(&self, pod: &Pod, reason: &'static str, message: String) {
        let Some(recorder) = self.parts.recorder.as_ref() else {
            return;
        };
        let [namespace, name, uid] = [
            &pod.metadata.namespace,
            &pod.metadata.name,
            &pod.metadata.uid,
        ]
        .map(ToString::to_string);
        let event = Event {
            warning: true,
            reason,
            message,
        };
        recorder.record(
            &Owner {
                resource: PODS,
                namespace,
                name,
                uid,
            },
            &event,
        );
    }

    /// Publishes an event of a pod that goes, or changes, although a budget refused.
    pub(in crate::budgets) fn tell_of_passing(&self, pod: &Pod, request: &Request, shortage: &str) {
        let (operation, holder) = (request.operation.name(), &request.holder);
        let message = format!(
            "{operation} by {holder} passes the budget, which would refuse it to others: {shortage}"
        );
        self.record(pod, "PubPassed", message);
    }
}

impl Budgets for PodBudgets {
    fn reserve_for(&self, disruption: Disruption) -> BoxFuture<'_, Result<Option<String>, NotYet>> {
        self.review(disruption).boxed()
    }

    fn beside(&self, resource: &str, object: &str) -> Option<String> {
        let new = Budget::read(resource, object)?;
        let new_holds = Holds::of(&new);
        let selector = new_holds.selector()?;
        let all = self.in_namespace(new.metadata().namespace.as_deref().unwrap_or_default());
        let overlaps = |other: &&Budget| {
            let holds = self.holds(other);
            other.key() != new.key()
                && holds
                    .selector()
                    .is_some_and(|other| !other.excludes(selector))
        };
        let mut names: Vec<_> = all
            .iter()
            .filter(overlaps)
            .map(|other| other.key().words())
            .collect();
        let more = names.len().saturating_sub(NAMED);
        names.truncate(NAMED);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let warning = format!(
            "{}{more} may hold the same pods: each of them must let a pod go",
            names.join(", ")
        );
        (!names.is_empty()).then_some(warning)
    }

    fn known_uid(&self, namespace: &str, pod: &str) -> Option<String> {
        let pod = self.parts.stores.as_ref()?.pods.get(namespace, pod)?;
        Some(pod.metadata.uid.to_string())
    }

    fn fails_open(&self, disruption: &Disruption) -> bool {
        self.settings.fails_open || self.passes(disruption)
    }
}
