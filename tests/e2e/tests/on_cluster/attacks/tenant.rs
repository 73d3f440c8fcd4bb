//! A tenant: a ServiceAccount with every right to CloneSets, Deployments, jobs, pods and claims of
//! one namespace, and none elsewhere.

use anyhow::Result;
use berth_e2e::objects;
use kube::Client;
use serde_json::Value;

use crate::trust::client_with;
use crate::world::Case;

const RESOURCES: &str = "--resource=clonesets.apps.kruise.io,imagepulljobs.apps.kruise.io,imagelistpulljobs.apps.kruise.io,pods,\
                         persistentvolumeclaims,controllerrevisions.apps,deployments.apps";

/// A tenant, its namespace and its token.
pub(super) struct Tenant {
    pub(super) namespace: String,
    /// A client with the tenant's token alone.
    pub(super) client: Client,
}

impl Tenant {
    pub(super) async fn make(case: &Case) -> Result<Tenant> {
        let namespace = format!("{}-tenant", case.namespace);
        objects::make_namespace(case.client(), &namespace).await?;
        let inside = ["-n", &namespace];
        let account = format!("--serviceaccount={namespace}:tenant");
        for command in [
            &["create", "serviceaccount", "tenant"][..],
            &["create", "role", "tenant", "--verb=*", RESOURCES],
            &["create", "rolebinding", "tenant", "--role=tenant", &account],
        ] {
            case.kubectl(&[command, &inside[..]].concat()).await?;
        }
        let token = case
            .kubectl(&[&["create", "token", "tenant", "--duration=1h"], &inside[..]].concat())
            .await?;
        let client = client_with(case, &token).await?;
        Ok(Tenant { namespace, client })
    }

    /// Creates an object in its namespace.
    pub(super) async fn create(&self, manifest: &Value) -> Result<Value> {
        objects::create(&self.client, &self.namespace, manifest).await
    }

    /// Creates a CloneSet from text, which no parser here has to accept.
    pub(super) async fn create_clone_set(&self, text: String) -> Result<(), kube::Error> {
        let path = format!(
            "/apis/apps.kruise.io/v1beta1/namespaces/{}/clonesets",
            self.namespace
        );
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(text.into_bytes());
        let request = request.map_err(kube::Error::HttpError)?;
        self.client.request_text(request).await.map(drop)
    }

    /// Removes the tenant's objects, and waits for their end.
    pub(super) async fn end(self, case: &Case) -> Result<()> {
        let namespace = format!("namespace/{}", self.namespace);
        case.kubectl(&["delete", &namespace, "--timeout=300s"])
            .await
            .map(drop)
    }
}
