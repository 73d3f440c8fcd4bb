//! The body of a large answer.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};

use crate::Share;

/// The bytes that the connection gets at a time.
const PART: usize = 16 << 10;

/// An answer that the connection gets part by part, as its caller reads it. A connection buffers
/// little, so that the answer's memory stays charged, and its request open, until the caller reads.
#[derive(Debug)]
pub struct Answer {
    text: Vec<u8>,
    given: usize,
    _share: Share,
}

impl Answer {
    /// An answer with its request's share of memory, which is released when the connection has the
    /// whole answer.
    pub fn new(text: Vec<u8>, share: Share) -> Self {
        Self {
            text,
            given: 0,
            _share: share,
        }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let rest = self.text.get(self.given..).unwrap_or_default();
        if rest.is_empty() {
            return Poll::Ready(None);
        }
        // A copy: a part of the text itself would keep all of it in memory.
        let part = Bytes::copy_from_slice(&rest[..rest.len().min(PART)]);
        self.given += part.len();
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.given >= self.text.len()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.text.len().saturating_sub(self.given) as u64)
    }
}
