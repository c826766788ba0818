//! The verdict on a node and its cluster.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The agent's judgement of its node and its cluster, of all that it knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct Verdict {
    /// `well`; `unsettled`: a change is under way, and ends by itself; `degraded`: all is served, and something has to be
    /// mended; `broken`: something is not served.
    #[cfg_attr(test, schemars(extend("enum" = STATES)))]
    pub state: String,
    /// The reasons, the worst first. A cluster that is well may have some, too: they are notes.
    pub reasons: Vec<Reason>,
}

/// One reason of a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct Reason {
    /// The reason in one word, for programs: one never changes its meaning.
    pub code: String,
    /// The state that this reason alone would make.
    #[cfg_attr(test, schemars(extend("enum" = STATES)))]
    pub state: String,
    /// The fact, in a sentence.
    pub text: String,
    /// The members that it is about, sorted by name: 64 at most.
    pub nodes: Vec<String>,
    /// A thing to try; `null` where there is nothing to do.
    pub hint: Option<String>,
}

/// The states, the best one first.
#[cfg(test)]
const STATES: [&str; 4] = ["well", "unsettled", "degraded", "broken"];

/// The greatest number of names in a reason.
#[cfg(feature = "agent")]
const MAX_NODES: usize = 64;

#[cfg(feature = "agent")]
impl From<crate::agent::Verdict> for Verdict {
    fn from(verdict: crate::agent::Verdict) -> Self {
        let reason = |reason: crate::agent::Reason| Reason {
            code: reason.code.to_owned(),
            state: reason.state.name().to_owned(),
            text: reason.text,
            nodes: reason.nodes.iter().take(MAX_NODES).map(ToString::to_string).collect(),
            hint: reason.hint,
        };
        Self { state: verdict.state.name().to_owned(), reasons: verdict.reasons.into_iter().map(reason).collect() }
    }
}
