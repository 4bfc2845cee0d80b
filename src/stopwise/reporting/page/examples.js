// Example series: the evidence or the probability of each class over time, the bound, and the stop.

const CARDS = 6;
const CARD = { height: 190 };
const examples = unpackExamples();

// Scores as distances below the highest one of their step.
function unpackExamples() {
  const below = unpack(data.examples.below);
  let at = 0;
  return data.examples.rows.map((row, i) => {
    const points = data.examples.points[i], unit = data.examples.units[i];
    const steps = data.examples.steps.slice(0, points);
    const scores = steps.map((_, s) => Array.from({ length: K }, (_, k) => -unit * below[at + s * K + k]));
    at += points * K;
    return { row, steps, scores };
  });
}

// What each class has at one step: its lead over the best other class, or its probability.
function leadsOf(scores) {
  let first = 0;
  scores.forEach((score, k) => { if (score > scores[first]) first = k; });
  let second = -Infinity;
  scores.forEach((score, k) => { if (k !== first) second = Math.max(second, score); });
  return scores.map((score, k) => (k === first ? score - second : score - scores[first]));
}

function probabilitiesOf(scores, prior) {
  const shares = scores.map((score, k) => Math.exp(score) * prior[k]);
  const sum = shares.reduce((a, b) => a + b, 0);
  return shares.map((share) => share / sum);
}

const lines = new Map(); // values by series and view, because the slider does not change them
function valuesOf(example, view, prior) {
  const key = `${example.row} ${view} ${prior === data.prior}`;
  if (!lines.has(key)) {
    lines.set(key, example.scores.map((s) => (view === "lead" ? leadsOf(s) : probabilitiesOf(s, prior))));
  }
  return lines.get(key);
}

function chosenExamples(filters, decisions) {
  const found = examples.filter(({ row }) => {
    const wrong = decisions.labels[row] !== series.y[row];
    return (filters.truth === "" || series.y[row] === Number(filters.truth))
      && (filters.decided === "" || decisions.labels[row] === Number(filters.decided))
      && (filters.result === "" || (filters.result === "wrong" ? wrong
        : filters.result === "right" ? !wrong : decisions.forced[row] === 1));
  });
  const time = (example) => decisions.times[example.row];
  const wrong = ({ row }) => Number(decisions.labels[row] !== series.y[row]);
  const orders = {
    "": (a, b) => wrong(b) - wrong(a) || time(b) - time(a),
    early: (a, b) => time(a) - time(b),
    late: (a, b) => time(b) - time(a),
    data: (a, b) => a.row - b.row,
  };
  return found.sort(orders[filters.order]);
}

let cardWidth = 0; // measured once per width of the window: a measurement makes the browser lay out the page
function drawExamples(parent, shown, decisions, view, bound, prior) {
  parent.replaceChildren();
  const cards = shown.map((example) => buildCard(parent, outcomeOf(example, decisions)));
  if (cards.length && !cardWidth) cardWidth = Math.max(220, Math.floor(cards[0].clientWidth));
  shown.forEach((example, i) => drawExample(cards[i], cardWidth, example, outcomeOf(example, decisions), view, bound, prior));
}

function outcomeOf({ row }, decisions) {
  const truth = series.y[row], label = decisions.labels[row], time = decisions.times[row];
  const wrong = label !== truth, forced = decisions.forced[row] === 1;
  const told = `${forced ? "forced at the end, step" : "decided at step"} ${time} of ${series.lengths[row]}`;
  return { row, truth, label, time, wrong, forced, told };
}

function buildCard(parent, { row, truth, label, wrong, told }) {
  const card = element("article", { class: wrong ? "card bad" : "card" }, parent);
  const title = element("h3", {}, card);
  element("span", { class: "mark", "aria-hidden": "true" }, title, wrong ? "✗" : "✓");
  title.append(` ${data.classes[truth]}`);
  if (wrong) element("span", { class: "taken" }, title, ` taken for ${data.classes[label]}`);
  element("p", { class: "hint" }, card, `Series ${row}, ${told}`);
  return element("div", { class: "chart" }, card);
}

function drawExample(chart, width, { steps, ...example }, outcome, view, bound, prior) {
  const { row, truth, label, time, wrong, forced, told } = outcome;
  const result = wrong ? `wrongly decided as ${data.classes[label]}` : "decided correctly";
  const svg = picture(chart, width, CARD.height, `Series ${row} of class ${data.classes[truth]}`, `${result}, ${told}.`);
  const values = valuesOf(example, view, prior);
  const line = bound && (bound.lines[label] || bound.lines[0]);
  const high = view === "probability" ? 1 : leadRange(values, steps, time, line);
  const box = axes(svg, width, CARD.height, {
    x: [1, Math.max(2, series.lengths[row])], y: view === "probability" ? [0, 1] : [-0.5 * high, high], yCount: 4,
    xText: (v) => tickText(v), yText: (v) => (view === "probability" ? percent(v, 0) : tickText(v)), xName: "step",
  });
  const clip = `clip-${++named}`;
  shape("rect", { x: box.left - 7, y: box.top - 4, width: box.right - box.left + 14, height: box.bottom - box.top + 4 },
    shape("clipPath", { id: clip }, svg));
  const inner = shape("g", { "clip-path": `url(#${clip})` }, svg);
  const draw = (k, kind) => shape("path", {
    class: `line ${kind}`, d: path(steps.map((step, s) => [box.x(step), box.y(values[s][k])])),
  }, inner);
  for (let k = 0; k < K; k++) if (k !== truth && k !== label) draw(k, "other");
  if (wrong) draw(label, "wrong");
  draw(truth, "right");
  if (line) {
    shape("path", { class: "line bound", d: path(steps.map((step, s) => [box.x(step), line[s] === null ? NaN : box.y(line[s])])) }, inner);
  }
  const x = box.x(time);
  shape("rect", { class: "after", x, y: box.top - 4, width: Math.max(0, box.right - x), height: box.bottom - box.top + 4 }, inner);
  const at = steps.findIndex((step) => step >= time);
  shape("circle", { class: `stop ${wrong ? "wrong" : "right"} ${forced ? "forced" : ""}`, cx: x, cy: box.y(values[at][label]), r: 5 }, inner);
}

// The top of the axis: the bound and the leads up to the stop fit in.
function leadRange(values, steps, time, line) {
  let high = 0.5;
  values.forEach((row, s) => {
    if (steps[s] <= time) high = Math.max(high, ...row);
    if (line && line[s] !== null) high = Math.max(high, Math.min(line[s], 1e6));
  });
  return high * 1.2;
}
