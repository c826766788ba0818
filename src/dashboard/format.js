// Numbers, times and names as people read them. Everything here is a pure function.

const number = new Intl.NumberFormat("en-GB");
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const whole = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "long" });

/** What is shown where nothing is known. */
export const NONE = "–";

/** Writes a whole number with thousands separated. */
export const count = (value) => number.format(value);

/** Writes a number with its noun: "1 voter", "3 voters". */
export const some = (value, noun, plural = `${noun}s`) => `${count(value)} ${value === 1 ? noun : plural}`;

/** Writes a length of time, in milliseconds, with two digits that matter. */
export function span(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return NONE;
  if (ms === 0) return "0 ms";
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  return age(ms);
}

/** Writes a length of time of seconds and more: "42 s", "5 min", "3 h 20 min", "4 d 2 h". */
export function age(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  return days < 10 && hours % 24 ? `${days} d ${hours % 24} h` : `${days} d`;
}

/** Writes the time of day; with the day, if it is another than today. */
export function time(date, now = new Date()) {
  const text = clock.format(date);
  return date.toDateString() === now.toDateString() ? text : `${day.format(date)}, ${text}`;
}

/** Writes day, time and zone. */
export const moment = (date) => whole.format(date);

/** Writes bytes. */
export function bytes(value) {
  if (value < 1000) return `${Math.round(value)} B`;
  if (value < 1e6) return `${(value / 1e3).toFixed(1)} kB`;
  if (value < 1e9) return `${(value / 1e6).toFixed(1)} MB`;
  return `${(value / 1e9).toFixed(1)} GB`;
}

/** Writes names as a list; at most `most` of them, and the number of the others. */
export function names(ids, most = 3) {
  if (ids.length <= most) return join(ids);
  return `${ids.slice(0, most).join(", ")} and ${some(ids.length - most, "other")}`;
}

function join(ids) {
  return ids.length < 2 ? ids.join("") : `${ids.slice(0, -1).join(", ")} and ${ids.at(-1)}`;
}

const natural = new Intl.Collator("en", { numeric: true });

/** Compares names so that n2 comes before n10. */
export const byName = natural.compare;

/** Writes a word of the API with spaces: `connection_lost` is "connection lost". */
export const plain = (word) => (word ? word.replaceAll("_", " ") : "");
