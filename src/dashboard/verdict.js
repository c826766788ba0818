// The verdict, and the four facts beside it: who leads, how much may fail, whether all agree, whose view this is.
//
// Invariant: while the agent is silent, nothing is claimed about the present.

import { $, el, mark, onFrame, show, write } from "./dom.js";
import * as address from "./address.js";
import { age, count, names, plain, some, time } from "./format.js";
import * as store from "./store.js";

// Views differ for a moment after each change; for longer, something keeps nodes apart.
const SETTLING_MS = 10_000;

const link = { isLive: false, isDenied: false, lostAt: 0, heardAt: 0 };
// Times since when, for each way of comparing.
const differs = { prints: 0, view: 0 };

function differsFor(way, isDifferent) {
  if (!isDifferent) differs[way] = 0;
  else differs[way] ||= Date.now();
  return differs[way] ? Date.now() - differs[way] : 0;
}

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

/** Returns the verdict: its level (`up`, `suspect`, `down`, `unknown`), headline, reason. */
export function judge() {
  const counted = store.counts();
  const want = expected();
  if (link.isDenied) return { level: "unknown", text: "Sign in to see", why: "This agent tells its view to whoever has its token." };
  if (!store.members.size) return { level: "unknown", text: link.lostAt ? "The agent is silent" : "Looking around", why: "Waiting for the agent's first answer." };
  const extra = counted.up > want.number;
  const line = extra ? `${count(counted.up)} up, ${count(want.number)} expected` : `${count(counted.up)} of ${count(want.number)} up`;
  if (!link.isLive && link.lostAt) {
    return { level: "unknown", text: `${line}, when last heard`, why: `Nobody knows what happened since ${time(new Date(link.heardAt || link.lostAt))}.` };
  }
  const reasons = [];
  for (const [status, one, many] of [["down", "is down", "are down"], ["suspect", "is suspected", "are suspected"], ["leaving", "is leaving", "are leaving"], ["joining", "asks to join", "ask to join"]]) {
    if (!counted[status]) continue;
    const those = store.inOrder("name").filter((member) => member.status === status);
    const causes = new Set(those.map((member) => member.method));
    const cause = causes.size === 1 && those[0].method ? ` (${plain(those[0].method)})` : "";
    reasons.push(`${names(those.map((member) => member.id))} ${those.length === 1 ? one : many}${cause}`);
  }
  const missing = want.number - counted.up - counted.suspect - counted.down - counted.leaving - counted.joining;
  if (missing > 0) {
    const left = store.select("", ["left"], "since").slice(0, missing).map((member) => member.id);
    reasons.push(`${count(missing)} fewer than expected${left.length ? `: ${names(left)} left` : ""}`);
  }
  if (extra) reasons.push("more members than expected");
  if (counted.draining) {
    const those = store.inOrder("name").filter((member) => member.draining);
    reasons.push(`${names(those.map((member) => member.id))} ${those.length === 1 ? "is" : "are"} draining`);
  }
  const leader = store.facts.leader;
  const leaderless = leader && leader.state !== "led" && leader.state !== "disabled";
  if (leaderless) reasons.push("nobody leads");
  // Who left said so, or was removed by somebody: that is to be seen, and no failure.
  const isDown = counted.down > 0 || missing > counted.left;
  const level = isDown || leader?.state === "unavailable" ? "down" : counted.up < want.number || counted.suspect || counted.joining || counted.leaving || extra || leaderless ? "suspect" : "up";
  const why = reasons.length ? `${reasons.join("; ")}.` : "Every expected member is up.";
  return { level, text: line, why: why[0].toUpperCase() === why[0] || store.members.has(why.split(/[ ,]/)[0]) ? why : why[0].toUpperCase() + why.slice(1) };
}

function render() {
  const verdict = judge();
  mark($("verdict"), "data-level", verdict.level);
  mark($("verdict-shape"), "href", `#shape-${verdict.level}`);
  write($("verdict-text"), verdict.text);
  write($("verdict-why"), verdict.why);
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
  const unreachable = store.facts.partition?.unreachable ?? [];
  const missing = unreachable.filter((id) => !["up", "left"].includes(store.members.get(id)?.status ?? "left"));
  show($("partition"), missing.length > 0 && link.isLive);
  if (missing.length) {
    // A poll tells who is missing, and not since when.
    const since = store.facts.partition.at === null ? "" : ` since ${time(new Date(store.facts.partition.at))}`;
    write($("partition-text"), `${store.me()} cannot reach ${names(missing, 6)}${since}. They may be alive on the other side, with a view of their own.`);
  }
}

function leaderFact() {
  const leader = store.facts.leader;
  if (!leader) return { level: "unknown", value: "unknown", note: "" };
  if (leader.state === "disabled") return { value: "none", note: "leadership is off in this cluster" };
  const term = `term ${count(leader.term)}`;
  if (leader.state === "led") return { value: leader.leader ?? "unknown", note: `${term}, ${leader.mode === "lease" ? "by a lease in the database" : "elected by the voters"}` };
  if (leader.state === "vacant") return vacantFact(leader, term);
  return { level: "down", value: "nobody", note: leader.mode === "lease" ? `${term}; the database cannot be reached` : `${term}; too few voters can be reached from here` };
}

function vacantFact(leader, term) {
  if (store.facts.info?.status === "joining") return { level: "suspect", value: "unknown", note: "this node joins, and learns who leads once it is let in" };
  if (leader.mode === "lease") return { level: "suspect", value: "nobody yet", note: `${term}; nobody holds the lease` };
  const voters = new Set((store.facts.voters?.voters ?? []).map((voter) => voter.id));
  const up = [...store.members.values()].filter((member) => member.status === "up" && voters.has(member.id));
  if (up.length && up.every((member) => member.draining)) {
    return { level: "down", value: "nobody", note: `${term}; no election is due: all voters that are up drain (${names(up.map((member) => member.id).sort())})` };
  }
  return { level: "suspect", value: "nobody yet", note: `${term}; an election is under way` };
}

function toleranceFact() {
  const { voters, leader } = store.facts;
  if (leader?.mode === "lease") return { value: "the database's", note: "leadership lasts as long as the database answers" };
  if (leader?.state === "disabled") return { value: "all but one", note: "no voters: members need no quorum" };
  if (!voters || !voters.majority) return { level: "unknown", value: "unknown", note: leader ? "the voters have not met yet" : "" };
  const here = voters.voters.filter((voter) => voter.status === "up" && voter.votes !== false).length;
  const known = voters.failure_tolerance;
  const left = known ?? here - voters.majority;
  const of = `${here} of ${some(voters.voters.length, "voter")} up, ${voters.majority} needed`;
  if (left < 0) return { level: "down", value: "exceeded", note: of };
  const isKnown = known !== null && known !== undefined;
  if (!isKnown && left > 0) return { value: `${here} of ${some(voters.voters.length, "voter")} up`, note: "the leader knows who of them votes: see its dashboard" };
  const value = left === 0 ? "none" : some(left, "voter");
  const note = isKnown ? `${of}; as the leader knows it` : `${of}; judged from here`;
  return { level: left === 0 ? (voters.voters.length > 1 ? "suspect" : "plain") : "up", value, note };
}

/** Says whether peers share this view: by their fingerprints, if the agent tells them, else by the agreed view. */
function agreementFact() {
  const groups = store.facts.info?.agreement?.fingerprints;
  if (!store.facts.info) return { level: "unknown", value: "unknown", note: "" };
  if (!link.isLive) return { level: "unknown", value: "unknown", note: "nothing is known while the agent is silent" };
  if (!Array.isArray(groups)) return agreedView() ?? { level: "unknown", value: "unknown", note: "this agent does not tell its peers' fingerprints" };
  const sizeOf = (group) => group.count ?? group.members?.length ?? 0;
  const mine = store.facts.info.fingerprint;
  const others = groups.filter((group) => group.fingerprint !== mine);
  if (!others.length) {
    differsFor("prints", false);
    const all = groups.reduce((sum, group) => sum + sizeOf(group), 0);
    return { level: "up", value: "all share it", note: `${some(all, "member")} with fingerprint ${mine.slice(0, 8)}` };
  }
  const differ = others.reduce((sum, group) => sum + sizeOf(group), 0);
  const named = others.flatMap((group) => group.members ?? []).slice(0, 2);
  const who = named.length < differ ? `${named.join(", ")} and ${some(differ - named.length, "other")}` : names(named);
  const lasts = differsFor("prints", true);
  if (lasts < SETTLING_MS) return { level: "plain", value: "settling", note: `${some(differ, "member")} about to catch up` };
  return { level: "suspect", value: some(others.length + 1, "view"), note: `${some(differ, "member")} with another view for ${age(lasts)}: ${who}` };
}

function agreedView() {
  const view = store.facts.view;
  if (!view?.members) return null;
  const live = new Set([...store.members.values()].filter((member) => member.status === "up" || member.status === "suspect").map((member) => member.id));
  const agreed = new Set(view.members);
  const missing = [...live].filter((id) => !agreed.has(id));
  const gone = [...agreed].filter((id) => !live.has(id));
  const number = `view ${count(view.number)}`;
  const lasts = differsFor("view", missing.length + gone.length > 0);
  if (!missing.length && !gone.length) return { level: "up", value: `view ${count(view.number)} agreed`, note: `the voters agreed on ${some(agreed.size, "member")}; peers' fingerprints unknown` };
  const parts = [gone.length ? `${number} still lists ${names(gone, 2)}` : "", missing.length ? `${number} lacks ${names(missing, 2)}` : ""].filter(Boolean);
  return lasts < SETTLING_MS ? { value: "settling", note: parts.join("; ") } : { level: "suspect", value: "differs", note: parts.join("; ") };
}

function viewFact() {
  const info = store.facts.info;
  if (!info) return { level: "unknown", value: "unknown", note: "" };
  const mine = store.members.get(info.node);
  const status = mine ? store.shownStatus(mine) : info.status;
  const quiet = link.heardAt ? Date.now() - link.heardAt : 0;
  const fresh = link.isLive && store.facts.isPolled ? "asked every 2 s" : link.isLive ? (quiet < 5_000 ? "live" : `${age(quiet)} old`) : `${age(quiet)} old`;
  const tasks = info.tasks === "ok" ? "" : `; ill: ${info.tasks}`;
  const level = !link.isLive ? "unknown" : status !== "up" || tasks ? "suspect" : "plain";
  return { level, value: info.node, note: `${fresh}; ${status}, running for ${age(info.uptime_ms + (Date.now() - (store.facts.infoAt ?? Date.now())))}${tasks}` };
}
