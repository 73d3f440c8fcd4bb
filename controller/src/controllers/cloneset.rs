//! The stores that the CloneSet controller reads.

use berth_api::names::label;
use berth_api::v1beta1::cloneset::{CloneSet, CloneSetStatus};
use berth_kinds::cloneset::CloneSetOwner;
use berth_workload::feature_gates::Gates;

use crate::controllers::pod_owner::{self, Controlled, Objects};
use crate::reconcile::podset::Observed;
use crate::stores::reads::Reader;
use crate::stores::watched::Watched;

pub(crate) type CloneSetController = pod_owner::PodOwnerController<CloneSetOwner>;

impl Controlled for CloneSetOwner {
    const NAME: &'static str = "cloneset";
    const REPORTS_OVERLAP: bool = true;
    const READS_NODES: bool = false;
    type Own = ();

    fn reads(reader: &mut Reader<'_>) -> (Objects<Self>, ()) {
        (reader.read(), ())
    }

    fn observe(
        _: &CloneSetController,
        _: &Watched<CloneSet>,
        observed: &mut Observed,
        _: Gates,
        _: bool,
    ) -> Self {
        let mut claims = std::mem::take(&mut observed.claims);
        // Pods may own claims of other kinds of volumes.
        claims.retain(|claim| claim.metadata.label(label::CLONESET_INSTANCE_ID).is_some());
        Self { claims }
    }

    fn pods(set: &CloneSet) -> i32 {
        let has = set.status.as_ref().map_or(0, |status| status.replicas);
        has.max(set.spec.replicas.unwrap_or(1))
    }

    fn is_urgent(_: Option<&CloneSetStatus>, _: &CloneSetStatus) -> bool {
        true
    }
}
