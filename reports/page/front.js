// SPDX-License-Identifier: Apache-2.0
// Step time against peak memory: the front of each planner that looked at several plans.

const fronts = (report.front ? [{planner: report}] : results.filter((r) => r.kind === results[0].kind))
                   .filter((r) => r.planner.front.length > 1);
const layoutText = ({pp, mp, ep}, micro) => `pp ${pp}, mp ${mp}, ep ${ep}, micro-batch ${micro}`;
const frontText = ({plan, parallelism, micro_batch}) => parallelism ? layoutText(parallelism, micro_batch) : [
  `${plan.forward_degree} / ${plan.backward_degree}`, plan.restore === "keep" ? "" : plan.restore,
  plan.buffers === "per_chunk" ? "" : words(plan.buffers), plan.micro_batches > 1 ? `${plan.micro_batches} parts` : ""
].filter((text) => text).join(", ");

// From a little below the least value to a little above the largest: fronts are narrow.
function frontAxis(values, from, to) {
  const least = Math.min(...values), largest = Math.max(...values), margin = (largest - least || largest) * 0.1;
  const low = Math.max(0, least - margin), high = largest + margin;
  return {low, high, step: tickStep(high - low, 5), at: (v) => from + (v - low) / (high - low) * (to - from)};
}

function drawFront() {
  const height = 280, left = 64, bottom = height - 40, top = 16;
  const [context, width] = prepare(byId("front"), height);
  const right = width - 150;
  const plans = fronts.flatMap((r) => r.planner.front);
  const times = frontAxis(plans.map((p) => p.step_s * 1e3), left, right);
  const sizes = frontAxis(plans.map((p) => p.peak_bytes / 2 ** 30), bottom, top);
  const points = fronts.flatMap((r) => r.planner.front.map((p, i) => ({
    x: times.at(p.step_s * 1e3), y: sizes.at(p.peak_bytes / 2 ** 30), chosen: i === 0, text: frontText(p)})));
  context.font = font(12);
  context.strokeStyle = color("line");
  context.fillStyle = color("quiet");
  context.textAlign = "right";
  for (let gib = Math.ceil(sizes.low / sizes.step) * sizes.step; gib <= sizes.high; gib += sizes.step) {
    context.strokeRect(left, sizes.at(gib), right - left, 0);
    context.fillText(`${+gib.toPrecision(6)} GiB`, left - 8, sizes.at(gib));
  }
  context.textAlign = "center";
  for (let time = Math.ceil(times.low / times.step) * times.step; time <= times.high; time += times.step)
    context.fillText(`${+time.toPrecision(6)} ms`, times.at(time), bottom + 16);
  context.textAlign = "left";
  const taken = points.map(({x, y}) => ({left: x - 6, right: x + 6, y}));
  for (const {x, y, chosen, text} of points) {
    context.fillStyle = color(chosen ? "good" : "accent");
    context.beginPath();
    context.arc(x, y, 4.5, 0, 2 * Math.PI);
    context.fill();
    const label = {left: x + 9, right: x + 12 + context.measureText(text).width, y};
    const hides = (l) => l.left < label.right && label.left < l.right && Math.abs(l.y - label.y) < 14;
    while (taken.some(hides)) label.y += 14;
    taken.push(label);
    context.fillStyle = color("quiet");
    context.fillText(text, label.left, label.y);
  }
}

byId("front-section").hidden = fronts.length === 0;
if (fronts.length > 0) drawings.push(drawFront);
