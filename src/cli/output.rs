//! Standard output of processes that run nodes: written by a thread of its own.
//!
//! Invariant: a node does not depend on a reader of its output. A full pipe costs lines; a closed one is an error at
//! the next line, as it is for any other command.

use std::io::{self, LineWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::journal::{Item, LossyQueue};

/// The largest number of lines that wait for standard output.
const MAX_QUEUED_LINES: usize = 4_096;
/// Time for which the end of a process waits for its last lines to be written.
const LAST_LINES: Duration = Duration::from_millis(500);

/// A writer that queues each line when it is complete.
pub(super) type Output = LineWriter<Lines>;

/// Puts complete lines into the queue.
#[derive(Debug)]
pub(super) struct Lines {
    queue: LossyQueue<Vec<u8>>,
    is_closed: Arc<AtomicBool>,
}

/// Starts the thread that writes to `out`.
pub(super) fn start(mut out: impl Write + Send + 'static) -> io::Result<Output> {
    let is_closed = Arc::<AtomicBool>::default();
    let closed = Arc::clone(&is_closed);
    let write = move |item| {
        let Item::One(line) = item else { return true };
        let written = out.write_all(Vec::as_slice(&line)).and_then(|()| out.flush());
        closed.fetch_or(written.is_err(), Ordering::Relaxed);
        written.is_ok()
    };
    let queue = LossyQueue::start("headcount-out", MAX_QUEUED_LINES, write)?;
    Ok(LineWriter::new(Lines { queue, is_closed }))
}

impl Lines {
    /// Waits a moment for the last lines to be written.
    pub(super) async fn drain(&self) {
        self.queue.flush(LAST_LINES).await;
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.queue.push(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A reader that takes a line for each permit, and is gone when there are no more permits to come.
    struct Reader(mpsc::Receiver<()>, mpsc::Sender<Vec<u8>>);

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
            self.1.send(bytes.to_vec()).expect("the test listens");
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_reader_that_stands_still_holds_up_nobody_and_one_that_is_gone_is_an_error() {
        let ((permit, permits), (taken, lines)) = (mpsc::channel(), mpsc::channel());
        let mut out = start(Reader(permits, taken)).expect("a thread");
        for number in 0..MAX_QUEUED_LINES + 10 {
            writeln!(out, "line {number}").expect("nobody waits");
        }
        permit.send(()).expect("it reads");
        assert_eq!(lines.recv_timeout(Duration::from_secs(30)).as_deref(), Ok(&b"line 0\n"[..]));
        drop(permit);
        out.get_ref().drain().await;
        let ended = (0..).find_map(|_| writeln!(out, "more").err()).expect("it ends");
        assert_eq!(ended.kind(), io::ErrorKind::BrokenPipe);
    }
}
