// SPDX-License-Identifier: Apache-2.0
// dovetail reproduce: published tables of the papers and measured steps, recomputed and put beside the numbers of
// others.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <list>
#include <memory>

#include "bench/cli/commands.hpp"
#include "bench/cli/interrupt.hpp"
#include "bench/cli/option_values.hpp"
#include "bench/cli/outputs.hpp"
#include "bench/pipeline/provenance.hpp"
#include "bench/reproduce/measured_steps.hpp"
#include "bench/reproduce/tables.hpp"
#include "models/base/errors.hpp"
#include "models/base/streams.hpp"
#include "reports/data/reproduction_report.hpp"

namespace dovetail::bench {
namespace {

constexpr auto reproduce_examples = R"(Examples:
  List the tables, then recompute two of them (all published ones take half a minute):
    dovetail reproduce --list
    dovetail reproduce ampipe-appendix-c fsmoe-table2

  As data and as a page:
    dovetail reproduce fsmoe-table6 -o reproduction.json --html reproduction.html

  Predict whole training steps that others have measured; "steps" stands for all such files that are shipped:
    dovetail reproduce --steps b200-8gpu

Each value is shown with the published number, ours, the target that was set for it, and the number of constants that were
fitted to that very table (0: ours is a prediction). A miss is shown with its reason, if that is known. With --strict a
miss gives exit code 5.

Each measured step is shown with the prediction that dovetail simulate makes of it, its 90 % range, and its memory. A file of
your own steps has the format of data/steps, which data/README.md explains.)";

constexpr auto all_steps = "steps";  // the id that stands for all files of data/steps

struct ReproduceOptions : Options {
  std::vector<std::string> ids, steps;
  bool list = false, strict = false;
};

std::string list_of_tables() {
  FilesRead files;
  std::string list;
  for (const std::string& id : reproduced_ids()) list += fmt::format("{:<20}{}\n", id, describe_table(id, files));
  return list + fmt::format("{:<20}Measured training steps beside predictions of them ({})\n", all_steps,
                            fmt::join(known_names("steps"), ", "));
}

// The ids of tables and the names of files of steps that were asked for. Without either: all tables.
struct AskedTables {
  std::vector<std::string> tables, steps;
};
AskedTables asked_for(const ReproduceOptions& options) {
  AskedTables asked;
  std::vector<std::string> known = reproduced_ids();
  known.emplace_back(all_steps);
  for (const std::string& id : options.ids)
    if (choose("id", id, known) + 1 < known.size())
      asked.tables.push_back(id);
    else if (asked.steps.empty())
      asked.steps = known_names("steps");
  for (const std::string& name : options.steps)
    if (std::ranges::find(asked.steps, name) == asked.steps.end()) asked.steps.push_back(name);
  if (asked.tables.empty() && asked.steps.empty()) asked.tables = reproduced_ids();
  if (!asked.tables.empty() && !asked.steps.empty() && format_of(options) == Format::Csv)
    throw InputError("csv has the columns of published tables or of measured steps; expected one of them alone");
  return asked;
}

int work_of(const AskedTables& asked, const std::list<StepsFile>& steps) {
  std::size_t work = asked.tables.size();
  for (const StepsFile& file : steps) work += file.steps();
  return static_cast<int>(work);
}

Reproduction recompute(const ReproduceOptions& options, const AskedTables& asked, std::list<StepsFile>& steps,
                       FilesRead& files) {
  Reproduction reproduction;
  ProgressLine progress("reproduce", work_of(asked, steps), options.talk());
  for (const std::string& id : asked.tables) {
    progress.begin(id);
    reproduction.tables.push_back(reproduce_table(id, files));
    progress.done();
  }
  for (StepsFile& file : steps) {
    for (std::size_t step = 0; step < file.steps(); ++step) {
      progress.begin(file.table().steps[step].name);
      file.predict_step(step, options, files);
      progress.done();
    }
    reproduction.steps.push_back(file.table());
  }
  return reproduction;
}

Exit reproduce(const ReproduceOptions& options, const std::vector<std::string>& command_line) {
  check_options(options);
  stop_after(options.timeout);
  if (options.list) {
    show(list_of_tables());
    return Exit::Ok;
  }
  const AskedTables asked = asked_for(options);
  FilesRead files;
  for (const std::string& id : asked.tables) describe_table(id, files);  // for the files that it reads
  std::list<StepsFile> steps;
  for (const std::string& name : asked.steps) steps.emplace_back(name, files);
  const Outputs outputs(options, files);
  Reproduction reproduction = recompute(options, asked, steps, files);
  reproduction.provenance = provenance(command_line, files, options.seed);
  outputs.write({[&](std::ostream& out, bool colour) { reports::write_table(out, reproduction, colour); },
                 [&](std::ostream& out) { reports::write_json(out, reproduction); },
                 [&](std::ostream& out) { reports::write_csv(out, reproduction); },
                 [&](std::ostream& out) { reports::write_html(out, reproduction); },
                 {}});
  int misses = 0;
  for (const ReproducedTable& table : reproduction.tables) misses += count(table, Verdict::Miss);
  return options.strict && misses > 0 ? Exit::Threshold : Exit::Ok;
}

}  // namespace

Action declare_reproduce(CLI::App& app) {
  const auto options = std::make_shared<ReproduceOptions>();
  app.add_option("ids", options->ids,
                 "ids of the tables to recompute; steps: all measured steps [all published tables]")
      ->type_name("IDS");
  add_flag(app, {"--list", "", "list the ids and titles of all tables", "Question"}, options->list);
  add_list(app,
           {"--steps", "NAME|FILE,..",
            "predict the measured steps of these files too: names in data/steps or your own .json files", "Question"},
           options->steps);
  add_draws_option(app, *options);
  add_flag(app, {"--strict", "", "exit with code 5 if a target is missed", "Results"}, options->strict);
  add_result_options(app, *options, "write a self-contained page with all tables");
  add_general_options(app, *options);
  app.footer(reproduce_examples);
  return [options](const std::vector<std::string>& command_line) { return reproduce(*options, command_line); };
}

}  // namespace dovetail::bench
