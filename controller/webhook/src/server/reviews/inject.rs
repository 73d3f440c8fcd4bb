//! AdmissionReviews of new pods that SidecarSets select: they get their sidecars. A pod stays
//! untyped JSON, so that fields which are newer than we are survive.

use std::borrow::Cow;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use serde_json::Value;

use berth_api::name;
use berth_workload::objects::pod::Pod;
use serde::de::Error;

use super::admission::Look;
use super::pod_review::{Answer, Head, Unanswered, read};
use crate::pods::{Injected, Injector, Labels, Lacks, NotYet};
use crate::server::judge::Judge;
use crate::server::reviews::review_kinds::LARGEST;

/// The most bytes of a warning; clients show no longer ones.
const LONGEST_WARNING: usize = 250;
/// The longest wait for a namespace: the apiserver waits for us, and a client for it.
pub(in crate::server) const PATIENCE: Duration = Duration::from_millis(900);

/// A review of a pod whose namespace is not known yet, or not in its current state. The namespace
/// may have come or changed a moment ago, right before the pod. The question holds the pod's text,
/// because a tree takes many times as much memory.
pub(crate) struct Question {
    uid: String,
    namespace: String,
    pod: String,
}

/// Answers an AdmissionReview of a new pod with the patch that adds its sidecars, if that needs no
/// waiting. A pod that no store could hold is refused, because otherwise it would be in no count
/// and get no update.
///
/// # Errors
/// There is no answer to it, or none yet.
pub(crate) fn look(body: &[u8], injector: &dyn Injector) -> Result<Look<Question>, Unanswered> {
    let request = read(body)?;
    let Some(text) = request.object() else {
        return Ok(Look::Answer(Answer::to(&request.uid).written()?));
    };
    if let Err(why) = Pod::read(text) {
        return Ok(Look::Answer(refused(&request.uid, &why)?));
    }
    let pod = serde_json::from_str(text)?;
    match injector.inject(&request.namespace, None, &pod) {
        Ok(injected) => Ok(Look::Answer(answered(&request.uid, &pod, injected)?)),
        Err(Lacks::Namespace) => {
            let [uid, namespace] = [request.uid, request.namespace].map(Cow::into_owned);
            Ok(Look::Asks(Question {
                uid,
                namespace,
                pod: text.to_owned(),
            }))
        }
        Err(Lacks::Store(not_yet)) => Err(not_yet.into()),
    }
}

/// Answers a review that is too large to be read, of which this is the beginning: its pod is
/// refused, because otherwise it would do without its sidecars.
///
/// # Errors
/// The beginning is that of no review.
pub(crate) fn too_large(begin: &[u8]) -> Result<Vec<u8>, Unanswered> {
    let Head { uid, .. } = Head::of(begin);
    if uid.is_empty() {
        return Err(serde_json::Error::custom("request.uid is not at its beginning").into());
    }
    let why = format!(
        "its review has more than {LARGEST} bytes, which are the limit; characters such as < take six bytes there: \
         keep large data in a ConfigMap or a volume"
    );
    Ok(refused(&uid, &why)?)
}

fn refused(uid: &str, why: &str) -> Result<Vec<u8>, serde_json::Error> {
    let mut answer = Answer::to(uid);
    answer.refuse(&format!("the pod cannot get its sidecars: {why}"));
    answer.written()
}

fn answered(uid: &str, pod: &Value, injected: Injected) -> Result<Vec<u8>, serde_json::Error> {
    let mut answer = Answer::to(uid);
    let Injected {
        pod: injected,
        warnings,
        refused,
    } = injected;
    if !warnings.is_empty() {
        answer.warn(
            warnings
                .iter()
                .map(|warning| &warning[..warning.floor_char_boundary(LONGEST_WARNING)]),
        );
    }
    if let Some(message) = refused {
        answer.refuse(&message);
    } else if let Some(injected) = injected {
        answer.change(pod, &injected)?;
    }
    answer.written()
}

impl Question {
    /// The namespace of the review.
    pub(in crate::server) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The answer, with the labels of the namespace that the apiserver returned.
    ///
    /// # Errors
    /// The apiserver does not answer, so the failure policy decides.
    pub(in crate::server) async fn answer(self, judge: &Judge) -> Result<Vec<u8>, Unanswered> {
        let unknown = NotYet("namespaces");
        let injector = judge.injector.as_ref().ok_or(unknown)?;
        let labels = labels(&judge.client, &self.namespace)
            .await
            .ok_or(unknown)?;
        let pod = serde_json::from_str(&self.pod)?;
        match injector.inject(&self.namespace, Some(&labels), &pod) {
            Ok(injected) => Ok(answered(&self.uid, &pod, injected)?),
            Err(Lacks::Namespace) => Err(unknown.into()),
            Err(Lacks::Store(not_yet)) => Err(not_yet.into()),
        }
    }

    /// Without the question there is no answer.
    pub(in crate::server) fn overloaded() -> Unanswered {
        NotYet("namespaces").into()
    }
}

/// The labels of a namespace. Its name comes from the caller of the webhook and becomes part of a
/// request, so it is checked.
async fn labels(client: &Client, namespace: &str) -> Option<Labels> {
    let name = name::Namespace::parse(namespace).ok()?;
    let namespaces = Api::<Namespace>::all(client.clone());
    let found = namespaces.get_metadata(name.as_str()).await.ok()?;
    Some(found.metadata.labels.unwrap_or_default())
}

#[cfg(test)]
mod tests;
