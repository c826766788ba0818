// The timeline: the last events, newest first, filtered by type and cause.
//
// Invariant: an event becomes an item once; a new event costs one item, however many there are.

import { $, el, fill, onFrame, shape, show, write } from "./dom.js";
import * as address from "./address.js";
import { count, moment, plain, time } from "./format.js";
import * as store from "./store.js";
import { CAUSES, GROUPS, KINDS, causeOf, causeWords, passes, tell } from "./words.js";

const SHOWN_EVENTS = 250;

const list = $("events");
let items = new Map();
let filter = null;
let isFilled = false;
let openDetail = () => {};

/** Draws the timeline in the next frame. */
export const draw = onFrame(render);

/** Prepares the timeline; `open` is called with the name of the member to show in detail. */
export function start(open) {
  openDetail = open;
  fill($("kind"), el("option", { value: "" }, "all"),
    el("optgroup", { label: "Groups" }, ...GROUPS.map(([value, label]) => el("option", { value }, label))),
    el("optgroup", { label: "Types" }, ...KINDS.map((kind) => el("option", { value: kind }, plain(kind)))));
  fill($("cause"), el("option", { value: "" }, "any"),
    ...CAUSES.map(([label, causes]) => el("optgroup", { label }, ...causes.map((cause) => el("option", { value: cause }, plain(cause))))));
  for (const key of ["kind", "cause"]) $(key).addEventListener("change", () => address.set({ [key]: $(key).value }));
  list.addEventListener("click", follow);
  $("detail-events").addEventListener("click", follow);
  address.onChange(readAddress);
  readAddress();
}

function readAddress() {
  for (const key of ["kind", "cause"]) {
    $(key).value = address.get(key);
    if ($(key).selectedIndex < 0) $(key).value = "";
  }
  draw();
}

function follow(event) {
  const who = event.target.closest("button.who");
  if (who && store.members.has(who.title)) openDetail(who.title);
}

function render() {
  const [kind, cause] = [$("kind").value, $("cause").value];
  const wanted = [];
  for (const event of store.events) {
    if (passes(event, kind, cause)) wanted.push(event);
    if (wanted.length === SHOWN_EVENTS) break;
  }
  const wish = `${kind}/${cause}/${store.sharedEnd()}`;
  if (filter !== wish) {
    filter = wish;
    items = new Map();
    list.replaceChildren();
  }
  const keep = new Set(wanted.map((event) => event.id));
  for (const [id, item] of items) {
    if (keep.has(id)) continue;
    item.remove();
    items.delete(id);
  }
  const made = [];
  let next = list.firstElementChild;
  for (const event of wanted) {
    let item = items.get(event.id);
    if (!item) {
      items.set(event.id, (item = makeItem(event)));
      made.push(item);
    }
    if (item === next) next = next.nextElementSibling;
    else list.insertBefore(item, next);
  }
  // One that came alone is pointed out; many at once would only flicker.
  if (isFilled && made.length <= 3) for (const item of made) item.classList.add("fresh");
  isFilled = true;
  show($("events-empty"), wanted.length === 0);
  const isTold = !store.facts.isPolled;
  const none = isTold ? "Nothing has happened yet." : "Events are not told: the agent has no event stream to spare.";
  write($("events-empty"), store.events.length ? "No event fits this filter." : none);
  const shown = wanted.length ? `last ${count(wanted.length)}` : "";
  write($("events-shown"), isTold || !shown ? shown : `${shown}; later ones are not told`);
}

/** Makes the item of one event. */
export function makeItem(event) {
  const { shape: name, who, what } = tell(event);
  const cause = causeOf(event);
  const words = el("p", { class: "event-words" });
  if (who) words.append(el("button", { type: "button", class: "who", title: who }, store.shorten(who)), " ");
  words.append(store.shorten(what));
  const at = new Date(event.when);
  return el("li", { class: "event", "data-event": event.event, "data-node": event.node ?? null  },
    el("time", { class: "event-time", datetime: event.at, title: moment(at) }, time(at)),
    shape(name),
    el("div", { class: "event-body" }, words,
      cause ? el("p", { class: "event-cause", title: cause }, causeWords(cause)) : null));
}
