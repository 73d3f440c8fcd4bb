//! The injection of the SidecarSets that match a pod.
//!
//! A pod is untyped JSON here, so fields that are newer than Berth's types survive. The result
//! depends on the pod alone. Each call makes all containers anew, and believes no annotation or
//! variable of the pod, because its creator may have written them. So no pod gets rid of a sidecar,
//! or keeps another container in the sidecar's place, and no call has to prove itself to the next
//! one. A second call for one pod has the same result, because containers that SidecarSets add or
//! replace count as the pod's own in neither call. There is a second call if the leader injects
//! ahead, and if a pod matches entries of two failure policies. A webhook that is called later may
//! change the containers, because Berth's webhook is not called again after it
//! (`reinvocationPolicy: Never`).
//!
//! A SidecarSet that fails because of other SidecarSets is left out completely and reported, and
//! the others are injected as if it did not exist. If a SidecarSet fails because of the pod, the
//! pod is refused.

pub mod allowed;
mod brought;
mod container;
pub mod expression;
pub(super) mod faults;
mod json;
pub(super) mod metadata;
mod order;
mod own;
pub mod pattern;
mod place;
pub(super) mod replaced;
mod request;
pub mod resources;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::Value;

use brought::Brought;
use request::Reason;

pub use request::{Injected, Matched, Refusal, Settings};

/// Injects the SidecarSets into a pod, at a time in RFC 3339.
pub fn inject(pod: &Value, sets: &[Matched<'_>], settings: &Settings<'_>, now: &str) -> Injected {
    let mut sets = sets.to_vec();
    sets.sort_by_key(|set| set.name);
    let mut injected = without_refused(pod, &sets, settings, now);
    // A SidecarSet that failed may succeed once the others are injected, for example if another one
    // sets an annotation. A second call of the webhook would find that, so the first one does. Nor
    // may a second call find another reason than the first one: a name may belong to a container
    // that came with another SidecarSet.
    for _ in 0..injected.refusals.len() {
        let again = without_refused(&injected.pod, &sets, settings, now);
        // The containers of a SidecarSet from the first pass stay. Containers and annotations that
        // other SidecarSets added are no fault of the pod.
        let known = std::mem::take(&mut injected.refusals);
        let refused = |mut of: Refusal| {
            let known = known
                .iter()
                .find(|known| known.sidecar_set == of.sidecar_set)?;
            of.is_of_pod &= known.is_of_pod;
            Some(of)
        };
        injected.refusals = again.refusals.into_iter().filter_map(refused).collect();
        if again.pod == injected.pod {
            break;
        }
        let new: Vec<String> = again
            .warnings
            .into_iter()
            .filter(|new| !injected.warnings.contains(new))
            .collect();
        injected.warnings.extend(new);
        injected.pod = again.pod;
    }
    injected
}

fn without_refused(
    pod: &Value,
    sets: &[Matched<'_>],
    settings: &Settings<'_>,
    now: &str,
) -> Injected {
    let mut sets = sets.to_vec();
    let mut refusals = Vec::new();
    loop {
        match all_of(pod, &sets, settings, now) {
            Ok((pod, warnings)) => {
                return Injected {
                    pod,
                    warnings,
                    refusals,
                };
            }
            Err(refusal) => {
                sets.retain(|set| set.name != refusal.sidecar_set);
                refusals.push(refusal);
            }
        }
    }
}

/// The pod with all SidecarSets, and warnings; or the first SidecarSet that fails.
fn all_of(
    pod: &Value,
    sets: &[Matched<'_>],
    settings: &Settings<'_>,
    now: &str,
) -> Result<(Value, Vec<String>), Refusal> {
    let mut new = pod.clone();
    if sets.is_empty() {
        return Ok((new, Vec::new()));
    }
    let mut warnings = Vec::new();
    // Annotations come before the containers, which may depend on them.
    for set in sets {
        own::check(&new).map_err(|reason| set.refusal(Reason::of_pod(reason)))?;
        metadata::patch(&mut new, (pod, set), settings, &mut warnings)
            .map_err(|reason| set.refusal(reason))?;
    }
    let own = own::Own::of(&new, sets);
    let mut brought = Brought::default();
    for set in sets {
        brought.add_volumes(set.spec);
    }
    for set in sets {
        brought.warn_of_volumes(set, &new);
        brought
            .add(set, &new, &own, now)
            .map_err(|reason| set.refusal(reason))?;
    }
    brought.note_replaced(pod, sets.iter().map(|set| set.name));
    warnings.append(&mut brought.warnings);
    let names: BTreeSet<String> = brought
        .containers
        .iter()
        .map(|of| of.name.clone())
        .collect();
    brought.place(&mut new, settings);
    if !names.is_empty() {
        order::order(&mut new, &names, settings.suffix, &mut warnings);
    }
    Ok((new, warnings))
}
