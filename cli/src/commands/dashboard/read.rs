//! What views and actions read, with the rights of the user.

use std::sync::Arc;

use berth_workload::objects::resource::{CONTROLLER_REVISIONS, Resource};
use serde_json::Value;

use crate::kinds::{self, NamedKind};
use crate::objects::{self, number, text};
use crate::session::Session;

use super::answers::Refused;
use super::planner::Planner;
use super::routes::Key;

/// The cluster, and the way to plans.
pub(super) struct State {
    pub(super) session: Arc<Session>,
    pub(super) planner: Planner,
}

/// The session, for commands in another namespace.
pub(super) fn of_namespace(session: &Session, namespace: &str) -> Session {
    Session {
        client: session.client.clone(),
        namespace: namespace.to_owned(),
        global: session.global.clone(),
        server: session.server.clone(),
    }
}

/// Reads a workload.
pub(super) async fn read(session: &Session, key: &Key) -> Result<Value, Refused> {
    Ok(session.get(&named(key.resource), &key.name).await?)
}

/// The kind with its names.
pub(super) fn named(resource: Resource) -> NamedKind {
    let known = kinds::all()
        .into_iter()
        .find(|kind| kind.resource == resource);
    known.unwrap_or(NamedKind {
        resource,
        names: vec![resource.plural.to_owned()],
        has_plan: false,
    })
}

/// Objects, or the apiserver's refusal of a right.
pub(super) type Listed = anyhow::Result<Result<Vec<Value>, String>>;

/// Whether the owner with this uid controls an object.
pub(super) fn is_owned(object: &Value, uid: &str) -> bool {
    objects::controller(object).is_some_and(|owner| owner["uid"] == uid)
}

/// The revisions that a workload owns, the newest first.
pub(super) async fn revisions(session: &Session, object: &Value) -> Listed {
    let Some(selector) = objects::selector(object).filter(|_| !session.namespace.is_empty()) else {
        return Ok(Ok(Vec::new()));
    };
    let listed = session.list_if_allowed(CONTROLLER_REVISIONS, &session.namespace, &selector);
    let mut listed = listed.await?;
    if let Ok(revisions) = &mut listed {
        revisions.retain(|one| is_owned(one, text(object, "/metadata/uid")));
        revisions.sort_by_key(|one| std::cmp::Reverse(number(one, "/revision")));
    }
    Ok(listed)
}

/// The pod template in a revision, without the directive of strategic merge patches.
pub(super) fn template(revision: &Value) -> Value {
    let mut template = revision
        .pointer("/data/spec/template")
        .cloned()
        .unwrap_or_default();
    if let Some(fields) = template.as_object_mut() {
        fields.remove("$patch");
    }
    template
}
