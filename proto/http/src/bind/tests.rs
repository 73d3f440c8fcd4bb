use tokio::net::TcpStream;

use super::*;

#[tokio::test]
async fn unspecified_ipv6_address_accepts_both_families() {
    let listener = bind(any(0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    TcpStream::connect((Ipv4Addr::LOCALHOST, port))
        .await
        .unwrap();
    // On a machine without IPv6 the listener is of IPv4, and that is all there is to it.
    if listener.local_addr().unwrap().is_ipv6() {
        TcpStream::connect((Ipv6Addr::LOCALHOST, port))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn taken_port_is_an_error() {
    let taken = bind(any(0)).await.unwrap();
    let error = bind(any(taken.local_addr().unwrap().port()))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
}
