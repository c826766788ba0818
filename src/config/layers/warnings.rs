//! Warnings: settings that work and are probably mistakes.
//!
//! A warning is a [`Problem`] like those that refuse, beside the result; it changes nothing.

use super::merge::Merge;
use crate::config::addresses::{is_loopback, stays_on_this_machine};
use crate::config::problem::{Problem, Source, printable};
use crate::config::{HandlerAction, LeadershipMode};
use crate::lease::LeaseName;
use crate::seal::SealMode;

impl Merge {
    /// Warns of settings that work but are probably mistakes.
    pub(super) fn warn(&mut self) {
        let config = &self.agent.config;
        let about =
            |key: &str, reason: String| Problem::new(self.source_of(key), reason).key(key).found(self.value_of(key));
        let mut warnings = Vec::new();
        if config.bind.is_some_and(|bind| is_loopback(&bind))
            && let Some(seed) = config.seeds.iter().find(|seed| !stays_on_this_machine(seed))
        {
            let reason = format!("is reached from this machine only, and the seed {} is on another", printable(seed));
            let hint = "without the line, and with a key (--key-file), other machines reach this node";
            warnings.push(about("bind", reason).hint(hint));
        }
        let has_keys = config.seal.key_file.is_some() || !config.seal.keys.is_empty();
        if has_keys && config.seal.mode() == SealMode::Off && matches!(self.source_of("seal.mode"), Source::Flag(_)) {
            let reason = "beats the file and the environment, which name a key: nothing is sealed".to_owned();
            warnings.push(
                about("seal.mode", reason).hint("start it without --insecure, and seal.mode counts that they say"),
            );
        }
        let voters = config.leadership.voters.len();
        if voters != 0 && voters.is_multiple_of(2) {
            let reason =
                format!("are an even number: {voters} voters tolerate no more failures than {} would", voters - 1);
            warnings.push(about("leadership.voters", reason));
        }
        let lease = &config.leadership.lease;
        let is_led = |name: &LeaseName| name.as_str() == LeaseName::DEFAULT;
        if config.leadership.mode == LeadershipMode::Lease && !lease.leases.iter().any(is_led) {
            let reason = "leaves \"default\" out, by which the cluster is led: this node never leads it";
            let hint = "add \"default\" if it should; `headcount lead` needs --lease here";
            warnings.push(about("leadership.lease.leases", reason.to_owned()).hint(hint));
        }
        for handler in &self.agent.handlers {
            if let HandlerAction::Webhook { url, token_file: Some(_), .. } = &handler.action
                && url.is_in_the_clear()
            {
                let reason = format!("send the token of {} to {url} in the clear", handler.name);
                let warning = Problem::new(self.source_of("handlers"), reason).key("handlers");
                warnings.push(warning.hint("use https:// there, or a token of no worth"));
            }
        }
        self.warnings.extend(warnings);
    }
}
