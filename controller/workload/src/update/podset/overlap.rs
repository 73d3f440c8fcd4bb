//! Workloads of one kind and namespace whose selectors overlap.
//!
//! Pods stay with their owner, so nothing breaks at once; but whoever counts pods by the selector, like a
//! HorizontalPodAutoscaler or a Service, counts both. The one that came later says so.

use super::Workload;
use crate::objects::selector::Selector;
use crate::plan::{Event, Plan};

/// The condition's and the event's reason.
pub const REASON: &str = "OverlappingSelector";

/// Does the selector of one select the pods that the other makes? Selectors that are refused select nothing.
pub fn overlap(one: &Workload<'_>, other: &Workload<'_>) -> bool {
    let selects = |one: &Workload<'_>, other: &Workload<'_>| {
        let template = other.template;
        // Most workloads differ in a label, and that is seen without reading the whole selector.
        let mut wanted = one.selector.match_labels.iter().flatten();
        wanted.all(|(key, value)| template.label(key) == Some(value))
            && Selector::new(one.selector)
                .is_ok_and(|s| !s.is_empty() && s.matches(|key| template.label(key)))
    };
    one.metadata.uid != other.metadata.uid && (selects(one, other) || selects(other, one))
}

/// The sentence for the condition and the event; nothing where no older one overlaps.
pub fn message(workload: &Workload<'_>, older: &[String]) -> Option<String> {
    if older.is_empty() {
        return None;
    }
    let selector = Selector::new(workload.selector)
        .map(|s| s.to_string())
        .unwrap_or_default();
    Some(format!(
        "{workload}: spec.selector: \"{selector}\" overlaps with that of {} {}; each keeps the pods that it made, \
         but who selects pods by these labels gets both: give their templates and selectors different labels",
        workload.resource.kind,
        older.join(", ")
    ))
}

/// An event, once.
pub fn tell(workload: &Workload<'_>, older: &[String], plan: &mut Plan) {
    let Some(message) = message(workload, older) else {
        return;
    };
    // While something graver is told in the condition, this is not news that anybody can act on first.
    if workload.blocked.is_none() {
        plan.events.push(Event::warning(REASON, message));
    }
}
