//! The files with secrets that a configuration names, tokens and keys: read at the start, so that a missing or invalid one
//! is reported before the agent runs.
//!
//! No secret is shown: a problem names the file and its mode.

use std::io;
use std::path::Path;

use super::merge::Merge;
use crate::config::agent::HttpConfig;
use crate::config::problem::{Problem, Source};
use crate::config::token::{Token, TokenFile, TokenFileError};
use crate::config::{KeyFileError, ReadKeys, read_key_file};
use crate::seal::SealMode;

impl Merge {
    /// Reads the token files, so that a missing or invalid token is reported before the agent starts.
    pub(super) fn judge_token_files(&mut self) {
        const READ: &str = "http.read_token_file";
        let HttpConfig { token_file, read_token_file, .. } = self.agent.http.clone();
        self.tokens = [
            self.judge_token_file("http.token_file", token_file.as_deref()),
            self.judge_token_file(READ, read_token_file.as_deref()),
        ];
        let flaw = match &self.tokens {
            _ if self.any_failed(&["http.token_file", READ]) || read_token_file.is_none() => None,
            _ if token_file.is_none() => Some((
                "is of no use alone: nobody could command the agent then",
                "set http.token_file as well, to a file with another token",
            )),
            [Some(token), Some(read)] if token == read => Some((
                "holds the token that may do all",
                "make another one with `openssl rand -hex 32`; that of http.token_file may look as well",
            )),
            _ => None,
        };
        if let Some((reason, hint)) = flaw {
            let problem = Problem::new(self.source_of(READ), reason);
            let problem = problem.key(READ).found(self.value_of(READ)).hint(hint);
            self.failed.insert(READ);
            self.problems.push(problem);
        }
    }

    /// Reads the token file that a key names.
    fn judge_token_file(&mut self, key: &'static str, path: Option<&Path>) -> Option<Token> {
        let path = path.filter(|_| self.agent.http.bind.is_some() && !self.any_failed(&[key]))?;
        let problem = |reason: String| Problem::new(self.source_of(key), reason).key(key).found(self.value_of(key));
        match TokenFile::read(path) {
            Ok(TokenFile { token, open_to_others: None }) => Some(token),
            Ok(TokenFile { token, open_to_others: Some(mode) }) => {
                let warning = problem(format!("is open to other users of this machine (mode {mode})"));
                self.warnings.push(warning.hint("chmod 600 it, so that only the agent's user reads the token"));
                Some(token)
            }
            Err(error) => {
                let hint = match &error {
                    TokenFileError::Unreadable(error) if error.kind() == io::ErrorKind::NotFound => {
                        "check the path; a relative one starts where the agent was started"
                    }
                    TokenFileError::Unreadable(_) => "name a file that the agent's user may read",
                    TokenFileError::Invalid => "make one with `openssl rand -hex 32`",
                };
                let refused = problem(error.to_string()).hint(hint);
                self.failed.insert(key);
                self.problems.push(refused);
                None
            }
        }
    }

    /// Refuses a list of keys that names none, unless it is said what is to happen then: a secret that is missing must not
    /// leave a cluster clear.
    pub(super) fn judge_keys(&mut self) {
        const KEY: &str = "seal.keys";
        let seal = &self.agent.config.seal;
        let is_given = self.sources.get(KEY).is_some_and(|source| *source != Source::Default);
        let is_said = seal.mode.is_some() || seal.key_file.is_some() || !seal.keys.is_empty();
        if is_given && !is_said && !self.any_failed(&[KEY, "seal.mode", "seal.key_file"]) {
            let problem = Problem::new(self.source_of(KEY), "names no key, so that nothing would be sealed");
            let problem = problem.key(KEY).found(self.value_of(KEY));
            self.problems.push(problem.hint("leave it out, or say seal.mode = \"off\", if packets are to be clear"));
        }
    }

    /// Reads the key file, so that a missing or invalid one is reported before the agent starts.
    pub(super) fn judge_key_file(&mut self) {
        const KEY: &str = "seal.key_file";
        let seal = &self.agent.config.seal;
        let is_read = seal.mode() != SealMode::Off && !self.any_failed(&[KEY, "seal.mode"]);
        let Some(path) = seal.key_file.as_deref().filter(|_| is_read) else { return };
        let problem = |reason: String| Problem::new(self.source_of(KEY), reason).key(KEY).found(self.value_of(KEY));
        match read_key_file(path) {
            Ok(ReadKeys { open_to_others: None, .. }) => {}
            Ok(ReadKeys { open_to_others: Some(mode), .. }) => {
                let warning = problem(format!("is open to other users of this machine (mode {mode})"));
                self.warnings.push(warning.hint("chmod 600 it: whoever reads a key can change the membership"));
            }
            Err(error) => {
                let hint = match &error {
                    KeyFileError::Unreadable(error) if error.kind() == io::ErrorKind::NotFound => {
                        "copy it from a member; for the first node of all, make one with `headcount keys generate`"
                    }
                    KeyFileError::Unreadable(_) => "name a file that the agent's user may read",
                    KeyFileError::Invalid(_) => {
                        "one key a line, as `headcount keys generate` prints it; # begins a comment"
                    }
                };
                let refused = problem(error.to_string()).hint(hint);
                self.failed.insert(KEY);
                self.problems.push(refused);
            }
        }
    }
}
