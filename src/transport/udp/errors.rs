//! What a socket's errors mean for the agent.

use std::io::{self, ErrorKind};

/// The kinds of socket errors, by their meaning for the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocketErrorKind {
    /// A peer's system answered an earlier datagram with "port unreachable" (reported on receive by some systems).
    PeerRefused,
    /// A buffer is full, or the kernel is out of memory at the moment.
    NoBuffers,
    /// A datagram was too long.
    TooLong,
    /// No route to that address, or a firewall refused.
    Unreachable,
    /// Any other error that may pass.
    Other,
    /// The socket will never work again.
    Fatal,
}

impl SocketErrorKind {
    pub(super) fn of(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused | ErrorKind::ConnectionAborted => {
                return SocketErrorKind::PeerRefused;
            }
            ErrorKind::WouldBlock | ErrorKind::OutOfMemory => return SocketErrorKind::NoBuffers,
            ErrorKind::NetworkUnreachable
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkDown
            | ErrorKind::AddrNotAvailable
            | ErrorKind::PermissionDenied => return SocketErrorKind::Unreachable,
            _ => {}
        }
        Self::of_code(error)
    }

    /// Classifies codes for which the standard library has no name of its own.
    #[cfg(unix)]
    fn of_code(error: &io::Error) -> Self {
        use nix::errno::Errno;
        match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOBUFS) => SocketErrorKind::NoBuffers,
            Some(Errno::EMSGSIZE) => SocketErrorKind::TooLong,
            Some(Errno::EBADF | Errno::ENOTSOCK) => SocketErrorKind::Fatal,
            _ => SocketErrorKind::Other,
        }
    }

    #[cfg(not(unix))]
    fn of_code(error: &io::Error) -> Self {
        // WSAEBADF, WSAENOTSOCK, WSAEMSGSIZE, WSAENOBUFS; WSAENETRESET is Windows' code for a TTL that ran out.
        match error.raw_os_error() {
            Some(10009 | 10038) => SocketErrorKind::Fatal,
            Some(10040) => SocketErrorKind::TooLong,
            Some(10055) => SocketErrorKind::NoBuffers,
            Some(10052) => SocketErrorKind::PeerRefused,
            _ => SocketErrorKind::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_apart() {
        let cases = [
            (ErrorKind::ConnectionRefused, SocketErrorKind::PeerRefused),
            (ErrorKind::ConnectionReset, SocketErrorKind::PeerRefused),
            (ErrorKind::WouldBlock, SocketErrorKind::NoBuffers),
            (ErrorKind::NetworkUnreachable, SocketErrorKind::Unreachable),
            (ErrorKind::PermissionDenied, SocketErrorKind::Unreachable),
            (ErrorKind::Other, SocketErrorKind::Other),
        ];
        for (kind, trouble) in cases {
            assert_eq!(SocketErrorKind::of(&io::Error::from(kind)), trouble, "{kind}");
        }
    }
}
