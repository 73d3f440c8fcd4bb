//! The meaning of a request's method and path.

use berth_api::name::{Name, Namespace};
use berth_workload::objects::resource::{
    CLONE_SETS, DAEMON_SETS, Resource, SIDECAR_SETS, STATEFUL_SETS,
};
use http::{Method, StatusCode};

use super::answers::Refused;

/// UnitedDeployments.
const UNITED_DEPLOYMENTS: Resource = Resource::of(&berth_api::kinds::UNITED_DEPLOYMENT);
/// BroadcastJobs.
pub(super) const BROADCAST_JOBS: Resource = Resource::of(&berth_api::kinds::BROADCAST_JOB);

/// The kinds that the page shows.
pub(super) const WORKLOADS: [Resource; 6] = [
    CLONE_SETS,
    STATEFUL_SETS,
    DAEMON_SETS,
    UNITED_DEPLOYMENTS,
    BROADCAST_JOBS,
    SIDECAR_SETS,
];

/// The namespace in paths of cluster-scoped objects.
const NO_NAMESPACE: &str = "-";

/// A file of the page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct File {
    /// The media type.
    pub(super) content: &'static str,
    /// The text.
    pub(super) text: &'static str,
}

const INDEX: File = File {
    content: "text/html; charset=utf-8",
    text: include_str!("page/index.html"),
};
const SCRIPT: File = File {
    content: "text/javascript; charset=utf-8",
    text: include_str!("page/app.js"),
};
const STYLE: File = File {
    content: "text/css; charset=utf-8",
    text: include_str!("page/style.css"),
};

/// A workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    /// One of [`WORKLOADS`].
    pub(super) resource: Resource,
    /// The namespace; empty for cluster-scoped kinds.
    pub(super) namespace: String,
    /// The name.
    pub(super) name: String,
}

/// What a page shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum View {
    /// The workloads of a namespace; of all namespaces if it is empty; of the command's namespace
    /// without one.
    Workloads(Option<String>),
    /// One workload.
    Workload(Key),
    /// All nodes.
    Nodes,
    /// One node: its images, and the result of a drain.
    Node(String),
}

/// A change of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Pause,
    Resume,
    Restart,
    Undo,
    Partition,
}

/// The meaning of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// A file, which has no secrets and needs no token.
    File(&'static File),
    /// The state once.
    Show(View),
    /// The state now and after each change.
    Watch(View),
    /// A change.
    Act(Key, Verb),
}

/// The meaning of a method, a path and its query.
pub(super) fn route(method: &Method, path: &str, query: &str) -> Result<Route, Refused> {
    let parts: Vec<_> = path.trim_start_matches('/').split('/').collect();
    let (is_post, route) = match parts.as_slice() {
        [""] => (false, Route::File(&INDEX)),
        ["app.js"] => (false, Route::File(&SCRIPT)),
        ["style.css"] => (false, Route::File(&STYLE)),
        ["api", "workloads"] => (false, Route::Show(workloads(query)?)),
        ["api", "workloads", namespace, kind, name] => (
            false,
            Route::Show(View::Workload(key(namespace, kind, name)?)),
        ),
        ["api", "nodes"] => (false, Route::Show(View::Nodes)),
        ["api", "nodes", node] => (false, Route::Show(View::Node(name_of(node)?))),
        ["api", "watch"] => (false, Route::Watch(watched(query)?)),
        ["api", "workloads", namespace, kind, name, "actions", verb] => (
            true,
            Route::Act(key(namespace, kind, name)?, verb_of(verb)?),
        ),
        _ => return Err(unknown(path)),
    };
    let right = if is_post { Method::POST } else { Method::GET };
    if *method != right {
        let sentence = format!("{path} is for {right} only");
        return Err(Refused::new(StatusCode::METHOD_NOT_ALLOWED, sentence));
    }
    Ok(route)
}

fn unknown(path: &str) -> Refused {
    Refused::new(StatusCode::NOT_FOUND, format!("there is no page {path:?}"))
}

fn watched(query: &str) -> Result<View, Refused> {
    let of = |field| value(query, field).unwrap_or_default();
    match of("view") {
        "workloads" => workloads(query),
        "workload" => Ok(View::Workload(key(
            of("namespace"),
            of("kind"),
            of("name"),
        )?)),
        "nodes" => Ok(View::Nodes),
        other => Err(Refused::invalid(format!("there is no view {other:?}"))),
    }
}

fn workloads(query: &str) -> Result<View, Refused> {
    let namespace = match value(query, "namespace") {
        None => None,
        Some("") => Some(String::new()),
        Some(named) => Some(namespace_of(named)?),
    };
    Ok(View::Workloads(namespace))
}

fn key(namespace: &str, kind: &str, name: &str) -> Result<Key, Refused> {
    let resource = WORKLOADS.into_iter().find(|known| known.plural == kind);
    let resource = resource.ok_or_else(|| {
        let known: Vec<_> = WORKLOADS.iter().map(|known| known.plural).collect();
        let sentence = format!(
            "there is no kind {kind:?}; the kinds are {}",
            known.join(", ")
        );
        Refused::new(StatusCode::NOT_FOUND, sentence)
    })?;
    let namespace = if resource.namespaced {
        namespace_of(namespace)?
    } else if namespace == NO_NAMESPACE {
        String::new()
    } else {
        return Err(Refused::invalid(format!(
            "{} have no namespace: write {NO_NAMESPACE:?}",
            resource.plural
        )));
    };
    Ok(Key {
        resource,
        namespace,
        name: name_of(name)?,
    })
}

fn verb_of(verb: &str) -> Result<Verb, Refused> {
    Ok(match verb {
        "pause" => Verb::Pause,
        "resume" => Verb::Resume,
        "restart" => Verb::Restart,
        "undo" => Verb::Undo,
        "partition" => Verb::Partition,
        _ => return Err(unknown(verb)),
    })
}

fn name_of(text: &str) -> Result<String, Refused> {
    let name = Name::parse(text).map_err(|error| Refused::invalid(error.to_string()))?;
    Ok(name.as_str().to_owned())
}

fn namespace_of(text: &str) -> Result<String, Refused> {
    let name = Namespace::parse(text).map_err(|error| Refused::invalid(error.to_string()))?;
    Ok(name.as_str().to_owned())
}

/// The value of a field of a query. Names have no character that a query escapes.
fn value<'a>(query: &'a str, field: &str) -> Option<&'a str> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == field).map(|(_, value)| value)
}

#[cfg(test)]
mod tests;
