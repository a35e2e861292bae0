// SPDX-License-Identifier: Apache-2.0
// The losses of a training, over the dashed ones of the same training in sequence.

const training = (results.find((r) => r.run && r.run.training) || {run: {}}).run.training;

// Points of a curve; a loss that was no number leaves a gap.
function traceLosses(context, losses, x, y) {
  let drawing = false;
  context.beginPath();
  losses.forEach((loss, i) => {
    if (known(loss)) drawing ? context.lineTo(x(i), y(loss)) : context.moveTo(x(i), y(loss));
    drawing = known(loss);
  });
  context.stroke();
}

function drawLosses() {
  const height = 260, left = 56, bottom = height - 36, top = 12;
  const [context, width] = prepare(byId("losses"), height);
  const right = width - 32, steps = training.losses.length;
  const largest = Math.max(...[...training.losses, ...(training.reference_losses || [])].filter(known), 0) || 1;
  const x = (i) => left + (steps > 1 ? i / (steps - 1) : 0.5) * (right - left);
  const y = (loss) => bottom - loss / (1.05 * largest) * (bottom - top);
  context.font = font(12);
  context.strokeStyle = color("line");
  context.fillStyle = color("quiet");
  context.textAlign = "right";
  const tick = tickStep(largest, 5);
  for (let loss = 0; loss <= 1.05 * largest; loss += tick) {
    context.strokeRect(left, Math.round(y(loss)) + 0.5, right - left, 0);
    context.fillText(String(+loss.toPrecision(6)), left - 8, y(loss));
  }
  context.textAlign = "center";
  const apart = Math.max(1, tickStep(steps, 8));
  for (let step = apart; step <= steps; step += apart) context.fillText(`step ${step}`, x(step - 1), bottom + 16);
  context.lineWidth = 2;
  context.strokeStyle = color("accent");
  traceLosses(context, training.losses, x, y);
  context.strokeStyle = color("bound");
  context.setLineDash([3, 5]);
  traceLosses(context, training.reference_losses || [], x, y);
}

function writeTraining() {
  const key = (style, text) => element("span", {}, element("i", style), text);
  byId("losses-legend").append(key({style: "background: var(--accent)"}, "executed"));
  if (training.reference_losses)
    byId("losses-legend").append(key({class: "dashed"}, "in sequence, in double precision"));
  const error = known(training.loss_error) ? `; largest difference ${training.loss_error.toExponential(1)}` : "";
  byId("losses-text").textContent = `From ${fixed(training.losses[0], 4)} at step 1 to ` +
      `${fixed(training.losses[training.losses.length - 1], 4)} at step ${training.losses.length}${error}.`;
}

byId("losses-section").hidden = !training;
if (training) {
  writeTraining();
  drawings.push(drawLosses);
}
