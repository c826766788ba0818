// The dashboard of one agent: what it sees of its cluster, live.
//
// This module connects the parts: the stream of events and a few polls fill the store, the views draw it. Who may
// command, what is said aloud, and what happens when the agent is silent are decided here.

import { $, mark, onFrame, say, show, write } from "./dom.js";
import * as actions from "./actions.js";
import * as api from "./api.js";
import * as detail from "./detail.js";
import { age, time } from "./format.js";
import * as health from "./health.js";
import * as members from "./members.js";
import * as store from "./store.js";
import { Frames, Stream } from "./stream.js";
import * as timeline from "./timeline.js";
import * as verdict from "./verdict.js";
import { sentence } from "./words.js";

// The number of events of before the page was opened that the timeline begins with.
const HISTORY = 200;
const PULSE_MS = 2_000;
const PULSE_PATIENCE_MS = 2_500;
const FACTS_MS = 5_000;
const JUDGE_MS = 200;
// Silence is noticed by the pulse, whose patience is shorter than that of other calls. States: `connecting`, `live`,
// `polled` (the agent answers, and has no stream to spare: members are asked for), `lost`, `denied`.
const link = { state: "connecting", heardAt: 0, lostAt: 0, retryAt: 0, reason: "" };
// The run of the agent's process whose events are shown.
let shownRun = "";

const stream = new Stream({
  frame: takeFrame,
  heard,
  live() {
    const wasLost = link.state === "lost";
    Object.assign(link, { state: "live", lostAt: 0, reason: "" });
    store.facts.isPolled = false;
    heard();
    if (wasLost) {
      say(`${store.me() || "The agent"} answers again.`);
      health.reset();
    }
    drawLink();
    verdict.setLink({ isLive: true, isDenied: false, lostAt: 0 });
    pollSoon();
  },
  lost(reason, wait, isFull) {
    if (isFull) {
      const isNews = link.state !== "polled";
      Object.assign(link, { state: "polled", lostAt: 0, retryAt: Date.now() + wait, reason });
      store.facts.isPolled = true;
      verdict.setLink({ isLive: true, isDenied: false, lostAt: 0 });
      drawLink();
      if (isNews) pollSoon();
      return;
    }
    lose(reason, wait);
  },
  denied(refusal) {
    link.state = "denied";
    verdict.setLink({ isLive: false, isDenied: true });
    drawLink();
    askForToken(refusal.status === 403 ? `${refusal.title}: ${refusal.message}` : "");
  },
});

/** Says that the agent is silent, until the next try of the stream says otherwise. */
function lose(reason, wait) {
  if (link.state !== "lost") link.lostAt = Date.now();
  Object.assign(link, { state: "lost", retryAt: Date.now() + wait, reason });
  store.facts.isPolled = false;
  actions.allow(false);
  drawLink();
  verdict.setLink({ isLive: false, lostAt: link.lostAt });
}

function heard() {
  link.heardAt = Date.now();
  verdict.setLink({ heardAt: link.heardAt });
}

function takeFrame(kind, data) {
  if (kind === "snapshot") {
    const run = data.id.split("-")[0];
    const isNew = run !== shownRun;
    shownRun = run;
    store.takeSnapshot(data.members);
    judgeSoon();
    if (isNew) readHistory(data.id).catch(() => {});
    readLeft().catch(() => {});
  } else if (kind === "lagged") {
    say(data.missed ? `Events were missed: ${data.missed}; the members are as of now.` : "The agent started again; the members are as of now.");
  } else if (data.event && store.takeEvent(data)) {
    judgeSoon();
    if (data.event !== "node_updated" && data.event !== "view_agreed") say(sentence(data));
    if (/^(leader|quorum|view)_/.test(data.event)) pollSoon();
  }
  drawAll();
}

/** Reads the events that led to the present, as far as the agent still keeps them. */
async function readHistory(id, from = 0) {
  const [run, last] = id.split("-");
  const after = Math.max(from, Number(last) - HISTORY, 0);
  if (after >= Number(last)) return;
  const abort = new AbortController();
  setTimeout(() => abort.abort(), 5_000);
  const response = await api.open(`v1/events?after=${run}-${after}`, { signal: abort.signal });
  if (!response.ok) return;
  const frames = new Frames();
  const past = [];
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      for (const { event, data } of frames.take(value)) {
        if (event === "lagged") {
          const missed = JSON.parse(data).missed;
          if (missed && from === 0) return await readHistory(id, after + missed);
          return;
        }
        if (event !== "snapshot") past.push(JSON.parse(data));
      }
      if (past.length && past.at(-1).sequence >= Number(last)) break;
    }
  } finally {
    abort.abort();
    // What came after the snapshot changes members: that is for the stream that follows it to tell.
    store.takeHistory(past.filter((event) => event.sequence <= Number(last)));
    drawAll();
  }
}

async function readLeft() {
  store.takeLeft(await api.ask("v1/members?status=left"));
  drawAll();
}

// Polls: each waits for its answer before the next, so that a slow agent is not asked ever more.

let pulseTimer = 0;
let pulsing = false;
let askedFacts = 0;
let askedMembers = 0;

function pollSoon() {
  askedFacts = 0;
  clearTimeout(pulseTimer);
  pulseTimer = setTimeout(pulse, 30);
}

async function pulse() {
  clearTimeout(pulseTimer);
  if (pulsing) return void (pulseTimer = setTimeout(pulse, 200));
  pulsing = true;
  try {
    if ((link.state === "live" || link.state === "polled") && !document.hidden) await poll();
  } catch (error) {
    if (error instanceof api.Refused) {
      if (error.status === 401) stream.start();
    } else if (link.state === "live") {
      stream.fail(error.message);
    } else if (link.state === "polled") {
      lose(error.message, link.retryAt - Date.now());
    }
  } finally {
    pulsing = false;
    clearTimeout(pulseTimer);
    pulseTimer = setTimeout(pulse, PULSE_MS);
  }
}

async function poll() {
  const now = performance.now();
  store.facts.leader = await api.ask("v1/leader", undefined, PULSE_PATIENCE_MS);
  store.facts.verdict = await api.ask("v1/verdict", undefined, PULSE_PATIENCE_MS);
  heard();
  if (!askedFacts || now - askedFacts >= FACTS_MS) {
    askedFacts = now;
    await readFacts();
  }
  // A large answer takes the agent some time: it is asked less often.
  const pause = Math.max(PULSE_MS, store.members.size * 10);
  if (now - askedMembers >= pause - 100) {
    askedMembers = now;
    const list = await api.ask("v1/members");
    if (link.state === "polled") {
      store.takeSnapshot(list);
    } else {
      store.refresh(list);
    }
  }
  drawAll();
}

let judgeTimer = 0;

/** Asks for the verdict a moment after an event, once for many. The pulse notices an agent that does not answer. */
function judgeSoon() {
  judgeTimer ||= setTimeout(async () => {
    judgeTimer = 0;
    if (link.state !== "live") return;
    store.facts.verdict = await api.ask("v1/verdict").catch(() => store.facts.verdict);
    drawAll();
  }, JUDGE_MS);
}

async function readFacts() {
  const { value: info, clock } = await api.askTime("v1/info");
  store.facts.info = info;
  store.facts.infoAt = Date.now();
  // The answer's clock is in whole seconds; what is less than two is no difference.
  const offset = clock === null ? 0 : clock + 500 - Date.now();
  store.facts.clockOffset = Math.abs(offset) < 2_000 ? 0 : offset;
  actions.allow(info.access !== "read");
  showToken(info.access === "read");
  if (store.facts.leader.mode === "quorum") {
    store.facts.voters = await api.ask("v1/voters");
  }
  health.take(await api.askText("metrics"));
}

const sealing = (seal) =>
  !seal ? "" : seal.mode === "require" ? `, sealed with key ${seal.key}` : seal.consented ? ", takes packets that are not sealed" : ", hears this machine alone";

// What stands in the header, and the banner.

const drawLink = onFrame(() => {
  const info = store.facts.info;
  const name = info?.node ?? "";
  write($("link-word"), { live: "live", connecting: "connecting", polled: "polled", lost: "not live", denied: "token needed" }[link.state]);
  mark($("link-state"), "data-state", link.state);
  mark(document.documentElement, "data-link", link.state);
  write($("observer"), info ? `cluster ${info.cluster}, as ${name} sees it` : link.state === "denied" ? "sign in to see" : "connecting");
  write($("foot-agent"), info ? `${name}, version ${info.version}, HTTP ${info.http ?? "off"}, gossip ${info.address}${sealing(info.sealing)}` : "");
  const isLost = link.state === "lost";
  const isPolled = link.state === "polled";
  if (isPolled) {
    write($("banner-title"), `${name || "The agent"} answers, and has no event stream to spare.`);
    write($("banner-text"), `Members are asked for every few seconds, and events are missing (${link.reason}). Trying again.`);
  } else if (isLost) {
    const known = store.members.size > 0;
    const hasLeft = ["leaving", "left"].includes(store.members.get(name)?.status);
    const title = hasLeft ? `${name} has left, and its process ended.` : `${name || "The agent"} is silent.`;
    write($("banner-title"), known ? title : "The agent cannot be reached.");
    const since = link.heardAt ? `Heard last at ${time(new Date(link.heardAt))}, ${age(Date.now() - link.heardAt)} ago` : `Tried for ${age(Date.now() - link.lostAt)}`;
    write($("banner-text"), `${since} (${link.reason}). ${known ? "What you see is old. " : ""}Trying again.`);
  }
  // The agent answers: that is a notice, and no alarm.
  $("banner").classList.toggle("notice", isPolled);
  mark($("banner-shape"), "href", isPolled ? "#shape-suspect" : "#shape-down");
  show($("banner"), isLost || isPolled);
});

$("banner-retry").addEventListener("click", () => stream.start());
addEventListener("online", () => ["lost", "polled"].includes(link.state) && stream.start());

// The token.

function askForToken(why) {
  showToken(true);
  actions.allow(false);
  write($("token-why"), why || "It is sent to this agent only, and forgotten when this page is closed.");
  if (!$("token").open) $("token").showModal();
  $("token-input").focus();
}

function showToken(isNeeded) {
  show($("open-token"), isNeeded);
  show($("forget-token"), api.hasToken());
}

$("open-token").addEventListener("click", () => askForToken(""));
$("token-cancel").addEventListener("click", () => $("token").close());
$("token").addEventListener("close", () => {
  $("token-input").value = "";
  write($("token-outcome"), "");
});
$("forget-token").addEventListener("click", () => {
  api.holdToken(null);
  location.reload();
});
$("token-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const secret = $("token-input").value.trim();
  if (!secret) return;
  write($("token-outcome"), "Asking the agent…");
  $("token-outcome").dataset.level = "";
  try {
    await api.ask("v1/info", secret);
  } catch (error) {
    $("token-outcome").dataset.level = "down";
    write($("token-outcome"), error.status === 401 ? "The agent does not take this token." : `No luck: ${error.message}.`);
    return;
  }
  api.holdToken(secret, $("token-keep").checked);
  link.state = "connecting";
  showToken(false);
  $("token").close();
  stream.start();
});

// All views.

function drawAll() {
  verdict.draw();
  members.draw();
  timeline.draw();
  detail.draw();
  drawLink();
}

$("skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("main").focus();
});
addEventListener("keydown", (event) => {
  const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "");
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !document.querySelector("dialog[open]")) {
    event.preventDefault();
    $("search").focus();
    $("search").select();
  }
});
document.addEventListener("visibilitychange", () => document.hidden || pollSoon());

verdict.start();
members.start(detail.open);
timeline.start(detail.open);
detail.start(actions.forMember);
actions.start(pollSoon);
setInterval(() => {
  verdict.draw();
  members.tick();
  detail.draw();
  drawLink();
}, 1_000);
stream.start();
pulse();
