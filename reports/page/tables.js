// Words and tables: headline, cards, results, plans, inputs, provenance.

const inputs = report.inputs;
const best = data.fastest === null ? null : results[data.fastest];

function headline() {
  if (results.length === 0) return "No results";
  if (best === null) return "No system fits the memory of a " + inputs.cluster.device.name;
  const step = `${formatTime(best.makespan_s)} per step`;
  if (results.length === 1) return `${best.system}: ${step}`;
  const over = known(best.speedup) && results.indexOf(best) > 0 ? `, ${fixed(best.speedup, 2)}\u00d7 as fast as ${results[0].system}` : "";
  return `${best.system} is fastest: ${step}${over}`;
}

function card(name, value, detail) {
  return element("div", {class: "card"}, element("div", {class: "label"}, name), element("div", {class: "value"}, value),
                 element("div", {class: "detail"}, ...[detail].flat()));
}

function writeCards() {
  const r = best || results[0];
  if (!r) return;
  const device = inputs.cluster.device;
  const measured = results.find((x) => known(x.measured_over_modelled));
  byId("cards").append(
    card(best && results.length > 1 ? "Fastest that fits" : "Step time", formatTime(r.makespan_s), [r.system, " ", tag(r.kind)]),
    card("Exposed communication", percent(r.exposed_communication_s / r.makespan_s), `of the step: ${formatTime(r.exposed_communication_s)}`),
    card("Above the lower bound", percent(r.makespan_s / r.lower_bound_s - 1), `no plan can beat ${formatTime(r.lower_bound_s)}`),
    card("Peak memory", formatBytes(r.peak_bytes), `of ${formatBytes(device.memory_bytes)} on a ${device.name}`));
  if (measured)
    byId("cards").append(card("Measured / modelled", fixed(measured.measured_over_modelled, 3), `${measured.system}, on ${measured.run ? measured.run.device : measured.backend}`));
}

// columns: [heading, small print under it, cell of a row]; a cell is text or a node.
function fill(table, columns, rows, rowClass = () => "") {
  table.append(element("thead", {}, element("tr", {}, ...columns.map(([name, unit]) =>
    element("th", {scope: "col"}, name, element("small", {}, unit || ""))))));
  table.append(element("tbody", {}, ...rows.map((row) => element("tr", {class: rowClass(row)}, ...columns.map(([, , cell], i) => {
    const content = cell(row);
    return element(i === 0 ? "th" : "td", i === 0 ? {scope: "row"} : {}, content);
  })))));
}

function backwardDegree(plan) {
  const all = plan.backward_degrees;
  if (all.length === 0) return plan.backward_degree;
  const low = Math.min(...all), high = Math.max(...all);
  return low === high ? low : `${low}\u2013${high}`;
}

function writeResults() {
  fill(byId("results"), [
    ["System", "", (r) => r.system],
    ["Degree", "fwd / bwd", (r) => `${r.plan.forward_degree} / ${backwardDegree(r.plan)}`],
    ["Step", "ms", (r) => ms(r.iteration_s)],
    ["Forward", "ms", (r) => ms(r.forward_s)],
    ["Backward", "ms", (r) => ms(r.backward_s)],
    ["Speed-up", "\u00d7", (r) => fixed(r.speedup, 2)],
    ["Exposed comm.", "ms", (r) => ms(r.exposed_communication_s)],
    ["Lower bound", "ms", (r) => ms(r.lower_bound_s)],
    ["Bound of plan", "ms", (r) => ms(r.plan_bound_s)],
    ["Peak memory", "GiB", (r) => fixed(r.peak_bytes / 2 ** 30, 2) + (r.feasible ? "" : ` (${fixed(r.missing_bytes / 2 ** 30, 2)} too much)`)],
    ["Result", "backend", (r) => element("span", {}, tag(r.kind), " " + r.backend)],
  ], results, (r) => (!r.feasible ? "misfit" : r === best && results.length > 1 ? "best" : ""));
}

function writeRuns() {
  const rows = results.filter((r) => r.run);
  if (rows.length === 0) return;
  const modelled = (r) => results.find((x) => x.system === r.system && x.kind !== "measured");
  const table = element("table");
  fill(table, [
    ["System", "", (r) => r.system],
    ["Modelled", "ms", (r) => (modelled(r) ? element("span", {}, ms(modelled(r).makespan_s) + " ", tag(modelled(r).kind)) : missing)],
    ["Measured", "ms", (r) => element("span", {}, ms(r.makespan_s) + " ", tag("measured"))],
    ["95 % interval", "ms", (r) => r.ci95_s.map(ms).join(" \u2013 ")],
    ["Measured / modelled", "", (r) => fixed(r.measured_over_modelled, 3)],
    ["Samples", "", (r) => r.samples_s.length],
    ["Dilation", "", (r) => fixed(r.run.dilation, 1)],
    ["Emulated", "share", (r) => percent(r.run.emulated_share)],
    ["Overruns", "ops", (r) => r.run.overruns],
    ["Ran on", "", (r) => `${r.run.device}, ${r.run.transport}, ${r.run.ranks} ranks`],
  ], rows);
  byId("runs").append(element("h3", {}, "Measured beside modelled"), element("div", {class: "scroll"}, table),
    ...rows.map((r) => element("p", {class: r.run.numerics.ok ? "good" : "bad"},
      `${r.system}: outputs and gradients equal the reference: ${r.run.numerics.ok ? "yes" : "NO"} (error ${Math.max(r.run.numerics.output_error, r.run.numerics.gradient_error).toExponential(1)})`)));
}

function writeWhy() {
  const list = element("dl");
  for (const r of results) {
    if (r.kind === "measured" || !r.planner.reason) continue;
    const p = r.planner;
    const more = [p.runner_up && `runner-up: ${p.runner_up}`,
                  known(p.regret) && `${(p.regret * 100).toFixed(2)} % slower than the best of all plans`,
                  p.evaluations > 1 && `${p.evaluations} plans evaluated in ${formatTime(p.seconds)}`].filter(Boolean);
    list.append(element("dt", {}, `${r.system} `, element("span", {class: "hint"}, `chosen by ${words(p.name)}`)),
                element("dd", {}, p.reason + (more.length ? "; " + more.join("; ") : "")));
  }
  byId("why").append(list);
  const plans = results.filter((r) => r.kind !== "measured" || !results.some((x) => x.system === r.system && x !== r));
  const text = (value) => (Array.isArray(value) ? (value.length ? `${value.length} given` : "none") : words(value));
  const knobs = Object.keys(plans.length ? plans[0].plan : {}).filter((knob) =>
    plans.length === 1 || new Set(plans.map((r) => JSON.stringify(r.plan[knob]))).size > 1);
  fill(byId("knobs"), [["Setting", "", (knob) => words(knob)], ...plans.map((r) => [r.system, "", (knob) => text(r.plan[knob])])], knobs);
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
  fill(byId("streams"), [
    ["System", "", ({r, rank_class}) => element("span", {}, r.system, same ? "" : " ", same ? "" : tag(r.kind), classes > 0 ? `, class ${rank_class}` : "")],
    ...kinds.map((kind) => [`Stream ${kind}`, "busy ms", use("streams", kind)]),
    ["Between nodes", "link busy ms", use("links", "inter")],
    ["Inside the node", "link busy ms", use("links", "intra")],
  ], rows);
}

// An object as a list of facts; nested objects become "outer inner".
function facts(title, object, skip = []) {
  const list = element("dl");
  const add = (prefix, value, key) => {
    if (skip.includes(key) || value === "") return;
    if (value !== null && typeof value === "object" && !Array.isArray(value)) {
      const unit = /_(bytes|s|flops_per_s|bytes_per_s)$/.exec(key);  // a map of quantities has its unit in its own key
      for (const [inner, v] of Object.entries(value)) add(`${prefix}${withUnit(key, null)[0]} `, v, unit ? inner + unit[0] : inner);
      return;
    }
    const [name, text] = withUnit(key, value);
    list.append(element("dt", {}, prefix + name), element("dd", {}, text));
  };
  for (const [key, value] of Object.entries(object)) add("", value, key);
  return element("div", {}, element("h4", {}, title), list);
}

function writeInputs() {
  byId("inputs").append(
    facts("Cluster", inputs.cluster), facts("Model", inputs.model),
    facts("Workload", inputs.workload), facts("Groups", inputs.parallelism),
    facts("Calibration", {name: inputs.calibration.name, source: inputs.calibration.source}));
  const c = inputs.calibration;
  const row = (what, cost) => ({what, cost});
  const rows = [...c.collectives.map((x) => row(`${words(x.collective)}, ${x.link === "inter" ? "between nodes" : "inside the node"}${x.gpus ? `, ${x.gpus} GPUs` : ""}`, x)),
                ...c.gemms.map((x) => row(`GEMM, ${x.dtype}`, x)), row("memory-bound kernel", c.memory),
                ...c.interference.map((x) => row(`${x.a} beside ${x.b}`, x))];
  fill(byId("costs"), [
    ["Op", "", (x) => x.what],
    ["Start-up", "\u03b1", (x) => formatTime(x.cost.alpha_s)],
    ["Rate", "1/\u03b2", (x) => ("a_speed" in x.cost ? `keeps ${percent(x.cost.a_speed)} / ${percent(x.cost.b_speed)} of its speed`
      : known(x.cost.beta_s_per_flop) ? (x.cost.beta_s_per_flop > 0 ? formatCount(1 / x.cost.beta_s_per_flop, "flop/s") : missing)
      : x.cost.beta_s_per_byte > 0 ? formatBytes(1 / x.cost.beta_s_per_byte) + "/s" : missing)],
    ["Known from", "", (x) => tag(x.cost.provenance.origin)],
    ["Source", "", (x) => x.cost.provenance.source],
  ], rows);
  for (const tr of byId("costs").rows) tr.lastChild.className = "words";
}

function writeProvenance() {
  const p = report.provenance;
  const {libraries, command_line, ...rest} = p;
  byId("provenance").append(
    facts("Program", {...rest, command_line: command_line.join(" ")}),
    facts("Libraries", libraries),
    facts("Input files (SHA-256)", Object.fromEntries(Object.entries(inputs.sha256))));
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
writeWhy();
writeStreams();
writeInputs();
writeProvenance();
byId("notes").append(...report.notes.map((note) => element("li", {}, note)));
byId("notes-section").hidden = report.notes.length === 0;
redraw();
