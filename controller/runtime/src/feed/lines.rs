//! A byte stream cut into lines.

use http_body_util::BodyExt;
use hyper::body::Bytes;
use kube::client::Body;

use crate::client::Failed;

/// No object comes near: etcd takes 1.5 MB.
const LONGEST: usize = 32 << 20;

/// Cuts frames at newlines. A line within one frame is not copied.
#[derive(Default)]
pub(super) struct Cutter {
    frame: Bytes,
    begun: Vec<u8>,
}

impl Cutter {
    /// Adds a frame; every line must have been taken before.
    pub(super) fn push(&mut self, frame: Bytes) {
        debug_assert!(self.frame.is_empty());
        self.frame = frame;
    }

    /// The next whole line, without its newline.
    pub(super) fn line(&mut self) -> Option<Bytes> {
        let Some(end) = memchr::memchr(b'\n', &self.frame) else {
            self.begun.extend_from_slice(&self.frame);
            self.frame.clear();
            return None;
        };
        let mut line = self.frame.split_to(end + 1);
        line.truncate(end);
        if self.begun.is_empty() {
            return Some(line);
        }
        let mut whole = std::mem::take(&mut self.begun);
        whole.extend_from_slice(&line);
        Some(whole.into())
    }

    fn is_too_long(&self) -> bool {
        self.begun.len() > LONGEST
    }
}

/// The lines of a response.
pub(super) struct Lines {
    body: Body,
    cutter: Cutter,
}

impl Lines {
    pub(super) fn new(body: Body) -> Self {
        Self {
            body,
            cutter: Cutter::default(),
        }
    }

    /// The next line; `None` at the end, where half a line is dropped.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Failed> {
        loop {
            if let Some(line) = self.cutter.line() {
                return Ok(Some(line));
            }
            if self.cutter.is_too_long() {
                return Err(Failed {
                    message: format!("a line of more than {LONGEST} bytes"),
                    ..Failed::default()
                });
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.cutter.push(data);
                    }
                }
                Some(Err(error)) => {
                    return Err(Failed {
                        message: format!("the stream broke off: {error}"),
                        ..Failed::default()
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
