// SPDX-License-Identifier: Apache-2.0
// Two horizontal bar charts: step time and device memory, a row per result.

const same = results.every((r) => r.kind === results[0].kind);
const label = (r) => (same ? r.system : `${r.system} (${r.kind})`);

function hatch(context, x, y, width, height, stroke) {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.strokeStyle = stroke;
  context.lineWidth = 1.5;
  context.beginPath();
  for (let at = x - height; at < x + width; at += 5) {
    context.moveTo(at, y + height);
    context.lineTo(at + height, y);
  }
  context.stroke();
  context.restore();
  context.strokeStyle = stroke;
  context.lineWidth = 1;
  context.strokeRect(x + 0.5, y + 0.5, Math.max(width - 1, 0), height - 1);
}

function shortened(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  while (text.length > 1 && context.measureText(text + "\u2026").width > width) text = text.slice(0, -1);
  return text + "\u2026";
}

// Axis and labels common to both charts. Returns the scale from a value to x.
function frame(context, width, rows, rowHeight, largest, unit, chart) {
  const top = 8, bottom = top + rows.length * rowHeight;
  context.font = font(14, 600);
  const left = Math.min(Math.max(...rows.map((r) => context.measureText(label(r)).width), 40) + 14, width * 0.3);
  const right = width - chart.margin;
  const scale = (value) => left + (value / largest) * (right - left);
  const step = tickStep(largest / unit.size, Math.max((right - left) / 90, 2));
  context.font = font(12);
  context.textAlign = "center";
  for (let tick = 0; tick * unit.size <= largest * 1.0001; tick += step) {
    const x = Math.round(scale(tick * unit.size)) + 0.5;
    context.strokeStyle = color("line");
    context.beginPath();
    context.moveTo(x, top);
    context.lineTo(x, bottom + 4);
    context.stroke();
    context.fillStyle = color("quiet");
    context.fillText(String(+tick.toPrecision(6)) + (tick === 0 ? " " + unit.name : ""), x, bottom + 14);
  }
  context.textAlign = "right";
  rows.forEach((r, i) => {
    context.font = font(14, r === fastest ? 650 : 500);
    context.fillStyle = color(r.feasible ? "ink" : "bad");
    context.fillText(shortened(context, label(r), left - 14), left - 10, top + i * rowHeight + chart.middle);
  });
  context.textAlign = "left";
  return {scale, top, bottom, left};
}

function boundLine(context, x, top, bottom) {
  context.save();
  context.strokeStyle = color("bound");
  context.lineWidth = 1.5;
  context.setLineDash([5, 4]);
  context.beginPath();
  context.moveTo(x, top);
  context.lineTo(x, bottom);
  context.stroke();
  context.restore();
}

function stepBar(context, r, y, scale) {
  const start = scale(0), end = scale(r.makespan_s);
  const middle = known(r.forward_s) ? scale(r.forward_s) : start;
  context.globalAlpha = r.feasible ? 1 : 0.45;
  context.fillStyle = color("forward");
  context.fillRect(start, y, middle - start, 20);
  context.fillStyle = known(r.forward_s) ? color("backward") : color("accent");
  context.fillRect(middle, y, end - middle, 20);
  if (r.exposed_communication_s > 0)
    hatch(context, start, y + 23, Math.max(scale(r.exposed_communication_s) - start, 2), 8, color("exposed"));
  context.globalAlpha = 1;
  const interval = r.ci95_s || r.interval_s;  // of measured samples, or of drawn costs
  if (interval && interval.every(known)) {
    const [low, high] = interval.map(scale);
    context.strokeStyle = color("ink");
    context.lineWidth = 1.5;
    context.beginPath();
    for (const x of [low, high]) {
      context.moveTo(x, y + 4);
      context.lineTo(x, y + 16);
    }
    context.moveTo(low, y + 10);
    context.lineTo(high, y + 10);
    context.stroke();
  }
  return end;
}

const kindText = (r) => (r.feasible ? r.kind : `${r.kind}, does not fit: ${formatBytes(r.missing_bytes)} too much`);
const memoryText = (r) => formatBytes(r.peak_bytes) + (r.feasible ? "" : `, ${formatBytes(r.missing_bytes)} too much`);

// Room to the right of the longest bar for the text after it.
function margin(context, size, texts) {
  context.font = font(size, 600);
  return Math.max(...texts.map((text) => context.measureText(text).width), 60) + 16;
}

function drawSteps() {
  const rowHeight = 46;
  const [context, width] = prepare(byId("steps"), 8 + results.length * rowHeight + 24);
  const ends = (r) => [r.makespan_s, r.lower_bound_s, ...(r.interval_s || [])];
  const largest = Math.max(...results.flatMap(ends).filter(known), 1e-12);
  const unit = largest >= 1 ? {size: 1, name: "s"} :
      largest >= 1e-3       ? {size: 1e-3, name: "ms"} :
                              {size: 1e-6, name: "\u00b5s"};
  const chart = frame(
      context, width, results, rowHeight, largest, unit,
      {margin: margin(context, 13, [...results.map(kindText), "1234 ms  1.23\u00d7"]), middle: 16});
  results.forEach((r, i) => {
    const y = chart.top + i * rowHeight + 6;
    const end = stepBar(context, r, y, chart.scale);
    if (r.lower_bound_s > 0) boundLine(context, chart.scale(r.lower_bound_s), y - 5, y + 36);
    context.font = font(14, 600);
    context.fillStyle = color(r === fastest ? "good" : "ink");
    const time = formatTime(r.makespan_s);
    const x = Math.max(end, ...ends(r).slice(1).filter(known).map(chart.scale)) + 8;
    context.fillText(time, x, y + 10);
    const after = x + context.measureText(time + " ").width + 4;
    context.font = font(13);
    context.fillStyle = color("quiet");
    context.fillText(known(speedup(r)) ? `${fixed(r.speedup, 2)}\u00d7` : "", after, y + 10);
    context.font = font(12);
    context.fillStyle = color(r.feasible ? r.kind : "bad");
    context.fillText(kindText(r), x, y + 27);
  });
}

function drawMemory() {
  const rowHeight = 34;
  const [context, width] = prepare(byId("memory"), 8 + results.length * rowHeight + 24);
  const capacity = report.inputs?.cluster.device.memory_bytes;
  const largest = Math.max(...results.map((r) => r.peak_bytes || 0), capacity || 0, 1);
  const unit = largest >= 2 ** 30 ? {size: 2 ** 30, name: "GiB"} : {size: 2 ** 20, name: "MiB"};
  const chart = frame(
      context, width, results, rowHeight, largest, unit,
      {margin: margin(context, 14, results.map(memoryText)), middle: 17});
  results.forEach((r, i) => {
    const y = chart.top + i * rowHeight + 7;
    const held = chart.scale(Math.min(r.persistent_bytes || 0, r.peak_bytes));
    context.fillStyle = color("forward");
    context.fillRect(chart.left, y, held - chart.left, 20);
    context.fillStyle = color(known(r.persistent_bytes) ? "backward" : "accent");
    context.fillRect(held, y, chart.scale(r.peak_bytes) - held, 20);
    context.font = font(14, 500);
    context.fillStyle = color(r.feasible ? "ink" : "bad");
    const text = memoryText(r);
    const x = chart.scale(r.peak_bytes) + 8;
    // Keep clear of the capacity line where the bar ends just before it.
    const crossed =
        capacity > 0 && x < chart.scale(capacity) && x + context.measureText(text).width + 6 > chart.scale(capacity);
    context.fillText(text, crossed ? chart.scale(capacity) + 8 : x, y + 10);
  });
  if (capacity > 0) boundLine(context, chart.scale(capacity), chart.top, chart.bottom);
}

function swatch(text, style, className = "") {
  return element("span", {}, element("i", {style, class: className}), text);
}
byId("steps-legend")
    .append(
        swatch("forward", "background: var(--forward)"),
        swatch("backward, gradient synchronisation and optimizer", "background: var(--backward)"),
        swatch("exposed communication", "", "hatched"), swatch("lower bound of its work", "", "dashed"),
        ...(results.some((r) => r.interval_s) ? [swatch("\u251c\u2524 90 % of the draws of all costs", "display: none")] : []));
byId("memory-legend")
    .append(
        swatch("weights, gradients and optimizer states", "background: var(--forward)"),
        swatch("activations and buffers at the peak", "background: var(--backward)"),
        swatch(`device memory, ${report.inputs?.cluster.device.name}`, "", "dashed"));
drawings.push(drawSteps, drawMemory);
