//! The object to be deleted, and the lists that are read before.

use berth_api::name::{Name, Namespace};
use serde::Deserialize;

use super::census::{Listing, Living, Unlisted};

/// The objects that forbid the deletion, by sort; or why they could not be counted.
pub(in crate::server) type Counted = Result<Vec<(Listing, Living)>, Unlisted>;

/// The object to be deleted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Guarded {
    pub(super) kind: Kind,
    pub(super) name: String,
    /// The spec of a CustomResourceDefinition.
    pub(super) spec: Spec,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Namespace,
    Definition,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Spec {
    pub(super) group: String,
    pub(super) names: Names,
    pub(super) versions: Vec<Version>,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Names {
    pub(super) plural: String,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Version {
    pub(super) name: String,
    pub(super) served: bool,
    pub(super) storage: bool,
}

impl Guarded {
    /// The lists to read. Every part of their paths is checked.
    pub(super) fn listings(&self) -> Result<Vec<Listing>, Unlisted> {
        match self.kind {
            Kind::Namespace => {
                let path = format!("/api/v1/namespaces/{}", Namespace::parse(&self.name)?);
                let pods = Listing {
                    one: "active pod",
                    many: "active pods",
                    path: format!("{path}/pods"),
                    fields: Some("status.phase!=Succeeded,status.phase!=Failed"),
                    is_bound: false,
                };
                let claims = Listing {
                    one: "bound claim",
                    many: "bound claims",
                    path: format!("{path}/persistentvolumeclaims"),
                    fields: None,
                    is_bound: true,
                };
                Ok(vec![pods, claims])
            }
            Kind::Definition => {
                let Spec {
                    group,
                    names,
                    versions,
                } = &self.spec;
                let served = || versions.iter().filter(|version| version.served);
                let version = served()
                    .find(|version| version.storage)
                    .or_else(|| served().next());
                let version = version.ok_or(Unlisted::Unserved)?;
                let (group, version) = (Name::parse(group)?, Name::parse(&version.name)?);
                let path = format!("/apis/{group}/{version}/{}", Name::parse(&names.plural)?);
                Ok(vec![Listing {
                    one: "object",
                    many: "objects",
                    path,
                    fields: None,
                    is_bound: false,
                }])
            }
        }
    }
}
