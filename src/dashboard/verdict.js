// The verdict, and the four facts beside it: who leads, how much may fail, whether all agree, whose view this is.
//
// Invariant: while the agent is silent, nothing is claimed about the present.

import { $, el, mark, onFrame, show, write } from "./dom.js";
import * as address from "./address.js";
import { age, count, names, some, time } from "./format.js";
import * as store from "./store.js";
import { LEVELS, reasonOf } from "./store.js";

const link = { isLive: false, isDenied: false, lostAt: 0, heardAt: 0 };

// The reasons why nobody leads.
const LEADERLESS = ["no_leader", "no_majority", "no_voters", "voters_drain", "voters_lost_data", "database_away"];

/** Draws the verdict in the next frame. */
export const draw = onFrame(render);

/** Tells when the agent was heard last, and whether it still is. */
export function setLink(change) {
  Object.assign(link, change);
  draw();
}

/** Prepares the field of the expected count. */
export function start() {
  const field = $("expected");
  field.addEventListener("input", () => address.set({ expected: /^\d+$/.test(field.value) ? Number(field.value) : "" }));
  field.addEventListener("blur", draw);
  $("expected-reset").addEventListener("click", () => {
    address.set({ expected: "" });
    field.focus();
  });
  address.onChange(draw);
}

function expected() {
  const given = address.get("expected");
  return /^\d{1,6}$/.test(given) ? { number: Number(given), isGiven: true } : { number: store.facts.most, isGiven: false };
}

/** Returns the verdict, which is the agent's own: its level (`up`, `suspect`, `down`, `unknown`), headline, reasons, and what to do.
 * How many members are expected the page alone knows. */
function judge() {
  const counted = store.counts();
  const want = expected();
  if (link.isDenied) return { level: "unknown", text: "Sign in to see", why: "This agent tells its view to whoever has its token." };
  if (!store.members.size) return { level: "unknown", text: link.lostAt ? "The agent is silent" : "Looking around", why: "Waiting for the agent's first answer." };
  const extra = counted.up > want.number;
  const line = extra ? `${count(counted.up)} up, ${count(want.number)} expected` : `${count(counted.up)} of ${count(want.number)} up`;
  if (!link.isLive && link.lostAt) {
    return { level: "unknown", text: `${line}, when last heard`, why: `Nobody knows what happened since ${time(new Date(link.heardAt || link.lostAt))}.` };
  }
  const verdict = store.facts.verdict;
  if (!verdict) return { level: "unknown", text: line, why: "Waiting for the agent's verdict." };
  const reasons = verdict.reasons.map((reason) => reason.text);
  const missing = want.number - counted.up - counted.suspect - counted.down - counted.leaving - counted.joining;
  if (missing > 0) {
    const left = store.select("", ["left"], "since").slice(0, missing).map((member) => member.id);
    reasons.push(`${count(missing)} fewer than expected${left.length ? `: ${names(left)} left` : ""}`);
  }
  if (extra) reasons.push("more members than expected");
  // Who left said so, or was removed by somebody: that is to be seen, and no failure.
  const own = missing > counted.left ? "down" : missing > 0 || extra ? "suspect" : "up";
  const level = [LEVELS[verdict.state] ?? "unknown", own].sort((a, b) => SEVERITY.indexOf(b) - SEVERITY.indexOf(a))[0];
  const why = reasons.length ? `${reasons.join("; ")}.` : "Every expected member is up.";
  const hint = verdict.reasons.find((reason) => reason.state !== "well")?.hint ?? "";
  return { level, text: line, hint, why: store.shorten(store.members.has(why.split(/[ ,]/)[0]) ? why : why[0].toUpperCase() + why.slice(1)) };
}

const SEVERITY = ["up", "unknown", "suspect", "down"];

function render() {
  const verdict = judge();
  mark($("verdict"), "data-level", verdict.level);
  mark($("verdict-shape"), "href", `#shape-${verdict.level}`);
  write($("verdict-text"), verdict.text);
  write($("verdict-why"), verdict.why);
  write($("verdict-hint"), verdict.hint ?? "");
  show($("verdict-hint"), Boolean(verdict.hint));
  const sign = { up: "", suspect: "▲ ", down: "■ ", unknown: "? " }[verdict.level];
  const title = `${sign}${verdict.text} · headcount`;
  if (document.title !== title) document.title = title;
  const want = expected();
  if (document.activeElement !== $("expected") && $("expected").value !== String(want.number)) $("expected").value = String(want.number);
  write($("expected-note"), want.isGiven ? "from the address" : "the most seen here");
  show($("expected-reset"), want.isGiven);
  renderBar();
  renderPartition();
  fact("leader", leaderFact());
  fact("tolerance", toleranceFact());
  fact("agreement", agreementFact());
  fact("view", viewFact());
}

function fact(name, { level = "plain", value, note }) {
  // Of the present nothing is known while the agent is silent.
  mark($(`fact-${name}`), "data-level", link.isLive || !link.lostAt ? level : "unknown");
  write($(`${name}-value`), value);
  write($(`${name}-note`), note);
}

const segments = new Map();

function renderBar() {
  const counted = store.counts();
  const bar = $("bar");
  const words = [];
  for (const status of ["down", "suspect", "leaving", "joining", "up"]) {
    if (!segments.has(status)) {
      segments.set(status, el("span", { class: `segment segment-${status}` }));
      bar.append(segments.get(status));
    }
    segments.get(status).style.flexGrow = counted[status];
    show(segments.get(status), counted[status] > 0);
    if (counted[status]) words.push(`${counted[status]} ${status}`);
  }
  mark(bar, "aria-label", words.length ? `Members by status: ${words.join(", ")}` : "No members yet");
}

function renderPartition() {
  const cut = link.isLive ? reasonOf("cut") : null;
  show($("partition"), Boolean(cut));
  if (!cut) return;
  const last = store.events.find((event) => event.event.startsWith("partition_"));
  const since = last?.event === "partition_suspected" ? ` Said at ${time(new Date(last.when))}.` : "";
  const sides = store.shorten(cut.text.slice(cut.text.indexOf(": ") + 2));
  write($("partition-text"), `${sides[0].toUpperCase()}${sides.slice(1)}.${since} They may be alive on the other side, with a view of their own.`);
}

function leaderFact() {
  const leader = store.facts.leader;
  if (!leader) return { level: "unknown", value: "unknown", note: "" };
  if (leader.state === "disabled") return { value: "none", note: "leadership is off in this cluster" };
  const term = `term ${count(leader.term)}`;
  if (leader.state === "led") return { value: store.shorten(leader.leader ?? "unknown"), note: `${term}, ${leader.mode === "lease" ? "by a lease in the database" : "elected by the voters"}` };
  if (store.facts.info?.status === "joining") return { level: "suspect", value: "unknown", note: "this node joins, and learns who leads once it is let in" };
  const why = reasonOf(...LEADERLESS);
  if (!why) return { level: "suspect", value: "nobody", note: term };
  const note = why.text.replace(/^nobody leads(:|, and) /, "");
  return { level: LEVELS[why.state], value: why.state === "broken" ? "nobody" : "nobody yet", note: `${term}; ${note}` };
}

function toleranceFact() {
  const { voters, leader } = store.facts;
  if (leader?.mode === "lease") return { value: "the database's", note: "leadership lasts as long as the database answers" };
  if (leader?.state === "disabled") return { value: "any number", note: "no leader is elected, so no majority is needed" };
  if (!voters || !voters.majority) return { level: "unknown", value: "unknown", note: leader ? "the voters have not met yet" : "" };
  const here = voters.voters.filter((voter) => voter.status === "up" && voter.votes !== false).length;
  const up = `${here} of ${some(voters.voters.length, "voter")} up`;
  const note = `${up}, ${voters.majority} needed`;
  const short = reasonOf("no_majority", "voters_lost_data");
  if (short) return { level: LEVELS[short.state], value: "exceeded", note };
  const last = reasonOf("no_voter_to_spare");
  if (last) return { level: LEVELS[last.state], value: "none", note };
  const known = voters.failure_tolerance ?? null;
  const spare = known ?? Math.max(0, here - voters.majority);
  const level = known ? "up" : "plain";
  return { level, value: spare ? some(spare, "voter") : "none", note: `${note}${known === null ? ", if all of these vote: the leader knows" : ""}` };
}

/** Says whether peers share this view. */
function agreementFact() {
  if (!store.facts.info) return { level: "unknown", value: "unknown", note: "" };
  if (!link.isLive) return { level: "unknown", value: "unknown", note: "nothing is known while the agent is silent" };
  const differ = reasonOf("views_differ");
  if (differ?.state === "unsettled") return { value: "settling", note: differ.text };
  if (differ) return { level: "suspect", value: "views differ", note: differ.text };
  const { fingerprints: [own] = [], unheard = 0 } = store.facts.info.agreement ?? {};
  const value = own?.count === 1 ? "nobody to compare with" : unheard ? "all that say it share it" : "all share it";
  const silent = unheard ? `; ${count(unheard)} not heard` : "";
  return { level: unheard ? "plain" : "up", value, note: own ? `${some(own.count, "member")} with fingerprint ${own.fingerprint.slice(0, 8)}${silent}` : "" };
}

function viewFact() {
  const info = store.facts.info;
  if (!info) return { level: "unknown", value: "unknown", note: "" };
  const mine = store.members.get(info.node);
  const status = mine ? store.shownStatus(mine) : info.status;
  const quiet = link.heardAt ? Date.now() - link.heardAt : 0;
  const fresh = link.isLive && store.facts.isPolled ? "asked every 2 s" : link.isLive ? (quiet < 5_000 ? "live" : `${age(quiet)} old`) : `${age(quiet)} old`;
  const ill = reasonOf("joining", "unreachable", "task_died", "stopped");
  const level = !link.isLive ? "unknown" : ill ? LEVELS[ill.state] : "plain";
  return { level, value: store.shorten(info.node), note: `${fresh}; ${status}, running for ${age(info.uptime_ms + (Date.now() - (store.facts.infoAt ?? Date.now())))}` };
}
