//! One run: a pod in a namespace of its own, and requests for it.

use anyhow::{Context, Result};
use berth_api::names::condition::PRE_RECREATE_GRACE;
use berth_api::names::label::RECREATE_POD_UID;
use berth_e2e::objects::{self, kind};
use http::Method;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::laws::{
    is_open, out_of_service_at_restarts, restarted_in_order, restarts, stopped_as_meant, stops,
};
use super::{APP, Expected, POD, Recreate, SIDE};
use crate::history::History;
use crate::laws;
use crate::run;
use crate::scenario::Run;
use crate::world::{ONE, World};

const GATE: &str = "KruisePodReady";

/// A pod, with the history of the pod and of its node's NodeImage.
pub(crate) struct RecreateRun<'a> {
    pub(super) world: &'a World,
    what: Recreate,
    pub(super) namespace: String,
    pods: History,
    images: History,
}

impl<'a> Run<'a> for RecreateRun<'a> {
    type Scenario = Recreate;

    async fn begin(world: &'a World, namespace: &str, what: Recreate) -> Result<Self> {
        let pods = History::start(&world.client, namespace, kind::POD).await?;
        let images = History::start(&world.client, "", kind::NODE_IMAGE).await?;
        Ok(RecreateRun {
            world,
            what,
            namespace: namespace.to_owned(),
            pods,
            images,
        })
    }

    /// Creates the pod, in service.
    async fn set_up(&mut self) -> Result<()> {
        let (client, namespace) = (&self.world.client, &self.namespace);
        self.create(&pod(self.world.node)).await?;
        let api = objects::api_of(
            client,
            namespace,
            &json!({"apiVersion": "v1", "kind": "Pod"}),
        )?;
        let open =
            Patch::Strategic(json!({"status": {"conditions": [{"type": GATE, "status": "True"}]}}));
        api.patch_status(POD, &PatchParams::default(), &open)
            .await?;
        let look = async || {
            let pod = objects::get(client, namespace, kind::POD, POD).await?;
            Ok((
                (),
                (condition(&pod, "Ready") != "True").then(|| pod.to_string()),
            ))
        };
        run::rest(&self.world.controller, look).await
    }

    async fn act(&self) -> Result<()> {
        self.what.act(self).await
    }

    async fn look(&self) -> Result<(Value, Option<String>)> {
        let client = &self.world.client;
        let pod = objects::get(client, &self.namespace, kind::POD, POD).await?;
        let requests = objects::list(
            client,
            &self.namespace,
            kind::CONTAINER_RECREATE_REQUEST,
            "",
        )
        .await?;
        let image = objects::get(client, "", kind::NODE_IMAGE, self.world.node).await?;
        let now = json!({
            "pod": pod_ending(&pod),
            "requests": requests.iter().map(|request| self.request_ending(request)).collect::<Vec<_>>(),
            "open": stops(&image, &self.namespace).filter(|stop| is_open(&image, stop)).count(),
        });
        // Messages contain the request's name.
        let now = serde_json::from_str(&now.to_string().replace(&self.namespace, "NAMESPACE"))?;
        let flaw = flaw(&now, &self.what.expected());
        Ok((now, flaw))
    }

    async fn check(&self, _ending: &Value) -> Result<()> {
        let counts = [
            (Method::POST, "pods", 0),
            (Method::DELETE, "pods", 0),
            (Method::PATCH, "pods", 0),
        ];
        laws::writes_are(&self.world.controller.ledger(), counts)?;
        let (pods, images) = (self.pods.until_now().await?, self.images.until_now().await?);
        let requests = objects::list(
            &self.world.client,
            &self.namespace,
            kind::CONTAINER_RECREATE_REQUEST,
            "",
        )
        .await?;
        let wanted = self.what.expected().restarts.iter().sum();
        stopped_as_meant(&images, &self.namespace, &requests, wanted)?;
        match self.what {
            Recreate::Ordered => restarted_in_order(&pods, &[APP, SIDE]),
            Recreate::Unready => out_of_service_at_restarts(&pods, GATE),
            _ => Ok(()),
        }
    }

    async fn clean_up(&self) -> Result<()> {
        let (client, how) = (&self.world.client, DeleteParams::background());
        for (name, _) in self.what.expected().requests {
            objects::delete(
                client,
                &self.namespace,
                kind::CONTAINER_RECREATE_REQUEST,
                name,
                &how,
            )
            .await?;
        }
        objects::delete(
            client,
            &self.namespace,
            kind::POD,
            POD,
            &how.grace_period(0),
        )
        .await
    }
}

impl RecreateRun<'_> {
    pub(super) async fn create(&self, manifest: &Value) -> Result<()> {
        objects::create(&self.world.client, &self.namespace, manifest)
            .await
            .map(drop)
            .context("cannot be created")
    }

    /// The request without ids and times. If its time is over before anything was done, its
    /// progress by then differs from run to run.
    fn request_ending(&self, request: &Value) -> Value {
        let mut request = json!({
            "name": request["metadata"]["name"], "labels": request["metadata"]["labels"], "spec": request["spec"],
            "finalizers": request["metadata"]["finalizers"], "status": request["status"],
        });
        request["labels"][RECREATE_POD_UID] =
            json!(request["labels"][RECREATE_POD_UID].is_string());
        for container in request["spec"]["containers"]
            .as_array_mut()
            .into_iter()
            .flatten()
        {
            container["statusContext"]["containerID"] =
                json!(container["statusContext"]["containerID"].is_string());
        }
        let status = &mut request["status"];
        status["completionTime"] = json!(status["completionTime"].is_string());
        for seen in status["containerStatusSnapshot"]
            .as_array_mut()
            .into_iter()
            .flatten()
        {
            seen["containerID"] = json!(seen["containerID"].is_string());
        }
        if let Some(conditions) = status["conditions"].as_array_mut() {
            let is_in_time = self.what != Recreate::OutOfTime;
            conditions.retain(|condition| is_in_time || condition["type"] != PRE_RECREATE_GRACE);
            conditions
                .iter_mut()
                .for_each(|condition| condition["lastTransitionTime"] = Value::Null);
        }
        request
    }
}

fn pod(node: &str) -> Value {
    let container = |name: &str| json!({"name": name, "image": ONE});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD}, "spec": {
        "nodeName": node, "automountServiceAccountToken": false, "readinessGates": [{"conditionType": GATE}],
        "containers": [container(APP), container(SIDE)],
    }})
}

fn condition<'a>(pod: &'a Value, type_: &str) -> &'a str {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == type_);
    found
        .and_then(|condition| condition["status"].as_str())
        .unwrap_or_default()
}

fn pod_ending(pod: &Value) -> Value {
    json!({
        "ready": condition(pod, "Ready"), "gate": condition(pod, GATE),
        "restarts": [restarts(pod, APP), restarts(pod, SIDE)],
    })
}

/// The first difference from a good ending; `None` if there is none.
fn flaw(now: &Value, wanted: &Expected) -> Option<String> {
    let requests = now["requests"].as_array().into_iter().flatten();
    let is_over = |(request, (name, message)): (&Value, &(&str, &str))| {
        let status = &request["status"];
        request["name"] == *name
            && status["phase"] == "Completed"
            && status["message"].as_str().unwrap_or_default() == *message
            && request["finalizers"].is_null()
            && request["labels"]["crr.apps.kruise.io/active"].is_null()
    };
    let all_over = requests.clone().count() == wanted.requests.len()
        && requests.zip(wanted.requests).all(is_over);
    let in_service = json!({"ready": "True", "gate": "True", "restarts": wanted.restarts});
    (!(all_over && now["pod"] == in_service && now["open"] == 0)).then(|| now.to_string())
}
