//! Logs: to standard error, as text or JSON, by a thread of their own.
//!
//! Invariants:
//! - Set up once per process, before anything is logged; standard output stays free for answers.
//! - Logging never waits for standard error, and never fails with it: a full disk and a pipe without a reader cost
//!   lines, which are counted and reported as soon as a line can be written again.
//! - Panics are log lines like any other. The hook of the standard library writes to standard error itself, which would
//!   block a task that panics, and with it every task that waits for its end.

use std::io::{self, IsTerminal as _, Write};
use std::panic::PanicHookInfo;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::json;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, Registry, fmt, reload};

use super::failure::Failure;
use super::paint::is_coloured;
use crate::config::{LogConfig, LogFormat};
use crate::journal::{Item, LossyQueue};
use crate::text::visible;

/// The largest number of lines that wait for standard error.
const MAX_QUEUED_LINES: usize = 4_096;
/// The longest line, in bytes; longer ones are cut.
const MAX_LINE_BYTES: usize = 16 * 1024;
/// The longest line of an error message at the end of a process, in characters; longer ones are cut.
const MAX_WORDS: usize = 2_000;
/// Time for which the end of a process waits for such a message to be written.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The logs of this process.
#[derive(Debug, Clone)]
pub(super) struct Logs {
    lines: LossyQueue<Vec<u8>>,
    level: reload::Handle<Targets, Registry>,
}

impl Logs {
    /// Returns the shared count of lost lines.
    pub(super) fn lost(&self) -> Arc<AtomicU64> {
        self.lines.counter()
    }

    /// Waits a moment for the last lines to be written.
    pub(super) async fn flush(&self) {
        self.lines.flush(LAST_WORDS).await;
    }

    /// Changes the log level to these directives, which have been checked.
    pub(super) fn set_level(&self, directives: &str) -> Result<(), Failure> {
        let filter = filter(directives)?;
        self.level.reload(filter).map_err(|error| Failure::failed(format!("cannot change the log level: {error}")))
    }
}

/// Starts the thread that writes logs.
pub(super) fn start(config: &LogConfig) -> Result<Logs, Failure> {
    let no_thread = |error| Failure::failed(format!("cannot start a thread for logs: {error}"));
    let lines =
        LossyQueue::start("headcount-err", MAX_QUEUED_LINES, writer(io::stderr(), config.format)).map_err(no_thread)?;
    let (filter, level) = reload::Layer::new(filter(&config.level)?);
    let layer = fmt::layer().with_writer(Lines(lines.clone())).with_ansi(false).log_internal_errors(false);
    let layer = match config.format {
        // Each line is complete by itself: its reader need not know how spans nest.
        LogFormat::Json => layer.json().flatten_event(true).with_span_list(false).boxed(),
        LogFormat::Text => layer
            .with_ansi(is_coloured(io::stderr().is_terminal(), std::env::var_os("NO_COLOR").as_deref()))
            .with_target(false)
            .boxed(),
    };
    let started = tracing_subscriber::registry().with(filter).with(layer).try_init();
    started.map_err(|error| Failure::failed(format!("cannot write logs: {error}")))?;
    let (panics, format) = (lines.clone(), config.format);
    std::panic::set_hook(Box::new(move |panic| panics.push(panic_line(panic, format))));
    Ok(Logs { lines, level })
}

fn filter(directives: &str) -> Result<Targets, Failure> {
    directives.parse().map_err(|error| Failure::usage(format!("log level \"{directives}\": {error}")).hint("try info"))
}

/// Writes an error message to standard error at the end of a process, and gives up after a moment if there is no
/// reader. It may contain text that a user typed, so each line is made safe to show.
pub(super) fn print_final_error(text: &str) {
    let text: Vec<String> = text.lines().map(|line| visible(line, MAX_WORDS)).collect();
    let text = text.join("\n");
    let (done, is_done) = mpsc::channel();
    let said = text.clone();
    let write = move || {
        // Without a reader of standard error, the exit code has to do.
        let _ = writeln!(io::stderr(), "{said}");
        let _ = done.send(());
    };
    match std::thread::Builder::new().spawn(write) {
        Ok(_) => drop(is_done.recv_timeout(LAST_WORDS)),
        // Better to wait for a reader than to say nothing.
        Err(_) => drop(writeln!(io::stderr(), "{text}")),
    }
}

/// Returns the logging thread's function for each line, which writes it and returns true on success.
fn writer(mut out: impl Write + Send + 'static, format: LogFormat) -> impl FnMut(Item<Vec<u8>>) -> bool + Send {
    let mut is_torn = false;
    move |item| {
        let line = match item {
            Item::One(line) => line,
            Item::Lost(lines) => {
                let text = format!("log lines were lost: {lines} could not be written, or not fast enough");
                own_line("WARN", &text, format)
            }
        };
        // The beginning of a line that failed must not run into the next line.
        let is_written = (!is_torn || out.write_all(b"\n").is_ok()) && out.write_all(&line).is_ok();
        is_torn = !is_written;
        is_written && out.flush().is_ok()
    }
}

fn panic_line(panic: &PanicHookInfo<'_>, format: LogFormat) -> Vec<u8> {
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message");
    let place = panic.location().map_or_else(String::new, |place| format!(" at {place}"));
    let thread = std::thread::current().name().unwrap_or("without a name").to_owned();
    let mut text = format!("thread {thread} panicked{place}: {text}");
    let backtrace = std::backtrace::Backtrace::capture();
    if backtrace.status() == std::backtrace::BacktraceStatus::Captured {
        text = format!("{text}\n{backtrace}");
    }
    own_line("ERROR", &text, format)
}

/// Formats a line that does not come from a tracing event.
fn own_line(level: &str, text: &str, format: LogFormat) -> Vec<u8> {
    let at = crate::json::rfc3339(std::time::SystemTime::now());
    let line = match format {
        LogFormat::Text => format!("{at} {level:>5} {text}"),
        LogFormat::Json => json!({ "timestamp": at, "level": level, "message": text }).to_string(),
    };
    let mut line = line.into_bytes();
    line.push(b'\n');
    line
}

/// Puts tracing's lines into the queue.
struct Lines(LossyQueue<Vec<u8>>);

/// One line. Tracing formats it completely and writes it in one call.
struct Line<'a>(&'a LossyQueue<Vec<u8>>);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(&self.0)
    }
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut line = bytes[..bytes.len().min(MAX_LINE_BYTES)].to_vec();
        if line.len() < bytes.len() {
            line.push(b'\n');
        }
        self.0.push(line);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A disk with its content and the number of bytes that it still takes.
    #[derive(Clone, Default)]
    struct Disk(Arc<Mutex<(Vec<u8>, usize)>>);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut disk = self.0.lock().expect("not poisoned");
            let fits = bytes.len().min(disk.1 - disk.0.len());
            if fits == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            disk.0.extend(&bytes[..fits]);
            Ok(fits)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_full_disk_costs_lines_which_are_told_when_there_is_room_and_none_runs_into_another() {
        let disk = Disk::default();
        disk.0.lock().expect("not poisoned").1 = 6;
        let lines = LossyQueue::start("test", 16, writer(disk.clone(), LogFormat::Text)).expect("a thread");
        for line in ["one\n", "two\n", "three\n"] {
            lines.push(line.as_bytes().to_vec());
        }
        lines.flush(Duration::from_secs(30)).await;
        assert_eq!(lines.lost(), 2);
        disk.0.lock().expect("not poisoned").1 = 1_000;
        lines.push(b"four\n".to_vec());
        lines.flush(Duration::from_secs(30)).await;
        let text = String::from_utf8(disk.0.lock().expect("not poisoned").0.clone()).expect("text");
        let text: Vec<&str> = text.lines().collect();
        assert_eq!(text[..3], ["one", "tw", "four"]);
        assert!(text[3].contains("log lines were lost: 2 "), "{text:?}");
    }

    #[test]
    fn a_line_of_our_own_looks_like_the_others() {
        let text = String::from_utf8(own_line("WARN", "it \"broke\"", LogFormat::Json)).expect("text");
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((&json["level"], &json["message"]), (&"WARN".into(), &"it \"broke\"".into()));
        let text = String::from_utf8(own_line("WARN", "it broke", LogFormat::Text)).expect("text");
        assert!(text.ends_with("Z  WARN it broke\n"), "{text}");
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let (sent, lines) = std::sync::mpsc::channel();
        let take = move |item| if let Item::One(line) = item { sent.send(line).is_ok() } else { true };
        let queue = LossyQueue::start("test", 16, take).expect("a thread");
        let long = vec![b'x'; 4 * MAX_LINE_BYTES];
        assert_eq!(Line(&queue).write(&long).expect("never fails"), long.len());
        let line = lines.recv_timeout(Duration::from_secs(30)).expect("in time");
        assert_eq!((line.len(), line.last()), (MAX_LINE_BYTES + 1, Some(&b'\n')));
    }
}
