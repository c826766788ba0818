//! A tap on the way to PostgreSQL: counts statements, round trips and bytes, and changes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// Counters of all connections.
#[derive(Debug, Default)]
struct Counters {
    statements: AtomicU64,
    round_trips: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

/// The counters at one moment.
#[derive(Debug, Default, Clone, Copy)]
pub struct Passed {
    pub statements: u64,
    pub round_trips: u64,
    pub sent: u64,
    pub received: u64,
}

impl Passed {
    pub fn since(self, before: Self) -> Self {
        Self {
            statements: self.statements - before.statements,
            round_trips: self.round_trips - before.round_trips,
            sent: self.sent - before.sent,
            received: self.received - before.received,
        }
    }
}

/// A tap in front of a server.
pub struct Tap {
    pub port: u16,
    counters: Arc<Counters>,
}

impl Tap {
    pub async fn on(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let counters = Arc::<Counters>::default();
        let shared = Arc::clone(&counters);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { continue };
                for end in [&client, &server] {
                    end.set_nodelay(true).expect("a socket");
                }
                let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
                let is_answered = Arc::new(AtomicBool::new(true));
                tokio::spawn(questions(from_client, to_server, Arc::clone(&shared), Arc::clone(&is_answered)));
                tokio::spawn(answers(from_server, to_client, Arc::clone(&shared), is_answered));
            }
        });
        Self { port, counters }
    }

    pub fn passed(&self) -> Passed {
        let Counters { statements, round_trips, sent, received } = &*self.counters;
        let [statements, round_trips, sent, received] =
            [statements, round_trips, sent, received].map(|counter| counter.load(Ordering::Relaxed));
        Passed { statements, round_trips, sent, received }
    }
}

/// Passes what the client says on, message by message. The first one has no kind.
async fn questions(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    counters: Arc<Counters>,
    is_answered: Arc<AtomicBool>,
) -> Option<()> {
    let mut kept: Vec<u8> = Vec::new();
    let mut is_first = true;
    let mut buffer = vec![0; 65_536];
    loop {
        let count = from.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
        counters.sent.fetch_add(count as u64, Ordering::Relaxed);
        // Many questions at once are one round trip.
        counters.round_trips.fetch_add(u64::from(is_answered.swap(false, Ordering::Relaxed)), Ordering::Relaxed);
        to.write_all(&buffer[..count]).await.ok()?;
        kept.extend_from_slice(&buffer[..count]);
        loop {
            let head = usize::from(!is_first);
            let Some(length) = kept.get(head..head + 4) else { break };
            let length = u32::from_be_bytes(length.try_into().expect("four")) as usize + head;
            if kept.len() < length {
                break;
            }
            // A question for encryption comes before the first one, and is no more than that.
            let is_question = matches!(kept.get(4..8), Some([0x04, 0xd2, 0x16, 0x2f | 0x30]));
            match kept[0] {
                b'E' | b'Q' if !is_first => counters.statements.fetch_add(1, Ordering::Relaxed),
                _ => 0,
            };
            is_first = is_first && is_question;
            kept.drain(..length);
        }
    }
}

async fn answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    counters: Arc<Counters>,
    is_answered: Arc<AtomicBool>,
) -> Option<()> {
    let mut buffer = vec![0; 65_536];
    loop {
        let count = from.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
        counters.received.fetch_add(count as u64, Ordering::Relaxed);
        is_answered.store(true, Ordering::Relaxed);
        to.write_all(&buffer[..count]).await.ok()?;
    }
}
