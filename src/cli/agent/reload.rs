//! What an agent has read of its configuration, and reading it again while it runs.
//!
//! Invariants: a configuration that is refused changes nothing; a key that was not taken up counts as changed the next time
//! as well; a disk that hangs is not waited for.

use std::time::Duration;

use super::flags::loader;
use super::warn;
use crate::agent::{self, Agent};
use crate::cli::args::AgentArgs;
use crate::cli::logs::Logs;
use crate::config::{HttpConfig, LivePart, Loaded};
use crate::handlers::Handlers;
use crate::http::Tokens;
use crate::seal::SealMode;

/// Time limit for reading the configuration again.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit for asking members which modes they have.
const LOOK_TIMEOUT: Duration = Duration::from_secs(1);

/// The configuration, flags and logs of a running node.
pub(super) struct Running<'a> {
    pub(super) loaded: Loaded,
    pub(super) args: &'a AgentArgs,
    pub(super) logs: &'a Logs,
    /// The tokens that the HTTP interface asks for.
    pub(super) tokens: Tokens,
}

impl Running<'_> {
    /// Reads the configuration again, applies the keys that can be changed at run time, and names those that cannot. A
    /// configuration that is refused changes nothing.
    pub(super) async fn reload(&mut self, agent: &Agent, handlers: &mut Handlers) {
        let loader = loader(&self.args.node);
        // A disk that hangs must not keep the process from hearing a request to stop.
        let load = tokio::task::spawn_blocking(move || loader.load());
        let newer = match tokio::time::timeout(RELOAD_TIMEOUT, load).await {
            Ok(Ok(Ok(newer))) => newer,
            Ok(Ok(Err(error))) => return tracing::error!("not reloaded, everything stays as it is: {error}"),
            Ok(Err(died)) => return tracing::error!("not reloaded, everything stays as it is: {died}"),
            Err(_) => {
                let seconds = RELOAD_TIMEOUT.as_secs();
                return tracing::error!(
                    "not reloaded, the configuration was not read within {seconds} s: is the disk well?"
                );
            }
        };
        warn(&newer);
        let keys = self.reload_keys(agent, &newer).await;
        let changes: Vec<_> =
            self.loaded.changes(&newer).into_iter().filter(|change| change.live_part != Some(LivePart::Seal)).collect();
        let has_new_tokens = self.take_up_tokens(&newer);
        if changes.is_empty() && !has_new_tokens && !keys {
            tracing::info!("reloaded: nothing has changed");
        }
        for change in changes {
            let Some(part) = change.live_part else {
                // It is named again at the next reload: it still waits for a restart.
                tracing::warn!(
                    "changed, and counts only after a restart: {}: {} -> {}",
                    change.key,
                    change.old,
                    change.new
                );
                continue;
            };
            match self.take_up(agent, handlers, &newer, part).await {
                Ok(()) => tracing::info!("reloaded {change}"),
                Err(error) => tracing::error!("{change} was not taken up: {error}"),
            }
        }
    }

    /// Takes up what the token files hold now; returns true if that has changed. Other files than before, and HTTP that is
    /// turned on or off, need a restart.
    fn take_up_tokens(&mut self, newer: &Loaded) -> bool {
        let files = |loaded: &Loaded| {
            let HttpConfig { bind, token_file, read_token_file, .. } = &loaded.agent.http;
            bind.is_some().then(|| (token_file.clone(), read_token_file.clone()))
        };
        let held = |loaded: &Loaded| (loaded.token.clone(), loaded.read_token.clone());
        if files(newer).is_none() || files(&self.loaded) != files(newer) || held(&self.loaded) == held(newer) {
            return false;
        }
        let (token, read_token) = held(newer);
        for (key, old, new) in [
            ("http.token_file", &self.loaded.token, &token),
            ("http.read_token_file", &self.loaded.read_token, &read_token),
        ] {
            if old != new {
                tracing::info!("reloaded {key}: it holds another token, and the one before is refused from now on");
            }
        }
        self.tokens.replace(token.clone(), read_token.clone());
        (self.loaded.token, self.loaded.read_token) = (token, read_token);
        true
    }

    /// Reads the keys again, whose file may have changed although its name has not; returns true if something is told.
    async fn reload_keys(&mut self, agent: &Agent, newer: &Loaded) -> bool {
        let seal = &newer.agent.config.seal;
        let apart = lagging(agent, seal.mode()).await;
        match agent.reload_keys(seal.clone()).await {
            Ok((before, after)) => {
                let running = &mut self.loaded.agent.config;
                // The address stays bound, whatever the default is with these keys.
                running.bind = running.bind();
                if !apart.is_empty() {
                    tracing::warn!(
                        "seal.mode = {} is a step too far for {}: until they follow, they and this node do not hear each other; \
                         `headcount keys list` shows who is left",
                        after.mode,
                        apart.join(", ")
                    );
                }
                let is_opened = running.seal.is_local() && !seal.is_local() && after.mode.accepts_clear();
                running.seal = seal.clone();
                if is_opened {
                    tracing::warn!(
                        "packets of other machines are taken without seals from now on (seal.mode = {})",
                        after.mode
                    );
                }
                let told = before != after;
                if told {
                    let shown = |held: &agent::HeldKeys| {
                        let ids: Vec<_> = held.keys.iter().map(ToString::to_string).collect();
                        format!("{} [{}]", held.mode, ids.join(", "))
                    };
                    tracing::info!("reloaded keys: {} -> {}", shown(&before), shown(&after));
                    if before.mode != SealMode::Off && after.mode == SealMode::Off {
                        tracing::warn!(
                            "nothing is sealed any more (seal.mode = off): whoever can send to the address of gossip can change \
                             the membership; set permit again unless seals are to end"
                        );
                    }
                    if before.mode == SealMode::Require && after.mode != SealMode::Require {
                        tracing::warn!(
                            "clear packets are taken again (seal.mode = {}), here alone unless all members take this step: \
                             `headcount keys list` shows who does; set require again unless seals are to end",
                            after.mode
                        );
                    }
                }
                told
            }
            Err(error) => {
                tracing::error!("the keys were not reloaded and stay as they are: {error}");
                true
            }
        }
    }

    /// Gives one part of the agent the values of a newer configuration.
    async fn take_up(
        &mut self,
        agent: &Agent,
        handlers: &mut Handlers,
        newer: &Loaded,
        part: LivePart,
    ) -> Result<(), String> {
        match part {
            LivePart::Handlers => {
                handlers.replace(&newer.agent.handlers);
                self.loaded.agent.handlers.clone_from(&newer.agent.handlers);
            }
            LivePart::Tags => {
                let tags = &newer.agent.config.tags;
                agent.set_tags(tags.clone()).await.map_err(|error| error.to_string())?;
                self.loaded.agent.config.tags = tags.clone();
            }
            LivePart::LogLevel => {
                let level = &newer.agent.log.level;
                self.logs.set_level(level).map_err(|error| error.to_string())?;
                self.loaded.agent.log.level.clone_from(level);
            }
            // Read again with its files, whose names may be the same.
            LivePart::Seal => {}
        }
        Ok(())
    }
}

/// Returns the members that do not hear a node of this mode, or that it does not hear, as far as they say so at once.
async fn lagging(agent: &Agent, mode: SealMode) -> Vec<String> {
    if agent.keys().mode == mode {
        return Vec::new();
    }
    let me = agent.me().id;
    let lags = |holder: agent::KeyHolder| {
        let theirs = holder.held.ok()?.mode;
        (holder.node != me && !mode.understands(theirs)).then(|| format!("{} ({theirs})", holder.node))
    };
    let holders = tokio::time::timeout(LOOK_TIMEOUT, agent.cluster_keys()).await.unwrap_or_default();
    holders.into_iter().filter_map(lags).collect()
}
