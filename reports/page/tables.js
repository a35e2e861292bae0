// SPDX-License-Identifier: Apache-2.0
// Words and tables: headline, cards, results, plans, inputs, provenance.

const inputs = report.inputs;

function headline() {
  if (results.length === 0) return "No results";
  const measured = results.find((r) => r.kind === "measured" && known(r.measured_over_modelled));
  if (measured && fastest === null)
    return `${measured.system}: ${formatTime(measured.makespan_s)} per step measured, ${
        fixed(measured.measured_over_modelled, 3)}\u00d7 the modelled time`;
  if (results.every((r) => !r.feasible))
    return results.length === 1 ?
        `${results[0].system} does not fit: ${formatBytes(results[0].missing_bytes)} too much` :
        `No system fits the ${formatBytes(inputs.cluster.device.memory_bytes)} of the ${inputs.cluster.device.name}`;
  const best = fastest || results[0];
  const step = `${formatTime(best.makespan_s)} per step`;
  if (tied.length > 1)
    return `A tie of ${tied.map((r) => r.system).join(", ")}: ${step}, ${
        tied.some((r) => r.interval_s) ? "as far as costs are known" : "within 1 %"}`;
  if (fastest === null) return `${best.system}: ${step}`;
  const over = known(best.speedup) && results.indexOf(best) > 0 ?
      `, ${fixed(best.speedup, 2)}\u00d7 as fast as ${results[0].system}` :
      "";
  return `${best.system} is fastest: ${step}${over}`;
}

function card(name, value, detail) {
  return element(
      "div", {class: "card"}, element("div", {class: "label"}, name), element("div", {class: "value"}, value),
      element("div", {class: "detail"}, ...[detail].flat()));
}

function boundCard(r) {
  if (known(r.lower_bound_s))
    return card(
        "Above the lower bound", percent(r.makespan_s / r.lower_bound_s - 1),
        `its work alone needs ${formatTime(r.lower_bound_s)}`);
  return card(
      "Above the plan's bound", percent(r.makespan_s / r.plan_bound_s - 1),
      `its longest stream or chain takes ${formatTime(r.plan_bound_s)}`);
}

function writeCards() {
  const r = fastest || results[0];
  if (!r) return;
  const device = inputs.cluster.device;
  const measured = results.find((x) => known(x.measured_over_modelled));
  byId("cards").append(
      card(fastest ? "Fastest that fits" : "Step time", formatTime(r.makespan_s), [r.system, " ", tag(r.kind)]),
      card(
          "Exposed communication", percent(r.exposed_communication_s / r.makespan_s),
          `of the step: ${formatTime(r.exposed_communication_s)}`),
      boundCard(r),
      card("Peak memory", formatBytes(r.peak_bytes), `of ${formatBytes(device.memory_bytes)}, ${device.name}`));
  if (measured)
    byId("cards").append(card(
        "Measured / modelled", fixed(measured.measured_over_modelled, 3),
        `${measured.system}, on ${measured.run ? measured.run.device : measured.backend}`));
}

// columns: [heading, small print under it, cell of a row]; a cell is text or a node. The first one heads its row.
function fill(table, columns, rows, rowClass = () => "") {
  const heading = ([name, unit]) => element("th", {scope: "col"}, name, element("small", {}, unit));
  const cells = (row) =>
      columns.map(([, , cell], i) => i === 0 ? element("th", {scope: "row"}, cell(row)) : element("td", {}, cell(row)));
  table.append(element("thead", {}, element("tr", {}, ...columns.map(heading))));
  table.append(element("tbody", {}, ...rows.map((row) => element("tr", {class: rowClass(row)}, ...cells(row)))));
}

function backwardDegree(plan) {
  const all = plan.backward_degrees;
  if (all.length === 0) return plan.backward_degree;
  const low = Math.min(...all), high = Math.max(...all);
  return low === high ? low : `${low}\u2013${high}`;
}

function pipeline(r) {
  return r.plan.micro_batches === 1 ? "1" : `${r.plan.micro_batches} ${r.plan.pipeline_schedule}`;
}

function writeResults() {
  const piped = inputs.parallelism.pp > 1 || results.some((r) => r.plan.micro_batches > 1);
  fill(
      byId("results"),
      [
        ["System", "", (r) => r.system],
        ["Degree", "fwd / bwd", (r) => `${r.plan.forward_degree} / ${backwardDegree(r.plan)}`],
        ...(piped ? [["Micro-batches", "schedule", pipeline]] : []),
        ["Step", "ms", (r) => ms(r.iteration_s)],
        ...(results.some((r) => r.interval_s) ?
                [["90 % range", "ms", (r) => (r.interval_s ? r.interval_s.map(ms).join(" \u2013 ") : missing)]] :
                []),
        ["Forward", "ms", (r) => ms(r.forward_s)],
        ["Backward", "ms", (r) => ms(r.backward_s)],
        ["Speed-up", "\u00d7", (r) => fixed(speedup(r), 2)],
        ["Exposed", "comm., ms", (r) => ms(r.exposed_communication_s)],
        ["Lower bound", "ms", (r) => ms(r.lower_bound_s)],
        ["Plan's bound", "ms", (r) => ms(r.plan_bound_s)],
        [
          "Peak", "memory, GiB",
          (r) => fixed(r.peak_bytes / 2 ** 30, 2) +
              (r.feasible ? "" : ` (${fixed(r.missing_bytes / 2 ** 30, 2)} too much)`)
        ],
        ["Result", "backend", (r) => element("span", {}, tag(r.kind), " " + r.backend)],
      ],
      results,
      (r) =>
          (r === fastest || tied.includes(r) ? "best" :
               r.feasible                     ? "" :
                                                "misfit"));
  const refused = report.refused || [];
  byId("results").after(
      ...refused.map((r) => element("p", {class: "detail"}, `${r.system} is left out: ${r.reason}`)));
}

function writeRuns() {
  const rows = results.filter((r) => r.run);
  if (rows.length === 0) return;
  const modelled = (r) => results.find((x) => x.system === r.system && x.kind !== "measured");
  const table = element("table");
  fill(
      table,
      [
        ["System", "", (r) => r.system],
        [
          "Modelled", "ms",
          (r) => (modelled(r) ? element("span", {}, ms(modelled(r).makespan_s) + " ", tag(modelled(r).kind)) : missing)
        ],
        ["Measured", "ms", (r) => element("span", {}, ms(r.makespan_s) + " ", tag("measured"))],
        ["95 % interval", "ms", (r) => r.ci95_s.map(ms).join(" \u2013 ")],
        ["Measured / modelled", "", (r) => fixed(r.measured_over_modelled, 3)],
        ["Samples", "", (r) => r.samples_s.length],
        ["Dilation", "", (r) => fixed(r.run.dilation, 1)],
        ["Emulated", "share", (r) => percent(r.run.emulated_share)],
        ["Overruns", "ops", (r) => r.run.overruns],
        ["Ran on", "", (r) => `${r.run.device}, ${r.run.transport}, ${r.run.ranks} ranks`],
      ],
      rows);
  byId("runs").append(
      element("h3", {}, "Measured beside modelled"), element("div", {class: "scroll"}, table),
      ...rows.map((r) => element("p", {class: numericsClass(r.run.numerics)}, `${r.system}: ${numericsText(r.run.numerics)}`)));
}

// `ok` is null where nothing was compared.
function numericsClass({ok}) {
  return ok === null ? "" : ok ? "good" : "bad";
}

function numericsText({ok, output_error, gradient_error}) {
  if (ok === null) return "outputs and gradients were not compared with the reference";
  const error = Math.max(output_error, gradient_error).toExponential(1);
  return `outputs and gradients equal the reference: ${ok ? "yes" : "NO"} (error ${error})`;
}

// The sections whose tables came ready to show.
function writeSections() {
  for (const {title, hint, headings, rows} of data.sections) {
    const table = element("table");
    fill(table, headings.map((heading, i) => [...(heading + "\n").split("\n", 2), (row) => row[i]]), rows);
    byId("sections").append(element(
        "section", {class: "results"}, element("h2", {}, title[0].toUpperCase() + title.slice(1)),
        element("p", {class: "hint"}, hint), element("div", {class: "scroll"}, table)));
  }
}

function writeWhy() {
  const list = element("dl");
  for (const r of results) {
    if (r.kind === "measured" || !r.planner.reason) continue;
    const p = r.planner;
    const more = [
      p.choices && `may choose ${p.choices}`,
      p.runner_up && `runner-up: ${p.runner_up}`,
      known(p.regret) &&
          (p.regret < 1e-4 ? "the best of all plans" : `${percent(p.regret, 2)} slower than the best of all plans`),
      p.evaluations > 1 && `${p.evaluations} plans evaluated in ${formatTime(p.seconds)}`
    ].filter(Boolean);
    list.append(
        element("dt", {}, `${r.system} `, element("span", {class: "hint"}, `chosen by ${words(p.name)}`)),
        element("dd", {}, p.reason + (more.length ? "; " + more.join("; ") : "")));
  }
  byId("why").append(list);
}

// The knobs in which the plans differ; all of them for a single plan.
function writeKnobs() {
  const plans = results.filter((r) => r.kind !== "measured" || !results.some((x) => x.system === r.system && x !== r));
  const text = (value) => (Array.isArray(value) ? (value.length ? `${value.length} given` : "none") : words(value));
  const knobs =
      Object.keys(plans.length ? plans[0].plan : {})
          .filter((knob) => plans.length === 1 || new Set(plans.map((r) => JSON.stringify(r.plan[knob]))).size > 1);
  fill(
      byId("knobs"),
      [["Setting", "", (knob) => words(knob)], ...plans.map((r) => [r.system, "", (knob) => text(r.plan[knob])])],
      knobs);
}

// A row per result and class of ranks, a column per kind of stream and of link.
function writeStreams() {
  const kinds = [...new Set(results.flatMap((r) => r.streams.map((s) => s.name)))];
  const classes = Math.max(0, ...results.flatMap((r) => r.streams.map((s) => s.rank_class)));
  const rows = results.flatMap((r) => Array.from({length: classes + 1}, (_, rank_class) => ({r, rank_class})));
  const use = (list, name) => ({r, rank_class}) => {
    const found = r[list].filter((x) => x.name === name && x.rank_class === rank_class);
    if (found.length === 0) return missing;
    const busy = found.reduce((sum, x) => sum + x.busy_s, 0);
    const small = list === "links" ? formatBytes(found[0].bytes) + " a rank, " : "";
    return element("span", {}, ms(busy), element("small", {}, `${small}${percent(busy / r.makespan_s)} of the step`));
  };
  fill(
      byId("streams"),
      [
        [
          "System", "",
          ({r, rank_class}) => element(
              "span", {}, r.system, same ? "" : " ", same ? "" : tag(r.kind),
              classes > 0 ? `, class ${rank_class}` : "")
        ],
        ...kinds.map((kind) => [`Stream ${kind}`, "busy ms", use("streams", kind)]),
        ["Between nodes", "link busy ms", use("links", "inter")],
        ["Inside the node", "link busy ms", use("links", "intra")],
      ],
      rows);
  writeNetwork();
}

// The traffic that a described network carried; its table stays empty without one.
function writeNetwork() {
  const rows = results.flatMap((r) => (r.network ?? []).map((use) => ({r, use})));
  if (rows.length === 0) return;
  fill(
      byId("network"),
      [
        ["System", "", ({r}) => r.system],
        ["Links", "", ({use}) => use.link],
        ["Number", "", ({use}) => String(use.links)],
        ["Each", "GB/s", ({use}) => (use.bandwidth_bytes_per_s / 1e9).toPrecision(4)],
        ["Carried", "by all", ({use}) => formatBytes(use.bytes)],
        ["Utilisation", "of the step", ({use}) => percent(use.utilisation)],
      ],
      rows);
}

function definitions(title, pairs) {
  const list = element("dl");
  for (const [name, text] of pairs) list.append(element("dt", {}, name), element("dd", {}, text));
  return element("div", {}, element("h4", {}, title), list);
}

// An object as a list of facts; nested objects become "outer inner".
function facts(title, object) {
  const pairs = [];
  const add = (prefix, value, key) => {
    if (value === "") return;
    if (value !== null && typeof value === "object" && !Array.isArray(value)) {
      const unit = /_(bytes|s|flops_per_s|bytes_per_s)$/.exec(key);  // a map of quantities has its unit in its own key
      for (const [inner, v] of Object.entries(value))
        add(`${prefix}${withUnit(key, null)[0]} `, v, unit ? inner + unit[0] : inner);
      return;
    }
    const [name, text] = withUnit(key, value);
    pairs.push([prefix + name, text]);
  };
  for (const [key, value] of Object.entries(object)) add("", value, key);
  return definitions(title, pairs);
}

function writeInputs() {
  byId("inputs").append(
      facts("Cluster", inputs.cluster), facts("Model", inputs.model), facts("Workload", inputs.workload),
      facts("Groups", inputs.parallelism),
      facts("Calibration", {name: inputs.calibration.name, source: inputs.calibration.source}));
}

function rateOf(cost) {
  if ("a_speed" in cost) return `keep ${percent(cost.a_speed)} and ${percent(cost.b_speed)} of their speed`;
  if (cost.beta_s_per_flop > 0) return formatCount(1 / cost.beta_s_per_flop, "flop/s");
  return cost.beta_s_per_byte > 0 ? formatRate(1 / cost.beta_s_per_byte) : missing;
}

function writeCosts() {
  const c = inputs.calibration;
  const where = (cost) =>
      (cost.link === "inter" ? "between nodes" : "inside the node") + (cost.gpus > 0 ? `, ${cost.gpus} GPUs` : "");
  const rows = [
    ...c.collectives.map((cost) => [`${words(cost.collective)}, ${where(cost)}`, cost]),
    ...c.gemms.map((cost) => [`GEMM, ${cost.dtype}`, cost]), ["memory-bound kernel", c.memory],
    ...c.interference.map((cost) => [`${cost.a} beside ${cost.b}`, cost])
  ];
  fill(
      byId("costs"),
      [
        ["Op", "", ([op]) => op],
        ["Start-up", "\u03b1", ([, cost]) => formatTime(cost.alpha_s)],
        ["Rate", "1/\u03b2", ([, cost]) => rateOf(cost)],
        ["Known from", "", ([, cost]) => tag(cost.provenance.origin)],
        ["Source", "", ([, cost]) => cost.provenance.source],
      ],
      rows);
  for (const tr of byId("costs").rows) tr.lastChild.classList.add("words");
}

function writeProvenance() {
  const p = report.provenance;
  const {libraries, command_line, ...rest} = p;
  const program = facts("Program", {...rest, command_line: command_line.join(" ")});
  byId("provenance")
      .append(
          program, definitions("Libraries", Object.entries(libraries)),
          definitions("Input files (SHA-256)", Object.entries(inputs.sha256)));
  byId("download").addEventListener("click", () => {
    const url = URL.createObjectURL(new Blob([JSON.stringify(report, null, 2)], {type: "application/json"}));
    const link = element("a", {href: url, download: `dovetail-${report.kind}.json`});
    link.click();
    URL.revokeObjectURL(url);
  });
}

byId("kind").textContent = report.kind;
byId("headline").textContent = headline();
byId("question").append(...data.question.map((line) => element("p", {}, line)));
writeCards();
writeResults();
writeRuns();
writeSections();
writeWhy();
writeKnobs();
writeStreams();
writeInputs();
writeCosts();
writeProvenance();
byId("explanation").append(...(report.explanation?.text ?? []).map((paragraph) => element("p", {}, paragraph)));
byId("explanation-section").hidden = !report.explanation;
byId("notes").append(...report.notes.map((note) => element("li", {}, note)));
byId("notes-section").hidden = report.notes.length === 0;
if (results.length === 0)
  for (const section of document.querySelectorAll("section.results")) section.hidden = true;
redraw();
