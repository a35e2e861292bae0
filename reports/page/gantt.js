// SPDX-License-Identifier: Apache-2.0
// The timeline: a row per stream, blocks by kind of op; zoom, pan and tooltips.

const rowHeight = 40, phaseHeight = 18, gutter = 148, axisHeight = 26, groupGap = 16;
const view = {
  from: 0,
  to: 1,
  shown: [],
  length: 1
};  // nanoseconds; shown: indices into data.timelines

// Dark text on light blocks, white on dark ones.
const inkOn = (hex) => {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#1d2330" : "#ffffff";
};

// The columns of ops that the page leaves to be worked out: those of their works, and times since the stream's last op.
function expand(timeline) {
  for (const name of Object.keys(timeline.works)) timeline[name] = timeline.work.map((w) => timeline.works[name][w]);
  const ended = timeline.streams.map(() => 0);
  timeline.finish = [];
  timeline.length.forEach((length, i) => {
    timeline.start[i] += ended[timeline.stream[i]];
    timeline.finish[i] = ended[timeline.stream[i]] = timeline.start[i] + length;
  });
}

// Ops by stream in time order, and for each layer and phase when it ran; once per timeline.
function indexed(timeline) {
  if (timeline.rows) return timeline;
  timeline.rows = timeline.streams.map(() => []);
  const layers = new Map();
  timeline.start.forEach((start, i) => {
    timeline.rows[timeline.stream[i]].push(i);
    if (!timeline.in_layers[timeline.kind[i]]) return;
    const layer = `layer ${timeline.layer[i]}`, key = `${timeline.phases[timeline.phase[i]]}, ${layer}`;
    const span = layers.get(key) ||
        {names: [key, layer, String(timeline.layer[i])], from: Infinity, to: 0, forward: timeline.phase[i] === 0};
    span.from = Math.min(span.from, start);
    span.to = Math.max(span.to, timeline.finish[i]);
    layers.set(key, span);
  });
  for (const row of timeline.rows) row.sort((a, b) => timeline.start[a] - timeline.start[b]);
  timeline.layers = timeline.micro_batch ? [] : [...layers.values()];  // those of micro-batches overlap
  return timeline;
}

const groups = () => view.shown.map((i) => indexed(data.timelines[i]));
const titleHeight = () => (view.shown.length > 1 ? 20 : 0);
const groupHeight = (t) => titleHeight() + phaseHeight + t.streams.length * rowHeight + groupGap;
const toX = (ns, width) => gutter + ((ns - view.from) / (view.to - view.from)) * (width - gutter);
const toTime = (x, width) => view.from + ((x - gutter) / (width - gutter)) * (view.to - view.from);

function drawAxis(context, width, height) {
  const step = tickStep((view.to - view.from) / 1e9, (width - gutter) / 110) * 1e9;
  context.font = font(12);
  context.textAlign = "center";
  for (let tick = Math.ceil(view.from / step) * step; tick <= view.to; tick += step) {
    const x = Math.round(toX(tick, width)) + 0.5;
    context.strokeStyle = color("line");
    context.beginPath();
    context.moveTo(x, axisHeight - 4);
    context.lineTo(x, height - 10);
    context.stroke();
    context.fillStyle = color("quiet");
    const [size, unit] = view.to >= 1e9 ? [1e9, "s"] : view.to >= 1e6 ? [1e6, "ms"] : [1e3, "\u00b5s"];
    if (x > gutter + 14 && x < width - 22) context.fillText(`${+ (tick / size).toPrecision(7)} ${unit}`, x, 10);
  }
  context.textAlign = "left";
}

function drawLayers(context, timeline, y, width) {
  context.font = font(11);
  for (const span of timeline.layers) {
    if (span.to < view.from || span.from > view.to) continue;
    const x = Math.max(toX(span.from, width), gutter), end = Math.min(toX(span.to, width), width);
    context.globalAlpha = 0.22;
    context.fillStyle = color(span.forward ? "forward" : "backward");
    context.fillRect(x, y, Math.max(end - x - 1, 0.5), phaseHeight - 4);
    context.globalAlpha = 1;
    context.fillStyle = color("ink");
    const name = span.names.find((text) => context.measureText(text).width < end - x - 8);
    if (name) context.fillText(name, x + 4, y + phaseHeight / 2 - 1.5);
  }
}

function drawBlock(context, timeline, i, y, width) {
  const kind = timeline.kinds[timeline.kind[i]];
  const x = Math.max(toX(timeline.start[i], width), gutter);
  const end = Math.min(toX(timeline.finish[i], width), width);
  const size = end - x;
  const colour = timeline.colours[timeline.kind[i]];
  context.fillStyle = colour;
  context.fillRect(x, y, Math.max(size - (size > 4 ? 1 : 0), 0.6), rowHeight - 6);
  if (timeline.emulated && timeline.emulated[i]) {
    context.fillStyle = color("panel");
    context.fillRect(x, y + rowHeight - 10, Math.max(size - 1, 0.6), 2);
  }
  if (size < 32) return;
  const chunk = timeline.chunk[i] >= 0 ? ` ${timeline.chunk[i]}` : "";
  context.fillStyle = inkOn(colour);
  const text = shortened(context, words(kind) + chunk, size - 8);
  if (text.length > 5) context.fillText(text, x + 4, y + rowHeight / 2 - 3);
}

function drawStream(context, timeline, s, y, width) {
  context.fillStyle = color("row");
  context.fillRect(gutter, y, width - gutter, rowHeight - 6);
  const stream = timeline.streams[s];
  context.font = font(13, 600);
  context.fillStyle = color("ink");
  context.fillText(shortened(context, stream.name, gutter - 12), 0, y + 11);
  context.font = font(11);
  context.fillStyle = color("quiet");
  context.fillText(`busy ${percent(stream.busy_s / timeline.length_s)}`, 0, y + 26);
  context.save();
  context.beginPath();
  context.rect(gutter, y, width - gutter, rowHeight);
  context.clip();
  context.font = font(11);
  for (const i of timeline.rows[s])
    if (timeline.finish[i] > view.from && timeline.start[i] < view.to) drawBlock(context, timeline, i, y, width);
  context.restore();
}

function drawOverview(context, width, height) {
  context.fillStyle = color("row");
  context.fillRect(gutter, height - 6, width - gutter, 5);
  context.fillStyle = color("quiet");
  const scale = (width - gutter) / view.length;
  context.fillRect(gutter + view.from * scale, height - 6, Math.max((view.to - view.from) * scale, 3), 5);
}

function drawTimeline() {
  if (view.shown.length === 0) return;
  const height = axisHeight + groups().reduce((sum, t) => sum + groupHeight(t), 0);
  const [context, width] = prepare(byId("timeline"), height);
  drawAxis(context, width, height);
  let y = axisHeight;
  for (const timeline of groups()) {
    if (titleHeight() > 0) {
      context.font = font(13, 650);
      context.fillStyle = color("ink");
      context.fillText(`${timeline.name}, ${formatTime(timeline.length_s)}`, 0, y + 8);
    }
    y += titleHeight();
    drawLayers(context, timeline, y, width);
    y += phaseHeight;
    timeline.streams.forEach((_, s) => drawStream(context, timeline, s, y + s * rowHeight, width));
    y += timeline.streams.length * rowHeight + groupGap;
  }
  drawOverview(context, width, height);
}

// --- moving about ---
function show(from, to) {
  const size = Math.min(Math.max(to - from, 50), view.length);
  view.from = Math.min(Math.max(from, 0), view.length - size);
  view.to = view.from + size;
  hideTooltip();
  requestAnimationFrame(drawTimeline);
}
function zoom(factor, at = (view.from + view.to) / 2) {
  show(at - (at - view.from) * factor, at + (view.to - at) * factor);
}
function choose(value) {
  view.shown = value === "all" ? data.timelines.map((_, i) => i) : [Number(value)];
  byId("timeline-note").textContent = groups().map((t) => t.note).find((note) => note) || "";
  view.length = Math.max(...groups().map((t) => t.length_s)) * 1e9 || 1;
  if (value === "all")
    show(0, view.length);
  else
    showWindow();
}
function showWindow() {
  const [from, to] = groups()[0].window;
  show(from - (to - from) * 0.01, to + (to - from) * 0.01);
}
function showPhase(phase) {
  const {start, finish, phase: phases} = groups()[0];
  let from = Infinity, to = 0;
  phases.forEach((p, i) => {
    if ((p === 0) !== (phase === 0)) return;
    from = Math.min(from, start[i]);
    to = Math.max(to, finish[i]);
  });
  if (from < to) show(from, to);
}

// --- tooltips ---
function opAt(x, y, width) {
  let top = axisHeight;
  for (const timeline of groups()) {
    top += titleHeight() + phaseHeight;
    const s = Math.floor((y - top) / rowHeight);
    if (s >= 0 && s < timeline.streams.length && x > gutter) {
      const time = toTime(x, width), slack = toTime(x + 1.5, width) - time;
      const i = timeline.rows[s].find((k) => timeline.start[k] - slack <= time && time <= timeline.finish[k] + slack);
      return i === undefined ? null : {timeline, i};
    }
    top += timeline.streams.length * rowHeight + groupGap;
  }
  return null;
}
function hideTooltip() {
  byId("tooltip").hidden = true;
}
function tooltipLines({timeline, i}) {
  const part = timeline.micro_batch ? `, micro-batch ${timeline.micro_batch[i]}` : "";
  const chunk = timeline.chunk[i] >= 0 ? `, chunk ${timeline.chunk[i]}` : "";
  const lines = [
    `${timeline.phases[timeline.phase[i]]}, layer ${timeline.layer[i]}${part}${chunk}`,
    `${formatTime((timeline.finish[i] - timeline.start[i]) / 1e9)} from ${formatTime(timeline.start[i] / 1e9)}`
  ];
  if (timeline.flops[i] > 0) lines.push(formatCount(timeline.flops[i], "flop"));
  if (timeline.message[i] > 0)
    lines.push(`${words(timeline.collectives[timeline.collective[i]])} of ${formatBytes(timeline.message[i])}`);
  if (timeline.traffic[i] > 0) lines.push(`${formatBytes(timeline.traffic[i])} of memory traffic`);
  lines.push(timeline.emulated && timeline.emulated[i] ? "held to its modelled time (emulated)" : timeline.result_kind);
  return lines;
}
function showTooltip(event, canvas) {
  const box = canvas.getBoundingClientRect(), tip = byId("tooltip");
  const x = event.clientX - box.left, y = event.clientY - box.top;
  const hit = opAt(x, y, canvas.clientWidth);
  if (!hit) return hideTooltip();
  tip.replaceChildren(
      element("b", {}, words(hit.timeline.kinds[hit.timeline.kind[hit.i]])),
      ...tooltipLines(hit).map((line) => element("div", {}, line)));
  tip.hidden = false;
  const right = x + 16 + tip.offsetWidth > canvas.clientWidth;
  tip.style.left = (right ? x - tip.offsetWidth - 12 : x + 16) + "px";
  tip.style.top = y + 16 + "px";
}

function connect(canvas) {
  let drag = null;
  canvas.addEventListener("wheel", (event) => {
    const out = event.deltaY > 0 && view.to - view.from >= view.length;
    if (out) return;  // nothing left to zoom out of: let the page scroll
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const shift = (event.deltaX / canvas.clientWidth) * (view.to - view.from);
      return show(view.from + shift, view.to + shift);
    }
    zoom(Math.exp(Math.max(-0.5, Math.min(0.5, event.deltaY * 0.002))), toTime(event.offsetX, canvas.clientWidth));
  }, {passive: false});
  canvas.addEventListener("pointerdown", (event) => {
    drag = {x: event.clientX, from: view.from, to: view.to};
    canvas.setPointerCapture(event.pointerId);
    canvas.classList.add("dragging");
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return showTooltip(event, canvas);
    const shift = ((drag.x - event.clientX) / (canvas.clientWidth - gutter)) * (drag.to - drag.from);
    show(drag.from + shift, drag.to + shift);
  });
  for (const end of ["pointerup", "pointercancel"])
    canvas.addEventListener(end, () => {
      drag = null;
      canvas.classList.remove("dragging");
    });
  canvas.addEventListener("pointerleave", hideTooltip);
  canvas.addEventListener("keydown", (event) => {
    const step = (view.to - view.from) * 0.2;
    const actions = {
      ArrowLeft: () => show(view.from - step, view.to - step),
      ArrowRight: () => show(view.from + step, view.to + step),
      "+": () => zoom(0.7),
      "=": () => zoom(0.7),
      "-": () => zoom(1.4),
      Home: () => show(0, view.length)
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    actions[event.key]();
  });
}

function startTimeline() {
  data.timelines.forEach(expand);
  if (data.timelines.length === 0) return void (byId("timeline-section").hidden = true);
  const select = byId("timeline-system");
  data.timelines.forEach((t, i) => select.append(element("option", {value: i}, t.name)));
  if (data.timelines.length > 1) select.append(element("option", {value: "all"}, "all, on one time axis"));
  select.addEventListener("change", () => choose(select.value));
  const first = data.timelines.findIndex((t) => t.result === data.fastest);
  select.value = String(Math.max(first, 0));
  const {kinds, colours} = data.timelines[0];
  const used = new Set(data.timelines.flatMap((t) => t.kind.map((k) => t.kinds[k])));
  byId("timeline-legend")
      .append(
          ...kinds.map((kind, i) => [kind, colours[i]])
              .filter(([kind]) => used.has(kind))
              .map(([kind, colour]) => element("span", {}, element("i", {style: `background: ${colour}`}), words(kind))));
  if (data.timelines.some((t) => t.emulated)) byId("timeline-legend").append("light line: held to its modelled time");
  byId("view-window").addEventListener("click", showWindow);
  byId("view-forward").addEventListener("click", () => showPhase(0));
  byId("view-backward").addEventListener("click", () => showPhase(1));
  byId("view-all").addEventListener("click", () => show(0, view.length));
  byId("zoom-in").addEventListener("click", () => zoom(0.6));
  byId("zoom-out").addEventListener("click", () => zoom(1 / 0.6));
  connect(byId("timeline"));
  drawings.push(drawTimeline);
  choose(select.value);
}
startTimeline();
