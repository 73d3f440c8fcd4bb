//! The object that an action is for.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

use crate::objects::pod::Metadata;

/// The object that an action is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Target {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid, sent as a precondition, so that the action never changes another object of the same
    /// name.
    pub uid: String,
    /// Set if the decision depends on this exact version; sent as a precondition.
    pub resource_version: Option<String>,
}

impl Target {
    /// The object in the version that was seen. The apiserver refuses the action if the object has
    /// changed since.
    pub fn as_seen(metadata: &Metadata) -> Self {
        Self {
            resource_version: Some(metadata.resource_version.to_string()),
            ..Self::from(metadata)
        }
    }
}

/// The object in any version.
impl From<&Metadata> for Target {
    fn from(metadata: &Metadata) -> Self {
        Self {
            namespace: metadata.namespace.to_string(),
            name: metadata.name.to_string(),
            uid: metadata.uid.to_string(),
            resource_version: None,
        }
    }
}

/// The object in any version.
impl From<&ObjectMeta> for Target {
    fn from(metadata: &ObjectMeta) -> Self {
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: None,
        }
    }
}
