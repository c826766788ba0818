//! The sources of seeds: the configured list, a file, the output of a command, SRV records. All are asked again at every try.
//!
//! Invariants:
//! - At most [`MAX_SEEDS`] seeds count at one time; of more the first ones.
//! - A source that cannot be read counts with what it said last: a file that is being replaced, or a name server that is away, takes no
//!   seed away. That is told, and not at every try.
//! - Nothing here is waited for by whoever does not want seeds: files and commands have threads of their own, and every answer has a
//!   deadline.
//!
//! Must not know: to which addresses seeds resolve, and when to ask again.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::Level;

use crate::config::{SRV, check_host_port};
use crate::core::limits::MAX_SEEDS;
use crate::journal::Journal;
use crate::text::{MAX_SHOWN, visible};
use crate::trouble::Trouble;

/// The time that a command for seeds has.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// The most that is read of a file or of the output of a command, in bytes: 64 seeds and many comments.
const MAX_BYTES: usize = 64 * 1024;
/// The interval at which the end of a command is looked for.
const COMMAND_PAUSE: Duration = Duration::from_millis(20);
/// The time that the end of its output has after its own.
const OUTPUT_PATIENCE: Duration = Duration::from_secs(1);

/// One source of seeds.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    /// A seed as it was configured: `host:port`.
    Seed(String),
    /// The name of SRV records.
    Srv(String),
    /// A file, one seed a line.
    File(PathBuf),
    /// A command with such an output.
    Command(Vec<String>),
}

/// All sources of seeds of a node. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct SeedSources {
    sources: Arc<[Source]>,
    said: Arc<Mutex<Vec<Said>>>,
}

/// The last word of a source.
#[derive(Debug, Default)]
struct Said {
    seeds: Vec<String>,
    trouble: Trouble,
}

impl SeedSources {
    pub(crate) fn new(seeds: &[String], file: Option<&Path>, command: &[String]) -> Self {
        let configured = seeds.iter().map(|seed| match seed.strip_prefix(SRV) {
            Some(name) => Source::Srv(name.to_owned()),
            None => Source::Seed(seed.clone()),
        });
        let file = file.map(|path| Source::File(path.to_owned()));
        let command = (!command.is_empty()).then(|| Source::Command(command.to_vec()));
        let sources: Arc<[Source]> = configured.chain(file).chain(command).collect();
        let said = sources.iter().map(|_| Said::default()).collect();
        Self { sources, said: Arc::new(Mutex::new(said)) }
    }

    /// Returns the number of sources; 0 for a node that is to look for nobody.
    pub(crate) fn len(&self) -> usize {
        self.sources.len()
    }

    /// Returns the seeds that are known without asking anybody.
    pub(super) fn fixed(&self) -> impl Iterator<Item = &String> {
        self.sources.iter().filter_map(|source| if let Source::Seed(seed) = source { Some(seed) } else { None })
    }

    /// Returns the places of sources that have to be asked.
    pub(super) fn to_ask(&self) -> impl Iterator<Item = usize> {
        let is_fixed = |source: &Source| matches!(source, Source::Seed(_));
        self.sources.iter().enumerate().filter(move |(_, source)| !is_fixed(source)).map(|(place, _)| place)
    }

    /// Asks all sources once, for whoever wants to know what each one says: its name, and its seeds or its trouble.
    #[cfg(feature = "agent")]
    pub(crate) async fn ask_all(&self) -> Vec<(String, Result<Seeds, String>)> {
        let mut said = Vec::new();
        for source in &*self.sources {
            said.push((source.name(), source.ask().await));
        }
        said
    }

    /// Asks a source; returns its seeds, or those that it named last.
    pub(super) async fn ask(&self, place: usize, journal: &Journal) -> Vec<String> {
        let source = &self.sources[place];
        let (what, asked) = (source.name(), source.ask().await);
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let said = &mut said[place];
        match asked {
            Ok(Seeds { seeds, refused: None }) => {
                if said.trouble.is_over() {
                    journal.say(Level::INFO, format!("{what}: seeds are named again"));
                }
                said.seeds = seeds;
            }
            Ok(Seeds { seeds, refused: Some(why) }) => {
                said.seeds = seeds;
                if said.trouble.begins() {
                    journal.say(Level::WARN, format!("{what}: {why}; the other seeds count"));
                }
            }
            Err(why) => {
                if said.trouble.begins() {
                    let known = said.seeds.len();
                    let text = format!("{what}: {why}; the {known} seeds that it named last count, and it is tried on");
                    journal.say(Level::WARN, text);
                }
            }
        }
        said.seeds.clone()
    }
}

impl Source {
    /// Returns what it is called in the log.
    fn name(&self) -> String {
        match self {
            Self::Seed(seed) => format!("the seed {seed}"),
            Self::Srv(name) => format!("the SRV records of {name}"),
            Self::File(path) => format!("seeds_file {}", path.display()),
            Self::Command(words) => format!("seeds_command {}", visible(&words[0], MAX_SHOWN)),
        }
    }

    async fn ask(&self) -> Result<Seeds, String> {
        let named = match self {
            Self::Seed(seed) => Seeds { seeds: vec![seed.clone()], refused: None },
            Self::Srv(name) => super::srv::look_up(name).await?,
            Self::File(path) => {
                let path = path.clone();
                on_a_thread(move || read_file(&path)).await?
            }
            Self::Command(words) => {
                let words = words.clone();
                on_a_thread(move || run(&words, COMMAND_TIMEOUT)).await?
            }
        };
        // One that names nobody, as a file does that is being written, takes nothing back.
        match named {
            Seeds { seeds, refused } if seeds.is_empty() => {
                Err(refused.unwrap_or_else(|| "it names no seeds".to_owned()))
            }
            named => Ok(named),
        }
    }
}

/// The seeds that a source names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seeds {
    pub(crate) seeds: Vec<String>,
    /// The first line that is none, and why.
    pub(crate) refused: Option<String>,
}

/// Runs what may block on a thread of its own.
async fn on_a_thread(work: impl FnOnce() -> Result<Seeds, String> + Send + 'static) -> Result<Seeds, String> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|died| Err(died.to_string()))
}

/// Reads one `host:port` a line; what is behind a `#` is a comment.
fn parse(bytes: &[u8]) -> Result<Seeds, String> {
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

fn read_file(path: &Path) -> Result<Seeds, String> {
    let wrong = |error: std::io::Error| error.to_string();
    // Opening a pipe would wait for its writer.
    if !std::fs::metadata(path).map_err(wrong)?.is_file() {
        return Err("it is no regular file".to_owned());
    }
    let file = std::fs::File::open(path).map_err(wrong)?;
    parse(&read_bounded(file).map_err(wrong)?)
}

/// Reads to the end, or one byte more than counts.
fn read_bounded(source: impl std::io::Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Runs a command and reads its output.
fn run(words: &[String], limit: Duration) -> Result<Seeds, String> {
    let mut command = command(words).map_err(|error| error.to_string())?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("it cannot be run: {error}"))?;
    let output = child.stdout.take().map(read_aside);
    let errors = child.stderr.take().map(read_aside);
    let deadline = Instant::now() + limit;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Ok(status),
            Ok(None) if Instant::now() >= deadline => {
                break Err(format!("it did not end within {} s", limit.as_secs_f32()));
            }
            Ok(None) => std::thread::sleep(COMMAND_PAUSE),
            Err(error) => break Err(error.to_string()),
        }
    };
    end(&mut child);
    // Nobody holds the other ends any more, but for a process that has left the group.
    let read = |from: Option<mpsc::Receiver<Vec<u8>>>| from.and_then(|from| from.recv_timeout(OUTPUT_PATIENCE).ok());
    let (output, errors) = (read(output), read(errors));
    let status = status?;
    if status.success() {
        let output = output.ok_or("a process that it left running holds its output open")?;
        return parse(&output);
    }
    let errors = errors.unwrap_or_default();
    let said = String::from_utf8_lossy(&errors);
    let last = said.trim().lines().last().unwrap_or_default();
    Err(format!("it failed ({status}): {}", visible(last, MAX_SHOWN)))
}

/// Reads up to a bound, and lets the rest go by.
fn read_aside(mut source: impl std::io::Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = tell.send(read_bounded(source.by_ref()).unwrap_or_default());
        // Else the command would be ended by what it says.
        let _ = std::io::copy(&mut source, &mut std::io::sink());
    });
    told
}

/// Returns the command in a process group of its own, so that it can be ended with all that it started.
#[cfg_attr(not(all(unix, feature = "agent")), expect(clippy::unnecessary_wraps, reason = "as in the agent"))]
fn command(words: &[String]) -> std::io::Result<Command> {
    #[cfg(all(unix, feature = "agent"))]
    if crate::process::is_this_programs() {
        let mut command = crate::process::tied(words)?;
        crate::process::without_the_agents(&mut command);
        return Ok(command);
    }
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    Ok(command)
}

/// Ends a command, and what it left behind.
fn end(child: &mut Child) {
    #[cfg(unix)]
    let group = crate::process::Group::of(child.id()).ok();
    #[cfg(unix)]
    if let Some(group) = group {
        let _ = group.signal(nix::sys::signal::Signal::SIGKILL);
    }
    let _ = child.kill();
    let _ = child.wait();
    #[cfg(unix)]
    if let Some(group) = group {
        group.kill_rest();
    }
}

#[cfg(test)]
mod tests {
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

    #[tokio::test]
    async fn a_file_is_read_at_every_try_and_one_that_is_gone_counts_as_it_was() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("seeds");
        let journal = Journal::start(&crate::core::NodeId::new("me").expect("a name")).expect("a thread");
        let sources = SeedSources::new(&seeds(&["x:1"]), Some(&path), &[]);
        assert_eq!((sources.len(), sources.to_ask().collect::<Vec<_>>()), (2, vec![1]));
        assert_eq!(sources.ask(1, &journal).await, seeds(&[]), "it is not there yet");
        for text in ["a:1\n", "b:1\nc:1\n"] {
            std::fs::write(&path, text).expect("written");
            assert_eq!(sources.ask(1, &journal).await, text.lines().map(str::to_owned).collect::<Vec<_>>());
        }
        for text in ["", "# nobody\n", "no seed\n"] {
            std::fs::write(&path, text).expect("written");
            assert_eq!(sources.ask(1, &journal).await, seeds(&["b:1", "c:1"]), "{text:?} takes nothing back");
        }
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(sources.ask(1, &journal).await, seeds(&["b:1", "c:1"]));
        std::fs::create_dir(&path).expect("made");
        assert_eq!(sources.ask(1, &journal).await, seeds(&["b:1", "c:1"]));
    }

    #[cfg(unix)]
    #[test]
    fn the_output_of_a_command_is_such_a_list_and_a_failure_says_why() {
        let shell = |script: &str| run(&seeds(&["sh", "-c", script]), COMMAND_TIMEOUT);
        assert_eq!(shell("echo a:1; echo b:2").map(|read| read.seeds), Ok(seeds(&["a:1", "b:2"])));
        let failed = shell("echo a:1; echo no such cluster >&2; exit 3").expect_err("it failed");
        assert!(failed.contains("exit status: 3") && failed.contains("no such cluster"), "{failed}");
        assert!(run(&seeds(&["/nonexistent/seeds"]), COMMAND_TIMEOUT).is_err());
        let endless = shell("yes '#' | head -c 200000; echo a:1").expect_err("too long");
        assert!(endless.contains("more than 65536 bytes"), "{endless}");
        let chatty = "head -c 1000000 /dev/zero >&2; echo a:1";
        assert_eq!(shell(chatty).map(|read| read.seeds), Ok(seeds(&["a:1"])), "what goes by ends nothing");
        if cfg!(target_os = "linux") {
            // The command ends once the daemon has a group of its own: until then it ends with it.
            let ready = tempfile::NamedTempFile::new().expect("a file");
            let path = ready.path().display();
            let script = format!(
                "setsid sh -c 'echo yes > {path}; exec sleep 20' & until [ -s {path} ]; do sleep 0.01; done; echo a:1"
            );
            let daemon = shell(&script).expect_err("its output is open still");
            assert!(daemon.contains("holds its output open"), "{daemon}");
        }
        // A process that it leaves behind holds nothing up.
        let began = Instant::now();
        assert_eq!(shell("sleep 1000 & echo a:1").map(|read| read.seeds), Ok(seeds(&["a:1"])));
        assert!(began.elapsed() < COMMAND_TIMEOUT);
        // One that hangs is ended after its time.
        let began = Instant::now();
        let hung = run(&seeds(&["sh", "-c", "sleep 1000; echo a:1"]), Duration::from_millis(300));
        assert_eq!(hung, Err("it did not end within 0.3 s".to_owned()));
        assert!(began.elapsed() < Duration::from_secs(100));
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
