// The page: one state (a position of the slider, or the rule in use), and everything that follows from it.

const byId = (id) => document.getElementById(id);
const curve = allPositions();
const RULE = -1; // the position that stands for a rule without a common threshold
const state = { position: data.rule.position === null ? RULE : data.rule.position, cost: data.cost, page: 0 };
let found = null; // the numbers at the current position
let current = null; // the decisions there
let own = null; // the numbers of the rule in use, at a price of a sample

const slider = byId("threshold");
const home = data.rule.position === null ? nearestTime(measure(ruleDecisions, 0).time) : data.rule.position;

function nearestTime(time) {
  let best = 0;
  curve.forEach((point, p) => {
    if (Math.abs(point.time - time) < Math.abs(curve[best].time - time)) best = p;
  });
  return best;
}

function thresholdText(position) {
  const value = data.thresholds[position];
  return value === null ? "∞ (wait for the end)" : plain(value);
}

const updateNumbers = buildNumbers();
const updateClasses = buildClasses();
const updateConfusion = buildConfusion((truth, label) => {
  byId("by-true").value = truth;
  byId("by-decided").value = label;
  byId("by-result").value = "";
  state.page = 0;
  showExamples();
  byId("examples-title").scrollIntoView({ block: "start" });
  byId("by-true").focus({ preventScroll: true });
});

// Move to a position of the slider, or to the rule in use.
function show(position) {
  state.position = position;
  const atRule = position === RULE;
  current = atRule ? ruleDecisions : decisionsAt(position);
  found = measure(current, state.cost);
  slider.value = atRule ? home : position;
  const isRule = atRule || position === data.rule.position;
  const name = isRule ? "rule in use" : `threshold ${thresholdText(position)}`;
  const result = `${percent(found.error)} wrong, ${found.time.toFixed(1)} samples, ${percent(found.forced)} forced`;
  slider.setAttribute("aria-valuetext", atRule ? "rule in use" : `threshold ${thresholdText(position)}`);
  byId("now").replaceChildren();
  element("strong", {}, byId("now"), atRule ? "rule in use" : thresholdText(position));
  byId("now").append(` ${result}`);
  byId("reset").disabled = isRule;
  byId("column-2").textContent = isRule ? "shown below" : name;
  byId("numbers").classList.toggle("single", isRule);
  if (!own || own.price !== state.cost) own = { ...measure(ruleDecisions, state.cost), price: state.cost };
  updateNumbers.forEach((update) => update(own, found));
  updateClasses(found);
  updateConfusion(found);
  placePoint();
  showExamples();
  speak(`${name}: ${result}`);
}

// Screen readers hear the result when the slider rests.
let waiting = 0;
function speak(text) {
  clearTimeout(waiting);
  waiting = setTimeout(() => { byId("spoken").textContent = text; }, 400);
}

// --- the curve ---
let placePoint = () => {};
const kind = byId("error-kind");
const redrawCurve = drawn("curve", (parent, width) => {
  const height = Math.min(380, Math.max(260, Math.round(width * 0.62)));
  const own = measure(ruleDecisions, 0), key = kind.value;
  const top = Math.max(...curve.map((p) => p[key]), ...data.fixed[key], own[key], 0.01);
  const end = Math.max(2, curve[curve.length - 1].time);
  const svg = picture(parent, width, height, "Speed against accuracy",
    `From ${percent(curve[0][key])} wrong after ${curve[0].time.toFixed(1)} samples to `
    + `${percent(curve[curve.length - 1][key])} wrong after ${end.toFixed(1)} samples. The rule in use: `
    + `${percent(own[key])} wrong after ${own.time.toFixed(1)} samples.`);
  const box = axes(svg, width, height, {
    x: [1, end], y: [0, top * 1.08], xText: tickText, yText: (v) => percent(v, top < 0.04 ? 1 : 0),
    xName: "samples per decision (mean)", yName: "wrong decisions",
  });
  shape("path", { class: "line fixed", d: path(data.fixed.time.map((t, i) => [box.x(t), box.y(data.fixed[key][i])])) }, svg);
  shape("path", { class: "line right", d: path(curve.map((p) => [box.x(p.time), box.y(p[key])])) }, svg);
  const at = `${round(box.x(own.time))} ${round(box.y(own[key]))}`;
  shape("path", { class: "rule", d: `M${at}m-8 0l8 -8l8 8l-8 8z` }, svg);
  const point = shape("circle", { class: "point", r: 6 }, svg);
  legend(svg, box, width);
  placePoint = () => {
    const place = state.position === RULE ? own : curve[state.position];
    point.setAttribute("cx", box.x(place.time));
    point.setAttribute("cy", box.y(place[key]));
  };
  if (found) placePoint();
  svg.addEventListener("click", (event) => {
    const area = svg.getBoundingClientRect();
    const x = ((event.clientX - area.left) / area.width) * width;
    show(nearestTime(1 + ((x - box.left) / (box.right - box.left)) * (end - 1)));
  });
});

function legend(svg, box, width) {
  const x = box.right - 178;
  [["line right", "one threshold per point"], ["line fixed", "same step for all"], ["rule", "rule in use"], ["point", "shown now"]]
    .forEach(([name, text], i) => {
      const y = box.top + 12 + 18 * i;
      if (name === "rule") shape("path", { class: name, d: `M${x + 4} ${y - 4}l7 -7l7 7l-7 7z` }, svg);
      else if (name === "point") shape("circle", { class: name, cx: x + 11, cy: y - 4, r: 6 }, svg);
      else shape("line", { class: name, x1: x, x2: x + 22, y1: y - 4, y2: y - 4 }, svg);
      shape("text", { x: x + 30, y }, svg, text);
    });
}

// --- examples ---
function showExamples() {
  const filters = {
    truth: byId("by-true").value, decided: byId("by-decided").value, result: byId("by-result").value, order: byId("by-time").value,
  };
  const chosen = chosenExamples(filters, current);
  const pages = Math.max(1, Math.ceil(chosen.length / CARDS));
  state.page = Math.min(state.page, pages - 1);
  const shown = chosen.slice(state.page * CARDS, (state.page + 1) * CARDS);
  const view = byId("view").value;
  const { bound, prior, hint } = boundFor(view);
  byId("bound-hint").textContent = hint;
  const from = state.page * CARDS;
  byId("shown").textContent = shown.length
    ? `${from + 1} to ${from + shown.length} of ${chosen.length} matching examples (a sample of ${examples.length} of ${n} series).`
    : `No example matches. The examples are a sample of ${examples.length} of ${n} series.`;
  byId("previous").disabled = state.page === 0;
  byId("next").disabled = state.page >= pages - 1;
  drawExamples(byId("examples"), shown, current, view, bound, prior);
}

// The bound of the current rule, if it can be drawn in this view.
function boundFor(view) {
  const atRule = state.position === RULE;
  const count = data.examples.steps.length;
  const threshold = atRule ? null : data.thresholds[state.position];
  const rule = atRule ? data.rule.bounds : { kind: "lead", lines: [new Array(count).fill(threshold)] };
  const prior = (atRule && data.rule.prior) || data.prior;
  if (!rule) return { bound: null, prior, hint: "This rule has no bound that can be drawn as a line." };
  if (rule.kind === view) return { bound: rule, prior, hint: "Dashed: the bound to reach." };
  const name = rule.kind === "lead" ? "evidence (LLR)" : "probability";
  return { bound: null, prior, hint: `The bound is one on the ${name}: choose it under “Draw”.` };
}

function fillChoices(select, all, names) {
  element("option", { value: "" }, select, all);
  names.forEach((name, k) => element("option", { value: k }, select, name));
}
fillChoices(byId("by-true"), "any", data.classes);
fillChoices(byId("by-decided"), "any", data.classes);
byId("view").value = data.rule.bounds ? data.rule.bounds.kind : "lead";
byId("filters").addEventListener("input", () => { state.page = 0; showExamples(); });
byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("previous").addEventListener("click", () => { state.page--; showExamples(); });
byId("next").addEventListener("click", () => { state.page++; showExamples(); });

// --- reliability ---
drawn("by-step", (parent, width) => {
  const { steps, claimed, observed } = data.reliability;
  const svg = picture(parent, width, 260, "Claimed and observed probability by step",
    `At step ${steps[0]}: claimed ${percent(claimed[0])}, observed ${percent(observed[0])}. `
    + `At step ${steps[steps.length - 1]}: claimed ${percent(claimed[claimed.length - 1])}, observed ${percent(observed[observed.length - 1])}.`);
  const low = Math.min(...claimed, ...observed);
  const box = axes(svg, width, 260, {
    x: [1, Math.max(2, steps[steps.length - 1])], y: [Math.max(0, Math.floor(low * 10 - 0.5) / 10), 1],
    xText: tickText, yText: (v) => percent(v, 0), xName: "step",
  });
  shape("path", { class: "line right", d: path(steps.map((s, i) => [box.x(s), box.y(observed[i])])) }, svg);
  shape("path", { class: "line claimed", d: path(steps.map((s, i) => [box.x(s), box.y(claimed[i])])) }, svg);
  [["line right", "observed"], ["line claimed", "claimed"]].forEach(([name, text], i) => {
    const x = box.right - 96, y = box.bottom - 30 + 18 * i;
    shape("line", { class: name, x1: x, x2: x + 22, y1: y - 4, y2: y - 4 }, svg);
    shape("text", { x: x + 28, y }, svg, text);
  });
});

data.reliability.detailed.forEach(({ step }, i) => element("option", { value: i }, byId("step"), String(step)));
byId("step").value = Math.floor((data.reliability.detailed.length - 1) / 2);
const redrawBins = drawn("bins", (parent, width) => {
  const { step, bins } = data.reliability.detailed[Number(byId("step").value)];
  const svg = picture(parent, width, 260, `Claimed against observed probability at step ${step}`,
    bins.map((b) => `Claimed ${percent(b.claimed)}: observed ${percent(b.observed)} of ${b.series} series.`).join(" "));
  const box = axes(svg, width, 260, {
    x: [0, 1], y: [0, 1], xText: (v) => percent(v, 0), yText: (v) => percent(v, 0), xName: "claimed", yName: "observed",
  });
  shape("path", { class: "line fixed", d: path([[box.x(0), box.y(0)], [box.x(1), box.y(1)]]) }, svg);
  const most = Math.max(...bins.map((b) => b.series));
  bins.forEach((b) => {
    const dot = shape("circle", { class: "dot", cx: box.x(b.claimed), cy: box.y(b.observed), r: 3 + 9 * Math.sqrt(b.series / most) }, svg);
    shape("title", {}, dot, `claimed ${percent(b.claimed)}, observed ${percent(b.observed)}, ${b.series} series`);
  });
});
byId("step").addEventListener("input", redrawBins);

// --- training and origin ---
function showTraining() {
  const parent = byId("training");
  data.training.histories.forEach(({ model, records }, i) => {
    element("h3", {}, parent, `${model}: loss by epoch`);
    const figure = element("figure", { class: "narrow" }, parent);
    element("div", { id: `history-${i}`, class: "chart" }, figure);
    const kinds = [["train_loss", "right", "training"], ["validation_loss", "claimed", "validation"]]
      .filter(([key]) => records.some((record) => key in record));
    drawn(`history-${i}`, (box, width) => drawHistory(box, width, model, records, kinds));
  });
  data.training.tried.forEach(({ title, columns, rows, note }) => {
    element("h3", {}, parent, title);
    plainTable(element("table", {}, element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title }, parent)), columns, rows);
    if (note) element("p", { class: "hint" }, parent, note);
  });
  if (data.training.facts.length) {
    const details = element("details", {}, parent);
    element("summary", {}, details, "Further details of the fit");
    plainTable(element("table", { class: "facts" }, element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Details of the fit" }, details)), null, data.training.facts);
  }
  if (!parent.childElementCount) element("p", {}, parent, "The model reports nothing about its training.");
}

function drawHistory(parent, width, model, records, kinds) {
  const values = kinds.flatMap(([key]) => records.map((r) => r[key]).filter(Number.isFinite));
  const svg = picture(parent, width, 240, `Training of ${model}`, kinds.map(([key, , name]) =>
    `${name} loss from ${plain(records[0][key])} to ${plain(records[records.length - 1][key])}`).join("; "));
  const low = Math.min(0, ...values), high = Math.max(...values);
  const box = axes(svg, width, 240, {
    x: [1, Math.max(2, records.length)], y: [low, high * 1.05 || 1], xText: tickText, yText: tickText, xName: "epoch", yName: "loss",
  });
  kinds.forEach(([key, style, name], i) => {
    shape("path", { class: `line ${style}`, d: path(records.map((r, e) => [box.x(r.epoch || e + 1), box.y(r[key])])) }, svg);
    const x = box.right - 104, y = box.top + 14 + 18 * i;
    shape("line", { class: `line ${style}`, x1: x, x2: x + 22, y1: y - 4, y2: y - 4 }, svg);
    shape("text", { x: x + 28, y }, svg, name);
  });
}

// --- start ---
slider.max = data.thresholds.length - 1;
slider.addEventListener("input", () => show(Number(slider.value)));
byId("reset").addEventListener("click", () => { show(data.rule.position === null ? RULE : data.rule.position); slider.focus(); });
byId("cost").value = Number(data.cost.toPrecision(4));
byId("cost").addEventListener("input", () => {
  const value = Number(byId("cost").value);
  if (Number.isFinite(value) && value >= 0) { state.cost = value; show(state.position); }
});
const losses = new Set(data.loss.flatMap((row, k) => row.filter((_, l) => l !== k)));
byId("cost-unit").textContent = losses.size === 1 ? `An error costs ${plain([...losses][0])}.` : "Errors have different costs, set by whoever made this report.";
byId("error-choice").hidden = new Set(totals).size === 1;
kind.addEventListener("input", redrawCurve);
let width = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === width) return;
  width = window.innerWidth;
  cardWidth = 0;
  showExamples();
});
window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
showTraining();
plainTable(byId("origin"), null, [...data.origin, ["Area under the curve (AUSAT)", plain(data.ausat)]]);
show(state.position);
