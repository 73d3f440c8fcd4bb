//! Objects of another owner in the world of a test: in another namespace, or with an owner of
//! another kind, and with the uid of the world's CloneSet in their owner references. They are in
//! every world, and the controller must ignore them.

use berth_workload::objects::claim::Claim;

use super::*;

/// The foreign objects, which never change.
#[derive(Debug, Default)]
pub(super) struct Foreign {
    pods: Vec<Arc<Pod>>,
    revisions: Vec<Arc<Revision>>,
    claims: Vec<Arc<Claim>>,
    /// The controller believes every uid: a fault that the tests must find.
    pub(super) is_believed: bool,
}

impl Foreign {
    /// With the uid of this CloneSet.
    pub(super) fn of(set: &CloneSet) -> Self {
        let mut foreign = Self::default();
        let own = set.metadata.namespace.clone().unwrap_or_default();
        let places = [
            (
                "foreign-set",
                "stranger",
                "apps.kruise.io/v1beta1",
                "CloneSet",
            ),
            ("foreign-kind", "stranger", "none.example/v1", "Nothing"),
            ("own-namespace", own.as_str(), "none.example/v1", "CloneSet"),
        ];
        for (name, namespace, api_version, kind) in places {
            let owner = json!({
                "apiVersion": api_version, "kind": kind, "name": set.metadata.name, "uid": set.metadata.uid,
                "controller": true,
            });
            let metadata = json!({
                "namespace": namespace, "name": name, "uid": format!("{name}-uid"), "ownerReferences": [owner],
                "labels": {"app": "web", "apps.kruise.io/cloneset-instance-id": name},
                "annotations": {"controller.kubernetes.io/pod-deletion-cost": "2147483647"},
            });
            let ready =
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
            let containers = json!([{"name": "main", "image": "web:forged"}]);
            let (spec, template) = (
                json!({"nodeName": "node", "containers": containers}),
                template("web:forged"),
            );
            let decoded = json!({"metadata": metadata, "spec": spec, "status": ready});
            foreign
                .pods
                .push(Arc::new(serde_json::from_value(decoded).unwrap()));
            let decoded =
                json!({"metadata": metadata, "revision": 1000, "data": revision::data(&template)});
            foreign
                .revisions
                .push(Arc::new(serde_json::from_value(decoded).unwrap()));
            foreign.claims.push(Arc::new(
                serde_json::from_value(json!({"metadata": metadata})).unwrap(),
            ));
        }
        foreign
    }

    /// The pods that the CloneSet manages, of these and the foreign ones.
    pub(super) fn pods(&self, set: &CloneSet, mut own: Vec<Arc<Pod>>) -> Vec<Arc<Pod>> {
        own.extend(self.pods.iter().cloned());
        own.retain(|pod| self.is_managed(set, &pod.metadata));
        own
    }

    /// The revisions that the CloneSet manages, of these and the foreign ones, sorted.
    pub(super) fn revisions(
        &self,
        set: &CloneSet,
        mut own: Vec<Arc<Revision>>,
    ) -> Vec<Arc<Revision>> {
        own.extend(self.revisions.iter().cloned());
        own.retain(|revision| self.is_managed(set, &revision.metadata));
        revision::sort(&mut own);
        own
    }

    /// The claims that the CloneSet manages, of these and the foreign ones, and those that pods
    /// own.
    pub(super) fn claims(&self, set: &CloneSet, mut own: Vec<Arc<Claim>>) -> Vec<Arc<Claim>> {
        own.extend(self.claims.iter().cloned());
        let of_a_pod = |claim: &Claim| {
            claim
                .metadata
                .owner_references
                .iter()
                .any(|owner| &*owner.kind == "Pod")
        };
        own.retain(|claim| self.is_managed(set, &claim.metadata) || of_a_pod(claim));
        own
    }

    fn is_managed(&self, set: &CloneSet, metadata: &Metadata) -> bool {
        let owner = owner_key(set);
        let is_named = || {
            metadata
                .controller()
                .is_some_and(|reference| *reference.uid == *owner.uid)
        };
        owner.controls(metadata) || self.is_believed && is_named()
    }
}
