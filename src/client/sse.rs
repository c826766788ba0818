//! Reads server-sent events.
//!
//! Purpose: parse bytes into frames by the HTML standard's section on server-sent events. Comments only keep the
//! connection alive.
//!
//! Invariant: a frame counts only when the empty line after it was seen; one that a broken connection leaves unfinished
//! is dropped. One frame is at most [`MAX_FRAME_BYTES`] long.

use std::io::{self, BufRead, Read as _};

/// The largest frame, in bytes: a snapshot of a hundred thousand members is well below.
const MAX_FRAME_BYTES: u64 = 256 * 1024 * 1024;

/// One event of the stream.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    /// Id from which to resume after this frame, if it has one.
    pub(super) id: Option<String>,
    /// The kind of event; `message` if the frame has none.
    pub(super) event: String,
    /// The lines of data.
    pub(super) data: String,
}

/// The frames of a stream, until it ends.
#[derive(Debug)]
pub(super) struct Frames<R> {
    stream: R,
}

impl<R: BufRead> Frames<R> {
    pub(super) fn new(stream: R) -> Self {
        Self { stream }
    }

    /// Returns the next frame that has data; `None` when the stream has ended.
    pub(super) fn next(&mut self) -> io::Result<Option<Frame>> {
        let mut frame = Frame::default();
        let mut has_data = false;
        let mut budget = MAX_FRAME_BYTES;
        loop {
            let Some(line) = self.line(&mut budget)? else { return Ok(None) };
            if line.is_empty() {
                if has_data {
                    if frame.event.is_empty() {
                        "message".clone_into(&mut frame.event);
                    }
                    return Ok(Some(frame));
                }
                frame = Frame::default();
                budget = MAX_FRAME_BYTES;
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "id" => frame.id = Some(value.to_owned()),
                "event" => value.clone_into(&mut frame.event),
                "data" => {
                    if has_data {
                        frame.data.push('\n');
                    }
                    frame.data.push_str(value);
                    has_data = true;
                }
                // Comments have an empty field name; unknown fields are ignored.
                _ => {}
            }
        }
    }

    /// Returns one line without its line end; `None` if the stream ended before the line did.
    fn line(&mut self, budget: &mut u64) -> io::Result<Option<String>> {
        let mut bytes = Vec::new();
        let read = self.stream.by_ref().take(*budget).read_until(b'\n', &mut bytes)?;
        *budget -= read as u64;
        if bytes.pop() != Some(b'\n') {
            let too_long = || io::Error::new(io::ErrorKind::InvalidData, "an event is longer than 256 MiB");
            return if *budget == 0 { Err(too_long()) } else { Ok(None) };
        }
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
        let text = String::from_utf8(bytes);
        text.map(Some).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "an event is not UTF-8"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(text: &str) -> Vec<Frame> {
        let mut frames = Frames::new(text.as_bytes());
        std::iter::from_fn(|| frames.next().expect("readable")).collect()
    }

    fn frame(id: Option<&str>, event: &str, data: &str) -> Frame {
        Frame { id: id.map(str::to_owned), event: event.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn frames_are_read_as_the_standard_says() {
        assert_eq!(
            frames("id: 1-7\nevent: node_joined\ndata: {\"a\":1}\n\nevent:lagged\ndata:{}\n\n"),
            [frame(Some("1-7"), "node_joined", "{\"a\":1}"), frame(None, "lagged", "{}")]
        );
        assert_eq!(frames("data: a\r\ndata:  b\r\nretry: 5\r\n\r\n"), [frame(None, "message", "a\n b")]);
    }

    #[test]
    fn comments_and_frames_without_data_say_nothing() {
        assert_eq!(frames(":\n\n: keep-alive\n\nid: 1-2\n\nevent: x\n\ndata: y\n\n"), [frame(None, "message", "y")]);
    }

    #[test]
    fn an_unfinished_frame_is_dropped() {
        assert_eq!(frames("data: a\n\ndata: b\n"), [frame(None, "message", "a")]);
        assert_eq!(frames("data: a\n\nda"), [frame(None, "message", "a")]);
    }

    #[test]
    fn what_is_not_text_is_an_error() {
        assert!(Frames::new(&b"data: \xff\n\n"[..]).next().is_err());
    }
}
