//! Arguments of the commands about keys.
//!
//! Must not know: what becomes of a key.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::CLIENT_EXITS;
use super::target::TargetArgs;
use crate::seal::KeyId;

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a new key, and print it or put it into a new file
    ///
    /// Asks no agent. The file is readable by this user alone; one that exists is not replaced.
    #[command(after_help = "Example: headcount keys generate cluster.key")]
    Generate(GenerateArgs),
    /// Show which members hold which key, by their ids
    #[command(after_help = CLIENT_EXITS)]
    List(TargetArgs),
    /// Have all members accept one more key
    ///
    /// Without a file, a new key is made, which then is in the key files of the members and nowhere else. Nobody seals with it
    /// before `headcount keys use`. It travels sealed with the present key: if that one is known to somebody else, bring the
    /// new one into the key files by other means (scp), and send the agents SIGHUP.
    #[command(after_help = "\
Exit codes: 0 done, 1 failed, or not done everywhere, 2 usage.

Rotation: headcount keys add, then headcount keys use NEW, then headcount keys remove OLD")]
    Add(AddKeyArgs),
    /// Have all members seal with a key that all of them accept
    ///
    /// Refused while a member lacks it, or cannot be asked.
    #[command(after_help = "Exit codes: 0 done, 1 failed, or not done everywhere, 2 usage.")]
    Use(ChangeKeyArgs),
    /// Have all members accept a key no more
    ///
    /// Refused while a member seals with it, or cannot be asked.
    #[command(after_help = "Exit codes: 0 done, 1 failed, or not done everywhere, 2 usage.")]
    Remove(ChangeKeyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    /// The file to create [default: standard output]
    pub(crate) file: Option<PathBuf>,
    /// Leave a file that exists as it is, and end well: for what is run at every start
    #[arg(long, requires = "file")]
    pub(crate) if_missing: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AddKeyArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// A file with the key, - for standard input, or the id of a key that the agent holds [default: a new key]
    #[arg(value_name = "FILE|ID")]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ChangeKeyArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// The key's id, as `headcount keys list` shows it
    pub(crate) id: KeyId,
    /// Do it even if members are locked out by it
    #[arg(long)]
    pub(crate) force: bool,
}
