//! The kernel's neighbour table: its entry of an address is that of the pod that had the address
//! before.
//!
//! A pod that gets an address again has another hardware address. If the kernel talked to the
//! previous pod just before, it sends to the old hardware address. Nothing reaches the new pod
//! until the kernel doubts its entry, up to half a minute later. So the entries of an address are
//! dropped when it is handed out.

use std::net::IpAddr;
use std::os::fd::AsRawFd;

use nix::net::if_::if_nameindex;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, sendto, socket,
};

/// From linux/netlink.h and linux/neighbour.h.
const RTM_DELNEIGH: u16 = 29;
const NLM_F_REQUEST: u16 = 1;
const NDA_DST: u16 = 1;
/// Sizes in bytes: the message's header, the header that selects the entry, and an attribute's
/// header.
const HEADER: usize = 16;
const ENTRY: usize = 12;
const ATTRIBUTE: usize = 4;

/// Drops the kernel's entries of these addresses on all interfaces. A missing entry is no fault,
/// and neither is a failure: the kernel corrects its entries by itself, later.
pub fn forget(addresses: &[IpAddr]) {
    // A failure here costs time, and no address: the caller goes on.
    let _ = try_to_forget(addresses);
}

fn try_to_forget(addresses: &[IpAddr]) -> nix::Result<()> {
    let kernel = NetlinkAddr::new(0, 0);
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )?;
    bind(socket.as_raw_fd(), &kernel)?;
    for interface in &if_nameindex()? {
        for address in addresses {
            // Do not wait for the answer; mostly it says that there is no such entry.
            sendto(
                socket.as_raw_fd(),
                &message(interface.index(), *address),
                &kernel,
                MsgFlags::empty(),
            )?;
        }
    }
    Ok(())
}

/// The request to drop the entry of an address on an interface.
fn message(interface: u32, address: IpAddr) -> Vec<u8> {
    let (family, octets) = match address {
        IpAddr::V4(address) => (AddressFamily::Inet, address.octets().to_vec()),
        IpAddr::V6(address) => (AddressFamily::Inet6, address.octets().to_vec()),
    };
    let length = HEADER + ENTRY + ATTRIBUTE + octets.len();
    let mut message = Vec::with_capacity(length);
    message.extend(u32::try_from(length).unwrap_or_default().to_ne_bytes());
    message.extend(RTM_DELNEIGH.to_ne_bytes());
    message.extend(NLM_F_REQUEST.to_ne_bytes());
    message.extend([0; 8]);
    message.push(u8::try_from(family as i32).unwrap_or_default());
    message.extend([0; 3]);
    message.extend(interface.to_ne_bytes());
    message.extend([0; 4]);
    message.extend(
        u16::try_from(ATTRIBUTE + octets.len())
            .unwrap_or_default()
            .to_ne_bytes(),
    );
    message.extend(NDA_DST.to_ne_bytes());
    message.extend(octets);
    message
}

#[cfg(test)]
mod tests;
