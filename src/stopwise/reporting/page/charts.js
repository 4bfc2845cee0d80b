// Charts in SVG: elements, scales and axes.

function element(tag, attributes = {}, parent = null, text = null) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== null) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

function shape(tag, attributes = {}, parent = null, text = null) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== null) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

let named = 0;
// A picture with a title and a description for screen readers.
function picture(parent, width, height, title, description) {
  const id = `picture-${++named}`;
  const svg = shape("svg", {
    width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-labelledby": `${id}-title ${id}-description`,
  }, parent);
  shape("title", { id: `${id}-title` }, svg, title);
  shape("desc", { id: `${id}-description` }, svg, description);
  return svg;
}

function scale(low, high, from, to) {
  const factor = (to - from) / (high - low || 1);
  return (value) => from + (value - low) * factor;
}

// Round numbers from `low` to `high`, about `count` of them.
function ticks(low, high, count) {
  const raw = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(i * step);
  return found;
}

const round = (value) => Math.round(value * 10) / 10;
const percent = (share, digits = 1) => (Number.isFinite(share) ? `${(100 * share).toFixed(digits)} %` : "–");
const plain = (value) => (Number.isFinite(value) ? String(Number(value.toPrecision(4))) : "–");
// Ticks are multiples of a step, so a few digits tell them apart.
const tickText = (value) => String(Number(value.toPrecision(6)));

function path(points) {
  let text = "", pen = "M";
  for (const [x, y] of points) {
    if (!Number.isFinite(y)) { pen = "M"; continue; }
    text += `${pen}${round(x)} ${round(y)}`;
    pen = "L";
  }
  return text;
}

// Axes with a grid; returns the scales. `box` has x: [low, high], y: [low, high] and texts.
function axes(svg, width, height, box) {
  const left = 48, right = width - 12, top = 12, bottom = height - 38;
  const x = scale(...box.x, left, right), y = scale(...box.y, bottom, top);
  const group = shape("g", { class: "axes", "aria-hidden": "true" }, svg);
  for (const value of ticks(...box.y, box.yCount || 5)) {
    shape("line", { x1: left, x2: right, y1: y(value), y2: y(value), class: "grid" }, group);
    shape("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, group, box.yText(value));
  }
  for (const value of ticks(...box.x, Math.max(3, Math.min(8, Math.floor(width / 80))))) {
    shape("line", { x1: x(value), x2: x(value), y1: bottom, y2: bottom + 4, class: "tick" }, group);
    shape("text", { x: x(value), y: bottom + 17, "text-anchor": "middle" }, group, box.xText(value));
  }
  shape("line", { x1: left, x2: right, y1: bottom, y2: bottom, class: "tick" }, group);
  shape("text", { x: (left + right) / 2, y: height - 4, "text-anchor": "middle", class: "name" }, group, box.xName);
  if (box.yName) shape("text", { x: left + 4, y: top + 2, class: "name" }, group, box.yName);
  return { x, y, left, right, top, bottom };
}

// Draw now and whenever the width of the element changes.
function drawn(id, draw) {
  const parent = document.getElementById(id);
  let width = 0;
  const again = () => {
    const now = Math.max(240, Math.floor(parent.clientWidth));
    if (now === width) return;
    width = now;
    parent.replaceChildren();
    draw(parent, width);
  };
  again();
  new ResizeObserver(again).observe(parent);
  return () => { width = 0; again(); };
}
