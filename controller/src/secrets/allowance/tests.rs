use super::*;

const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

#[tokio::test(start_paused = true)]
async fn each_address_has_its_own_burst_and_refill() {
    let allowance = Allowance::new(3, Duration::from_secs(1));
    let spent = |peer| (0..10).filter(|_| allowance.spend(peer)).count();
    assert_eq!((spent(ONE), spent(ONE), spent(OTHER)), (3, 0, 3));
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(spent(ONE), 2);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(spent(ONE), 3, "what is not used does not add up");
}

#[tokio::test(start_paused = true)]
async fn addresses_with_a_whole_burst_are_forgotten() {
    let allowance = Allowance::new(1, Duration::from_secs(1));
    let peers =
        || (0..u32::try_from(PEERS).unwrap()).map(|n| IpAddr::from((n + (11 << 24)).to_be_bytes()));
    assert!(peers().all(|peer| allowance.spend(peer)));
    assert!(!allowance.spend(ONE));
    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(allowance.spend(ONE));
    assert_eq!(allowance.whole.lock().len(), 1);
}
