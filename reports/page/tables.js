// SPDX-License-Identifier: Apache-2.0
// Words and tables: headline, cards, results, plans, inputs, provenance.

const inputs = report.inputs;

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

const lineNode = (name, {text, mark}) => element(name, {class: mark}, text);

// Rows of cells that came ready to show, each with lines of its own below it.
function readyTable({headings, rows}) {
  const heading = (text) => {
    const [name, unit = ""] = text.trimStart().split("\n", 2);
    return element("th", {scope: "col"}, name, element("small", {}, unit));
  };
  const cell = (text, i) => (i === 0 ? element("th", {scope: "row"}, text) : element("td", {}, text));
  const remark = ({text, mark}) =>
      element("tr", {class: "remark " + mark}, element("td", {colspan: headings.length}, text));
  return element(
      "table", {}, element("thead", {}, element("tr", {}, ...headings.map(heading))),
      element(
          "tbody", {},
          ...rows.flatMap(
              ({cells, mark, remarks}) =>
                  [element("tr", {class: mark === "good" ? "best" : mark === "bad" ? "misfit" : mark}, ...cells.map(cell)),
                   ...remarks.map(remark)])));
}

function sectionNode(section) {
  return element(
      "section", {}, element("h2", {}, section.title[0].toUpperCase() + section.title.slice(1)),
      section.hint ? element("p", {class: "hint"}, section.hint) : null,
      section.rows.length ? element("div", {class: "scroll"}, readyTable(section)) : null,
      ...section.lines.map((line) => lineNode("p", line)), section.code ? element("pre", {}, section.code) : null);
}

// The words come first.
function writeSections() {
  for (const section of data.sections)
    byId(section.title === "explanation" ? "explanation" : "sections").append(sectionNode(section));
}

// The knobs in which the plans differ; all of them for a single plan.
function writeKnobs() {
  const plans = report.best ?
      results.slice(0, 1) :
      results.filter((r) => r.kind !== "measured" || !results.some((x) => x.system === r.system && x !== r));
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
      facts("Groups", inputs.parallelism ?? results[0].parallelism),
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
          definitions("Input files (SHA-256)", Object.entries((inputs ?? report).sha256)));
  byId("download").addEventListener("click", () => {
    const url = URL.createObjectURL(new Blob([JSON.stringify(report, null, 2)], {type: "application/json"}));
    const link = element("a", {href: url, download: `dovetail-${report.kind}.json`});
    link.click();
    URL.revokeObjectURL(url);
  });
}

byId("kind").textContent = data.command;
if (data.headline) byId("headline").textContent = data.headline;
byId("question").append(...data.question.map((line) => element("p", {}, line)));
writeCards();
writeSections();
writeKnobs();
writeStreams();
if (inputs) {
  writeInputs();
  writeCosts();
}
byId("inputs-section").hidden = !inputs;
writeProvenance();
byId("notes").append(...report.notes.map((note) => element("li", {}, note)));
byId("notes-section").hidden = report.notes.length === 0;
if (results.length === 0)
  for (const section of document.querySelectorAll("section.results")) section.hidden = true;
redraw();
