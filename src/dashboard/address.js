// What the page shows is kept in its address, after the `#`: it can be sent to a colleague, and survives a reload. It
// stays in the browser: what comes after `#` is sent to nobody.
//
// Keys: `q` (search), `status` (comma-separated), `order`, `kind`, `cause`, `node` (the open detail), `expected`.

const listeners = [];
let held = read();

function read() {
  return new URLSearchParams(location.hash.slice(1));
}

/** Returns the value of a key; the empty text, if there is none. */
export const get = (key) => held.get(key) ?? "";

/** Returns the values of a key that holds a list. */
export const list = (key) => get(key).split(",").filter(Boolean);

/** Changes keys; an empty value removes a key. */
export function set(changes) {
  for (const [key, value] of Object.entries(changes)) {
    if (value === "" || value === null || value === undefined) held.delete(key);
    else held.set(key, String(value));
  }
  const text = held.toString().replaceAll("%2C", ",").replaceAll("%3D", "=").replaceAll("%3A", ":");
  history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
  for (const listener of listeners) listener();
}

/** Has a function called after every change, by this page or by hand. */
export const onChange = (listener) => listeners.push(listener);

addEventListener("hashchange", () => {
  held = read();
  for (const listener of listeners) listener();
});
