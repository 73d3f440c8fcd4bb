//! Stopping containers.

use super::clock::now;
use super::jobs::{self, Question};
use crate::containers::env::{self, Stop};
use crate::runtime::Runtime;
use crate::runtime::cri::CriError;
use berth_api::v1beta1::nodeimage::NodeImageSpec;
use k8s_cri::v1::Container;
use std::sync::Arc;
use tracing::info;

use super::{Agent, Connection};

impl Agent {
    /// Begins the requested stops of the containers that the runtime listed.
    pub(super) fn on_seen(&mut self, seen: Result<Vec<Container>, CriError>) {
        let requested = self
            .node
            .as_ref()
            .map(|node| node.spec.stop_containers.as_slice())
            .unwrap_or_default();
        let otherwise = &self.inspection.stopping;
        let begins = self.stops.seen(
            requested,
            seen.as_deref(),
            |id| otherwise.contains(id),
            now(),
        );
        let Connection::Ready(runtime) = &self.runtime else {
            // The runtime went away just now: the stops begin when it is back.
            return begins.iter().for_each(|begin| self.stops.not_begun(begin));
        };
        for begin in begins {
            info!(
                container = begin.what,
                id = begin.id,
                request = begin.stop.request,
                "stopping for a request"
            );
            tokio::spawn(jobs::end(
                runtime.clone(),
                self.settings.node_ip,
                begin,
                self.done.clone(),
            ));
        }
    }

    pub(super) fn inspect(&mut self, spec: &NodeImageSpec, runtime: &Arc<Runtime>) {
        let due =
            self.inspection.due && !self.inspection.under_way && !spec.inspect_pods.is_empty();
        if !due {
            return;
        }
        self.inspection.due = false;
        self.inspection.under_way = true;
        let question = Question {
            pods: spec.inspect_pods.clone(),
            names: crate::tasks::names(spec),
            before: self.inspection.pods.clone(),
            stopping: self.inspection.stopping.clone(),
        };
        tokio::spawn(jobs::inspect(runtime.clone(), question, self.done.clone()));
    }

    /// Stops containers. A result may be of an entry that has gone: then there is no hurry.
    pub(super) fn stop(&mut self, stops: Vec<Stop>) {
        for stop in stops {
            let is_at_work = self.stops.is_at_work(&stop.id);
            if self.inspection.due
                || is_at_work
                || !self.inspection.stopping.insert(stop.id.clone())
            {
                continue;
            }
            tokio::spawn(jobs::await_kubelet(stop, self.done.clone()));
        }
    }

    /// Stops a container, unless its entry was changed or removed while its kubelet had time.
    pub(super) fn stop_if_still_requested(&mut self, stop: Stop) {
        let pods = self
            .node
            .as_ref()
            .map(|node| node.spec.inspect_pods.as_slice())
            .unwrap_or_default();
        let is_requested = env::is_still_requested(pods, &stop);
        match &self.runtime {
            Connection::Ready(runtime) if is_requested => {
                info!(
                    container = stop.what,
                    id = stop.id,
                    "stopped, to be created anew"
                );
                tokio::spawn(jobs::stop(
                    runtime.clone(),
                    self.settings.node_ip,
                    stop,
                    self.done.clone(),
                ));
            }
            _ => {
                info!(
                    container = stop.what,
                    id = stop.id,
                    asked = is_requested,
                    "not stopped after all"
                );
                self.inspection.stopping.remove(&stop.id);
                self.inspection.due = true;
            }
        }
    }
}
