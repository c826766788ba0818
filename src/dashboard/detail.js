// All that is known of one member, in a drawer; which one is open is kept in the address.

import { $, el, fill, mark, onFrame, show, write } from "./dom.js";
import * as address from "./address.js";
import { NONE, age, moment, plain, span } from "./format.js";
import { heard } from "./members.js";
import * as store from "./store.js";
import { makeItem } from "./timeline.js";
import { causeWords } from "./words.js";

const MOST_EVENTS = 40;

const drawer = $("detail");
const record = new Map();
let events = "";
let tags = null;
let makeActions = () => [];
let actions = "";

/** Draws the open detail in the next frame. */
export const draw = onFrame(render);

/** Prepares the drawer; `actionsFor` returns the buttons for a member, with a text that tells when they change. */
export function start(actionsFor) {
  makeActions = actionsFor;
  drawer.addEventListener("close", () => address.set({ node: "" }));
  $("detail-close").addEventListener("click", () => drawer.close());
  // A click beside the drawer closes it.
  drawer.addEventListener("click", (event) => {
    if (event.target === drawer && event.clientX < drawer.getBoundingClientRect().left) drawer.close();
  });
  address.onChange(draw);
}

/** Opens the detail of a member. */
export const open = (id) => address.set({ node: id });

function render() {
  const id = address.get("node");
  if (!id || (!store.members.size && !drawer.open)) {
    if (drawer.open) drawer.close();
    return;
  }
  if ($("detail-title").shown !== id) {
    [events, tags, actions] = ["", null, ""];
    drawer.scrollTop = 0;
  }
  write($("detail-title"), id);
  const member = store.members.get(id);
  const status = member ? store.shownStatus(member) : "unknown";
  mark($("detail-shape"), "href", `#shape-${status}`);
  mark(drawer, "data-status", status);
  write($("detail-status"), member ? summary(member, status) : "This view knows no member of this name.");
  renderRecord(member);
  renderTags(member);
  renderEvents(id);
  renderActions(member);
  if (!drawer.open) {
    drawer.showModal();
    $("detail-title").focus();
  }
}

function summary(member, status) {
  const since = `${status} for ${age(Date.now() + store.facts.clockOffset - Date.parse(member.since))}`;
  const cause = member.method ?? member.reason;
  return cause ? `${since}: ${causeWords(cause)}` : since;
}

/** Says when the last sign of life was, and how long after the one before. */
function sign(age, interval) {
  if (age === NONE) return NONE;
  return span(interval) === NONE ? `${age} ago` : `${age} ago, ${span(interval)} after the one before`;
}

function renderRecord(member) {
  const voter = store.facts.voters?.voters?.find((voter) => voter.id === member?.id);
  const leader = store.facts.leader?.leader === member?.id;
  const rows = member ? [
    ["Status", store.shownStatus(member)],
    ["Since", moment(new Date(member.since))],
    ["Cause", plain(member.method ?? member.reason ?? "") || NONE],
    ["Last heard", member.is_me ? "this is the agent asked" : sign(heard(member), member.heard_interval_ms)],
    ["Last heartbeat to it", sign(heard(member, member.last_sent_ms ?? null), member.sent_interval_ms)],
    ["Round trip", member.is_me ? NONE : span(member.rtt_ms)],
    ["Address", member.address],
    ["API address", member.api_address ?? NONE],
    ["Leadership", leader ? "leads" : voter ? "votes" : store.facts.leader?.mode === "quorum" ? "does not vote" : NONE],
    ["Incarnation", String(member.incarnation)],
    ["Run", member.run],
    ["Version", member.version],
  ] : [];
  if (!member) {
    fill($("detail-record"));
    record.clear();
  }
  for (const [name, text] of rows) {
    if (!record.has(name)) {
      const value = el("dd", {});
      record.set(name, value);
      $("detail-record").append(el("div", {}, el("dt", {}, name), value));
    }
    write(record.get(name), text);
  }
}

function renderTags(member) {
  const now = member?.tags ?? {};
  if (now === tags) return;
  tags = now;
  const entries = Object.entries(now);
  fill($("detail-tags"), ...(entries.length
    ? entries.map(([key, value]) => el("div", {}, el("dt", {}, key), el("dd", {}, value || NONE)))
    : [el("div", {}, el("dt", {}, "none"), el("dd", {}, NONE))]));
}

function renderEvents(id) {
  const those = store.events.filter((event) => event.node === id || event.unreachable?.includes(id)).slice(0, MOST_EVENTS);
  const key = `${id} ${those.length} ${those[0]?.id ?? ""}`;
  if (key === events) return;
  events = key;
  fill($("detail-events"), ...(those.length ? those.map(makeItem) : [el("li", { class: "empty" }, "None that this agent still keeps.")]));
}

function renderActions(member) {
  const { key, buttons } = makeActions(member);
  if (key === actions) return;
  actions = key;
  fill($("detail-actions"), ...buttons());
  show($("detail-actions"), $("detail-actions").childElementCount > 0);
}
