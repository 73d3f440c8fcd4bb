//! Bodies of requests, read into memory that is counted.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// A body of so many bytes needs no memory of the budget, so that no large one holds it up: each connection has one at most, and the
/// number of connections is limited.
pub const SMALL: usize = 64 << 10;
/// What a body takes before the others have their turn on the same thread, in bytes.
const TURN: usize = 128 << 10;
/// What the budget is counted in, in bytes.
const UNIT: usize = 1 << 10;

/// What the bodies of one kind of request may cost.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimits {
    /// The largest body, in bytes.
    pub largest: usize,
    /// What a byte of a body is charged with: itself, and what its decoding and its answer need, in bytes.
    pub factor: usize,
    /// What all bodies above [`SMALL`] together may be charged with, in bytes: `largest * factor` at least.
    pub total: usize,
    /// The longest wait for memory that other bodies hold.
    pub wait: Duration,
    /// Until a body must be there, from the moment on at which it has its memory.
    pub deadline: Duration,
}

/// The memory for the bodies of one kind of request, given in the order in which they ask. A body asks once, for all that it announces,
/// so none waits for another that waits.
#[derive(Debug)]
pub struct Bodies {
    limits: BodyLimits,
    room: Arc<Semaphore>,
}

/// What a request is charged with, given back when this is dropped. Keep it until the answer is taken ([`crate::Answer`]).
#[derive(Debug, Default)]
pub struct Share(Option<OwnedSemaphorePermit>);

/// A body that is there as a whole.
#[derive(Debug)]
pub struct Received {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// What they are charged with.
    pub share: Share,
}

/// Why a body was not read.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// It is larger than the largest.
    #[error("the request's body is larger than {0} bytes")]
    TooLarge(usize),
    /// It did not come in time.
    #[error("the request's body did not come in time")]
    TooSlow,
    /// There is no memory for it.
    #[error("there is no memory for the request's body now: try again")]
    NoMemory,
    /// The connection broke, or what came is no body.
    #[error("the request's body cannot be read: {0}")]
    Broken(String),
}

impl BodyError {
    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::NoMemory => StatusCode::TOO_MANY_REQUESTS,
            Self::Broken(_) => StatusCode::BAD_REQUEST,
        }
    }
}

impl Bodies {
    /// No body yet.
    pub fn new(limits: BodyLimits) -> Self {
        Self { limits, room: Arc::new(Semaphore::new(limits.total / UNIT)) }
    }

    /// What is left of the budget, in bytes.
    pub fn left(&self) -> usize {
        self.room.available_permits() * UNIT
    }

    /// Reads a body to its end.
    ///
    /// # Errors
    /// It is too large, too slow, broken, or there is no memory for it.
    pub async fn read<B>(&self, mut body: B) -> Result<Received, BodyError>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let BodyLimits { largest, deadline, .. } = self.limits;
        let announced = body.size_hint();
        // Refused by what it announces, before anything of it is read.
        if announced.lower() > largest as u64 {
            return Err(BodyError::TooLarge(largest));
        }
        let most = announced.exact().and_then(|exact| usize::try_from(exact).ok()).unwrap_or(largest);
        let (mut bytes, mut share, mut turn) = (Vec::new(), Share::default(), TURN);
        let mut end = Instant::now() + deadline;
        loop {
            let frame = match tokio::time::timeout_at(end, body.frame()).await {
                Err(_) => return Err(BodyError::TooSlow),
                Ok(None) => return Ok(Received { bytes, share }),
                Ok(Some(frame)) => frame.map_err(|error| BodyError::Broken(error.to_string()))?,
            };
            // Trailers are of no interest.
            let Ok(data) = frame.into_data() else { continue };
            let length = bytes.len() + data.len();
            if length > largest {
                return Err(BodyError::TooLarge(largest));
            }
            if length > SMALL && share.0.is_none() {
                share = self.charge(most).await?;
                end = Instant::now() + deadline;
                bytes.reserve_exact(most.saturating_sub(bytes.len()));
            }
            bytes.extend_from_slice(&data);
            if bytes.len() >= turn {
                turn = bytes.len() + TURN;
                tokio::task::yield_now().await;
            }
        }
    }

    async fn charge(&self, bytes: usize) -> Result<Share, BodyError> {
        let units = u32::try_from(bytes.saturating_mul(self.limits.factor).div_ceil(UNIT)).unwrap_or(u32::MAX);
        let share = self.room.clone().acquire_many_owned(units);
        match tokio::time::timeout(self.limits.wait, share).await {
            Ok(Ok(share)) => Ok(Share(Some(share))),
            _ => Err(BodyError::NoMemory),
        }
    }
}

#[cfg(test)]
mod tests;
