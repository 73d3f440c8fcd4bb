//! The state of a view, read with the rights of the user.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::objects;
use crate::session::Session;

use super::answers::{Refused, cleaned};
use super::read::State;
use super::routes::{View, WORKLOADS};
use super::{nodes, summary, workload};

/// The state of a view.
pub(super) async fn show(state: &State, view: &View) -> Result<Value, Refused> {
    let data = match view {
        View::Workloads(namespace) => {
            let namespace = namespace.as_ref().unwrap_or(&state.session.namespace);
            workloads(&state.session, namespace).await
        }
        View::Workload(key) => workload::show(state, key).await,
        View::Nodes => nodes::list(&state.session).await,
        View::Node(name) => nodes::show(state, name).await,
    };
    data.map(cleaned)
}

async fn workloads(session: &Session, namespace: &str) -> Result<Value, Refused> {
    let lists = WORKLOADS.map(|resource| session.list_if_allowed(resource, namespace, ""));
    let (mut all, mut unread) = (Vec::new(), Vec::new());
    for (resource, list) in WORKLOADS.into_iter().zip(join_all(lists).await) {
        match list? {
            Ok(list) => all.extend(list.iter().map(|one| summary::of(resource, one))),
            Err(sentence) => unread.push(sentence),
        }
    }
    all.sort_by(|one, other| {
        let place = |of: &Value| {
            let text = |field| objects::text(of, field).to_owned();
            // Cluster-scoped objects are last.
            let namespace = text("/namespace");
            (
                namespace.is_empty(),
                namespace,
                text("/name"),
                text("/kind"),
            )
        };
        place(one).cmp(&place(other))
    });
    Ok(json!({"namespace": namespace, "workloads": all, "unread": unread}))
}
