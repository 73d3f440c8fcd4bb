//! Workloads of one kind and namespace whose selectors overlap.
//!
//! Pods stay with their owner, so that nothing breaks at once. But a HorizontalPodAutoscaler or a
//! Service that counts pods by the selector counts the pods of both. The younger workload has the
//! condition and the event.

use super::Workload;
use crate::objects::selector::Selector;
use crate::plan::{Event, Plan};

/// The condition's and the event's reason.
pub const REASON: &str = "OverlappingSelector";

/// Whether the selector of one matches the pods of the other. Invalid selectors match nothing.
pub fn overlap(one: &Workload<'_>, other: &Workload<'_>) -> bool {
    let selects = |one: &Workload<'_>, other: &Workload<'_>| {
        let template = other.template;
        // Most workloads differ in one label, which this check finds without parsing the whole
        // selector.
        let mut wanted = one.selector.match_labels.iter().flatten();
        wanted.all(|(key, value)| template.label(key) == Some(value))
            && Selector::new(one.selector)
                .is_ok_and(|s| !s.is_empty() && s.matches(|key| template.label(key)))
    };
    one.metadata.uid != other.metadata.uid && (selects(one, other) || selects(other, one))
}

/// The message of the condition and the event; `None` if no older workload overlaps.
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

/// Adds the event, once.
pub fn tell(workload: &Workload<'_>, older: &[String], plan: &mut Plan) {
    let Some(message) = message(workload, older) else {
        return;
    };
    // While the condition has a graver cause, the event would not help, because the user must fix
    // that cause first.
    if workload.blocked.is_none() {
        plan.events.push(Event::warning(REASON, message));
    }
}
