//! Whether a watch may continue where it was.
//!
//! Versions are numbers that etcd counts up. An etcd that is restored from a snapshot counts on
//! from the snapshot. A watch that continues at a version ahead of the server's is no error: it is
//! silent until the server reaches that version, and never reports the changes until then. So after
//! a watch that was cut short the feed reads the server's version. The server reads that version
//! from etcd, so that it is never behind the versions that any apiserver sent before, unless the
//! history went backwards.

use tokio::time::Instant;

use super::{End, Feed, Options, WENT_BACK, is_before};
use crate::client::metadata;
use crate::object::Object;

impl<T: Object> Feed<T> {
    /// Whether a watch ended early. A watch that lasts as long as planned is usually followed by
    /// the next one of the same server. A server that is restored has ended before, and its watches
    /// early.
    pub(super) fn is_cut_short(&self, end: &End) -> bool {
        !matches!(end, End::Closed) || self.watch_ends.is_none_or(|ends| Instant::now() < ends)
    }

    /// In doubt, checks whether the server has reached `position`. If not, the feed must list
    /// everything again, and accept it.
    pub(super) async fn look_back(&mut self, position: Option<&str>) -> Result<(), End> {
        let Some(position) = position.filter(|_| self.doubt) else {
            self.doubt = false;
            return Ok(());
        };
        let version = self.version().await?;
        self.doubt = false;
        if is_before(&version, position) {
            tracing::warn!(
                kind = self.options.resource.kind,
                version,
                position,
                "{WENT_BACK}"
            );
            self.force = true;
            return Err(End::Expired);
        }
        Ok(())
    }

    /// The present version of the collection. The request has no label selector, because the server
    /// would read all objects to find a matching one; the returned object does not matter.
    async fn version(&self) -> Result<Box<str>, End> {
        let Options {
            namespace, fields, ..
        } = &self.options;
        let parameters = [("fieldSelector", &**fields), ("limit", "1")];
        Ok(
            metadata::page(&self.client, &self.options.resource, namespace, &parameters)
                .await?
                .version,
        )
    }
}

#[cfg(test)]
mod tests;
