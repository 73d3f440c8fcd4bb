//! For which pods the apiserver calls the webhook: its entries.

use std::time::Duration;

use berth_api::names::condition::ENFORCED;
use berth_api::v1beta1::podunavailablebudget::ProtectedOperation;

use berth_webhook::NO_TOKEN;
use berth_webhook::pods::{Asks, DISRUPTIONS, Disruptions};
use berth_workload::budget::webhook_calls::WebhookCalls;
use berth_workload::feature_gates::Gate;
use berth_workload::objects::condition::is_true;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use tokio::time::Instant;

use crate::admission::webhook_rules::WebhookRule;
use crate::budgets::PodBudgets;
use crate::budgets::budget::Budget;

/// How long apiservers take until they use an entry that was written.
const KNOWN: Duration = Duration::from_secs(2);
/// How long until a budget is checked again whose namespace does not fit into the webhook's
/// configuration.
const NO_PLACE: Duration = Duration::from_secs(60);

impl PodBudgets {
    /// Whether the apiserver is to call the webhook at all.
    pub(in crate::budgets) fn is_called(&self) -> bool {
        self.settings.gates.has(Gate::PodWebhook)
            && ProtectedOperation::ALL
                .into_iter()
                .any(|operation| self.asks_for(operation))
    }

    /// Whether the apiserver calls the webhook for pods of a budget, and when to check again. If
    /// these conditions say that it does, that stays true: a new leader knows neither the earlier
    /// entries nor their age.
    pub(crate) fn webhook_calls(
        &self,
        budget: &Budget,
        conditions: &[Condition],
    ) -> (WebhookCalls, Option<Duration>) {
        let namespace = budget.metadata().namespace.as_deref().unwrap_or_default();
        if self.settings.protected.contains(namespace) {
            let why = format!(
                "pods of namespace {namespace} may always go, because the chart's value controller.protectedNamespaces has the \
                 namespace, or the controller runs there: take the namespace out of the value, or delete this budget"
            );
            return (WebhookCalls::Never(why), None);
        }
        // If the rules cannot be read, the operations are not known, and requests are refused
        // altogether.
        let calls = match &self.holds(budget).rules {
            Ok(rules) => WebhookCalls::of(rules.operations(), self.settings.gates),
            Err(_) => WebhookCalls::of(&[], self.settings.gates),
        };
        if !matches!(calls, WebhookCalls::Never(_)) && self.rules.asks.lacks_token() {
            return (WebhookCalls::Unanswered(NO_TOKEN.to_owned()), None);
        }
        let was_enforced = is_true(conditions, ENFORCED);
        if matches!(calls, WebhookCalls::Never(_))
            || (was_enforced && !self.rules.asks.has_written(|_| true))
        {
            return (calls, None);
        }
        let stands = self
            .rules
            .asks
            .has_written(|asks| asks.disruptions.namespaces.contains(namespace));
        let mut written = self.rules.written.lock();
        if !stands {
            written.remove(namespace);
            if self.rules.asks.wants(|asks| {
                asks.disruptions.is_full && !asks.disruptions.namespaces.contains(namespace)
            }) {
                let why = format!(
                    "namespace {namespace}: the webhook configuration {DISRUPTIONS} is full with the names of namespaces \
                     that have older budgets: delete all budgets of a namespace that needs none"
                );
                return (WebhookCalls::Never(why), Some(NO_PLACE));
            }
            let why = "the webhook's entry for this namespace is not written yet".to_owned();
            return (WebhookCalls::Never(why), Some(KNOWN));
        }
        let since = written
            .entry(namespace.to_owned())
            .or_insert_with(Instant::now)
            .elapsed();
        match KNOWN
            .checked_sub(since)
            .filter(|left| !left.is_zero() && !was_enforced)
        {
            Some(left) => {
                let why =
                    "the webhook's entry for this namespace was written a moment ago".to_owned();
                (WebhookCalls::Never(why), Some(left))
            }
            None => (calls, None),
        }
    }

    /// The rules for pods of these namespaces. The first namespaces take precedence; the flag says
    /// whether a budget may hold pods that are not ready.
    pub(in crate::budgets) fn disruptions(&self, namespaces: Vec<(String, bool)>) -> Disruptions {
        if namespaces.is_empty() {
            return Disruptions::default();
        }
        let rules = Disruptions {
            fails_open: self.settings.fails_open,
            deletions: self.asks_for(ProtectedOperation::Delete),
            changes_but_by: self
                .asks_for(ProtectedOperation::Update)
                .then(|| self.settings.own_user.clone()),
            exempt: self.settings.exempt.clone(),
            ..Disruptions::default()
        };
        rules.of(namespaces)
    }
}

impl WebhookRule for PodBudgets {
    fn add_to(&self, asks: &mut Asks) -> bool {
        if self.parts.stores.as_ref().is_none() || !self.is_synced() {
            return false;
        }
        asks.disruptions = self.disruptions(self.namespaces_of_budgets());
        true
    }
}
