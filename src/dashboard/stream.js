// The stream of events: opened with a snapshot, resumed after the last event when it broke, watched for silence.
//
// `EventSource` is not used: it cannot bear a token, hides why it failed, and waits on its own terms.
//
// Invariants: at most one stream is open; frames are handed over whole and in order; after `deny` nothing is tried until
// `start` is called again.

import { open, refusal } from "./api.js";

// The agent sends a comment every 15 s.
const SILENCE_MS = 22_000;
const RETRIES_MS = [300, 700, 1_500, 3_000, 5_000];
const LONGEST_FRAME = 64 * 1024 * 1024;

/** Reads frames of server-sent events from pieces of text. */
export class Frames {
  #rest = "";
  #looked = 0;

  /** Takes a piece; returns the frames that are complete now, each `{id, event, data}`. */
  take(piece) {
    this.#rest += piece.replaceAll("\r", "");
    const frames = [];
    let begin = 0;
    let end = this.#rest.indexOf("\n\n", Math.max(0, this.#looked - 1));
    while (end >= 0) {
      const frame = parse(this.#rest.slice(begin, end));
      if (frame) frames.push(frame);
      begin = end + 2;
      end = this.#rest.indexOf("\n\n", begin);
    }
    this.#rest = this.#rest.slice(begin);
    this.#looked = this.#rest.length;
    if (this.#rest.length > LONGEST_FRAME) throw new Error("a frame of the stream has no end");
    return frames;
  }
}

function parse(text) {
  const frame = { id: null, event: "message", data: "" };
  for (const line of text.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const value = line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    const field = line.slice(0, colon);
    if (field === "id") frame.id = value;
    else if (field === "event") frame.event = value;
    else if (field === "data") frame.data += frame.data ? `\n${value}` : value;
  }
  return frame.data ? frame : null;
}

/** The stream; `on` has `frame(event, data)`, `live()`, `lost(reason, waitMs, isFull)`, `denied(refusal)` and
 * `heard()`; `isFull` says that the agent answers, and has no stream to spare. */
export class Stream {
  #on;
  #last = null;
  #failures = 0;
  #abort = null;
  #silence = 0;
  #retry = 0;

  constructor(on) {
    this.#on = on;
  }

  /** The id of the last event that was handed over. */
  get last() {
    return this.#last;
  }

  /** Opens the stream now, in place of any other. */
  start() {
    this.#end();
    this.#run(new AbortController());
  }

  /** Gives the present stream up, because the agent was found silent otherwise. */
  fail(reason) {
    if (this.#abort) this.#lose(this.#abort, reason);
  }

  #end() {
    clearTimeout(this.#silence);
    clearTimeout(this.#retry);
    this.#abort?.abort();
    this.#abort = null;
  }

  async #run(abort) {
    this.#abort = abort;
    this.#watch(abort);
    try {
      const headers = this.#last ? { "Last-Event-ID": this.#last } : {};
      const response = await open("v1/events?snapshot=true", { headers, signal: abort.signal });
      if (this.#abort !== abort) return;
      if (response.status === 401 || response.status === 403) {
        this.#end();
        this.#on.denied(await refusal(response));
        return;
      }
      if (!response.ok) throw await refusal(response);
      this.#failures = 0;
      this.#on.live();
      await this.#read(response.body.pipeThrough(new TextDecoderStream()).getReader(), abort);
      this.#lose(abort, "it ended the stream");
    } catch (error) {
      this.#lose(abort, error.name === "TypeError" ? "the connection broke" : error.message, error.status === 429);
    }
  }

  async #read(reader, abort) {
    const frames = new Frames();
    for (;;) {
      const { value, done } = await reader.read();
      if (done || this.#abort !== abort) return;
      this.#watch(abort);
      this.#on.heard();
      for (const frame of frames.take(value)) {
        this.#on.frame(frame.event, JSON.parse(frame.data));
        if (frame.id) this.#last = frame.id;
      }
    }
  }

  #watch(abort) {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => this.#lose(abort, `nothing came for ${SILENCE_MS / 1000} s`), SILENCE_MS);
  }

  #lose(abort, reason, isFull = false) {
    // A stream that was replaced has no say.
    if (this.#abort !== abort) return;
    this.#end();
    const wait = RETRIES_MS[Math.min(this.#failures, RETRIES_MS.length - 1)] * (0.8 + Math.random() * 0.4);
    this.#failures += 1;
    this.#retry = setTimeout(() => this.start(), wait);
    this.#on.lost(reason, wait, isFull);
  }
}
