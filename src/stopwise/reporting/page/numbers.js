// The numbers of the page: unpack the series, find the decisions at a threshold, count.

const data = JSON.parse(document.getElementById("data").textContent);
const K = data.classes.length;
const series = unpackSeries();
const n = series.y.length;
const longest = series.lengths.reduce((a, b) => Math.max(a, b), 1);
const totals = new Int32Array(K); // series of each class
series.y.forEach((k) => totals[k]++);
const ruleDecisions = {
  labels: unpack(data.rule.labels), times: unpack(data.rule.times), forced: unpack(data.rule.forced),
};

function bytesOf(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

function unpack(packed) {
  const type = Object.keys(packed)[0];
  const bytes = bytesOf(packed[type]);
  return type === "u8" ? bytes : new { u16: Uint16Array, u32: Uint32Array }[type](bytes.buffer);
}

// Records of the lead, one after the other; those of series i are at starts[i] to starts[i + 1].
function unpackSeries() {
  const counts = unpack(data.counts);
  const starts = new Uint32Array(counts.length + 1);
  counts.forEach((count, i) => { starts[i + 1] = starts[i] + count; });
  const total = starts[counts.length];
  const ranks = new Uint16Array(total), times = new Uint32Array(total), classes = new Uint16Array(total);
  const bytes = bytesOf(data.records);
  let at = 0;
  const number = () => { // 7 bits per byte, low bits first
    let value = 0, shift = 0, byte;
    do { byte = bytes[at++]; value |= (byte & 127) << shift; shift += 7; } while (byte & 128);
    return value;
  };
  for (let i = 0; i < counts.length; i++) {
    let rank = 0, time = 0, label = 0;
    for (let r = starts[i]; r < starts[i + 1]; r++) {
      const head = bytes[at++];
      const rankStep = head >> 4, timeStep = (head >> 1) & 7;
      rank += 1 + rankStep + (rankStep === 15 ? number() : 0);
      time += 1 + timeStep + (timeStep === 7 ? number() : 0);
      if (head & 1) label = number();
      ranks[r] = rank; times[r] = time; classes[r] = label;
    }
  }
  return { y: unpack(data.y), lengths: unpack(data.lengths), atEnd: unpack(data.at_end), starts, ranks, times, classes };
}

// The decisions at a position of the slider: each series stops at its first record of a rank above it.
const decided = { labels: new Uint16Array(n), times: new Uint32Array(n), forced: new Uint8Array(n) };
function decisionsAt(position) {
  const { starts, ranks, times, classes, lengths, atEnd } = series;
  for (let i = 0; i < n; i++) {
    let low = starts[i], high = starts[i + 1];
    const end = high;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ranks[middle] > position) high = middle; else low = middle + 1;
    }
    const forced = low === end;
    decided.labels[i] = forced ? atEnd[i] : classes[low];
    decided.times[i] = forced ? lengths[i] : times[low];
    decided.forced[i] = forced ? 1 : 0;
  }
  return decided;
}

// Stopping times are counted in bins of `width` steps.
const bin = { width: Math.ceil(longest / 40), count: 0 };
bin.count = Math.ceil(longest / bin.width);

function measure(decisions, cost) {
  const { labels, times, forced } = decisions;
  const confusion = new Int32Array(K * K), timeSums = new Float64Array(K);
  const right = new Int32Array(K * bin.count), wrong = new Int32Array(K * bin.count);
  let time = 0, share = 0, ends = 0;
  for (let i = 0; i < n; i++) {
    const k = series.y[i], t = times[i];
    confusion[k * K + labels[i]]++;
    timeSums[k] += t;
    (labels[i] === k ? right : wrong)[k * bin.count + Math.floor((t - 1) / bin.width)]++;
    time += t;
    share += t / series.lengths[i];
    ends += forced[i];
  }
  let errors = 0, macro = 0, present = 0, loss = 0;
  const classErrors = new Array(K).fill(NaN);
  for (let k = 0; k < K; k++) {
    const own = totals[k] - confusion[k * K + k];
    errors += own;
    for (let l = 0; l < K; l++) loss += data.loss[k][l] * confusion[k * K + l];
    if (!totals[k]) continue;
    classErrors[k] = own / totals[k];
    macro += classErrors[k];
    present++;
  }
  return {
    confusion, right, wrong, classErrors, errors, ends,
    classTimes: Array.from(timeSums, (sum, k) => sum / totals[k]),
    error: errors / n, macro: macro / present, time: time / n, share: share / n, forced: ends / n,
    cost: (loss + cost * time) / n,
  };
}

// The whole curve at once: each record serves the positions from the rank before it up to its own rank.
function allPositions() {
  const count = data.thresholds.length;
  const time = new Float64Array(count + 1), wrong = Array.from({ length: K }, () => new Int32Array(count + 1));
  const add = (from, to, t, k, miss) => {
    time[from] += t; time[to] -= t;
    if (miss) { wrong[k][from]++; wrong[k][to]--; }
  };
  for (let i = 0; i < n; i++) {
    const k = series.y[i];
    let from = 0;
    for (let r = series.starts[i]; r < series.starts[i + 1]; r++) {
      const to = Math.min(series.ranks[r], count);
      add(from, to, series.times[r], k, series.classes[r] !== k);
      from = to;
    }
    add(from, count, series.lengths[i], k, series.atEnd[i] !== k);
  }
  const points = [];
  const present = totals.reduce((found, total) => found + (total > 0), 0);
  const sums = new Int32Array(K);
  let t = 0;
  for (let p = 0; p < count; p++) {
    t += time[p];
    let errors = 0, macro = 0;
    for (let k = 0; k < K; k++) {
      sums[k] += wrong[k][p];
      errors += sums[k];
      if (totals[k]) macro += sums[k] / totals[k];
    }
    points.push({ time: t / n, error: errors / n, macro: macro / present });
  }
  return points;
}
