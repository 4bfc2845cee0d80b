// Tables: the numbers of the operating point, the classes, the confusions, and plain tables.

const MOST_COLUMNS = 25; // with more classes, the most frequent confusions are listed instead of a table
const MOST_PAIRS = 40;

function plainTable(table, columns, rows, caption = null) {
  table.replaceChildren();
  if (caption) element("caption", {}, table, caption);
  if (columns) {
    const head = element("tr", {}, element("thead", {}, table));
    columns.forEach((name) => element("th", { scope: "col" }, head, name));
  }
  const body = element("tbody", {}, table);
  for (const row of rows) {
    const line = element("tr", {}, body);
    row.forEach((value, i) => {
      const numeric = typeof value === "number";
      const cell = element(i ? "td" : "th", i ? {} : { scope: "row" }, line, numeric ? plain(value) : String(value));
      if (numeric) cell.classList.add("number");
    });
  }
}

// A number as shown, with its full value for readers of the source and for tests. Text that stays the same is
// not written, because the browser would lay out the table again.
function put(cell, value, text) {
  cell.dataset.value = value;
  if (cell.textContent !== text) cell.textContent = text;
}

const QUANTITIES = [
  ["error", "Wrong decisions", (v) => percent(v, 2)],
  ["macro", "Wrong, mean of the classes", (v) => percent(v, 2)],
  ["time", "Samples per decision", (v) => v.toFixed(2)],
  ["share", "Share of a series seen", (v) => percent(v)],
  ["forced", "Forced by the end", (v) => percent(v)],
  ["cost", "Cost per decision", (v) => plain(v)],
];

function buildNumbers() {
  const table = document.getElementById("numbers");
  const head = element("tr", {}, element("thead", {}, table));
  ["", "rule in use", ""].forEach((name, i) => {
    element(i ? "th" : "td", i ? { scope: "col", id: `column-${i}` } : {}, head, name);
  });
  const body = element("tbody", {}, table);
  return QUANTITIES.map(([key, name, text]) => {
    const row = element("tr", {}, body);
    element("th", { scope: "row" }, row, name);
    const own = element("td", { class: "number" }, row);
    const now = element("td", { class: "number now", id: `now-${key}` }, row);
    return (rule, current) => { put(own, rule[key], text(rule[key])); put(now, current[key], text(current[key])); };
  });
}

function buildClasses() {
  const table = document.getElementById("classes");
  const head = element("tr", {}, element("thead", {}, table));
  ["class", "series", "wrong", "samples", "stopping times (steps)"].forEach((name) => element("th", { scope: "col" }, head, name));
  const body = element("tbody", {}, table);
  const rows = data.classes.map((name) => {
    const line = element("tr", {}, body);
    element("th", { scope: "row", class: "name", title: name }, line, name);
    const cells = Array.from({ length: 3 }, () => element("td", { class: "number" }, line));
    const chart = element("td", { class: "bars" }, line);
    return { cells, chart };
  });
  const foot = element("tr", { "aria-hidden": "true" }, element("tfoot", {}, table));
  element("td", { colspan: 4 }, foot);
  drawAxis(element("td", { class: "bars" }, foot));
  return (found) => rows.forEach(({ cells, chart }, k) => {
    put(cells[0], totals[k], String(totals[k]));
    put(cells[1], found.classErrors[k], percent(found.classErrors[k]));
    put(cells[2], found.classTimes[k], totals[k] ? found.classTimes[k].toFixed(1) : "–");
    drawBars(chart, found, k);
  });
}

const BARS = { width: 400, height: 34 };
const barX = scale(0, bin.count, 0, BARS.width);

function drawAxis(cell) {
  const last = bin.count * bin.width;
  const line = element("div", { class: "ends" }, cell);
  [1, Math.round(last / 2), last].forEach((text) => element("span", {}, line, text));
}

function drawBars(cell, found, k) {
  const from = k * bin.count;
  let top = 1;
  for (let b = 0; b < bin.count; b++) top = Math.max(top, found.right[from + b] + found.wrong[from + b]);
  const y = scale(0, top, BARS.height, 1);
  const bars = { right: "", wrong: "" };
  for (let b = 0; b < bin.count; b++) {
    const x = round(barX(b + 0.08)), width = round(barX(0.84));
    const good = found.right[from + b], bad = found.wrong[from + b];
    if (good) bars.right += `M${x} ${BARS.height}h${width}V${round(y(good))}h-${width}z`;
    if (bad) bars.wrong += `M${x} ${round(y(good))}h${width}V${round(y(good + bad))}h-${width}z`;
  }
  if (!cell.firstChild) {
    const svg = picture(cell, BARS.width, BARS.height, `Stopping times of ${data.classes[k]}`, "");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.removeAttribute("width");
    shape("path", { class: "right" }, svg);
    shape("path", { class: "wrong" }, svg);
  }
  cell.querySelector("desc").textContent = totals[k]
    ? `Mean ${found.classTimes[k].toFixed(1)} samples; ${percent(found.classErrors[k])} wrong.` : "No series.";
  cell.querySelector(".right").setAttribute("d", bars.right);
  cell.querySelector(".wrong").setAttribute("d", bars.wrong);
}

// The confusion table, or a list of the most frequent confusions if there are many classes.
function buildConfusion(select) {
  const table = document.getElementById("confusion");
  return K > MOST_COLUMNS ? confusionList(table, select) : confusionTable(table, select);
}

function confusionTable(table, select) {
  const head = element("thead", {}, table);
  const first = element("tr", {}, head);
  element("td", {}, first);
  element("th", { scope: "colgroup", colspan: K, class: "group" }, first, "decided");
  const line = element("tr", {}, head);
  element("th", { scope: "col" }, line, "true");
  data.classes.forEach((name) => element("th", { scope: "col", class: "name", title: name }, line, name));
  const body = element("tbody", {}, table);
  const cells = [];
  data.classes.forEach((name, k) => {
    const row = element("tr", {}, body);
    element("th", { scope: "row", class: "name", title: name }, row, name);
    data.classes.forEach((_, l) => {
      const cell = element("td", { class: k === l ? "hit" : "miss" }, row);
      const button = element("button", { type: "button" }, cell);
      button.addEventListener("click", () => select(k, l));
      cells.push({ cell, button });
    });
  });
  return (found) => cells.forEach(({ cell, button }, i) => {
    const k = Math.floor(i / K), l = i % K, count = found.confusion[i];
    if (button.dataset.value === String(count)) return;
    put(button, count, count ? String(count) : "·");
    button.disabled = !count;
    button.setAttribute("aria-label", `${count} series of ${data.classes[k]} decided as ${data.classes[l]}`);
    cell.style.setProperty("--share", totals[k] ? (count / totals[k]).toFixed(3) : "0");
  });
}

function confusionList(table, select) {
  document.getElementById("confusion-hint").textContent =
    `The ${MOST_PAIRS} most frequent confusions. Select a number to see such series below.`;
  return (found) => {
    const pairs = [];
    found.confusion.forEach((count, i) => {
      if (count && i % K !== Math.floor(i / K)) pairs.push([count, Math.floor(i / K), i % K]);
    });
    pairs.sort((a, b) => b[0] - a[0]);
    const rows = pairs.slice(0, MOST_PAIRS);
    plainTable(table, ["true class", "decided", "series"], rows.map(([, k, l]) => [data.classes[k], data.classes[l], ""]));
    table.querySelectorAll("tbody tr").forEach((line, i) => {
      const [count, k, l] = rows[i];
      const button = element("button", { type: "button" }, line.lastChild);
      put(button, count, String(count));
      button.setAttribute("aria-label", `${count} series of ${data.classes[k]} decided as ${data.classes[l]}`);
      button.addEventListener("click", () => select(k, l));
    });
  };
}
