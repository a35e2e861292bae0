// SPDX-License-Identifier: Apache-2.0
// Reads the embedded data; helpers for text, numbers and canvases that the other scripts use.
const data = JSON.parse(document.getElementById("data").textContent);
const report = data.report;
// Plans on layouts are shown by their layouts.
const results = (report.results ?? report.best ?? []).map((r, i) => ({...r, system: data.names[i]}));

// Results that stand beside each other: a run's measured result is not faster than its prediction.
const compared = results.filter((r) => r.kind === results[0].kind);
const tied = compared.length < 2 ? [] : data.tied.map((i) => results[i]);  // with the fastest
const fastest = data.fastest === null || compared.length < 2 ? null : results[data.fastest];

const byId = (id) => document.getElementById(id);

// element("td", {class: "words"}, "text", child...): text always goes in as text, never as markup.
function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
const tag = (kind) => element("span", {class: "tag " + kind}, kind);
const speedup = (r) => (results.filter((x) => x.kind === r.kind).length > 1 ? r.speedup : null);
const words = (name) => String(name).replaceAll("_", " ");

// --- numbers ---
const missing = "\u2013";
const known = (value) => typeof value === "number" && Number.isFinite(value);

function threeDigits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}
function scaled(value, step, units) {
  if (!known(value)) return missing;
  let unit = 0;
  for (; Math.abs(value) >= step && unit + 1 < units.length; ++unit) value /= step;
  return (unit === 0 && Number.isInteger(value) ? String(value) : threeDigits(value)) + units[unit];
}
const formatBytes = (value) => scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB", " PiB"]);
const formatCount = (value, unit) =>
    scaled(value, 1000, ["", " k", " M", " G", " T", " P"].map((p) => (p || " ") + unit));
const formatRate = (value) => formatCount(value, "B/s");  // decimal, as vendors and papers give it
function formatTime(s) {
  if (!known(s)) return missing;
  if (s === 0) return "0 s";
  const size = Math.abs(s);
  return size >= 1 ? threeDigits(s) + " s" :
      size >= 1e-3 ? threeDigits(s * 1e3) + " ms" :
      size >= 1e-6 ? threeDigits(s * 1e6) + " \u00b5s" :
                     threeDigits(s * 1e9) + " ns";
}
const fixed = (value, decimals) => (known(value) ? value.toFixed(decimals) : missing);
const percent = (value, decimals = 0) => (known(value) ? (value * 100).toFixed(decimals) + " %" : missing);

// About four digits for the longest step, so that a column compares well.
const longest = Math.max(...results.map((r) => r.makespan_s || 0), 0) * 1e3;
const fourDigits = longest >= 1000 ? 1 : longest >= 10 ? 2 : longest >= 1 ? 3 : 4;
// No step whose costs are drawn is known to four digits.
const msDecimals = fourDigits - (results.some((r) => r.interval_s) ? 1 : 0);
const ms = (s) => (known(s) ? fixed(s * 1e3, msDecimals) : missing);

// A number under a key that ends in its unit: "alpha_s" is a time, "memory_bytes" a size.
function withUnit(key, value) {
  const units = [
    [/_bytes_per_s$/, formatRate], [/_flops_per_s$/, (v) => formatCount(v, "flop/s")],
    [/_s_per_byte$/, (v) => formatRate(1 / v)], [/_s_per_flop$/, (v) => formatCount(1 / v, "flop/s")],
    [/_bytes$/, formatBytes], [/_s$/, formatTime]
  ];
  const unit = typeof value === "string" ? undefined : units.find(([pattern]) => pattern.test(key));
  if (unit) return [words(key.replace(unit[0], "")), known(value) ? unit[1](value) : missing];
  return [words(key), value === null ? missing : typeof value === "string" ? value : JSON.stringify(value)];
}

// --- canvases ---
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const font = (size, weight = 400) => `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;

// Sizes a canvas to its box in real pixels and gives a cleared context in CSS pixels.
function prepare(canvas, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.style.height = height + "px";
  const width = canvas.clientWidth;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.textBaseline = "middle";
  return [context, width];
}

// A round step that puts about `count` ticks on `length`.
function tickStep(length, count) {
  const raw = length / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].find((m) => m * power >= raw) * power;
}

// Everything that draws; runs again when the page changes its size or its colours.
const drawings = [];
function redraw() {
  for (const draw of drawings) draw();
}
window.addEventListener("resize", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
