//! The keys of the seal: which packets are taken and sent, and with which secrets.

use serde_json::{Value as Json, json};

use super::{Key, LivePart, Repeated, Slot, Special, optional};
use crate::seal::SealMode;

pub(super) static KEYS: [Key; 3] = [
    Key {
        name: "seal.mode",
        default: "off",
        range: "off, permit, prefer, require",
        doc: "Which packets are taken and sent: clear, both, or sealed ones alone; with keys `require`, unless it is said.",
        special: Special::live(LivePart::Seal),
        slot: Slot::Text(|agent, text| {
            // The error lists the allowed words itself.
            let mode = text.parse::<SealMode>().map_err(|_| "is not a mode of sealing".to_owned())?;
            agent.config.seal.mode = Some(mode);
            Ok(())
        }),
        get: |agent| json!(agent.config.seal.mode().name()),
    },
    Key {
        name: "seal.key_file",
        default: "none",
        range: "a path",
        doc: "The file with the cluster's keys, one a line; the first one seals.",
        special: Special::live(LivePart::Seal),
        slot: Slot::Path(|agent| &mut agent.config.seal.key_file),
        get: |agent| optional(agent.config.seal.key_file.as_ref().map(|path| path.display())),
    },
    Key {
        name: "seal.keys",
        default: "none",
        range: "at most 8 keys of 32 random bytes in base64, as `headcount keys generate` prints them",
        doc: "The cluster's keys themselves; shown by their ids.",
        special: Special { repeated: Repeated::Never, ..Special::live(LivePart::Seal) },
        slot: Slot::SealKeys,
        get: |agent| {
            let ids: Vec<Json> = agent.config.seal.keys.iter().map(|key| json!(key.id().to_string())).collect();
            if ids.is_empty() { Json::Null } else { json!(ids) }
        },
    },
];
