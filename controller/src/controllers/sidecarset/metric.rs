//! The metric of the pods that SidecarSets select.

use berth_api::v1beta1::SidecarSet;

use crate::status::metric::{CountsPods, Label, by_state};

impl CountsPods for SidecarSet {
    const METRIC: &'static str = "berth_sidecarset_pods";
    const HELP: &'static str = "Pods that a SidecarSet selects, by what they have of it";

    fn series(&self) -> Vec<(Vec<Label>, i32)> {
        let status = self.status.as_ref();
        let Some(of) = status.and_then(|status| status.injection.as_ref()) else {
            return Vec::new();
        };
        let states = [
            ("selected", of.selected),
            ("injected", of.injected),
            ("missed", of.missed),
            ("older", of.older),
            ("refused", of.refused),
            ("drifted", of.drifted),
            ("replaced", of.replaced),
            ("not_upgradable", of.not_upgradable),
        ];
        let labels = [("sidecarset", self.metadata.name.as_deref())];
        by_state(&labels, &states)
    }
}
