//! What a NodeImage says about one pod.

use berth_api::v1beta1::nodeimage::{InspectedContainer, NodeImage};

use crate::inplace::exact::{Created, NodeFacts};
use berth_api::image::normalised;

/// Reads the facts that bear on the pod with this uid.
pub fn facts(node: &NodeImage, uid: &str) -> NodeFacts {
    let Some(status) = &node.status else { return NodeFacts::default() };
    let mut facts = NodeFacts::default();
    if let Some(pod) = status.inspected_pods.iter().find(|pod| pod.uid == uid) {
        facts.created = pod.containers.iter().map(created).collect();
    }
    for fact in &status.image_facts {
        facts.image_ids.entry(normalised(&fact.image)).or_default().extend(fact.image_ids.iter().cloned());
    }
    for (image, tags) in &status.image_statuses {
        for tag in tags.tags.iter().filter(|tag| !tag.image_ids.is_empty()) {
            let reference = normalised(&format!("{image}:{}", tag.tag));
            facts.image_ids.entry(reference).or_default().extend(tag.image_ids.iter().cloned());
        }
    }
    facts
}

fn created(container: &InspectedContainer) -> (String, Created) {
    let created = Created {
        container_id: container.container_id.clone(),
        hash: container.hash.clone(),
        image: container.image.clone(),
        image_id: container.image_id.clone(),
        attempt: container.attempt,
        update: container.update.clone(),
        env: container.env.clone(),
        env_hash: container.env_hash.clone(),
    };
    (container.name.clone(), created)
}
