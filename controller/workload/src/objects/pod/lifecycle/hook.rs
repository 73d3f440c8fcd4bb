//! A hook: labels and finalizers by which its owner holds or releases a pod.
//!
//! Before an operation on a pod, any one of them holds the pod. After the operation, all of them
//! must be there for the pod to go on.

use berth_api::fields::lifecycle::LifecycleHook;

use crate::objects::patch::pod::PodPatch;
use crate::objects::pod::Pod;

/// The labels and finalizers of the hook that the pod has, for messages. Any of them holds the pod
/// before its deletion or update.
pub fn present(hook: &LifecycleHook, pod: &Pod) -> Vec<String> {
    parts(hook, pod)
        .filter(|(_, is_there)| *is_there)
        .map(|(part, _)| part)
        .collect()
}

/// The labels and finalizers of the hook that the pod lacks, for messages. Any missing one keeps
/// the pod from state Normal after its creation or update.
pub fn missing(hook: &LifecycleHook, pod: &Pod) -> Vec<String> {
    parts(hook, pod)
        .filter(|(_, is_there)| !*is_there)
        .map(|(part, _)| part)
        .collect()
}

/// Whether the hook has any labels or finalizers.
pub fn is_any(hook: &LifecycleHook) -> bool {
    hook.labels_handler
        .as_ref()
        .is_some_and(|labels| !labels.is_empty())
        || !hook.finalizers_handler.is_empty()
}

/// Whether the pod has a label or finalizer of the hook. A missing or empty hook holds no pod.
pub fn holds(hook: Option<&LifecycleHook>, pod: &Pod) -> bool {
    hook.is_some_and(|hook| parts(hook, pod).any(|(_, is_there)| is_there))
}

/// Whether the pod has all labels and finalizers of the hook. True for a missing or empty hook.
pub fn is_whole(hook: Option<&LifecycleHook>, pod: &Pod) -> bool {
    hook.is_none_or(|hook| parts(hook, pod).all(|(_, is_there)| is_there))
}

/// Puts all of the hook on the pod, so that it holds again.
pub fn put_on(hook: &LifecycleHook, patch: &mut PodPatch) {
    let labels = hook.labels_handler.iter().flatten();
    patch
        .labels
        .extend(labels.map(|(key, value)| (key.clone(), Some(value.clone()))));
    patch
        .finalizers
        .extend(hook.finalizers_handler.iter().cloned());
}

/// Each label and finalizer in words, and whether the pod has it.
fn parts<'a>(hook: &'a LifecycleHook, pod: &'a Pod) -> impl Iterator<Item = (String, bool)> + 'a {
    let labels = hook.labels_handler.iter().flatten();
    let labels = labels.map(|(key, value)| {
        (
            format!("label {key}={value}"),
            pod.metadata.label(key) == Some(value.as_str()),
        )
    });
    let finalizers = hook.finalizers_handler.iter();
    let finalizers = finalizers.map(|name| {
        (
            format!("finalizer {name}"),
            pod.metadata.finalizers.iter().any(|f| **f == **name),
        )
    });
    labels.chain(finalizers)
}

#[cfg(test)]
mod tests;
