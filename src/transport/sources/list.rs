//! A list of seeds: one `host:port` a line, from a file or from the output of a command.

use std::io::Read as _;
use std::path::Path;

use crate::config::check_host_port;
use crate::core::limits::MAX_SEEDS;
use crate::text::{MAX_SHOWN, visible};

/// The most that is read of a file or of the output of a command, in bytes: 64 seeds and many comments.
const MAX_BYTES: usize = 64 * 1024;

/// The seeds that a source names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seeds {
    pub(crate) seeds: Vec<String>,
    /// The first line that is none, and why.
    pub(crate) refused: Option<String>,
}

/// Reads one `host:port` a line; what is behind a `#` is a comment.
pub(super) fn parse(bytes: &[u8]) -> Result<Seeds, String> {
    if bytes.len() > MAX_BYTES {
        return Err(format!("more than {MAX_BYTES} bytes"));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    let (mut seeds, mut refused) = (Vec::new(), None);
    for (number, line) in (1..).zip(text.lines()) {
        let seed = line.split('#').next().unwrap_or_default().trim();
        if seed.is_empty() || seeds.iter().any(|known| known == seed) {
            continue;
        }
        match check_host_port(seed) {
            Ok(()) if seeds.len() == MAX_SEEDS => {
                refused = refused.or_else(|| Some(format!("more than {MAX_SEEDS} seeds, from line {number} on")));
            }
            Ok(()) => seeds.push(seed.to_owned()),
            Err(fault) => {
                refused = refused.or_else(|| Some(format!("line {number}: \"{}\" {fault}", visible(seed, MAX_SHOWN))));
            }
        }
    }
    Ok(Seeds { seeds, refused })
}

pub(super) fn read_file(path: &Path) -> Result<Seeds, String> {
    let wrong = |error: std::io::Error| error.to_string();
    // Opening a pipe would wait for its writer.
    if !std::fs::metadata(path).map_err(wrong)?.is_file() {
        return Err("it is no regular file".to_owned());
    }
    let file = std::fs::File::open(path).map_err(wrong)?;
    parse(&read_bounded(file).map_err(wrong)?)
}

/// Reads to the end, or one byte more than counts.
pub(super) fn read_bounded(source: impl std::io::Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    fn seeds(seeds: &[&str]) -> Vec<String> {
        seeds.iter().map(|seed| (*seed).to_owned()).collect()
    }

    #[test]
    fn a_list_has_one_seed_a_line_and_comments() {
        let text = b"# all of them\n10.0.0.1:7117\n\n  seed.example:7117  # the second\n10.0.0.1:7117\r\n[::1]:1";
        let read = parse(text).expect("a list");
        assert_eq!(read, Seeds { seeds: seeds(&["10.0.0.1:7117", "seed.example:7117", "[::1]:1"]), refused: None });
        assert_eq!(parse(b"").map(|read| read.seeds.len()), Ok(0));
    }

    #[test]
    fn a_line_that_is_no_seed_is_told_and_the_others_count() {
        let read = parse(b"a:1\nnot a seed\nb:1\nc\n").expect("a list");
        assert_eq!(read.seeds, seeds(&["a:1", "b:1"]));
        let refused = read.refused.expect("told");
        assert!(refused.starts_with("line 2: \"not a seed\" has no port"), "{refused}");
    }

    #[test]
    fn more_seeds_than_count_are_cut_and_endless_lists_refused() {
        let list = |count: usize| (0..count).map(|n| format!("s{n}:1")).collect::<Vec<_>>().join("\n");
        assert_eq!(
            parse(list(MAX_SEEDS).as_bytes()).map(|read| (read.seeds.len(), read.refused)),
            Ok((MAX_SEEDS, None))
        );
        let read = parse(list(MAX_SEEDS + 1).as_bytes()).expect("a list");
        assert_eq!(read.seeds.len(), MAX_SEEDS);
        assert_eq!(read.refused.as_deref(), Some("more than 64 seeds, from line 65 on"));
        assert!(parse(&vec![b'#'; MAX_BYTES + 1]).is_err());
        assert!(parse(b"\xff:1").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("seeds");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || tell.send(read_file(&path)));
        let read = told.recv_timeout(Duration::from_secs(30)).expect("nobody is waited for");
        assert_eq!(read, Err("it is no regular file".to_owned()));
    }

    #[test]
    fn no_more_is_read_than_counts() {
        /// Gives bytes up to twice the bound, and then fails.
        struct Long(usize);
        impl std::io::Read for Long {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                self.0 += buffer.len();
                if self.0 > 2 * MAX_BYTES { Err(std::io::Error::other("read too far")) } else { Ok(buffer.len()) }
            }
        }
        assert_eq!(read_bounded(Long(0)).map(|bytes| bytes.len()).ok(), Some(MAX_BYTES + 1));
    }
}
