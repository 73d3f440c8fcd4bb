//! Disabled kinds: removes conditions of their objects that hold only while the kind is enabled,
//! because no other writer would change them.

use std::time::Duration;

use berth_api::kinds::{self, Kind};
use berth_api::names::condition::{ENFORCED, INJECTION_READY};
use jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::kinds::Kinds;

/// Objects in one page of a list.
const PAGE: u32 = 50;
/// The wait after a failure doubles from here.
const BACKOFF_MIN: Duration = Duration::from_secs(1);
/// It doubles up to here.
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// A condition that objects of a kind have while it is enabled.
#[derive(Clone, Copy)]
pub(crate) struct Promise {
    kind: &'static Kind,
    condition: &'static str,
    /// The message in place of the promise.
    instead: &'static str,
}

const PROMISES: [Promise; 3] = [
    Promise {
        kind: &kinds::SIDECAR_SET,
        condition: INJECTION_READY,
        instead: "no pod gets the containers",
    },
    Promise {
        kind: &kinds::POD_UNAVAILABLE_BUDGET,
        condition: ENFORCED,
        instead: UNASKED,
    },
    Promise {
        kind: &kinds::DISTRIBUTED_POD_DISRUPTION_BUDGET,
        condition: ENFORCED,
        instead: UNASKED,
    },
];
const UNASKED: &str = "no budget is checked before pods are taken out of service";

impl Promise {
    /// The promises of disabled kinds.
    pub(crate) fn of_kinds_left_out(kinds: &mut Kinds) -> Vec<Self> {
        PROMISES
            .into_iter()
            .filter(|promise| !kinds.has(promise.kind.kind))
            .collect()
    }

    /// The object's conditions without the promise; `None` if it has none.
    fn taken_back(&self, object: &Value, now: Timestamp) -> Option<Value> {
        let mut conditions = object["status"]["conditions"].clone();
        let mut all = conditions.as_array_mut()?.iter_mut();
        let promise =
            all.find(|known| known["type"] == self.condition && known["status"] == "True")?;
        let Self { kind, instead, .. } = self;
        let kind = kind.kind;
        promise["status"] = json!("False");
        promise["reason"] = json!("KindSwitchedOff");
        promise["message"] = json!(format!(
            "{instead}: the controller's CUSTOM_RESOURCE_ENABLE does not name {kind}; add it there"
        ));
        promise["lastTransitionTime"] = json!(now.strftime("%FT%TZ").to_string());
        Some(conditions)
    }
}

/// Removes the promises, and retries until that is done; drop the future to give up.
pub(crate) async fn take_back(client: &Client, promises: &[Promise]) {
    for promise in promises {
        let mut wait = BACKOFF_MIN;
        while let Err(error) = take_back_one(client, promise).await {
            let (kind, seconds) = (promise.kind.kind, wait.as_secs());
            tracing::warn!(kind, %error, seconds, "cannot say in the status that the kind is switched off; trying again");
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(BACKOFF_MAX);
        }
    }
}

async fn take_back_one(client: &Client, promise: &Promise) -> kube::Result<()> {
    let Kind {
        group,
        kind,
        plural,
        ..
    } = promise.kind;
    let gvk = GroupVersionKind::gvk(group, promise.kind.stored.name(), kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
    let all = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let mut params = ListParams::default().limit(PAGE);
    loop {
        // A kind that is not installed promises nothing.
        let page = match all.list(&params).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(()),
            page => page?,
        };
        for object in &page.items {
            let Some(conditions) = promise.taken_back(&object.data, Timestamp::now()) else {
                continue;
            };
            let of = match object.metadata.namespace.as_deref() {
                Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
                None => all.clone(),
            };
            write(&of, object, &conditions).await?;
        }
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => params = params.continue_token(&token),
            _ => return Ok(()),
        }
    }
}

/// Writes the conditions unless the object has changed meanwhile.
async fn write(
    of: &Api<DynamicObject>,
    object: &DynamicObject,
    conditions: &Value,
) -> kube::Result<()> {
    let version = object.metadata.resource_version.as_deref();
    let patch =
        json!({"metadata": {"resourceVersion": version}, "status": {"conditions": conditions}});
    let params = PatchParams {
        field_manager: Some("berth-controller".to_owned()),
        ..PatchParams::default()
    };
    match of
        .patch_status(&object.name_any(), &params, &Patch::Merge(patch))
        .await
    {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        written => written.map(|_| ()),
    }
}

#[cfg(test)]
mod tests;
