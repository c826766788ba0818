// What an event says, in words: who, what happened, why, and the shape that stands beside it.

import { count, names, plain } from "./format.js";

/** The kinds of events in groups, as the filter offers them: value, label, kinds. */
export const GROUPS = [
  ["failures", "Failures and recoveries", ["node_suspected", "node_recovered", "node_detected_down", "partition_suspected", "partition_healed", "quorum_lost", "quorum_regained"]],
  ["membership", "Members come and go", ["node_joining", "node_joined", "node_leaving", "node_left", "node_removed", "node_updated"]],
  ["leadership", "Leadership", ["leader_elected", "leader_lost", "quorum_lost", "quorum_regained", "electorate_ended", "view_agreed"]],
];

/** All kinds of events, in the order of the filter. */
export const KINDS = [...new Set(GROUPS.flatMap(([, , kinds]) => kinds))];

/** All causes, as `method` and `reason` name them. */
export const CAUSES = [
  ["A node was silent or died", ["heartbeat_timeout", "connection_lost", "network_partition", "restarted", "host_silent", "process_stalled"]],
  ["A node left", ["graceful", "forced"]],
  ["A leader gave up", ["expired", "resigned", "superseded", "rejected", "quorum_lost"]],
];

const CAUSE_WORDS = {
  heartbeat_timeout: "no heartbeat arrived in time",
  connection_lost: "its connection broke without a goodbye",
  network_partition: "silent together with others: a cut in the network?",
  restarted: "a new process of this name took its place",
  host_silent: "its machine does not answer either",
  process_stalled: "its process hangs; its machine answers",
  graceful: "it said goodbye",
  forced: "an operator removed it",
  expired: "its lease ran out",
  resigned: "it gave leadership up",
  superseded: "another was elected",
  rejected: "the voters rejected it",
  quorum_lost: "too few voters could be reached",
};

/** Says a cause in plain words. */
export const causeWords = (cause) => CAUSE_WORDS[cause] ?? plain(cause);

/** Returns the cause of an event; null, if it has none. */
export const causeOf = (event) => event.method ?? event.reason ?? (event.event === "node_suspected" ? event.member?.method ?? null : null);

/** Returns true if an event passes the filter of the timeline: a kind or a group of kinds, and a cause. */
export function passes(event, kind, cause) {
  if (cause && causeOf(event) !== cause) return false;
  if (!kind) return true;
  const group = GROUPS.find(([name]) => name === kind);
  return group ? group[2].includes(event.event) : event.event === kind;
}

/** Returns what an event says: `shape`, `who` (may be empty), `what`. */
export function tell(event) {
  const who = event.node ?? "";
  const term = event.term === undefined ? "" : `, term ${count(event.term)}`;
  switch (event.event) {
    case "node_joining": return { shape: "joining", who, what: "asks to join" };
    case "node_joined": return { shape: "up", who, what: "is up" };
    case "node_suspected": return { shape: "suspect", who, what: "is suspected" };
    case "node_recovered": return { shape: "up", who, what: "is up again: it refuted the suspicion" };
    case "node_detected_down": return { shape: "down", who, what: "is down" };
    case "node_leaving": return { shape: "leaving", who, what: "is leaving" };
    case "node_left": return { shape: "left", who, what: event.reason === "forced" ? "was removed" : "left" };
    case "node_removed": return { shape: "left", who, what: "is forgotten" };
    case "node_updated": return { shape: "view", who, what: changed(event.previous, event.member) };
    case "partition_suspected": return { shape: "split", who: "", what: `Cut off, it seems: ${names(event.unreachable ?? [])}` };
    case "partition_healed": return { shape: "up", who: "", what: healed(event.unreachable ?? []) };
    case "leader_elected": return { shape: "leader", who, what: `leads${lease(event)}${term}` };
    case "leader_lost": return { shape: "suspect", who, what: `no longer leads${lease(event)}${term}` };
    case "quorum_lost": return { shape: "down", who: "", what: "No quorum: nobody can be elected" };
    case "quorum_regained": return { shape: "up", who: "", what: "Quorum regained" };
    case "electorate_ended": return { shape: "down", who: "", what: "This node's electorate ended for another one: it votes no more" };
    case "view_agreed": return { shape: "view", who: "", what: `View ${event.number} agreed` };
    default: return { shape: "unknown", who, what: plain(event.event) };
  }
}

const lease = (event) => (event.lease && event.lease !== "default" ? ` (${event.lease})` : "");

const healed = (missing) => (missing.length ? `The cut is over; still missing: ${names(missing)}` : "The cut is over: all are back");

/** Says what differs between two records of a member. */
function changed(before, after) {
  if (!before || !after) return "changed its record";
  const parts = [];
  if (Boolean(before.draining) !== Boolean(after.draining)) parts.push(after.draining ? "is draining" : "is no longer draining");
  if (before.address !== after.address) parts.push(`moved to ${after.address}`);
  if (before.version !== after.version) parts.push(`runs version ${after.version}`);
  if (before.api_address !== after.api_address) parts.push(`serves at ${after.api_address ?? "no address"}`);
  const tags = [];
  for (const [key, value] of Object.entries(after.tags ?? {})) if (before.tags?.[key] !== value) tags.push(`${key}=${value}`);
  for (const key of Object.keys(before.tags ?? {})) if (!(key in (after.tags ?? {}))) tags.push(`no ${key}`);
  if (tags.length) parts.push(`tags: ${tags.join(", ")}`);
  if (!parts.length && before.status !== after.status) parts.push(`went from ${before.status} to ${after.status}`);
  return parts.join("; ") || "renewed its record";
}

/** Says an event in one sentence, for a screen reader. */
export function sentence(event) {
  const { who, what } = tell(event);
  const cause = causeOf(event);
  return `${who ? `${who} ` : ""}${what}${cause ? `: ${causeWords(cause)}` : ""}.`;
}
