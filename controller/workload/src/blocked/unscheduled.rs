//! Pods without a node.

use berth_api::commands;

/// The remedy for a pod in this namespace that no node suits, by the scheduler's reasons.
pub(super) fn remedy(namespace: &str, said: &str) -> String {
    // Kubernetes' own message if a claim has no volume or does not exist.
    if said.contains("PersistentVolumeClaim") || said.contains("persistentvolumeclaim") {
        return format!(
            "{} says what its claims wait for: a StorageClass that does not exist or provisions nothing, or a volume",
            commands::describe_all("pvc", namespace)
        );
    }
    let fields = [
        ("node affinity/selector", "nodeSelector or affinity"),
        ("untolerated taint", "tolerations"),
        ("topology spread", "topologySpreadConstraints"),
        ("affinity rules", "affinity"),
    ];
    let fields: Vec<_> = fields
        .iter()
        .filter(|(reason, _)| said.contains(reason))
        .map(|(_, field)| format!("correct spec.template.spec.{field}"))
        .collect();
    let is_short = said.contains("Insufficient") || said.contains("Too many pods");
    let room = "ask for less in spec.template.spec, or make room".to_owned();
    let all = (is_short || fields.is_empty()).then_some(room);
    all.into_iter()
        .chain(fields)
        .collect::<Vec<_>>()
        .join(", or ")
}
