//! An action as a request to the apiserver.

mod action;

use berth_api::name::InvalidName;
use berth_workload::plan::{Body, Target, Verb, Write};
use berth_workload::update::revision::form;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::object::{CONTROLLER_REVISIONS, Resource};

/// For barriers only: the patch begins with a test.
pub(super) const JSON_PATCH: &str = "application/json-patch+json";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// The kind of a write, which decides on the meaning of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Creates an object that belongs to the owner.
    Create,
    /// Creates an object that may exist already, with any owner.
    Ensure,
    /// Writes nothing: the server only says whether it would accept the object.
    DryRun,
    /// Writes nothing: reads the object, which must be the expected one.
    Confirm,
    Patch,
    Delete,
    /// A deletion that a disruption budget may refuse.
    Evict,
}

/// The request of a write.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    pub(super) write: Write,
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) name: String,
    /// Empty for creates.
    pub(super) uid: String,
    pub(super) subresource: &'static str,
    pub(super) content: &'static str,
    /// The body to send. For an object that is sent whole, only the part that is needed to handle
    /// the answer.
    pub(super) body: Value,
    /// The text of an object that is sent whole. Its tree would take many times the memory until
    /// the server answers.
    whole: Option<Box<str>>,
}

/// The part of a new object that is needed to handle the answer.
#[derive(Deserialize, Serialize, Default)]
#[serde(default)]
struct Head {
    metadata: HeadMetadata,
}

#[derive(Deserialize, Serialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct HeadMetadata {
    namespace: String,
    name: String,
    owner_references: Value,
}

impl Request {
    pub(super) fn method(&self) -> Method {
        match self.kind {
            Kind::Create | Kind::Ensure | Kind::DryRun | Kind::Evict => Method::POST,
            Kind::Confirm => Method::GET,
            Kind::Patch => Method::PATCH,
            Kind::Delete => Method::DELETE,
        }
    }

    /// Path and query. The server gives the request up after `timeout_ms`, because it must not
    /// carry out a write that has been given up.
    pub(super) fn uri(&self, manager: &str, timeout_ms: u128) -> Result<String, InvalidName> {
        let path = match self.kind {
            Kind::Create | Kind::Ensure | Kind::DryRun => {
                self.write.resource.collection(&self.namespace)?
            }
            Kind::Confirm => return self.write.resource.path(&self.namespace, &self.name),
            Kind::Patch | Kind::Delete | Kind::Evict => {
                self.write.resource.path(&self.namespace, &self.name)?
            }
        };
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        let rest = match self.kind {
            Kind::Delete => String::new(),
            Kind::DryRun => format!("&fieldManager={manager}&dryRun=All"),
            _ => format!("&fieldManager={manager}"),
        };
        Ok(format!(
            "{path}{slash}{}?timeout={timeout_ms}ms{rest}",
            self.subresource
        ))
    }

    /// The body to send. The server keeps the data of a revision byte for byte, and OpenKruise
    /// compares bytes.
    pub(super) fn text(&self) -> String {
        match &self.whole {
            Some(text) if self.write.resource == CONTROLLER_REVISIONS => form::escaped(text),
            Some(text) => text.to_string(),
            None if self.write.resource == CONTROLLER_REVISIONS => form::text(&self.body),
            None => self.body.to_string(),
        }
    }

    /// A merge patch of a status subresource.
    pub(super) fn status(resource: &Resource, target: &Target, status: Value) -> Self {
        let request = Self::patch(
            Write::of(Verb::PatchStatus, *resource),
            target,
            MERGE,
            json!({"status": status}),
        );
        Self {
            subresource: "status",
            ..request
        }
    }

    fn create_whole(write: Write, body: &Body) -> Self {
        let head: Head = body.read().unwrap_or_default();
        let request = Self::create(write, Kind::Create, &json!(head));
        Self {
            whole: Some(body.text().into()),
            ..request
        }
    }

    fn create(write: Write, kind: Kind, body: &Value) -> Self {
        let text = |field: &str| {
            body["metadata"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let name = text("name");
        let name = if name.is_empty() {
            text("generateName")
        } else {
            name
        };
        Self {
            write,
            kind,
            namespace: text("namespace"),
            name,
            uid: String::new(),
            subresource: "",
            content: JSON,
            body: body.clone(),
            whole: None,
        }
    }

    fn patch(write: Write, target: &Target, content: &'static str, mut body: Value) -> Self {
        if !body.is_object() {
            body = Value::Object(Map::new());
        }
        if !body["metadata"].is_object() {
            body["metadata"] = Value::Object(Map::new());
        }
        for (field, value) in preconditions(target) {
            body["metadata"][field] = value;
        }
        Self {
            kind: Kind::Patch,
            content,
            body,
            ..Self::on(write, target)
        }
    }

    fn delete(write: Write, target: &Target) -> Self {
        let preconditions: Map<_, _> = preconditions(target).collect();
        let body =
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions});
        Self {
            kind: Kind::Delete,
            content: JSON,
            body,
            ..Self::on(write, target)
        }
    }

    fn evict(write: Write, target: &Target) -> Self {
        let preconditions: Map<_, _> = preconditions(target).collect();
        let body = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"namespace": target.namespace, "name": target.name},
            "deleteOptions": {"preconditions": preconditions},
        });
        Self {
            kind: Kind::Evict,
            subresource: "eviction",
            content: JSON,
            body,
            ..Self::on(write, target)
        }
    }

    fn on(write: Write, target: &Target) -> Self {
        Self {
            write,
            kind: Kind::Patch,
            namespace: target.namespace.clone(),
            name: target.name.clone(),
            uid: target.uid.clone(),
            subresource: "",
            content: "",
            body: Value::Null,
            whole: None,
        }
    }
}

fn preconditions(target: &Target) -> impl Iterator<Item = (String, Value)> {
    let uid = (!target.uid.is_empty()).then(|| ("uid".to_owned(), json!(target.uid)));
    let version = target
        .resource_version
        .as_ref()
        .map(|version| ("resourceVersion".to_owned(), json!(version)));
    uid.into_iter().chain(version)
}

#[cfg(test)]
mod tests;
