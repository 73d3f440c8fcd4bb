//! A list in pages.

use std::time::Duration;

use tokio::time::Instant;

use super::{End, Feed};
use crate::client;
use crate::object::Object;
use crate::store::event::page;

/// The longest time for one page.
const TIMEOUT: Duration = Duration::from_secs(60);

impl<T: Object> Feed<T> {
    /// Lists everything into the store. Returns the version to watch from.
    pub(super) async fn list(&mut self) -> Result<String, End> {
        self.store.begin_list(self.force);
        let mut next = String::new();
        loop {
            let request = self.request(&[
                ("limit", &self.options.page.to_string()),
                ("continue", &next),
            ])?;
            let body = client::send(&self.client, request, Instant::now() + TIMEOUT).await?;
            let page = page::<T>(&body, self.store.limits())?;
            page.odd.iter().for_each(|odd| self.odd(odd));
            for item in page.items {
                self.take(item);
            }
            next = page.next;
            if next.is_empty() {
                return if self.listed(&page.version) {
                    Ok(page.version)
                } else {
                    Err(End::Expired)
                };
            }
        }
    }
}
