//! The ConfigMap that names kinds of other controllers.

use std::collections::BTreeMap;

use berth_workload::objects::pod::Metadata;
use serde::Deserialize;

/// The ConfigMap, with the fields that are read.
#[derive(Debug, Deserialize)]
pub(crate) struct Configuration {
    pub(crate) metadata: Metadata,
    #[serde(default)]
    pub(crate) data: BTreeMap<String, String>,
}
