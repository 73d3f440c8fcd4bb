//! The connection to the cluster, with the rights of the user.

use anyhow::{Context, bail};
use berth_api::name::Name;
use berth_controller::plugin::{Explained, ExplainedObject, explain};
use berth_controller::settings::published::{self, Published};
use berth_workload::objects::resource::Resource;
use http::header::{HeaderValue, USER_AGENT};
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::Value;
use tokio::time::timeout;

use crate::exit::{WrongUsage, is_forbidden, is_not_found, sentence};
use crate::flags::Global;
use crate::kinds::NamedKind;

/// The name of this program in audit logs.
const AGENT: &str = concat!("kubectl-berth/", env!("CARGO_PKG_VERSION"));
/// The most objects of one page of a list.
const PAGE: u32 = 500;

/// A connection, and the namespace of the command.
pub struct Session {
    /// The apiserver, as the user.
    pub client: Client,
    /// The namespace of `--namespace`, or of the context.
    pub namespace: String,
    /// The flags of all commands.
    pub global: Global,
    /// The address of the apiserver.
    pub server: String,
}

impl Session {
    /// Reads the kubeconfig.
    ///
    /// # Errors
    /// There is no kubeconfig, it has no such context, or its credentials are unusable.
    pub async fn connect(global: &Global) -> anyhow::Result<Self> {
        let mut config = config(global).await?;
        if let Some(user) = &global.as_user {
            config.auth_info.impersonate = Some(user.clone());
        } else if !global.as_group.is_empty() {
            return Err(WrongUsage("--as-group needs --as".to_owned()).into());
        }
        if !global.as_group.is_empty() {
            config.auth_info.impersonate_groups = Some(global.as_group.clone());
        }
        config.connect_timeout = Some(global.request_timeout);
        let agent = HeaderValue::from_static(AGENT);
        config.headers.push((USER_AGENT, agent));
        let namespace = match &global.namespace {
            Some(namespace) => namespace.clone(),
            None => config.default_namespace.clone(),
        };
        Ok(Self {
            server: config.cluster_url.to_string(),
            client: Client::try_from(config).context("the kubeconfig is unusable")?,
            namespace,
            global: global.clone(),
        })
    }

    /// The objects of a kind: of the command's namespace, or of the cluster.
    pub fn api(&self, resource: Resource) -> Api<DynamicObject> {
        self.api_in(resource, &self.namespace)
    }

    /// The objects of a kind in a namespace; of all namespaces if it is empty.
    pub fn api_in(&self, resource: Resource, namespace: &str) -> Api<DynamicObject> {
        let kind = api_resource(resource);
        if resource.namespaced && !namespace.is_empty() {
            Api::namespaced_with(self.client.clone(), namespace, &kind)
        } else {
            Api::all_with(self.client.clone(), &kind)
        }
    }

    /// One object.
    ///
    /// # Errors
    /// It does not exist, the user may not read it, or the apiserver did not answer.
    pub async fn get(&self, kind: &NamedKind, name: &str) -> anyhow::Result<Value> {
        let name = Name::parse(name).map_err(|error| WrongUsage(error.to_string()))?;
        let read = self.api(kind.resource);
        match self.within(read.get(name.as_str())).await? {
            Ok(object) => Ok(serde_json::to_value(object)?),
            Err(error) if is_not_found(&error) => {
                bail!(self.is_missing(kind, name.as_str(), &error))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn is_missing(&self, kind: &NamedKind, name: &str, error: &kube::Error) -> String {
        let singular = kind.singular();
        let is_unserved =
            matches!(error, kube::Error::Api(refused) if refused.reason != "NotFound");
        if is_unserved {
            return format!(
                "the cluster does not serve {}.{}: is Berth installed? `kubectl berth check` says more",
                kind.resource.plural, kind.resource.group
            );
        }
        if kind.resource.namespaced {
            format!(
                "there is no {singular} {name:?} in namespace {:?}; see `kubectl get {} -n {}`",
                self.namespace,
                qualified(kind.resource),
                self.namespace
            )
        } else {
            format!(
                "there is no {singular} {name:?}; see `kubectl get {}`",
                qualified(kind.resource)
            )
        }
    }

    /// All objects of a kind in a namespace that a selector selects; of all namespaces if the
    /// namespace is empty.
    ///
    /// # Errors
    /// The apiserver's answer.
    pub async fn list(
        &self,
        resource: Resource,
        namespace: &str,
        selector: &str,
    ) -> anyhow::Result<Vec<Value>> {
        let api = self.api_in(resource, namespace);
        let mut parameters = ListParams::default().labels(selector).limit(PAGE);
        let mut all = Vec::new();
        loop {
            let page = self.within(api.list(&parameters)).await??;
            for item in page.items {
                all.push(serde_json::to_value(item)?);
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => parameters = parameters.continue_token(&token),
                None => return Ok(all),
            }
        }
    }

    /// The same, or the sentence of the apiserver if the user may not read the kind; empty if the
    /// cluster does not serve it.
    ///
    /// # Errors
    /// The apiserver's answer, but for a refusal of a right.
    pub async fn list_if_allowed(
        &self,
        resource: Resource,
        namespace: &str,
        selector: &str,
    ) -> anyhow::Result<Result<Vec<Value>, String>> {
        match self.list(resource, namespace, selector).await {
            Ok(all) => Ok(Ok(all)),
            Err(error) => match error.downcast_ref::<kube::Error>() {
                Some(refused) if is_not_found(refused) => Ok(Ok(Vec::new())),
                Some(refused) if is_forbidden(refused) => Ok(Err(sentence(&error))),
                _ => Err(error),
            },
        }
    }

    /// Changes an object by a JSON merge patch, and returns it.
    ///
    /// # Errors
    /// The apiserver's answer.
    pub async fn patch(
        &self,
        kind: &NamedKind,
        name: &str,
        patch: &Value,
        dry_run: bool,
    ) -> anyhow::Result<Value> {
        let parameters = PatchParams {
            dry_run,
            field_manager: Some("kubectl-berth".to_owned()),
            ..PatchParams::default()
        };
        let api = self.api(kind.resource);
        let patch = Patch::Merge(patch);
        let patched = api.patch(name, &parameters, &patch);
        Ok(serde_json::to_value(self.within(patched).await??)?)
    }

    /// The settings of the controller, and what the user should know about them. Without any they
    /// are the defaults.
    pub async fn settings(&self) -> (Published, Option<String>) {
        let namespace = &self.global.berth_namespace;
        let guess = |why: String| {
            let settings = Published {
                namespace: namespace.clone(),
                ..Published::default()
            };
            (
                settings,
                Some(format!("{why}; assuming the default settings of Berth")),
            )
        };
        match published::read(&self.client, namespace).await {
            Ok(Some(settings)) if settings.version != env!("CARGO_PKG_VERSION") => {
                let note = format!(
                    "the controller has version {}, this plugin {}: what they decide may differ",
                    settings.version,
                    env!("CARGO_PKG_VERSION")
                );
                (settings, Some(note))
            }
            Ok(Some(settings)) => (settings, None),
            Ok(None) => guess(format!(
                "no controller has published its settings in namespace {namespace} (see --berth-namespace)"
            )),
            Err(failed) => guess(sentence(&failed.into())),
        }
    }

    /// The plan for an object, within `--request-timeout`.
    ///
    /// # Errors
    /// The user may not read what the plan needs, or the apiserver did not answer in time.
    pub async fn explain(
        &self,
        settings: &Published,
        object: ExplainedObject<'_>,
    ) -> anyhow::Result<Explained> {
        self.within(explain(&self.client, settings, object)).await?
    }

    /// The result of a request, within `--request-timeout`.
    ///
    /// # Errors
    /// The time is over.
    pub async fn within<T>(&self, request: impl Future<Output = T>) -> anyhow::Result<T> {
        let time = self.global.request_timeout;
        let answer = timeout(time, request).await;
        answer.with_context(|| format!("the apiserver did not answer within {time:?}"))
    }
}

async fn config(global: &Global) -> anyhow::Result<Config> {
    const NONE: &str = "no cluster: set KUBECONFIG, or use --kubeconfig";
    let options = KubeConfigOptions {
        context: global.context.clone(),
        ..KubeConfigOptions::default()
    };
    let from = match &global.kubeconfig {
        Some(path) => Some(
            Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read kubeconfig {}", path.display()))?,
        ),
        None => None,
    };
    match (from, &global.context) {
        (Some(from), _) => Ok(Config::from_custom_kubeconfig(from, &options).await?),
        (None, Some(_)) => Ok(Config::from_kubeconfig(&options).await?),
        // In a pod without a kubeconfig, its service account.
        (None, None) => Config::infer().await.context(NONE),
    }
}

/// The kind as kube names it.
pub fn api_resource(resource: Resource) -> ApiResource {
    ApiResource {
        group: resource.group.to_owned(),
        version: resource.version.to_owned(),
        api_version: resource.api_version(),
        kind: resource.kind.to_owned(),
        plural: resource.plural.to_owned(),
    }
}

/// The resource as kubectl tells it from those of other groups: `statefulsets.apps.kruise.io`.
pub fn qualified(resource: Resource) -> String {
    if resource.group.is_empty() {
        resource.plural.to_owned()
    } else {
        format!("{}.{}", resource.plural, resource.group)
    }
}
