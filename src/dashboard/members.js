// The list of members: only the rows in sight are in the page, so that a thousand members cost as much as thirty.
//
// Invariants: rows are keyed by name and keep their place in the page where they can, so that the keyboard's focus
// stays on the member it was on; a row is written to only where it differs.

import { $, el, fill, mark, onFrame, reshape, shape, show, write } from "./dom.js";
import * as address from "./address.js";
import { NONE, age, count, moment, plain, some, span } from "./format.js";
import * as store from "./store.js";

const SPARE_ROWS = 6;
// The list grows with its rows up to this height, in pixels: so many are made before it is measured.
const MOST_VIEW = 740;
const CHIPS = ["down", "suspect", "leaving", "joining", "draining", "up", "left"];

const scroll = $("members-scroll");
const body = $("member-rows");
const rows = new Map();
const chips = new Map();
let shown = [];
// Sizes are measured when they may have changed: asking for them after each change would lay the page out twice.
const size = { row: 60, view: 0, head: 0, top: 0 };
let current = "";
let openDetail = () => {};

/** Draws the list in the next frame. */
export const draw = onFrame(render);
/** Draws only the rows in sight again: where they are, and how old. */
export const tick = onFrame(renderWindow);

/** Prepares the list; `open` is called with the name of the member to show in detail. */
export function start(open) {
  openDetail = open;
  for (const status of CHIPS) {
    const number = el("span", { class: "chip-count" });
    const chip = el("button", { type: "button", class: "chip", id: `chip-${status}`, "aria-pressed": "false", onclick: () => toggle(status) },
      shape(status), number, el("span", {}, status));
    chips.set(status, { chip, number });
    $("chips").append(chip);
  }
  $("search").addEventListener("input", () => address.set({ q: $("search").value.trim() }));
  $("order").addEventListener("change", () => address.set({ order: $("order").value === "worst" ? "" : $("order").value }));
  scroll.addEventListener("scroll", () => {
    size.top = scroll.scrollTop;
    tick();
  }, { passive: true });
  new ResizeObserver(() => {
    measure();
    tick();
  }).observe(scroll);
  body.addEventListener("click", (event) => {
    const row = event.target.closest("[role=row]");
    if (row && !getSelection().toString()) choose(row.dataset.id);
  });
  body.addEventListener("keydown", steer);
  body.addEventListener("focusin", (event) => setCurrent(event.target.closest("[role=row]")?.dataset.id ?? ""));
  address.onChange(readAddress);
  readAddress();
}

function readAddress() {
  const search = $("search");
  if (search.value.trim() !== address.get("q")) search.value = address.get("q");
  $("order").value = address.get("order") || "worst";
  draw();
}

function toggle(status) {
  const chosen = new Set(address.list("status"));
  if (!chosen.delete(status)) chosen.add(status);
  address.set({ status: [...chosen].join(",") });
}

function choose(id) {
  setCurrent(id);
  openDetail(id);
}

function measure() {
  size.row = body.firstElementChild?.getBoundingClientRect().height || size.row;
  size.view = scroll.clientHeight;
  size.head = body.offsetTop;
  size.top = scroll.scrollTop;
}

function render() {
  const statuses = address.list("status");
  shown = store.select(address.get("q"), statuses, address.get("order"));
  renderChips(statuses);
  renderWindow();
  const all = store.members.size - (statuses.includes("left") ? 0 : store.counts().left);
  const filtered = shown.length !== all;
  const end = store.sharedEnd() ? `, names without ${store.sharedEnd()}` : "";
  write($("members-shown"), (filtered ? `${count(shown.length)} of ${count(all)} shown` : some(all, "member")) + end);
  show($("members-empty"), shown.length === 0 && store.facts.info !== null);
  write($("members-empty"), store.members.size ? "No member fits this search and filter." : "No members yet.");
}

function renderChips(statuses) {
  const counted = store.counts();
  for (const [status, { chip, number }] of chips) {
    const pressed = statuses.includes(status);
    write(number, count(counted[status]));
    mark(chip, "aria-pressed", pressed);
    mark(chip, "data-none", counted[status] === 0 ? "yes" : null);
    // Rare statuses are shown when there are any.
    show(chip, counted[status] > 0 || pressed || ["up", "suspect", "down"].includes(status));
  }
}

/** Scrolls along with the member that the keyboard is on, when others move above it. */
function follow() {
  const at = body.contains(document.activeElement) && document.activeElement.matches(":focus-visible") ? shown.findIndex((member) => member.id === current) : -1;
  if (at >= 0 && followed.id === current && followed.at !== at) {
    const top = Math.max(0, size.top + (at - followed.at) * size.row);
    // The list has to be tall enough before it can be scrolled that far.
    pad("paddingBottom", shown.length * size.row);
    scroll.scrollTop = top;
    size.top = scroll.scrollTop;
  }
  followed = { id: current, at };
}

let followed = { id: "", at: -1 };

function renderWindow() {
  follow();
  mark($("members-table"), "aria-rowcount", shown.length + 1);
  const first = Math.max(0, Math.min(Math.floor(size.top / size.row) - SPARE_ROWS, shown.length - 1));
  const end = Math.min(shown.length, Math.ceil((size.top + Math.max(size.view, MOST_VIEW)) / size.row) + SPARE_ROWS);
  pad("paddingTop", first * size.row);
  pad("paddingBottom", Math.max(0, shown.length - end) * size.row);

  const focused = body.contains(document.activeElement) ? document.activeElement.closest("[role=row]")?.dataset.id : "";
  const keep = new Set();
  for (let at = first; at < end; at += 1) keep.add(shown[at].id);
  for (const [id, row] of rows) {
    if (keep.has(id)) continue;
    row.node.remove();
    rows.delete(id);
  }
  let next = body.firstElementChild;
  for (let at = first; at < end; at += 1) {
    const member = shown[at];
    let row = rows.get(member.id);
    if (!row) rows.set(member.id, (row = makeRow(member.id)));
    update(row, member, at);
    if (row.node === next) next = next.nextElementSibling;
    else body.insertBefore(row.node, next);
  }
  if (!shown.some((member) => member.id === current)) setCurrent(shown[0]?.id ?? "");
  else setCurrent(current);
  if (focused && !body.contains(document.activeElement)) {
    // The row was moved, or is out of sight now.
    (rows.get(focused) ?? rows.get(current))?.name.focus({ preventScroll: true });
  }
  if (rows.size && !isMeasured) {
    isMeasured = true;
    measure();
  }
}

let isMeasured = false;
const padding = {};

function pad(side, pixels) {
  if (padding[side] === pixels) return;
  padding[side] = pixels;
  body.style[side] = `${pixels}px`;
}

function makeRow(id) {
  const row = {
    icon: shape("unknown"), name: el("button", { type: "button", class: "name", tabindex: "-1", title: id }), badges: el("span", { class: "badges" }),
    address: el("span", { class: "under" }), status: el("span", { class: "word" }), why: el("span", { class: "under" }),
    since: el("span", {}), heard: el("span", {}), rtt: el("span", {}), tags: el("span", { class: "tags" }), shownTags: null, badge: "",
  };
  const cell = (name, label, ...children) => el("div", { role: "cell", class: `c-${name}`, "data-label": label }, ...children);
  row.node = el("div", { role: "row", class: "row" },
    cell("name", null, el("span", { class: "name-line" }, row.name, row.badges), row.address),
    cell("status", null, el("span", { class: "status-line" }, row.icon, row.status), row.why),
    cell("since", "since", row.since), cell("heard", "heard", row.heard), cell("rtt", "round trip", row.rtt),
    cell("tags", null, row.tags));
  row.node.dataset.id = id;
  return row;
}

function update(row, member, at) {
  const status = store.shownStatus(member);
  mark(row.node, "aria-rowindex", at + 2);
  mark(row.node, "data-status", status);
  reshape(row.icon, status);
  write(row.name, store.shorten(member.id));
  write(row.status, status);
  write(row.why, plain(member.method ?? member.reason ?? ""));
  write(row.address, member.address);
  write(row.since, age(Date.now() + store.facts.clockOffset - member.sinceMs));
  if (row.sinceRead !== member.since) {
    row.sinceRead = member.since;
    mark(row.since, "title", moment(new Date(member.since)));
  }
  write(row.heard, heard(member));
  write(row.rtt, member.is_me ? NONE : span(member.rtt_ms));
  const badge = [store.facts.leader?.leader === member.id ? "leader" : "", member.is_me ? "me" : ""].filter(Boolean).join(" ");
  if (row.badge !== badge) {
    row.badge = badge;
    const titles = { me: "the agent that this page is from" };
    fill(row.badges, ...badge.split(" ").filter(Boolean).map((word) => el("span", { class: `badge badge-${word}`, title: titles[word] }, word)));
  }
  if (row.shownTags !== member.tags) {
    row.shownTags = member.tags;
    const tags = Object.entries(member.tags ?? {}).map(([key, value]) => (value ? `${key}=${value}` : key));
    fill(row.tags, ...tags.map((tag) => el("span", { class: "tag" }, tag)));
    mark(row.tags, "title", tags.length ? tags.join("\n") : null);
  }
}

/** Says how long ago a member was heard (or this age of it began): as polled, and older if polls fail. */
export function heard(member, ms = member.last_heard_ms) {
  if (member.is_me || ms === null || ms === undefined) return NONE;
  const polled = performance.now() - member.at;
  return span(ms + (member.status !== "up" || polled > 25_000 ? polled : 0));
}

function setCurrent(id) {
  if (current !== id) {
    const before = rows.get(current);
    if (before) before.name.tabIndex = -1;
    current = id;
  }
  const row = rows.get(id) ?? rows.values().next().value;
  if (row && row.name.tabIndex !== 0) row.name.tabIndex = 0;
}

/** Moves through the members by the arrow keys. */
function steer(event) {
  const page = Math.max(1, Math.floor(size.view / size.row) - 2);
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
  const step = steps[event.key];
  if (step === undefined || event.ctrlKey || event.metaKey || event.altKey || !shown.length) return;
  event.preventDefault();
  const at = shown.findIndex((member) => member.id === current);
  const to = Math.max(0, Math.min(shown.length - 1, at + step));
  setCurrent(shown[to].id);
  const [top, bottom] = [to * size.row, (to + 1) * size.row + size.head];
  if (top < size.top) scroll.scrollTop = top;
  else if (bottom > size.top + size.view) scroll.scrollTop = bottom - size.view;
  size.top = scroll.scrollTop;
  renderWindow();
  rows.get(current)?.name.focus({ preventScroll: true });
}
