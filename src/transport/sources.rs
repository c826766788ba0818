//! The sources of seeds: the configured list, a file, the output of a command, SRV records. All are asked again at every try.
//!
//! Invariants:
//! - At most [`MAX_SEEDS`](crate::core::limits::MAX_SEEDS) seeds count at one time; of more the first ones.
//! - A source that cannot be read counts with what it said last: a file that is being replaced, or a name server that is away, takes no
//!   seed away. That is told, and not at every try.
//! - Nothing here is waited for by whoever does not want seeds: files and commands have threads of their own, and every answer has a
//!   deadline.
//!
//! Must not know: to which addresses seeds resolve, and when to ask again.
//!
//! | idea | file |
//! |---|---|
//! | a list, from a file or an output | `list` |
//! | a command | `command` |
//! | SRV records | `srv` |

mod command;
mod list;
mod srv;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::Level;

use crate::config::SRV;
use crate::journal::Journal;
use crate::text::{MAX_SHOWN, visible};
use crate::trouble::Trouble;
use command::{COMMAND_TIMEOUT, run};
pub(crate) use list::Seeds;
use list::read_file;

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
                if said.trouble.end() {
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
                    let text = format!("{what}: {why}; what it named last counts ({known} in all), and it is tried on");
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
            Self::Srv(name) => srv::look_up(name).await?,
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

/// Runs what may block on a thread of its own.
async fn on_a_thread(work: impl FnOnce() -> Result<Seeds, String> + Send + 'static) -> Result<Seeds, String> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|died| Err(died.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeds(seeds: &[&str]) -> Vec<String> {
        seeds.iter().map(|seed| (*seed).to_owned()).collect()
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
}
