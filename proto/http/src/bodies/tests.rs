use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::Full;
use hyper::body::Frame;

use super::*;

const LIMITS: BodyLimits = BodyLimits {
    largest: 2 * LARGE,
    factor: 2,
    total: 4 * LARGE,
    wait: Duration::from_secs(2),
    deadline: Duration::from_secs(10),
};
const LARGE: usize = 2 * SMALL;

fn body(length: usize) -> Full<Bytes> {
    Full::new(Bytes::from(vec![b'x'; length]))
}

/// Some bytes without a length before them, and then never an end.
struct Stalled(Option<Bytes>);

impl Stalled {
    fn behind(length: usize) -> Self {
        Self(Some(vec![0; length].into()))
    }
}

impl Body for Stalled {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.take().map_or(Poll::Pending, |bytes| {
            Poll::Ready(Some(Ok(Frame::data(bytes))))
        })
    }
}

#[tokio::test]
async fn large_body_is_charged_until_its_share_is_dropped() {
    let bodies = Bodies::new(LIMITS);
    let received = bodies.read(body(LARGE)).await.unwrap();
    assert_eq!(
        (received.bytes.len(), bodies.left()),
        (LARGE, LIMITS.total - 2 * LARGE)
    );
    drop(received);
    assert_eq!(bodies.left(), LIMITS.total);
}

#[tokio::test]
async fn body_beyond_the_largest_is_refused() {
    let bodies = Bodies::new(LIMITS);
    let announced = bodies.read(body(LIMITS.largest + 1)).await.unwrap_err();
    assert_eq!(announced.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let refused = bodies
        .read(Stalled::behind(LIMITS.largest + 1))
        .await
        .unwrap_err();
    assert_eq!(
        (refused.status(), bodies.left()),
        (StatusCode::PAYLOAD_TOO_LARGE, LIMITS.total)
    );
}

#[tokio::test(start_paused = true)]
async fn stalled_body_holds_memory_until_the_deadline() {
    let bodies = Bodies::new(LIMITS);
    // Without a length it is charged as the largest.
    let stalled = bodies.read(Stalled::behind(LARGE));
    let small = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(bodies.left(), 0);
        assert_eq!(
            bodies.read(body(SMALL)).await.unwrap().bytes.len(),
            SMALL,
            "small ones need nothing of it"
        );
        assert_eq!(
            bodies.read(body(SMALL + 1)).await.unwrap_err().status(),
            StatusCode::TOO_MANY_REQUESTS
        );
    };
    let (stalled, ()) = tokio::join!(stalled, small);
    assert_eq!(
        (stalled.unwrap_err().status(), bodies.left()),
        (StatusCode::REQUEST_TIMEOUT, LIMITS.total)
    );
    let idle = bodies.read(Stalled(None)).await.unwrap_err();
    assert_eq!(idle.status(), StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn bodies_that_do_not_fit_wait_in_their_order() {
    let bodies = Bodies::new(LIMITS);
    let first = bodies.read(body(LIMITS.largest)).await.unwrap();
    let release = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(first);
    };
    let (second, third, ()) =
        tokio::join!(bodies.read(body(LARGE)), bodies.read(body(LARGE)), release);
    assert_eq!(
        (second.unwrap().bytes.len(), third.unwrap().bytes.len()),
        (LARGE, LARGE)
    );
}

#[tokio::test(start_paused = true)]
async fn skimmed_body_keeps_its_beginning_and_no_memory() {
    let bodies = Bodies::new(LIMITS);
    let begun = bodies.begin(body(64 * LIMITS.largest)).await.unwrap();
    assert!(bodies.is_too_large(&begun) && begun.bytes().is_empty());
    assert_eq!(begun.skim(LIMITS.deadline).await.unwrap().len(), SMALL);
    assert_eq!(bodies.left(), LIMITS.total);
    let stalled = bodies.begin(Stalled::behind(LARGE)).await.unwrap();
    assert!(!bodies.is_too_large(&stalled) && !stalled.is_whole());
    assert_eq!(
        stalled.skim(LIMITS.deadline).await.unwrap_err().status(),
        StatusCode::REQUEST_TIMEOUT
    );
}
