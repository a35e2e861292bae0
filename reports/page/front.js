// Step time against peak memory: the front of each planner that looked at several plans.

const fronts = results.filter((r) => r.kind === results[0].kind && r.planner.front.length > 1);
const frontText = (plan) => [
  `${plan.forward_degree} / ${plan.backward_degree}`, plan.restore === "keep" ? "" : plan.restore,
  plan.buffers === "per_chunk" ? "" : words(plan.buffers), plan.micro_batches > 1 ? `${plan.micro_batches} parts` : ""
].filter((text) => text).join(", ");

function drawFront() {
  const points = fronts.flatMap((r) => r.planner.front);
  const height = 260, left = 64, bottom = height - 40, top = 16;
  const [context, width] = prepare(byId("front"), height);
  const right = width - 150;
  const slowest = Math.max(...points.map((p) => p.step_s)) * 1.05;
  const largest = Math.max(...points.map((p) => p.peak_bytes)) / 2 ** 30 * 1.05;
  const x = (s) => left + (s / slowest) * (right - left);
  const y = (gib) => bottom - (gib / largest) * (bottom - top);
  context.font = font(12);
  context.strokeStyle = color("line");
  context.fillStyle = color("quiet");
  context.textAlign = "right";
  for (let gib = 0, step = tickStep(largest, 5); gib <= largest; gib += step) {
    context.strokeRect(left, y(gib), right - left, 0);
    context.fillText(String(+gib.toPrecision(6)) + (gib === 0 ? " GiB" : ""), left - 8, y(gib));
  }
  context.textAlign = "center";
  for (let time = 0, step = tickStep(slowest * 1e3, 6); time <= slowest * 1e3; time += step)
    context.fillText(String(+time.toPrecision(6)) + (time === 0 ? " ms" : ""), x(time / 1e3), bottom + 16);
  context.textAlign = "left";
  fronts.forEach((r) => r.planner.front.forEach((p, i) => {
    const at = [x(p.step_s), y(p.peak_bytes / 2 ** 30)];
    context.fillStyle = color(i === 0 ? "good" : "accent");
    context.beginPath();
    context.arc(...at, 4.5, 0, 2 * Math.PI);
    context.fill();
    context.fillStyle = color("quiet");
    context.fillText(frontText(p.plan), at[0] + 9, at[1]);
  }));
}

byId("front-section").hidden = fronts.length === 0;
if (fronts.length > 0) drawings.push(drawFront);
