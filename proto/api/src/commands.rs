//! The commands that messages print. A message has one between backticks.
//!
//! Each command runs as it is written, and does no harm when it runs again. It names its object and
//! its namespace. A test on a cluster runs each function's command twice
//! (`tests/e2e/tests/on_cluster/remedies.rs`), and another one finds commands elsewhere in the
//! sources.

use std::fmt;

/// An object as kubectl names it.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    /// The resource, with its group if another group has a resource of this name.
    pub resource: &'a str,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// The object's name.
    pub name: &'a str,
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Named {
            resource,
            namespace,
            name,
        } = self;
        write!(f, "{resource} {name}{}", within(namespace))
    }
}

fn within(namespace: &str) -> String {
    if namespace.is_empty() {
        String::new()
    } else {
        format!(" -n {namespace}")
    }
}

/// Sets an annotation and overwrites an earlier value.
pub fn annotate(object: Named<'_>, key: &str, value: &str) -> String {
    format!("`kubectl annotate --overwrite {object} {key}={value}`")
}

/// Removes an annotation.
pub fn take_annotation(object: Named<'_>, key: &str) -> String {
    format!("`kubectl annotate {object} {key}-`")
}

/// Removes a label.
pub fn take_label(object: Named<'_>, key: &str) -> String {
    format!("`kubectl label {object} {key}-`")
}

/// Changes fields by a JSON patch text without single quotation marks.
pub fn patch(object: Named<'_>, patch: &str) -> String {
    format!("`kubectl patch {object} --type merge -p '{patch}'`")
}

/// Sets a taint of a node and overwrites an earlier value.
pub fn taint(node: &str, taint: &str) -> String {
    format!("`kubectl taint --overwrite node {node} {taint}`")
}

/// Describes an object, with its events.
pub fn describe(object: Named<'_>) -> String {
    format!("`kubectl describe {object}`")
}

/// Describes all objects of a namespace.
pub fn describe_all(resource: &str, namespace: &str) -> String {
    format!("`kubectl describe {resource}{}`", within(namespace))
}

/// Lists the objects of a namespace, or of the cluster.
pub fn list(resource: &str, namespace: &str) -> String {
    format!("`kubectl get {resource}{}`", within(namespace))
}

/// Lists the objects of all namespaces.
pub fn list_everywhere(resource: &str) -> String {
    format!("`kubectl get {resource} -A`")
}

/// The log of the container that ended before the present one.
pub fn previous_log(namespace: &str, pod: &str, container: &str) -> String {
    format!("`kubectl logs {pod} -n {namespace} -c {container} --previous`")
}

/// The logs of pods with these labels. Containers without a log do not hide other containers.
pub fn logs(namespace: &str, labels: &str) -> String {
    format!("`kubectl logs -n {namespace} -l {labels} --all-containers --prefix --ignore-errors`")
}

/// Prints the kubeconfig with the content of all files that it refers to.
pub fn flat_kubeconfig() -> &'static str {
    "`kubectl config view --flatten`"
}
