//! Whether a watch may go on where it was.
//!
//! Versions are numbers that etcd counts up. One that is restored from a snapshot counts on from there, and a watch that goes on at
//! a version which is ahead of the server's is no error to it: it is silent until that version is reached, and what happened
//! until then is never told. So after a watch that was cut short the server is asked for its version. It reads that from etcd,
//! so it is never behind what any apiserver told before, unless the history went backwards.

use tokio::time::Instant;

use super::{End, Feed, Options, WENT_BACK, is_before};
use crate::client::metadata;
use crate::object::Object;

impl<T: Object> Feed<T> {
    /// A watch that lasts as long as it was to is followed by the next one of the same server, as a rule. Whoever is restored has
    /// ended, and its watches before their time.
    pub(super) fn is_cut_short(&self, end: &End) -> bool {
        !matches!(end, End::Closed) || self.watch_ends.is_none_or(|ends| Instant::now() < ends)
    }

    /// In doubt, asks whether the server has come to `position`. Where it has not, everything is to be listed again, and believed.
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

    /// The version of the collection now. The object that comes along is any: which one is not asked, for the server would read
    /// through all of them to find one with our labels.
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
