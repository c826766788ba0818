//! `headcount top`: a cluster as one agent sees it, live, on a whole terminal.
//!
//! ```text
//!   agent ══ events (stream) ═▶ feed ─┐
//!         ── info, leader, members ─▶ feed ─┼─▶ channel ─▶ screen (what is known) ─▶ draw
//!   keys ─▶ terminal ────────────────┘
//! ```
//!
//! Invariants:
//! - While the stream is broken the screen says so, loudly, and claims nothing about the present.
//! - The terminal is given back as it was: after `q`, after a signal, and after a panic.
//! - Without a terminal it ends: nobody would see it, nor press `q`.
//! - What is known ([`screen`]) and how it looks ([`draw`]) need neither a terminal nor a clock, and are tested so.
//!
//! This module must not know HTTP beyond the typed client.
//!
//! | idea | file |
//! |---|---|
//! | news of the agent | `feed` |
//! | the state of the screen, and keys | `screen` |
//! | what the screen looks like; pages in place of the list; styles and widths | `draw`, `pages`, `look` |

mod draw;
mod feed;
mod look;
mod pages;
mod screen;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal as _};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, SystemTime};

use jiff::tz::TimeZone;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event as TerminalEvent, KeyEventKind};

use self::feed::{News, QUEUED_NEWS};
use self::look::Look;
use self::screen::Screen;
use super::args::TopArgs;
use super::client::connect;
use super::failure::{Exit, Failure};
use super::paint::is_coloured;

/// Time for which a key is awaited before news are looked for.
const KEY_WAIT: Duration = Duration::from_millis(50);
/// Longest time between two drawings: ages grow by the second.
const REDRAW_INTERVAL: Duration = Duration::from_secs(1);
/// Time for which the drawing may go on after a signal.
#[cfg(unix)]
const END_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) fn run(args: &TopArgs) -> Result<Exit, Failure> {
    if !io::stdout().is_terminal() {
        return Err(Failure::usage("standard output is not a terminal, so that there is nothing to draw on")
            .hint("`headcount members` prints the same once, `headcount watch` what happens"));
    }
    let client = connect(&args.agent)?;
    // An agent that cannot be reached at all is a failure; one that was reached before is worth waiting for.
    let info = client.info()?;
    let (sender, news) = mpsc::sync_channel(QUEUED_NEWS);
    #[cfg(unix)]
    listen(sender.clone())?;
    let mut screen = Screen::new(client.address().to_owned(), info);
    feed::start(&client, &screen.first_event_id(), &sender)?;
    drop(sender);

    let no_color = std::env::var_os("NO_COLOR");
    let zone = TimeZone::system();
    let coloured = is_coloured(true, no_color.as_deref());
    let failed = |error: io::Error| Failure::failed(format!("cannot use the terminal: {error}"));
    // Its panic hook gives the terminal back before it prints.
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let end = follow(&mut terminal, &mut screen, &news, coloured, &zone);
    ratatui::try_restore().map_err(failed)?;
    match end {
        Ok(None) => Ok(Exit::DONE),
        Ok(Some(failure)) => Err(failure),
        Err(error) => Err(failed(error)),
    }
}

/// Draws until the user or a signal ends it (`None`), or until no retry would help.
fn follow(
    terminal: &mut DefaultTerminal,
    screen: &mut Screen,
    news: &Receiver<News>,
    coloured: bool,
    zone: &TimeZone,
) -> io::Result<Option<Failure>> {
    let mut drawn: Option<SystemTime> = None;
    let mut is_new = true;
    loop {
        let now = SystemTime::now();
        let is_old = drawn.is_none_or(|at| now.duration_since(at).map_or(true, |age| age >= REDRAW_INTERVAL));
        if is_new || is_old {
            let look = Look { now, zone: zone.clone(), coloured };
            terminal.draw(|frame| draw::screen(frame, screen, &look))?;
            drawn = Some(now);
            is_new = false;
        }
        if event::poll(KEY_WAIT)? {
            is_new = true;
            match event::read()? {
                TerminalEvent::Key(key) if key.kind != KeyEventKind::Release && screen.press(key).is_break() => {
                    return Ok(None);
                }
                _ => {}
            }
        }
        // No more at a time than there is room for, so that keys never wait for a flood of events.
        for _ in 0..QUEUED_NEWS {
            match news.try_recv() {
                Ok(News::Stop) => return Ok(None),
                Ok(News::Failed(failure)) => return Ok(Some(failure)),
                Ok(item) => screen.learn(item, SystemTime::now()),
                Err(_) => break,
            }
            is_new = true;
        }
    }
}

/// Ends the drawing when the process is to end, as when its terminal is gone. Must be called before any other thread is
/// started: the signals are blocked in all later ones.
#[cfg(unix)]
fn listen(told: mpsc::SyncSender<News>) -> Result<(), Failure> {
    use nix::sys::signal::{SigSet, Signal};

    let failed = |error: &dyn std::fmt::Display| Failure::failed(format!("cannot listen for signals: {error}"));
    let signals: SigSet = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].into_iter().collect();
    signals.thread_block().map_err(|error| failed(&error))?;
    let hear = move || {
        if signals.wait().is_ok() {
            end(&told);
        }
    };
    let started = std::thread::Builder::new().name("headcount-sig".to_owned()).spawn(hear);
    started.map(drop).map_err(|error| failed(&error))
}

/// Has the drawing end; ends the process itself if that does not come about: who reads keys from a terminal that is gone
/// is told at once, and for ever, that there are none.
#[cfg(unix)]
fn end(told: &mpsc::SyncSender<News>) {
    // If there is no room, it is stuck, or about to end for another reason.
    let _ = told.try_send(News::Stop);
    std::thread::sleep(END_TIMEOUT);
    let _ = ratatui::try_restore();
    std::process::exit(0);
}
