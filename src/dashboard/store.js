// What the page knows: members, events, the leader, the voters, this agent. The only owner of that state.
//
// Invariants: the stream alone says who is a member and in which status; polls only refresh how long ago a member was
// heard and how far away it is. Tables have bounds. Nothing here touches the page.

import { byName } from "./format.js";

/** The number of events kept. */
export const KEPT_EVENTS = 1_000;

/** The levels of the states of the agent's verdict. */
export const LEVELS = { well: "up", unsettled: "suspect", degraded: "suspect", broken: "down" };

/** Returns the first reason of the agent's verdict with one of these codes. */
export const reasonOf = (...codes) => facts.verdict?.reasons.find((reason) => codes.includes(reason.code));

/** The statuses, worst first: the order of the list. */
export const STATUSES = ["down", "suspect", "leaving", "joining", "up", "left"];
const RANKS = new Map(STATUSES.map((status, rank) => [status, rank]));
const rank = (member) => RANKS.get(member.status) ?? 0;

/** The members by name. */
export const members = new Map();
/** The events, newest first. */
export const events = [];
/** The rest: what single calls answered. `null` is what is not known. */
export const facts = { info: null, leader: null, verdict: null, voters: null, isPolled: false, clockOffset: 0, most: 0, left: 0 };

// What was derived from the members, until they change.
let sortedByName = null;
let derived = new Map();
const seen = new Set();

/** Returns a value that is made from the members; made again only if they changed. */
function derive(key, make) {
  if (!derived.has(key)) derived.set(key, make());
  return derived.get(key);
}

/** Returns the name of the agent asked; empty, if it is not known yet. */
export const me = () => facts.info?.node ?? "";

/** Returns the end that all names share, whole labels from a dot on (".example.internal"); empty, if there is none. */
export const sharedEnd = () => derive("end", () => {
  let end = null;
  for (const id of members.keys()) {
    end ??= id;
    while (end && (!id.endsWith(end) || id === end)) end = end.replace(/^.[^.]*/, "");
  }
  return members.size > 1 && /[a-z]/i.test(end) ? end : "";
});

/** Leaves the shared end of names out of a text; not for commands. */
export const shorten = (text) => {
  const end = sharedEnd();
  // At the end of a name alone: what follows belongs to no name.
  return end ? text.replace(new RegExp(`${end.replaceAll(".", "\\.")}(?![\\w-])`, "g"), "") : text;
};

/** Returns the status that is shown: `draining` members are Up, and said so. */
export const shownStatus = (member) => (member.status === "up" && member.draining ? "draining" : member.status);

function touch() {
  derived = new Map();
}

function put(member) {
  const before = members.get(member.id);
  member.at = performance.now();
  member.sinceMs = Date.parse(member.since);
  // An event's record may lack what a poll told.
  if (before && before.run === member.run && member.rtt_ms === null) member.rtt_ms = before.rtt_ms;
  member.text = null;
  if (!before) sortedByName = null;
  members.set(member.id, member);
}

/** Takes all members at once; those that left and are not listed stay known. */
export function takeSnapshot(list) {
  const left = [...members.values()].filter((member) => member.status === "left");
  members.clear();
  sortedByName = null;
  for (const member of list) put(member);
  for (const member of left) if (!members.has(member.id)) members.set(member.id, member);
  noteMost();
  touch();
}

/** Takes members that left, which snapshots do not list. */
export function takeLeft(list) {
  for (const member of list) if (member.status === "left" && !members.has(member.id)) put(member);
  touch();
}

/** Takes an event; returns false if it was known already. */
export function takeEvent(event) {
  if (!keep(event)) return false;
  if (event.event === "node_removed" && event.node) {
    members.delete(event.node);
    sortedByName = null;
  } else if (event.member) {
    put(event.member);
  }
  noteMost();
  touch();
  return true;
}

/** Takes events of before the snapshot: they are shown, and change no member. */
export function takeHistory(list) {
  for (const event of list) keep(event);
}

function keep(event) {
  if (seen.has(event.id)) return false;
  seen.add(event.id);
  event.when = Date.parse(event.at);
  const run = event.id.split("-")[0];
  // Events come in order, but for those of before the snapshot.
  let at = 0;
  while (at < events.length && events[at].id.startsWith(run) && events[at].sequence > event.sequence) at += 1;
  events.splice(at, 0, event);
  while (events.length > KEPT_EVENTS) seen.delete(events.pop().id);
  return seen.has(event.id);
}

/** Takes what a poll tells: how long ago members were heard, and how far away they are. */
export function refresh(list) {
  const now = performance.now();
  for (const polled of list) {
    const member = members.get(polled.id);
    if (!member || member.run !== polled.run) continue;
    for (const key of ["last_heard_ms", "heard_interval_ms", "last_sent_ms", "sent_interval_ms", "rtt_ms"]) member[key] = polled[key];
    member.at = now;
  }
  touch();
}

/** Returns the number of members in each status; `draining` counts among `up`, and once more by itself. */
export const counts = () => derive("counts", () => {
  const counted = { up: 0, suspect: 0, down: 0, leaving: 0, joining: 0, left: 0, draining: 0 };
  for (const member of members.values()) {
    // A newer agent may know a status that this page does not.
    counted[member.status] = (counted[member.status] ?? 0) + 1;
    if (shownStatus(member) === "draining") counted.draining += 1;
  }
  return counted;
});

/** The greatest number of members, gone or not, that this view had since the page was opened. */
function noteMost() {
  let here = 0;
  for (const member of members.values()) if (member.status !== "left") here += 1;
  if (here > facts.most) facts.most = here;
}

const ORDERS = {
  worst: (a, b) => rank(a) - rank(b)
    || (a.status === "up" ? Number(Boolean(b.draining)) - Number(Boolean(a.draining)) : b.sinceMs - a.sinceMs),
  name: () => 0,
  heard: (a, b) => (b.last_heard_ms ?? -1) - (a.last_heard_ms ?? -1),
  rtt: (a, b) => (b.rtt_ms ?? -1) - (a.rtt_ms ?? -1),
  since: (a, b) => b.sinceMs - a.sinceMs,
};

/** Returns all members in this order; by name, where the order says nothing. */
export function inOrder(order) {
  const known = order in ORDERS ? order : "worst";
  return derive(`order ${known}`, () => {
    // Comparing names is slow, and needed only when one came or went; sorting keeps the order of equals.
    sortedByName ??= [...members.keys()].sort(byName);
    return sortedByName.map((id) => members.get(id)).sort(ORDERS[known]);
  });
}

/** Returns the text in which a member is searched. */
function textOf(member) {
  member.text ??= [member.id, member.address, member.api_address, member.status, member.draining ? "draining" : "", member.method, member.version,
    ...Object.entries(member.tags ?? {}).map(([key, value]) => `${key}=${value}`)].join(" ").toLowerCase();
  return member.text;
}

/** Returns the members that have all words and one of the statuses; those that left only if they are asked for. */
export const select = (words, statuses, order) => derive(`select ${order} ${statuses} ${words}`, () => {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  return inOrder(order).filter((member) =>
    (statuses.length ? statuses.includes(member.status) || statuses.includes(shownStatus(member)) : member.status !== "left")
    && wanted.every((word) => textOf(member).includes(word)));
});

/** Returns round-trip times of live members, in milliseconds, shortest first. */
export function roundTrips() {
  const trips = [];
  for (const member of members.values()) {
    if (member.rtt_ms !== null && (member.status === "up" || member.status === "suspect")) trips.push(member.rtt_ms);
  }
  return trips.sort((a, b) => a - b);
}
