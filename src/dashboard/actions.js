// What an operator can do from here: leave, drain, join, resign, remove. Each says what it will do before it is done.
//
// Invariants: nothing is offered unless the agent lets this page command; nothing is sent before it was confirmed in a
// dialog; an answer, or a refusal with its hint, stays on the screen until it is closed.

import { $, el, fill, show, write } from "./dom.js";
import { Refused, command } from "./api.js";
import { count, plain } from "./format.js";
import * as store from "./store.js";

let mayCommand = false;
let pending = null;
let onDone = () => {};

const dialog = $("confirm");

/** Prepares the dialogs; `done` is called after each command. */
export function start(done) {
  onDone = done;
  $("open-actions").addEventListener("click", openChoices);
  $("actions-close").addEventListener("click", () => $("actions").close());
  $("confirm-cancel").addEventListener("click", () => dialog.close());
  $("confirm-form").addEventListener("submit", (event) => {
    event.preventDefault();
    perform();
  });
  $("confirm-input").addEventListener("input", check);
}

/** Shows or hides all commands. */
export function allow(isAllowed) {
  mayCommand = isAllowed;
  show($("open-actions"), isAllowed);
  if (!isAllowed && $("actions").open) $("actions").close();
}

export const isAllowed = () => mayCommand;

const mine = () => store.members.get(store.me());
const enc = encodeURIComponent;

function leave() {
  const leads = store.facts.leader?.leader === store.me();
  return {
    id: "leave", title: `Tell ${store.me()} to leave`, does: "It says goodbye to everybody, then its process ends.", label: "Leave", isGrave: true,
    effects: ["It tells all members, who report node_left (graceful) at once: no alarm is raised.", "Its agent process ends, and this page loses its agent.",
      ...(leads ? ["It leads now: leadership is handed over first."] : []), "It comes back when its process is started again."],
    run: () => command("POST", "v1/leave"), done: () => `${store.me()} is leaving.`,
  };
}

function drain(isDraining) {
  const me = store.me();
  return isDraining
    ? { id: "undrain", title: `Take ${me} back into service`, does: "It is given work again, and may lead.", label: "Undrain",
      effects: ["It is listed among the targets again.", "It may be elected leader again."], run: () => command("POST", "v1/undrain"), done: () => `${me} is no longer draining.` }
    : { id: "drain", title: `Drain ${me}`, does: "It stays a member, takes no new work, and never leads.", label: "Drain",
      effects: ["It stays Up, and tells everybody that it is draining.", "It is left out of the targets of load balancers.", "It never leads; if it leads now, leadership is handed over."],
      run: () => command("POST", "v1/drain"), done: () => `${me} is draining.` };
}

function join() {
  return {
    id: "join", title: "Join other nodes", does: "Meets nodes that this cluster does not know yet.", label: "Join",
    effects: [`${store.me()} contacts the addresses, and learns their members.`, "Two clusters of the same name become one, for good."],
    field: { label: "Gossip addresses, host:port, separated by commas", needs: (text) => addresses(text).length > 0 },
    run: (text) => command("POST", "v1/join", { addresses: addresses(text) }),
    done: (answer) => answer.results.map(({ address, node, error }) => `${address}: ${node ?? error}`).join("; "),
  };
}

const addresses = (text) => text.split(/[\s,]+/).filter(Boolean);

function resign() {
  const leader = store.facts.leader?.leader;
  return {
    id: "resign", title: `Tell ${leader} to resign`, does: "Another voter leads instead; it stays a member.", label: "Resign",
    effects: [`${leader} finishes or stops its led work, then no longer leads.`, "Another voter is elected, with a higher term; that may take a moment.", `${leader} stays a member and a voter.`],
    run: () => command("POST", "v1/leader/resign", { to: null }), done: (answer) => (answer?.leader ? `${answer.leader} leads, term ${count(answer.term)}.` : "It has resigned; nobody leads yet."),
  };
}

function remove(member) {
  const isGone = member.status === "down";
  return {
    id: "remove", title: isGone ? `Remove ${member.id}` : `Remove ${member.id} by force`, label: isGone ? "Remove" : "Remove by force", isGrave: !isGone,
    effects: isGone
      ? ["All members list it as left (forced), and it no longer counts as down.", "If its process still runs somewhere, it ends with exit code 6 as soon as it hears of this."]
      : [`It is ${plain(member.status)} now, not down: its process, if it lives, will end with exit code 6.`, "All members report node_left (forced).", "Work that it does may be cut off in the middle."],
    field: isGone ? null : { label: `Type ${member.id} to confirm`, needs: (text) => text === member.id },
    run: () => command("DELETE", `v1/members/${enc(member.id)}${isGone ? "" : "?force=true"}`),
    done: (answer) => (answer.confirmed === false ? `Removed; known to ${answer.held_by} peers so far, and spreading.` : `Removed; ${answer.held_by} peers know it.`),
  };
}

function choices() {
  const leader = store.facts.leader;
  const me = mine();
  return [
    join(),
    ...(me && "draining" in me ? [drain(me.draining)] : []),
    ...(leader?.leader && leader.mode !== "none" ? [resign()] : []),
    leave(),
  ];
}

function openChoices() {
  write($("actions-whose"), `Drain and leave act on ${store.me()} alone, whose agent this page is from: another node has them on the page of its own agent.`);
  fill($("choices"), ...choices().map((action) => el("button", { type: "button", class: "choice", id: `do-${action.id}`, onclick: () => {
    $("actions").close();
    confirm(action);
  } }, el("strong", {}, action.title), el("span", {}, action.does))));
  $("actions").showModal();
}

/** Returns the buttons of a member's detail, and a text that differs when they do. */
export function forMember(member) {
  if (!mayCommand || !member) return { key: "none", buttons: () => [] };
  const isLeader = store.facts.leader?.leader === member.id;
  const key = [member.id, member.status, member.draining, isLeader].join(" ");
  const buttons = () => {
    const offered = [];
    if (member.is_me) {
      if ("draining" in member) offered.push(drain(member.draining));
      offered.push(leave());
    } else if (member.status !== "left") offered.push(remove(member));
    if (isLeader) offered.push(resign());
    const made = offered.map((action) => el("button", { type: "button", class: action.isGrave ? "button grave" : "button", id: `detail-${action.id}`, onclick: () => confirm(action) }, `${action.label}…`));
    return member.is_me || member.status !== "up" ? made : [...made, el("p", {}, "It drains and leaves from the page of its own agent.")];
  };
  return { key, buttons };
}

function confirm(action) {
  pending = action;
  write($("confirm-title"), action.title);
  fill($("confirm-effects"), ...action.effects.map((effect) => el("li", {}, effect)));
  show($("confirm-field"), Boolean(action.field));
  $("confirm-input").value = "";
  write($("confirm-label"), action.field?.label ?? "");
  outcome("", "");
  write($("confirm-do"), action.label);
  write($("confirm-cancel"), "Cancel");
  $("confirm-do").className = action.isGrave ? "button strong grave" : "button strong";
  show($("confirm-do"), true);
  check();
  dialog.showModal();
  (action.field ? $("confirm-input") : $("confirm-cancel")).focus();
}

function check() {
  $("confirm-do").disabled = !pending || Boolean(pending.field && !pending.field.needs($("confirm-input").value.trim()));
}

function outcome(level, text) {
  $("confirm-outcome").dataset.level = level;
  write($("confirm-outcome"), text);
}

async function perform() {
  const action = pending;
  if (!action || $("confirm-do").disabled) return;
  $("confirm-do").disabled = true;
  outcome("", "Asking the agent…");
  try {
    const answer = await action.run($("confirm-input").value.trim());
    outcome("up", action.done(answer ?? {}));
    show($("confirm-do"), false);
    write($("confirm-cancel"), "Close");
    $("confirm-cancel").focus();
  } catch (error) {
    const hint = error instanceof Refused && error.hint ? ` Try: ${error.hint}.` : "";
    const text = error instanceof Refused ? `${error.title}: ${error.message}.${hint}` : `It is not known whether this was done: ${error.message}.`;
    outcome("down", text);
    $("confirm-do").disabled = false;
    if (error.status === 403) allow(false);
  }
  if (pending === action) onDone();
}
