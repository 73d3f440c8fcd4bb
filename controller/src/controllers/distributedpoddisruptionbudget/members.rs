//! The members of a budget, and what each of them contributes without the pods that are counted
//! already.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::v1alpha1::DistributedPodDisruptionBudget;
use berth_api::v1alpha1::distributedpoddisruptionbudget::{Member, MemberKind};
use berth_api::v1beta1::PodUnavailableBudget;
use berth_kinds::distributedpoddisruptionbudget::Other;
use berth_runtime::Store;
use berth_runtime::client::Failed;
use berth_runtime::driver::Next;
use berth_runtime::store::pods::BY_NAMESPACE;
use berth_workload::budget::count::View;
use berth_workload::budget::expected::Together;
use berth_workload::budget::federation::{Brings, Origin, Shared, Silence};
use berth_workload::budget::native::NativeBudget;
use berth_workload::budget::sharing::{Brought, Elsewhere, count_once};
use berth_workload::objects::pod::{Metadata, Pod};

use crate::budgets::clusters::Known;
use crate::budgets::clusters::find::{ITSELF, MISSING};
use crate::budgets::{Budget, Holds, PodBudgets};
use crate::stores::watched::Watched;

/// The contribution of each member; and groups of members, by index, that may hold the same pods in
/// other clusters.
type Others = (Vec<Other>, Vec<Vec<usize>>);

/// The budget whose members are read.
pub(super) struct Naming<'a> {
    pub(super) budget: &'a Budget,
    pub(super) namespace: &'a str,
    pub(super) members: &'a [Member],
    pub(super) holds: &'a Holds,
    /// Its own pods.
    pub(super) view: &'a View,
}

/// The stores of this cluster.
pub(super) struct Here<'a> {
    pub(super) budgets: &'a Store<Watched<DistributedPodDisruptionBudget>>,
    pub(super) unavailable: &'a Store<Watched<PodUnavailableBudget>>,
    pub(super) natives: &'a Store<Watched<NativeBudget>>,
    pub(super) pods: &'a Store<Pod>,
}

impl Here<'_> {
    /// A budget of this cluster, with everything that it contributes.
    fn named(&self, budgets: &PodBudgets, member: &Member) -> Option<Named> {
        use MemberKind::{
            DistributedPodDisruptionBudget, PodDisruptionBudget, PodUnavailableBudget,
        };
        let (namespace, name) = (&member.namespace, &member.name);
        let may_be = |kind| member.kind.is_none_or(|wanted| wanted == kind);
        let ours = |budget: Budget| Holding::Ours(budgets.holds(&budget));
        if may_be(DistributedPodDisruptionBudget)
            && let Some(found) = self.budgets.get(namespace, name)
        {
            return Some(Named::of_this_cluster(
                DistributedPodDisruptionBudget,
                Origin::of(&found.0.metadata),
                Brings::of_distributed(&found.0),
                ours(Budget::Distributed(found.0.clone())),
            ));
        }
        if member.kind == Some(PodUnavailableBudget)
            && let Some(found) = self.unavailable.get(namespace, name)
        {
            return Some(Named::of_this_cluster(
                PodUnavailableBudget,
                Origin::of(&found.0.metadata),
                Brings::of_unavailable(&found.0),
                ours(Budget::Unavailable(found.0.clone())),
            ));
        }
        let is_native = may_be(PodDisruptionBudget);
        let found = is_native.then(|| self.natives.get(namespace, name))??;
        Some(Named::of_this_cluster(
            PodDisruptionBudget,
            Origin::of_native(&found.0),
            Brings::of_native(&found.0),
            Holding::Native(found.0.clone()),
        ))
    }
}

/// A member, as the stores have it.
struct Named {
    other: Other,
    /// Its known identity, if it is in another cluster.
    elsewhere: Elsewhere,
    /// Its pods, if it is in this cluster and exists.
    holding: Option<Holding>,
    pods: Vec<Arc<Pod>>,
}

impl Named {
    fn of_this_cluster(
        kind: MemberKind,
        origin: Origin,
        brings: Result<Brings, Silence>,
        holding: Holding,
    ) -> Self {
        let other = Other {
            kind: Some(kind),
            origin,
            brings,
            shared: Shared::default(),
            last_read: None,
        };
        Self {
            other,
            elsewhere: Elsewhere::default(),
            holding: Some(holding),
            pods: Vec::new(),
        }
    }

    fn of_another_cluster(known: Known) -> Self {
        let other = Other {
            kind: known.elsewhere.kind,
            origin: Origin::default(),
            brings: known.brings,
            shared: Shared::default(),
            last_read: known.last_read,
        };
        Self {
            other,
            elsewhere: known.elsewhere,
            holding: None,
            pods: Vec::new(),
        }
    }

    fn silent(why: &str) -> Self {
        let brings = Err(Silence::of(why));
        let other = Other {
            kind: None,
            origin: Origin::default(),
            brings,
            shared: Shared::default(),
            last_read: None,
        };
        Self {
            other,
            elsewhere: Elsewhere::default(),
            holding: None,
            pods: Vec::new(),
        }
    }

    fn expected(&self) -> usize {
        self.other
            .brings
            .as_ref()
            .map_or(0, |brings| brings.expected)
    }
}

/// Which pods a budget of this cluster holds.
enum Holding {
    Ours(Arc<Holds>),
    Native(Arc<NativeBudget>),
}

impl Holding {
    /// Whether a pod is one of the budget's, protected or not.
    fn selects(&self, pod: &Metadata) -> bool {
        match self {
            Self::Ours(holds) => holds.selects(pod),
            Self::Native(native) => native.selects(pod),
        }
    }

    /// Whether the budget counts a pod.
    fn counts(&self, pod: &Metadata) -> bool {
        match self {
            Self::Ours(holds) => holds.holds(pod),
            Self::Native(native) => native.selects(pod),
        }
    }
}

impl Naming<'_> {
    /// The contributions of the members, without the pods that are counted already.
    pub(super) async fn others(
        &self,
        here: &Here<'_>,
        budgets: &PodBudgets,
    ) -> Result<Others, Next> {
        let mut all: Vec<_> = self
            .members
            .iter()
            .map(|member| self.named(here, budgets, member))
            .collect();
        self.find_shared_pods(here, &mut all);
        self.find_what_is_expected_twice(budgets, &mut all).await?;
        for Named { other, .. } in &mut all {
            if let Ok(brings) = &mut other.brings {
                *brings = brings.without(other.shared);
            }
        }
        let before: Vec<usize> = all.iter().map(Named::expected).collect();
        let brought = all.iter_mut().zip(self.members).map(|(named, member)| {
            let Named {
                other, elsewhere, ..
            } = named;
            Brought {
                member,
                elsewhere,
                brings: &mut other.brings,
            }
        });
        let sharing = count_once(&mut brought.collect::<Vec<_>>());
        for ((named, counted), before) in all.iter_mut().zip(&sharing.counted).zip(before) {
            named.other.shared.pods += counted;
            named.other.shared.expected += before.saturating_sub(named.expected());
        }
        Ok((
            all.into_iter().map(|named| named.other).collect(),
            sharing.groups,
        ))
    }

    /// A member, with everything that it contributes.
    fn named(&self, here: &Here<'_>, budgets: &PodBudgets, member: &Member) -> Named {
        if budgets.clusters().has(member) {
            return Named::of_another_cluster(budgets.clusters().last(member));
        }
        if self.budget.is_named_by(member) {
            return Named::silent(ITSELF);
        }
        here.named(budgets, member)
            .unwrap_or_else(|| Named::silent(MISSING))
    }

    /// Counts the pods of each member that the budget itself or an earlier member selects, too.
    /// Ended pods and second pods are included, because the writer of the member's healthy number
    /// may have seen them in an earlier state.
    fn find_shared_pods(&self, here: &Here<'_>, all: &mut [Named]) {
        let mut counted: BTreeSet<String> = self
            .view
            .pods
            .iter()
            .map(|pod| pod.metadata.uid.to_string())
            .collect();
        for (named, member) in all.iter_mut().zip(self.members) {
            let Some(holding) = &named.holding else {
                continue;
            };
            named.pods = here.pods.by_index(&BY_NAMESPACE, &member.namespace);
            named.pods.retain(|pod| holding.selects(&pod.metadata));
            let is_counted = |pod: &&Arc<Pod>| !counted.insert(pod.metadata.uid.to_string());
            named.other.shared.pods = named.pods.iter().filter(is_counted).count();
        }
    }

    /// Computes how much of each member's expected number is expected already, because workloads of
    /// its pods are workloads of other members, too. Without shared pods no workload is read.
    async fn find_what_is_expected_twice(
        &self,
        budgets: &PodBudgets,
        all: &mut [Named],
    ) -> Result<(), Next> {
        let shared = all
            .iter()
            .zip(self.members)
            .filter(|(named, _)| named.other.shared.pods > 0);
        let namespaces: BTreeSet<&str> = shared.map(|(_, member)| &*member.namespace).collect();
        let unanswered = |failed: Failed| Next::Retry(failed.to_string());
        let (mut workloads, mut together) = (budgets.workloads(), Together::default());
        if namespaces.contains(self.namespace) {
            let own = self
                .view
                .pods
                .iter()
                .filter(|pod| self.holds.holds(&pod.metadata));
            let own: Vec<_> = own.cloned().collect();
            let active = own.iter().filter(|pod| pod.is_active()).count();
            let expected = self
                .view
                .expected
                .as_ref()
                .map_or(active, |expected| expected.total);
            together.add(
                expected,
                workloads
                    .of(self.namespace, &own)
                    .await
                    .map_err(unanswered)?,
            );
        }
        for (named, member) in all.iter_mut().zip(self.members) {
            let is_included = namespaces.contains(&*member.namespace);
            let (Some(holding), Ok(brings), true) =
                (&named.holding, &named.other.brings, is_included)
            else {
                continue;
            };
            named.pods.retain(|pod| holding.counts(&pod.metadata));
            let wanted = workloads
                .of(&member.namespace, &named.pods)
                .await
                .map_err(unanswered)?;
            named.other.shared.expected = together.add(brings.expected, wanted);
        }
        Ok(())
    }
}
