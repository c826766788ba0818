//! A TCP proxy that interferes when a client commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The treatment of the next commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// The commit passes, as all others.
    None,
    /// The commit does not reach the server, and the connection is cut.
    CutBefore,
    /// The commit reaches the server, which carries it out; the answer is lost and the connection cut.
    CutAfter,
    /// The commit does not reach the server, and nothing else is heard: the client hangs, and the server waits.
    Stall,
}

/// A proxy in front of a server.
pub struct Proxy {
    pub port: u16,
    fault: Arc<AtomicU8>,
}

impl Proxy {
    pub async fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let fault = Arc::new(AtomicU8::new(Fault::None as u8));
        let shared = Arc::clone(&fault);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { continue };
                tokio::spawn(pass(client, server, Arc::clone(&shared)));
            }
        });
        Self { port, fault }
    }

    /// Sets the fault of the next commit.
    pub fn fail(&self, fault: Fault) {
        self.fault.store(fault as u8, Ordering::SeqCst);
    }
}

async fn pass(client: TcpStream, server: TcpStream, fault: Arc<AtomicU8>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let answers = async {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
            if fault.load(Ordering::SeqCst) == Fault::CutAfter as u8 + 100 {
                // The last answer to a transaction ends with a server that is idle again.
                if bytes[..count].ends_with(b"Z\0\0\0\x05I") {
                    break;
                }
                continue;
            }
            if to_client.write_all(&bytes[..count]).await.is_err() {
                break;
            }
        }
    };
    let questions = async {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from_client.read(&mut bytes).await {
            let is_commit = bytes[..count].windows(7).any(|window| window == b"commit\0");
            let wanted = fault.load(Ordering::SeqCst);
            if is_commit && wanted == Fault::CutBefore as u8 {
                fault.store(Fault::None as u8, Ordering::SeqCst);
                return;
            }
            if is_commit && wanted == Fault::Stall as u8 {
                fault.store(Fault::None as u8, Ordering::SeqCst);
                std::future::pending::<()>().await;
            }
            if is_commit && wanted == Fault::CutAfter as u8 {
                fault.store(wanted + 100, Ordering::SeqCst);
            }
            if to_server.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = answers => {}
        () = questions => {}
    }
    let was_lost = Fault::CutAfter as u8 + 100;
    let _ = fault.compare_exchange(was_lost, Fault::None as u8, Ordering::SeqCst, Ordering::SeqCst);
}
