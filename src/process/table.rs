//! The processes of this system, as `/proc` lists them.
//!
//! Must not know: why anybody looks.

/// A process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) id: i32,
    pub(super) parent: u32,
    /// True if it has ended, and was not waited for.
    pub(super) is_zombie: bool,
}

/// Returns the processes in the order of their ids. Each is read when it is asked for.
pub(super) fn processes() -> impl DoubleEndedIterator<Item = Process> {
    let listed = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut ids: Vec<i32> = listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    ids.sort_unstable();
    ids.into_iter().filter_map(|id| read(id, &std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?))
}

/// Reads a line of `/proc/…/stat`. The name of the command is in brackets, and may have any characters in it. A process
/// whose first thread alone has ended runs on.
fn read(id: i32, stat: &str) -> Option<Process> {
    let behind: Vec<&str> = stat.rsplit(')').next()?.split_ascii_whitespace().collect();
    let threads = behind.get(17)?.parse::<u32>().ok()?;
    Some(Process {
        id,
        parent: behind.get(1)?.parse().ok()?,
        is_zombie: matches!(behind[0], "Z" | "X") && threads <= 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whatever_the_name_of_the_process() {
        let stat = |name: &str, state: &str, threads: u32| {
            format!("14 ({name}) {state} 7 12 12 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 {threads} 0 77 0 0")
        };
        let process = |is_zombie| Some(Process { id: 14, parent: 7, is_zombie });
        assert_eq!(read(14, &stat("sleep", "Z", 1)), process(true));
        assert_eq!(read(14, &stat("a) S 8 (b", "Z", 1)), process(true));
        assert_eq!(read(14, &stat("sleep", "S", 1)), process(false));
        assert_eq!(read(14, &stat("sleep", "D", 1)), process(false));
        assert_eq!(read(14, &stat("sleep", "Z", 2)), process(false), "other threads of it run");
        assert_eq!(read(14, ""), None);
    }
}
