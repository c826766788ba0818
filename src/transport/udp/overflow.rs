//! Datagrams that the kernel dropped, as Linux reports them.

use std::io;
use std::net::{SocketAddr, UdpSocket as StdSocket};
use std::sync::atomic::Ordering;

use tokio::net::UdpSocket;

use super::SocketCounters;

/// Counts datagrams that the kernel dropped before they were received. Linux reports with each datagram how many were
/// lost before it.
#[derive(Debug)]
pub(super) struct Overflow {
    /// Space for one control message; empty if the kernel does not report losses.
    control: Vec<u8>,
    /// The kernel's 32-bit count as last seen.
    last: u32,
}

impl Overflow {
    pub(super) fn watch(socket: &StdSocket) -> Self {
        use nix::sys::socket::{setsockopt, sockopt::RxqOvfl};
        let told = setsockopt(socket, RxqOvfl, &1).is_ok();
        Self { control: if told { nix::cmsg_space!(u32) } else { Vec::new() }, last: 0 }
    }

    pub(super) fn receive(
        &mut self,
        socket: &UdpSocket,
        buffer: &mut [u8],
        counters: &SocketCounters,
    ) -> io::Result<(usize, SocketAddr)> {
        use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};
        use std::os::fd::AsRawFd;

        let mut slices = [io::IoSliceMut::new(buffer)];
        let received = recvmsg::<SockaddrStorage>(
            socket.as_raw_fd(),
            &mut slices,
            Some(&mut self.control),
            MsgFlags::MSG_DONTWAIT,
        )?;
        for message in received.cmsgs().into_iter().flatten() {
            if let ControlMessageOwned::RxqOvfl(total) = message {
                counters.overflows.fetch_add(u64::from(total.wrapping_sub(self.last)), Ordering::Relaxed);
                self.last = total;
            }
        }
        let from = received.address.as_ref().and_then(|from| {
            let four = from.as_sockaddr_in().map(|from| SocketAddr::V4((*from).into()));
            four.or_else(|| from.as_sockaddr_in6().map(|from| SocketAddr::V6((*from).into())))
        });
        from.map(|from| (received.bytes, from)).ok_or_else(|| io::Error::other("a datagram without a source address"))
    }
}
