//! The metric of the pods of subsets.

use berth_api::v1beta1::uniteddeployment::{SubsetStatus, UnitedDeployment};

use crate::status::metric::{CountsPods, Label, by_state};

impl CountsPods for UnitedDeployment {
    const METRIC: &'static str = "berth_uniteddeployment_pods";
    const HELP: &'static str = "Pods of the subsets of a UnitedDeployment, by their state";

    fn series(&self) -> Vec<(Vec<Label>, i32)> {
        let subsets = self
            .status
            .iter()
            .flat_map(|status| &status.subset_statuses);
        let of_subset = |subset: &SubsetStatus| {
            let SubsetStatus {
                name,
                replicas,
                ready_replicas,
                reserved_pods,
                ..
            } = subset;
            let labels = [
                ("namespace", self.metadata.namespace.as_deref()),
                ("uniteddeployment", self.metadata.name.as_deref()),
                ("subset", Some(&**name)),
            ];
            let states = [
                ("wanted", *replicas),
                ("ready", *ready_replicas),
                ("reserved", *reserved_pods),
            ];
            by_state(&labels, &states)
        };
        subsets.flat_map(of_subset).collect()
    }
}
