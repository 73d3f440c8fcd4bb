//! What rules read. Each list is read once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use berth_api::kinds;
use berth_api::names::V1ALPHA1;
use berth_controller::settings::published::Published;
use berth_workload::objects::resource::Resource;
use serde_json::Value;

use crate::exit::{is_forbidden, is_not_found, sentence};
use crate::objects::text;
use crate::session::Session;

/// OpenKruise's development version, which serves all kinds as Berth does.
pub(super) const HEAD: &str = "HEAD";
/// The controller's Deployment, of OpenKruise and of Berth.
pub(super) const DEPLOYMENT: &str = "kruise-controller-manager";
/// The daemons' DaemonSet, of OpenKruise and of Berth.
pub(super) const DAEMON_SET: &str = "kruise-daemon";
/// Definitions.
pub(super) const DEFINITIONS: Resource = Resource::new(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
)
.cluster_scoped();
/// Configurations of webhooks that change objects.
pub(super) const MUTATING: Resource = Resource::new(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
)
.cluster_scoped();
/// Configurations of webhooks that refuse requests.
pub(super) const VALIDATING: Resource = Resource::new(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
)
.cluster_scoped();

type List = Result<Rc<Vec<Value>>, Unread>;

/// Why the apiserver returned nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unread {
    /// The user lacks a right.
    Forbidden(String),
    /// The apiserver returned another error, or did not answer.
    Failed(String),
}

/// The session, and the lists that were read.
pub(super) struct Context<'a> {
    pub(super) session: &'a Session,
    /// The release of OpenKruise that Berth is replaced by.
    pub(super) release: &'a str,
    lists: RefCell<BTreeMap<(Resource, String), List>>,
    settings: RefCell<Option<(Published, Option<String>)>>,
}

impl<'a> Context<'a> {
    pub(super) fn new(session: &'a Session, release: &'a str) -> Self {
        Self {
            session,
            release,
            lists: RefCell::default(),
            settings: RefCell::default(),
        }
    }

    /// The namespace of the controller.
    pub(super) fn namespace(&self) -> &str {
        &self.session.global.berth_namespace
    }

    /// The namespace of `--namespace`, whose objects alone are judged; empty for all.
    pub(super) fn scope(&self) -> &str {
        self.session.global.namespace.as_deref().unwrap_or_default()
    }

    /// All objects of a kind, in all namespaces; none if the cluster does not serve the kind. Kinds
    /// of Berth are read in the namespace of `--namespace`, and as v1alpha1 if a release of
    /// OpenKruise serves only that.
    pub(super) async fn list(&self, resource: Resource) -> List {
        let is_of_berth =
            kinds::of_plural(resource.plural).is_some_and(|kind| kind.group == resource.group);
        let scope = if is_of_berth { self.scope() } else { "" };
        self.list_in(resource, scope).await
    }

    /// The same in one namespace.
    pub(super) async fn list_in(&self, resource: Resource, namespace: &str) -> List {
        let key = (resource, namespace.to_owned());
        let known = self.lists.borrow().get(&key).cloned();
        if let Some(known) = known {
            return known;
        }
        let mut list = self.session.list(resource, namespace, "").await;
        let older = kinds::of_plural(resource.plural)
            .filter(|kind| kind.group == resource.group && kind.is_converted());
        if list.as_ref().is_err_and(is_unserved) && older.is_some() {
            let older = Resource {
                version: V1ALPHA1,
                ..resource
            };
            list = self.session.list(older, namespace, "").await;
        }
        let list = match list {
            Ok(all) => Ok(Rc::new(all)),
            Err(error) if is_unserved(&error) => Ok(Rc::default()),
            Err(error) => Err(unread(&error)),
        };
        self.lists.borrow_mut().insert(key, list.clone());
        list
    }

    /// One object of the controller's namespace.
    pub(super) async fn own(
        &self,
        resource: Resource,
        name: &str,
    ) -> Result<Option<Value>, Unread> {
        let all = self.list_in(resource, self.namespace()).await?;
        Ok(named(&all, name).cloned())
    }

    /// The settings of the controller, and what the user should know about them.
    pub(super) async fn settings(&self) -> (Published, Option<String>) {
        let known = self.settings.borrow().clone();
        if let Some(known) = known {
            return known;
        }
        let settings = self.session.settings().await;
        *self.settings.borrow_mut() = Some(settings.clone());
        settings
    }
}

/// The object of this name in a list.
pub(super) fn named<'a>(all: &'a [Value], name: &str) -> Option<&'a Value> {
    all.iter().find(|one| text(one, "/metadata/name") == name)
}

/// Whether an object belongs to Berth's chart, not to OpenKruise's manifests of the same names.
pub(super) fn is_of_berth(object: &Value) -> bool {
    text(object, "/metadata/labels/app.kubernetes.io~1name") == "berth"
}

/// `namespace/name`, or the name of a cluster-scoped object.
pub(super) fn full_name(object: &Value) -> String {
    let (namespace, name) = (
        text(object, "/metadata/namespace"),
        text(object, "/metadata/name"),
    );
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

fn is_unserved(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<kube::Error>()
        .is_some_and(is_not_found)
}

/// Why a request returned nothing.
pub(super) fn unread(error: &anyhow::Error) -> Unread {
    let sentence = sentence(error);
    match error.downcast_ref::<kube::Error>() {
        Some(refused) if is_forbidden(refused) => Unread::Forbidden(sentence),
        _ => Unread::Failed(sentence),
    }
}
