//! The parts of a revision's template that in-place updates need, read once for all pods.

use std::cell::OnceCell;

use serde_json::Value;

use super::env::{Env, Readers};
use crate::plan::PodPatch;
use crate::update::revision::Revision;

/// A revision, and the parts of its template that one decision keeps.
#[derive(Debug)]
pub struct Brief<'a> {
    revision: &'a Revision,
    read: OnceCell<Read>,
}

#[derive(Debug)]
struct Read {
    images: Vec<(String, String)>,
    readers: Readers,
}

impl<'a> Brief<'a> {
    /// Reads the template at the first use.
    pub fn new(revision: &'a Revision) -> Self {
        Self {
            revision,
            read: OnceCell::new(),
        }
    }

    /// The revision's name.
    pub fn name(&self) -> &'a str {
        &self.revision.metadata.name
    }

    /// The images of the template's containers, by their names.
    pub(super) fn images(&self) -> impl Iterator<Item = (&str, &str)> {
        self.read()
            .images
            .iter()
            .map(|(name, image)| (&**name, &**image))
    }

    /// The variables of the template's containers that read labels or annotations which the patch
    /// changes.
    pub(super) fn read_by(&self, patch: &PodPatch) -> Env {
        self.read().readers.of(patch)
    }

    fn read(&self) -> &Read {
        self.read.get_or_init(|| {
            let template = self.revision.template();
            let containers = template
                .pointer("/spec/containers")
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            let images = containers.filter_map(|c| {
                Some((
                    c["name"].as_str()?.to_owned(),
                    c["image"].as_str()?.to_owned(),
                ))
            });
            Read {
                images: images.collect(),
                readers: Readers::new(&template),
            }
        })
    }
}
