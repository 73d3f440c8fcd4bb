//! PersistentPodState: what v1alpha1 calls `nodeTopologyKeys` is `keys` in v1beta1.

use crate::conversion::Mapping;
use crate::conversion::json::Json;
use crate::conversion::mapping::reads;
use crate::version::Version;
use crate::{v1alpha1, v1beta1};

pub(crate) const MAPPING: Mapping = Mapping {
    to_v1beta1: |object| rename(object, "nodeTopologyKeys", "keys"),
    to_v1alpha1: |object| rename(object, "keys", "nodeTopologyKeys"),
    touches: &[&["spec", REQUIRED], &["spec", PREFERRED]],
    decides: &[],
    is_read,
};

const REQUIRED: &str = "requiredPersistentTopology";
const PREFERRED: &str = "preferredPersistentTopology";

fn rename(object: &mut Json<'_>, from: &str, to: &str) {
    let term = |term: &mut Json<'_>| {
        if let Some(term) = term.object()
            && let Some(keys) = term.remove(from)
        {
            term.insert(to, keys);
        }
    };
    object.at(&["spec", REQUIRED]).into_iter().for_each(term);
    for preferred in object
        .at(&["spec", PREFERRED])
        .and_then(Json::list)
        .into_iter()
        .flatten()
    {
        preferred.at(&["preference"]).into_iter().for_each(term);
    }
}

fn is_read(object: &mut Json<'_>, version: Version) -> bool {
    use v1alpha1::persistentpodstate as alpha;
    use v1beta1::persistentpodstate as beta;
    let (required, preferred) = (["spec", REQUIRED], ["spec", PREFERRED]);
    match version {
        Version::V1Alpha1 => {
            reads::<Option<alpha::NodeTopologyTerm>>(object, &required)
                && reads::<Vec<alpha::PreferredTopologyTerm>>(object, &preferred)
        }
        Version::V1Beta1 => {
            reads::<Option<beta::NodeTopologyTerm>>(object, &required)
                && reads::<Vec<beta::PreferredTopologyTerm>>(object, &preferred)
        }
    }
}
