//! What a pod gets from the SidecarSets that match it.
//!
//! A pod is untyped JSON here, so fields that are newer than ours survive. The whole is a function
//! of the pod alone. Each call makes all containers anew, and believes no annotation or variable of
//! the pod: its creator may have written them. So no pod gets rid of a sidecar, or keeps another
//! container in the sidecar's place, and no call has to prove itself to the next one. A second call
//! for one pod makes the same of it again, because containers that SidecarSets bring or replace
//! count as the pod's own in neither call. There is a second call where the leader injects ahead,
//! and where a pod matches entries of two failure policies. A webhook that is called later may
//! change the containers, because ours is not called again after it (`reinvocationPolicy: Never`).
//!
//! A SidecarSet that fails because of other SidecarSets is left out whole and named, and the others
//! are injected as if it were not there. Where a SidecarSet fails because of the pod, the pod is
//! refused.

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

/// What a pod gets, at a time in RFC 3339.
pub fn inject(pod: &Value, sets: &[Matched<'_>], settings: &Settings<'_>, now: &str) -> Injected {
    let mut sets = sets.to_vec();
    sets.sort_by_key(|set| set.name);
    let mut injected = without_refused(pod, &sets, settings, now);
    // What one of them could not have may be there once the others are: an annotation that another one puts in order. A
    // second call would find it, so the first one does. Nor may a second call find another reason than the first one tells: a name
    // may be that of a container which came with another one.
    for _ in 0..injected.refusals.len() {
        let again = without_refused(&injected.pod, &sets, settings, now);
        // A SidecarSet's containers of the first time stay. Containers and annotations that others
        // brought are no fault of the pod.
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

/// The pod with all of them, and warnings; or the first that fails.
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
    // Before the containers, which may look at annotations.
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
