//! The namespaces that a SidecarSet selects, and whether pods that are created there get its
//! containers.

use std::sync::Arc;
use std::time::Duration;

use berth_api::names::label::SPECIFIED_DELETE;
use berth_api::v1beta1::sidecarset::SidecarSet;
use berth_kinds::sidecarset::{InjectionCalls, LeftOut, Reach};
use berth_runtime::Object;
use berth_workload::objects::namespace::Namespace;

use super::SidecarSetController;
use crate::admission::injection::selectors::Compiled;
use crate::admission::injection::{Injection, Narrowed};
use crate::context::Context;
use crate::stores::watched::Watched;

/// A namespace, and why no pod of it gets the containers.
pub(super) type Place = (Arc<Watched<Namespace>>, Option<LeftOut>);

impl SidecarSetController {
    /// The summary of these namespaces for a decision.
    pub(super) fn reach(places: &[Place]) -> Reach {
        Reach {
            is_any: places.iter().any(|(_, left_out)| left_out.is_none()),
            left_out: places
                .iter()
                .filter_map(|(it, why)| Some(((*why)?, it.name().to_owned())))
                .collect(),
        }
    }

    /// The namespaces that the SidecarSet selects, and why no pod of a namespace gets the
    /// containers.
    pub(super) fn places(
        &self,
        (selectors, narrowed): (&Compiled, &Narrowed),
        injection: &Injection,
    ) -> Vec<Place> {
        let is_selected = |namespace: &Arc<Watched<Namespace>>| {
            selectors.selects_namespace(|key| namespace.0.metadata.label(key))
        };
        let left_out = |namespace: &Watched<Namespace>| {
            let narrowed = || {
                narrowed
                    .leaves_out_namespace(namespace)
                    .then_some(LeftOut::Narrowed)
            };
            injection.leaves_out(namespace).or_else(narrowed)
        };
        let selected = self.namespaces.all().into_iter().filter(is_selected);
        selected
            .map(|namespace| (namespace.clone(), left_out(&namespace)))
            .collect()
    }

    /// Whether pods that the SidecarSet selects get its containers, by dry runs of their creation;
    /// why the successor of the pod that is replaced would lack them; and when to look again.
    pub(super) async fn probed(
        &self,
        context: &Context,
        set: &SidecarSet,
    ) -> (InjectionCalls, Option<String>, Option<Duration>) {
        let (injection, selectors) = (&context.injection, Compiled::new(set));
        let narrowed = injection.narrowed(set);
        let places = self.places((&selectors, &narrowed), injection);
        // No pod can be created in a namespace that is being deleted.
        let is_reached = |(namespace, left_out): &&Place| {
            left_out.is_none() && namespace.0.metadata.deletion_timestamp.is_none()
        };
        let mut names: Vec<_> = places
            .iter()
            .filter(is_reached)
            .map(|(it, _)| it.name().to_owned())
            .collect();
        names.sort_unstable();
        let labels = selectors
            .pods()
            .and_then(|selector| narrowed.example(selector));
        let (injection_calls, again) = injection
            .probed(&context.client, set, (&names, labels.as_ref()))
            .await;
        let record = set
            .status
            .as_ref()
            .and_then(|status| status.repair.as_ref());
        let repaired =
            record.filter(|record| !record.over && injection_calls == InjectionCalls::Yes);
        let pod = repaired.and_then(|record| {
            let pod = self.pods.get(&record.namespace, &record.pod)?;
            let is_next = pod.is_active() && pod.metadata.label(SPECIFIED_DELETE).is_none();
            (is_next && *pod.metadata.uid == *record.uid).then_some(pod)
        });
        match pod {
            Some(pod) => (
                injection_calls,
                injection.fruitless(&context.client, set, &pod).await,
                again,
            ),
            None => (injection_calls, None, again),
        }
    }
}
