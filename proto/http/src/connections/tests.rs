use super::*;

const GREEDY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const MODEST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

#[tokio::test(start_paused = true)]
async fn newcomer_replaces_oldest_of_largest_peer() {
    let connections = Connections::new(3, 3);
    let modest = connections.admit(MODEST).unwrap();
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    let first = connections.admit(GREEDY).unwrap();
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    let second = connections.admit(GREEDY).unwrap();
    let is_refused = async || {
        tokio::time::timeout(std::time::Duration::ZERO, connections.refusal())
            .await
            .is_ok()
    };
    assert!(!is_refused().await, "none is refused yet");
    let newcomer = connections.admit(MODEST).unwrap();
    assert!(is_refused().await);
    first.state.dropped.notified().await;
    assert_eq!(
        (connections.of_peer(GREEDY), connections.of_peer(MODEST)),
        (1, 2)
    );
    drop((modest, second, newcomer, first));
    assert_eq!(connections.count(), 0);
}

#[tokio::test]
async fn a_peer_with_its_full_share_gives_up_one_of_its_own() {
    let connections = Connections::new(10, 2);
    let modest = connections.admit(MODEST).unwrap();
    let slots: Vec<_> = (0..5).map(|_| connections.admit(GREEDY).unwrap()).collect();
    assert_eq!(
        (connections.of_peer(GREEDY), connections.of_peer(MODEST)),
        (2, 1)
    );
    drop((slots, modest));
}

#[tokio::test(start_paused = true)]
async fn first_request_waits_since_its_connection_came() {
    const MOST: Duration = Duration::from_secs(2);
    let (connections, second) = (Connections::new(3, 3), Duration::from_secs(1));
    let (slot, idle) = (
        connections.admit(MODEST).unwrap(),
        connections.admit(MODEST).unwrap(),
    );
    let came = Instant::now();
    tokio::time::advance(second).await;
    assert_eq!(
        Caller::new(slot.state.clone()).waits_since(MOST),
        came,
        "the handshake took a second"
    );
    drop(slot.state.open());
    tokio::time::advance(second * 9).await;
    assert_eq!(
        Caller::new(slot.state.clone()).waits_since(MOST),
        came + second * 10
    );
    assert_eq!(
        Caller::new(idle.state.clone()).waits_since(MOST),
        came + second * 8,
        "it was opened for another"
    );
}

#[tokio::test]
async fn working_connection_is_not_replaced() {
    let connections = Connections::new(1, 1);
    let slot = connections.admit(GREEDY).unwrap();
    let working = Caller::new(slot.state.clone()).working();
    assert!(connections.admit(MODEST).is_none() && connections.admit(GREEDY).is_none());
    drop(working);
    assert!(connections.admit(MODEST).is_some());
}
