//! Where a server listens.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket};

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// All addresses of the machine, of both families.
pub fn any(port: u16) -> SocketAddr {
    (Ipv6Addr::UNSPECIFIED, port).into()
}

/// Listens on an address. `[::]` means all addresses of both families; where there is no IPv6, those of IPv4.
///
/// # Errors
/// The port is taken, not ours to take, or the address is not this machine's.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    if address.ip() != Ipv6Addr::UNSPECIFIED {
        return TcpListener::bind(address).await;
    }
    match dual_stack(address) {
        Err(error)
            if !matches!(
                error.kind(),
                io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied
            ) =>
        {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    }
}

fn dual_stack(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v6()?;
    socket.set_reuseaddr(true)?;
    // Whatever the node's default says.
    SockRef::from(&socket).set_only_v6(false)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn the_unspecified_ipv6_address_takes_callers_of_both_families() {
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
    async fn a_port_that_is_taken_is_an_error_and_not_a_reason_to_fall_back() {
        let taken = bind(any(0)).await.unwrap();
        let error = bind(any(taken.local_addr().unwrap().port()))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }
}
