// The few helpers by which the page is changed.
//
// Invariants: text from the network only ever becomes text (`textContent`), never markup; a node is written to only if
// what it shows has changed; all changes of one frame are made together.

/** Returns the element of this id. */
export const $ = (id) => document.getElementById(id);

/** Makes an element; `attributes` with null or false are left out, children may be text. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === false || value === undefined) continue;
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null && child !== undefined) node.append(child);
  return node;
}

const SVG = "http://www.w3.org/2000/svg";

/** Makes a shape of the sprite; it is for the eye only, a word always stands beside it. */
export function shape(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", `shape tone-${name}`);
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#shape-${name}`);
  svg.append(use);
  return svg;
}

/** Changes the shape that an icon made by `shape` shows. */
export function reshape(svg, name) {
  const href = document.getElementById(`shape-${name}`) ? `#shape-${name}` : "#shape-unknown";
  if (svg.firstChild.getAttribute("href") === href) return;
  svg.firstChild.setAttribute("href", href);
  svg.setAttribute("class", `shape tone-${name}`);
}

/** Writes text, if it differs. */
export function write(node, text) {
  if (node.shown === text) return;
  node.shown = text;
  node.textContent = text;
}

/** Writes an attribute, if it differs; null removes it. */
export function mark(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, String(value));
  }
}

/** Shows or hides an element. */
export function show(node, isShown) {
  if (node.hidden === isShown) node.hidden = !isShown;
}

/** Replaces the children of a node. */
export function fill(node, ...children) {
  node.replaceChildren(...children.filter((child) => child !== null && child !== undefined));
}

const waiting = new Set();
let frame = 0;

/** Returns a function that has `render` run once in the next frame, however often it is called before. */
export function onFrame(render) {
  return () => {
    waiting.add(render);
    if (frame) return;
    // A hidden page gets no frames; it is brought up to date now and then all the same, for its title.
    frame = document.hidden ? setTimeout(flush, 1000) : requestAnimationFrame(flush);
  };
}

function flush() {
  frame = 0;
  const now = [...waiting];
  waiting.clear();
  for (const render of now) render();
}

// A frame that was asked for just before the page was hidden would come when it is shown again.
document.addEventListener("visibilitychange", () => {
  if (waiting.size) flush();
});

let spoken = 0;
let pending = [];

/** Has a screen reader say a sentence when it is idle; several within two seconds are said as one. */
export function say(sentence) {
  pending.push(sentence);
  clearTimeout(spoken);
  spoken = setTimeout(() => {
    const rest = pending.length - 3;
    $("live").textContent = pending.slice(0, 3).join(" ") + (rest > 0 ? ` And ${rest} more.` : "");
    pending = [];
  }, 700);
}
