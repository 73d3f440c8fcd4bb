use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::Full;
use hyper::body::Frame;

use super::*;

fn caller(number: u8) -> Caller {
    Caller::detached(std::net::Ipv4Addr::new(10, 0, 0, number).into())
}

const LIMITS: BodyLimits =
    BodyLimits { largest: 100, factor: 2, total: 400, deadline: Duration::from_secs(10), wait: Duration::from_secs(2) };

fn body(length: usize) -> Full<Bytes> {
    Full::new(Bytes::from(vec![b'x'; length]))
}

/// Some bytes, and then never an end.
struct Stalled(Option<Bytes>);

impl Body for Stalled {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.take().map_or(Poll::Pending, |bytes| Poll::Ready(Some(Ok(Frame::data(bytes)))))
    }
}

#[tokio::test]
async fn a_body_is_charged_by_its_bytes_until_its_share_is_dropped() {
    let bodies = Bodies::new(LIMITS);
    let received = bodies.read(&caller(1), body(50)).await.unwrap();
    assert_eq!((received.bytes.len(), received.share.bytes(), bodies.charged()), (50, 100, 100));
    drop(received);
    assert_eq!((bodies.charged(), bodies.highest()), (0, 100));
    assert!(bodies.lock().peers.is_empty());
}

#[tokio::test]
async fn a_body_that_announces_too_much_is_refused_before_it_is_read() {
    let bodies = Bodies::new(LIMITS);
    let refused = bodies.read(&caller(1), body(101)).await.unwrap_err();
    assert_eq!((refused.status(), bodies.highest()), (StatusCode::PAYLOAD_TOO_LARGE, 0));
}

#[tokio::test]
async fn a_body_that_announces_nothing_is_refused_where_it_gets_too_large() {
    let bodies = Bodies::new(LIMITS);
    let refused = bodies.read(&caller(1), Stalled(Some(Bytes::from(vec![0; 101])))).await.unwrap_err();
    assert_eq!((refused.status(), bodies.charged()), (StatusCode::PAYLOAD_TOO_LARGE, 0));
}

#[tokio::test(start_paused = true)]
async fn a_body_without_bytes_holds_nothing_and_is_refused_at_its_deadline() {
    let bodies = Bodies::new(LIMITS);
    let waiting: Vec<_> = (0..1000)
        .map(|_| {
            let bodies = bodies.clone();
            tokio::spawn(async move { bodies.read(&caller(1), Stalled(None)).await.unwrap_err().status() })
        })
        .collect();
    tokio::task::yield_now().await;
    assert_eq!(bodies.charged(), 0);
    assert_eq!(bodies.read(&caller(1), body(100)).await.unwrap().bytes.len(), 100);
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap(), StatusCode::REQUEST_TIMEOUT);
    }
}

#[tokio::test(start_paused = true)]
async fn one_peer_gets_half_and_others_are_served_meanwhile() {
    let bodies = Bodies::new(LIMITS);
    let held = bodies.read(&caller(1), body(100)).await.unwrap();
    assert_eq!(bodies.read(&caller(1), body(1)).await.unwrap_err().status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(bodies.read(&caller(2), body(100)).await.unwrap().bytes.len(), 100);
    drop(held);
    assert!(bodies.read(&caller(1), body(1)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_finds_no_memory_gets_what_is_given_back_meanwhile() {
    let bodies = Bodies::new(LIMITS);
    let held = bodies.read(&caller(1), body(100)).await.unwrap();
    let second = tokio::spawn({
        let bodies = bodies.clone();
        async move { bodies.read(&caller(1), body(1)).await.map(|received| received.bytes.len()) }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(held);
    assert_eq!(second.await.unwrap().unwrap(), 1);
    assert_eq!(bodies.highest(), 200);
}

/// Bytes that come one by one, with others' between them.
struct Dripping {
    left: usize,
    is_next: bool,
}

impl Body for Dripping {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.is_next = !self.is_next;
        if self.is_next {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let next = self.left.checked_sub(1).map(|left| self.left = left);
        Poll::Ready(next.map(|()| Ok(Frame::data(Bytes::from_static(b"x")))))
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_that_fill_the_memory_at_once_do_not_wait_for_each_other() {
    let (bodies, began) = (Bodies::new(LIMITS), Instant::now());
    let mut reading = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let bodies = bodies.clone();
        reading.spawn(async move {
            let read = bodies.read(&caller(1), Dripping { left: 100, is_next: false }).await;
            read.map(|received| received.bytes.len()).map_err(|error| error.status())
        });
    }
    let read = reading.join_all().await;
    assert!(read.iter().any(Result::is_ok), "{read:?}");
    assert!(read.iter().all(|read| matches!(read, Ok(100) | Err(StatusCode::TOO_MANY_REQUESTS))), "{read:?}");
    assert_eq!(began.elapsed(), Duration::ZERO, "nobody waited for what others hold");
    assert_eq!(bodies.charged(), 0);
    assert!(bodies.lock().peers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn where_all_memory_is_held_the_largest_of_the_peer_with_the_most_gives_way() {
    let bodies = Bodies::new(LIMITS);
    let (small, large, other) = (caller(1), caller(1), caller(2));
    let held = [
        bodies.read(&small, body(20)).await.unwrap(),
        bodies.read(&large, body(80)).await.unwrap(),
        bodies.read(&other, body(95)).await.unwrap(),
    ];
    assert_eq!(bodies.charged(), 390);
    let newcomer = tokio::spawn({
        let bodies = bodies.clone();
        async move { bodies.read(&caller(3), body(50)).await.map(|received| received.bytes.len()) }
    });
    large.gives_way().await;
    // What its connection held is given back.
    let [_small, large, _other] = held;
    drop(large);
    assert_eq!(newcomer.await.unwrap().unwrap(), 50);
}

#[tokio::test(start_paused = true)]
async fn a_body_gives_way_neither_while_it_is_worked_on_nor_to_a_peer_that_would_hold_as_much() {
    let bodies = Bodies::new(LIMITS);
    let (one, other) = (caller(1), caller(2));
    let held = [bodies.read(&one, body(100)).await.unwrap(), bodies.read(&other, body(99)).await.unwrap()];
    let working = [one.working(), other.working()];
    assert_eq!(bodies.read(&caller(3), body(2)).await.unwrap_err().status(), StatusCode::TOO_MANY_REQUESTS);
    drop(working);
    assert_eq!(bodies.read(&other, body(2)).await.unwrap_err().status(), StatusCode::TOO_MANY_REQUESTS);
    let told =
        |caller: Caller| async move { tokio::time::timeout(Duration::from_secs(1), caller.gives_way()).await.is_ok() };
    assert!(!told(one).await && !told(other).await, "somebody was told to give way");
    drop(held);
}
