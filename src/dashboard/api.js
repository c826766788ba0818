// Calls to the agent that served this page, and the token that they bear.
//
// Invariants: no call goes anywhere else; a token is held in memory, and in the tab's session only if asked for; every
// call ends within its patience.

const ROOT = new URL("..", import.meta.url);
const KEY = "headcount-token";
const PATIENCE_MS = 4_000;
// Changes are confirmed by others, and may be forwarded to the leader first.
const COMMAND_PATIENCE_MS = 15_000;

let token = sessionStorage.getItem(KEY);

/** A call that got no answer. */
export class Unreachable extends Error {}

/** An answer that is a refusal: `status`, `title`, `detail`, `hint`. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `HTTP status ${status}`);
    this.status = status;
    this.title = problem.title ?? `HTTP status ${status}`;
    this.detail = problem.detail ?? "";
    this.hint = problem.hint ?? "";
  }
}

export const hasToken = () => token !== null;

/** Holds a token from now on; null forgets it. */
export function holdToken(secret, keep) {
  token = secret;
  if (secret !== null && keep) sessionStorage.setItem(KEY, secret);
  else sessionStorage.removeItem(KEY);
}

/** Starts a request and returns the response, whatever its status. */
export async function open(path, options = {}, secret = token) {
  const headers = { ...options.headers };
  if (secret !== null) headers.Authorization = `Bearer ${secret}`;
  try {
    return await fetch(new URL(path, ROOT), { ...options, headers, cache: "no-store", credentials: "omit", redirect: "error" });
  } catch (error) {
    throw new Unreachable(error.name === "TimeoutError" ? "no answer in time" : "no connection");
  }
}

/** Returns the refusal that a response is. */
export async function refusal(response) {
  let problem = {};
  try {
    problem = await response.json();
  } catch {
    // A proxy on the way may answer with a page of its own.
  }
  return new Refused(response.status, problem);
}

async function answer(path, options, patience, read, secret) {
  const response = await open(path, { ...options, signal: AbortSignal.timeout(patience) }, secret);
  if (!response.ok) throw await refusal(response);
  try {
    return { value: await read(response), response };
  } catch {
    throw new Unreachable("the answer broke off");
  }
}

/** Asks for JSON. */
export const ask = async (path, secret, patience = PATIENCE_MS) => (await answer(path, {}, patience, (response) => response.json(), secret)).value;

/** Asks for JSON; returns it with the agent's clock, in milliseconds since 1970, as far as the answer tells it. */
export async function askTime(path) {
  const { value, response } = await answer(path, {}, PATIENCE_MS, (response) => response.json());
  const date = Date.parse(response.headers.get("date") ?? "");
  return { value, clock: Number.isNaN(date) ? null : date };
}

/** Asks for text. */
export const askText = async (path) => (await answer(path, {}, PATIENCE_MS, (response) => response.text())).value;

/** Commands; returns the answer, or null if it is empty. */
export async function command(method, path, body) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  const options = { method, headers, body: body === undefined ? undefined : JSON.stringify(body) };
  const read = async (response) => {
    const text = await response.text();
    return text.startsWith("{") ? JSON.parse(text) : null;
  };
  return (await answer(path, options, COMMAND_PATIENCE_MS, read)).value;
}
