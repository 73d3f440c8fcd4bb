//! Bodies of requests, read within a memory budget.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// A body of at most this many bytes needs no memory of the budget, so that large bodies do not
/// delay it. Each connection has at most one, and the number of connections is limited.
pub const SMALL: usize = 64 << 10;
/// How many bytes of a body are read before other tasks of the thread run.
const TURN: usize = 128 << 10;
/// The unit of the budget, in bytes.
const UNIT: usize = 1 << 10;

/// The memory limits for the bodies of one kind of request.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimits {
    /// The largest body, in bytes.
    pub largest: usize,
    /// The memory per byte of a body, in bytes: the byte itself, its decoding and its answer.
    pub factor: usize,
    /// The memory of all bodies above [`SMALL`] together, in bytes: at least `largest * factor`.
    pub total: usize,
    /// The longest wait for memory that other bodies hold.
    pub wait: Duration,
    /// The longest time until a body is complete, once it has its memory.
    pub deadline: Duration,
}

/// The memory for the bodies of one kind of request, in the order of requests. A body reserves
/// once, for its whole announced size, so that no waiting body holds memory.
#[derive(Debug)]
pub struct Bodies {
    limits: BodyLimits,
    room: Arc<Semaphore>,
}

/// The memory of a request, released when this is dropped. Keep it until the answer is sent
/// ([`crate::Answer`]).
#[derive(Debug, Default)]
pub struct Share {
    _held: Option<OwnedSemaphorePermit>,
}

/// A complete body.
#[derive(Debug)]
pub struct Received {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The memory for them.
    pub share: Share,
}

/// A body with its beginning read: all of it, or more than [`SMALL`] bytes.
#[derive(Debug)]
pub struct Begun<B> {
    body: B,
    bytes: Vec<u8>,
    is_whole: bool,
}

impl<B> Begun<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    /// The bytes that are read.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether the body is complete.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Whether the body is larger than this, by its read or announced bytes.
    fn is_beyond(&self, largest: usize) -> bool {
        self.body
            .size_hint()
            .lower()
            .saturating_add(self.bytes.len() as u64)
            > largest as u64
    }

    /// Reads the body to its end within this time, and returns its beginning. The rest is
    /// discarded, so that the body needs no memory of the budget. Answer after the end, because a
    /// caller that still sends may not see an answer.
    ///
    /// # Errors
    /// The body is too slow or broken.
    pub async fn skim(mut self, deadline: Duration) -> Result<Vec<u8>, BodyError> {
        let (end, mut read) = (Instant::now() + deadline, 0);
        while let Some(data) = self.next(end).await? {
            let room = SMALL.saturating_sub(self.bytes.len()).min(data.len());
            self.bytes.extend_from_slice(&data[..room]);
            read += data.len();
            if read >= TURN {
                read = 0;
                tokio::task::yield_now().await;
            }
        }
        Ok(self.bytes)
    }

    /// The next bytes; `None` at the end.
    async fn next(&mut self, end: Instant) -> Result<Option<Bytes>, BodyError> {
        loop {
            return match tokio::time::timeout_at(end, self.body.frame()).await {
                Err(_) => Err(BodyError::TooSlow),
                Ok(None) => Ok(None),
                Ok(Some(Err(error))) => Err(BodyError::Broken(error.to_string())),
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => Ok(Some(data)),
                    // Trailers are ignored.
                    Err(_) => continue,
                },
            };
        }
    }
}

/// Why a body was not read.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// It is larger than the limit.
    #[error("the request's body is larger than {0} bytes")]
    TooLarge(usize),
    /// It did not arrive in time.
    #[error("the request's body did not come in time")]
    TooSlow,
    /// There is no memory for it.
    #[error("there is no memory for the request's body now: try again")]
    NoMemory,
    /// The connection broke, or the data is no valid body.
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
    /// Creates the budget, without bodies yet.
    pub fn new(limits: BodyLimits) -> Self {
        Self {
            limits,
            room: Arc::new(Semaphore::new(limits.total / UNIT)),
        }
    }

    /// Whether a body is too large to be read.
    pub fn is_too_large<B>(&self, begun: &Begun<B>) -> bool
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        begun.is_beyond(self.limits.largest)
    }

    /// The free memory of the budget, in bytes.
    pub fn left(&self) -> usize {
        self.room.available_permits() * UNIT
    }

    /// Reads a body to its end.
    ///
    /// # Errors
    /// It is too large, too slow, broken, or there is no memory for it.
    pub async fn read<B>(&self, body: B) -> Result<Received, BodyError>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        self.rest(self.begin(body).await?).await
    }

    /// Reads the beginning of a body, which needs no memory of the budget. Reads nothing of a body
    /// whose announced size is too large.
    ///
    /// # Errors
    /// The body is too slow or broken.
    pub async fn begin<B>(&self, body: B) -> Result<Begun<B>, BodyError>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let mut begun = Begun {
            body,
            bytes: Vec::new(),
            is_whole: false,
        };
        let end = Instant::now() + self.limits.deadline;
        if begun.is_beyond(self.limits.largest) {
            return Ok(begun);
        }
        while !begun.is_whole && begun.bytes.len() <= SMALL {
            match begun.next(end).await? {
                Some(data) => begun.bytes.extend_from_slice(&data),
                None => begun.is_whole = true,
            }
        }
        Ok(begun)
    }

    /// Reads the rest of a body, after [`Self::begin`].
    ///
    /// # Errors
    /// The body is too large, too slow, broken, or there is no memory for it.
    pub async fn rest<B>(&self, mut begun: Begun<B>) -> Result<Received, BodyError>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let BodyLimits {
            largest, deadline, ..
        } = self.limits;
        if begun.is_beyond(largest) {
            return Err(BodyError::TooLarge(largest));
        }
        if begun.is_whole {
            return Ok(Received {
                bytes: begun.bytes,
                share: Share::default(),
            });
        }
        let mut bytes = std::mem::take(&mut begun.bytes);
        let left = begun
            .body
            .size_hint()
            .exact()
            .and_then(|exact| usize::try_from(exact).ok());
        let most = left
            .map_or(largest, |left| bytes.len().saturating_add(left))
            .min(largest);
        let share = self.charge(most).await?;
        let end = Instant::now() + deadline;
        bytes.reserve_exact(most.saturating_sub(bytes.len()));
        let mut turn = bytes.len() + TURN;
        while let Some(data) = begun.next(end).await? {
            if bytes.len() + data.len() > largest {
                return Err(BodyError::TooLarge(largest));
            }
            bytes.extend_from_slice(&data);
            if bytes.len() >= turn {
                turn = bytes.len() + TURN;
                tokio::task::yield_now().await;
            }
        }
        Ok(Received { bytes, share })
    }

    /// Reserves the memory for a body of this many bytes.
    ///
    /// # Errors
    /// Other bodies held the memory for longer than [`BodyLimits::wait`].
    async fn charge(&self, bytes: usize) -> Result<Share, BodyError> {
        let units = u32::try_from(bytes.saturating_mul(self.limits.factor).div_ceil(UNIT))
            .unwrap_or(u32::MAX);
        let share = self.room.clone().acquire_many_owned(units);
        match tokio::time::timeout(self.limits.wait, share).await {
            Ok(Ok(share)) => Ok(Share { _held: Some(share) }),
            _ => Err(BodyError::NoMemory),
        }
    }
}

#[cfg(test)]
mod tests;
