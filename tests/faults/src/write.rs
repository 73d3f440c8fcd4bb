//! Decides which requests are writes that count.

use std::fmt;

use http::{Method, Uri};

/// The resources that the controller writes for itself: its lease, events, certificates, and the
/// objects that publish them. All others count, so that the resources of a new kind need no entry
/// here.
const UPKEEP: [&str; 8] = [
    "leases",
    "events",
    "secrets",
    "endpointslices",
    "customresourcedefinitions",
    "validatingwebhookconfigurations",
    "tokenreviews",
    "namespaces",
];

/// The namespace in which the controller keeps the history of objects without a namespace.
const OWN_NAMESPACE: &str = "kruise-system";

/// Whether an object belongs to a run: it is in the run's namespace, or has none, or is the history
/// of one without a namespace.
pub(crate) fn is_of_run(run: &str, namespace: &str, resource: &str) -> bool {
    let is_history = namespace == OWN_NAMESPACE && resource == "controllerrevisions";
    namespace.is_empty() || namespace == run || is_history
}

/// A request that changes an object, for a workload or another object that users create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// POST, PATCH, PUT or DELETE.
    pub method: Method,
    /// The plural name, with `/` and the subresource if there is one.
    pub resource: String,
    /// Empty for an object without a namespace.
    pub namespace: String,
    /// Empty for a POST.
    pub name: String,
}

impl Write {
    /// Reads a request; `None` if it changes nothing that counts.
    pub fn of(method: &Method, uri: &Uri) -> Option<Write> {
        if ![Method::POST, Method::PATCH, Method::PUT, Method::DELETE].contains(method) {
            return None;
        }
        if uri
            .query()
            .is_some_and(|query| query.split('&').any(|pair| pair.starts_with("dryRun=")))
        {
            return None;
        }
        let (resource, namespace, name) = parts(uri)?;
        let is_upkeep = resource
            .split('/')
            .next()
            .is_some_and(|resource| UPKEEP.contains(&resource));
        (!is_upkeep).then(|| Write {
            method: method.clone(),
            resource,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}

/// The resource of an address, with `/` and the subresource if there is one.
pub(crate) fn resource(uri: &Uri) -> Option<String> {
    parts(uri).map(|(resource, ..)| resource)
}

/// Resource, namespace and name of an address; empty where it has none.
fn parts(uri: &Uri) -> Option<(String, &str, &str)> {
    let mut path = uri.path().trim_matches('/').split('/');
    let group = path.next()?;
    // After the core group comes the version, after `apis` a group's name and the version.
    path.nth(usize::from(group == "apis"))?;
    let mut path: Vec<&str> = path.collect();
    let namespace = if path.first() == Some(&"namespaces") && path.len() > 2 {
        path.drain(..2).next_back().unwrap_or_default()
    } else {
        ""
    };
    let part = |index: usize| path.get(index).copied().unwrap_or_default();
    let resource = [part(0), part(2)]
        .join("/")
        .trim_end_matches('/')
        .to_owned();
    Some((resource, namespace, part(1)))
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Write {
            method,
            resource,
            name,
            ..
        } = self;
        write!(f, "{method} {resource}")?;
        if name.is_empty() {
            Ok(())
        } else {
            write!(f, " {name}")
        }
    }
}

#[cfg(test)]
mod tests;
