// Protocol health, from `/metrics`: suspicions, timing, traffic, losses.
//
// Invariants: a metric that an agent does not have is left out, so that the page fits older and newer agents. Whether a figure is
// bad the agent's verdict says: a row names the reasons that it belongs to.

import { $, el, fill, mark, onFrame, shape, write } from "./dom.js";
import { NONE, bytes, count, plain, some, span } from "./format.js";
import * as store from "./store.js";

// Rates are of the last minute, or of the time that the page is open.
const WINDOW_MS = 60_000;

let samples = [];
const gauges = new Map();

/** Draws the gauges in the next frame. */
export const draw = onFrame(render);

/** Parses metrics as text: a map from `name{label="value"}` to its value. Histograms keep their buckets in order. */
export function parse(text) {
  const values = new Map();
  for (const line of text.split("\n")) {
    if (!line || line[0] === "#") continue;
    const end = line.indexOf("}") + 1 || line.indexOf(" ");
    const value = Number(line.slice(end).trim().split(" ")[0].replace("+Inf", "Infinity"));
    if (!Number.isNaN(value)) values.set(line.slice(0, end).replace(/^headcount_/, ""), value);
  }
  return values;
}

/** Takes what `/metrics` told. */
export function take(text) {
  const now = { at: performance.now(), values: parse(text) };
  // A new process counts from zero again.
  if (samples.length && (now.values.get("uptime_seconds") ?? 0) < (samples.at(-1).values.get("uptime_seconds") ?? 0)) samples = [];
  samples.push(now);
  while (samples.length > 2 && now.at - samples[1].at >= WINDOW_MS) samples.shift();
  draw();
}

/** Forgets all samples: another process answers now. */
export function reset() {
  samples = [];
}

const latest = () => samples.at(-1)?.values ?? new Map();
const value = (name) => latest().get(name);

/** Returns how much a counter grew within the window; 0, if that is not known. */
function growth(name) {
  if (samples.length < 2) return 0;
  return Math.max(0, (value(name) ?? 0) - (samples[0].values.get(name) ?? 0));
}

function rate(name) {
  const seconds = samples.length < 2 ? 0 : (samples.at(-1).at - samples[0].at) / 1000;
  return seconds > 0 ? growth(name) / seconds : null;
}

/** Returns the upper bound of the bucket in which this share of all observations of the window is reached. */
function quantile(name, share) {
  const rows = [];
  for (const [key, total] of latest()) {
    if (!key.startsWith(`${name}_bucket`)) continue;
    const bound = Number(key.match(/le="([^"]+)"/)?.[1].replace("+Inf", "Infinity"));
    const before = samples.length > 1 ? samples[0].values.get(key) ?? 0 : 0;
    rows.push([bound, total - before]);
  }
  rows.sort((a, b) => a[0] - b[0]);
  const all = rows.at(-1)?.[1] ?? 0;
  return all ? rows.find(([, below]) => below >= share * all)[0] : null;
}

/** Makes the row of a counter, with the reasons of a verdict that it belongs to. */
function counter(name, label, ...codes) {
  const key = `${name}_total`;
  if (value(key) === undefined) return null;
  const grown = growth(key);
  return { label, value: count(value(key)), note: grown ? `+${count(grown)} lately` : "", codes };
}

function gauge(name, label, ...codes) {
  const now = value(name);
  if (now === undefined) return null;
  return { label, value: count(now), note: "", codes };
}

function bound(seconds) {
  if (seconds === null) return NONE;
  return seconds === Infinity ? "over 5 s" : `under ${span(seconds * 1000)}`;
}

function perSecond(name, unit = (amount) => count(Math.round(amount * 10) / 10)) {
  const now = rate(name);
  return now === null ? "" : `${unit(now)}/s`;
}

function timing() {
  const trips = store.roundTrips();
  const at = (share) => trips[Math.min(trips.length - 1, Math.floor(share * trips.length))];
  const late = quantile("tick_lateness_seconds", 0.99);
  const rows = [
    { label: "Round trip, median", value: trips.length ? span(at(0.5)) : NONE, note: trips.length ? `of ${some(trips.length, "peer")}` : "" },
    { label: "Round trip, p99", value: trips.length ? span(at(0.99)) : NONE, note: trips.length ? `max ${span(trips.at(-1))}` : "" },
  ];
  if (value("tick_lateness_seconds_count") !== undefined) {
    rows.push({ label: "Timers late, p99", value: bound(late), note: `max ${span((value("tick_lateness_max_seconds") ?? 0) * 1000)}`, codes: ["observation_doubted"] });
  }
  rows.push(counter("pauses", "Times it stood still"));
  return rows;
}

function suspicions() {
  return [
    counter("suspicions_raised", "Raised by this node"),
    counter("suspicions_refuted", "Refuted, of anybody"),
    counter("suspicions_confirmed", "Ended as down"),
    counter("crashes_detected", "Crashes first seen here"),
    counter("refutations", "Of itself, refuted"),
    gauge("health_score", "Doubt about itself, 0 to 7", "observation_doubted"),
  ];
}

function traffic() {
  return [
    { label: "Packets in", value: perSecond("packets_received_total") || NONE, note: perSecond("received_bytes_total", bytes) },
    { label: "Packets out", value: perSecond("packets_sent_total") || NONE, note: perSecond("sent_bytes_total", bytes) },
    gauge("links", "TCP links"),
    gauge("links_degraded", "Members only others hear", "links_degraded"),
    counter("syncs", "Repairs of views"),
  ];
}

function losses() {
  const reasons = [];
  let [dropped, grown] = [0, 0];
  for (const [key, total] of latest()) {
    const reason = key.match(/^dropped_total\{reason="([^"]+)"\}$/)?.[1];
    if (!reason) continue;
    dropped += total;
    grown += growth(key);
    if (total) reasons.push([total, plain(reason)]);
  }
  reasons.sort((a, b) => b[0] - a[0]);
  return [
    { label: "Dropped on arrival", value: count(dropped), note: grown ? `+${count(grown)} lately` : "", codes: ["shut_out", "packets_unused"] },
    ...reasons.slice(0, 3).map(([total, reason]) => ({ label: `· ${reason}`, value: count(total), note: "" })),
    counter("receive_buffer_overflows", "Receive buffer full", "packets_lost"),
    counter("send_buffer_full", "Send buffer full"),
    counter("socket_errors", "Socket errors"),
    counter("log_lines_lost", "Log lines lost", "log_lines_lost"),
  ];
}

const GROUPS = [["Timing", timing], ["Suspicions", suspicions], ["Traffic", traffic], ["Losses", losses]];

function render() {
  if (!samples.length) return;
  let attention = 0;
  for (const [title, rows] of GROUPS) {
    if (!gauges.has(title)) {
      const list = el("dl", {});
      $("gauges").append(el("div", { class: "gauge" }, el("h3", {}, title), list));
      gauges.set(title, { list, rows: new Map() });
    }
    attention += renderGroup(gauges.get(title), rows().filter(Boolean));
  }
  const seconds = Math.round((samples.at(-1).at - samples[0].at) / 1000);
  const lately = seconds >= 5 ? `lately: the last ${seconds >= 55 ? "minute" : `${seconds} s`}` : "since its start";
  write($("health-note"), attention ? `${some(attention, "figure")} to look at; ${lately}` : lately);
}

/** Returns the level of a row: that of the agent's reason which it belongs to, if there is one and it is no note. */
function levelOf({ codes = [] }) {
  const reason = store.reasonOf(...codes);
  return reason && reason.state !== "well" ? store.LEVELS[reason.state] : undefined;
}

function renderGroup(group, rows) {
  const wanted = rows.map((row) => row.label);
  if ([...group.rows.keys()].join() !== wanted.join()) {
    group.rows.clear();
    fill(group.list, ...rows.map((row) => {
      const parts = { sign: el("span", { class: "gauge-sign" }), number: el("span", { class: "gauge-value" }), note: el("span", { class: "gauge-note" }) };
      parts.node = el("div", { class: "gauge-row" }, el("dt", {}, row.label), el("dd", {}, parts.sign, parts.number, parts.note));
      group.rows.set(row.label, parts);
      return parts.node;
    }));
  }
  for (const row of rows) {
    const parts = group.rows.get(row.label);
    write(parts.number, row.value);
    write(parts.note, row.note);
    const level = levelOf(row) ?? "";
    if ((parts.node.dataset.level ?? "") !== level) {
      mark(parts.node, "data-level", level || null);
      fill(parts.sign, ...(level ? [shape(level), el("span", { class: "hidden-words" }, "look at this: ")] : []));
    }
  }
  return rows.filter(levelOf).length;
}
