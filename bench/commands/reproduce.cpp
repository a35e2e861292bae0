// SPDX-License-Identifier: Apache-2.0
// dovetail reproduce: published tables of the papers, measured steps and measured operators, recomputed and put beside
// the numbers of others.
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
#include "bench/reproduce/measured_operators.hpp"
#include "bench/reproduce/measured_steps.hpp"
#include "bench/reproduce/tables.hpp"
#include "models/base/errors.hpp"
#include "models/base/streams.hpp"
#include "reports/data/reproduction_report.hpp"

namespace dovetail::bench {
namespace {

constexpr auto reproduce_examples = R"(Examples:
  List the tables, then recompute two of them (all published ones take a minute):
    dovetail reproduce --list
    dovetail reproduce ampipe-appendix-c fsmoe-table2

  As data and as a page:
    dovetail reproduce fsmoe-table6 -o reproduction.json --html reproduction.html

  Predict whole training steps that others have measured; "steps" stands for all such files that are shipped:
    dovetail reproduce --steps b200-8gpu

  Price single operators that others have measured, by calibrations that do not rest on them:
    dovetail reproduce operators
    dovetail reproduce --operators a100-all-reduce -o operators.csv

Each value is shown with the published number, ours, how far off it may be by one rule for all, and what ours rests on: on
nothing that was fitted (predicted), on a constant that was fitted to another table (shares) or to this one (fitted). The
summary says how each paper comes out, and how it would without each shared constant. A miss is shown with its reason, if
that is known. With --strict a miss gives exit code 5.

Each measured step is shown with the prediction that dovetail simulate makes of it, its 90 % range, and its memory. A file of
your own steps has the format of data/steps, which data/README.md explains.

Each measured operator (a product, an attention, a collective, a dispatch) is priced by itself, with its 90 % range. A file of
your own operators has the format of data/operators. "operators" stands for all such files that are shipped.)";

// The ids that stand for all files of data/steps and of data/operators, which are named after them.
constexpr auto all_steps = "steps", all_operators = "operators";

struct ReproduceOptions : Options {
  std::vector<std::string> ids, steps, operators;
  bool list = false, strict = false;
};

std::string list_of_tables() {
  FilesRead files;
  std::string list;
  for (const std::string& id : reproduced_ids()) list += fmt::format("{:<20}{}\n", id, describe_table(id, files));
  list += fmt::format("{:<20}Measured training steps beside predictions of them ({})\n", all_steps,
                      fmt::join(known_names(all_steps), ", "));
  return list + fmt::format("{:<20}Measured operators beside prices of them ({})\n", all_operators,
                            fmt::join(known_names(all_operators), ", "));
}

// The ids of tables and the names of files that were asked for. Without any: all tables.
struct AskedTables {
  std::vector<std::string> tables, steps, operators;
  int kinds() const { return (tables.empty() ? 0 : 1) + (steps.empty() ? 0 : 1) + (operators.empty() ? 0 : 1); }
};

void add_once(std::vector<std::string>& names, const std::vector<std::string>& more) {
  for (const std::string& name : more)
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

AskedTables asked_for(const ReproduceOptions& options) {
  AskedTables asked;
  std::vector<std::string> known = reproduced_ids();
  known.insert(known.end(), {all_steps, all_operators});
  for (const std::string& id : options.ids) {
    choose("id", id, known);
    if (id == all_steps)
      add_once(asked.steps, known_names(all_steps));
    else if (id == all_operators)
      add_once(asked.operators, known_names(all_operators));
    else
      asked.tables.push_back(id);
  }
  add_once(asked.steps, options.steps);
  add_once(asked.operators, options.operators);
  if (asked.kinds() == 0) asked.tables = reproduced_ids();
  if (asked.kinds() > 1 && format_of(options) == Format::Csv)
    throw InputError(
        "csv has the columns of published tables, of measured steps or of measured operators; expected "
        "one of them alone");
  return asked;
}

// The files of measurements that were asked for.
struct MeasuredFiles {
  std::list<StepsFile> steps;
  std::list<OperatorsFile> operators;
};

int work_of(const AskedTables& asked, const MeasuredFiles& measured) {
  std::size_t work = asked.tables.size() + measured.operators.size();
  for (const StepsFile& file : measured.steps) work += file.steps();
  return static_cast<int>(work);
}

Reproduction recompute(const ReproduceOptions& options, const AskedTables& asked, MeasuredFiles& measured,
                       FilesRead& files) {
  Reproduction reproduction;
  ProgressLine progress("reproduce", work_of(asked, measured), options.talk());
  for (const std::string& id : asked.tables) {
    progress.begin(id);
    reproduction.tables.push_back(reproduce_table(id, files));
    std::ranges::move(reproduce_without(id, files), std::back_inserter(reproduction.without));
    progress.done();
  }
  for (StepsFile& file : measured.steps) {
    for (std::size_t step = 0; step < file.steps(); ++step) {
      progress.begin(file.table().steps[step].name);
      file.predict_step(step, options, files);
      progress.done();
    }
    reproduction.steps.push_back(file.table());
  }
  for (OperatorsFile& file : measured.operators) {
    progress.begin(file.table().id);
    file.price(options);
    reproduction.operators.push_back(file.table());
    progress.done();
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
  MeasuredFiles measured;
  for (const std::string& name : asked.steps) measured.steps.emplace_back(name, files);
  for (const std::string& name : asked.operators) measured.operators.emplace_back(name, files);
  const Outputs outputs(options, files);
  Reproduction reproduction = recompute(options, asked, measured, files);
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
                 "ids of the tables to recompute; steps: all measured steps; operators: all measured operators [all "
                 "published tables]")
      ->type_name("IDS");
  add_flag(app, {"--list", "", "list the ids and titles of all tables", "Question"}, options->list);
  add_list(app,
           {"--steps", "NAME|FILE,..",
            "predict the measured steps of these files too: names in data/steps or your own .json files", "Question"},
           options->steps);
  add_list(
      app,
      {"--operators", "NAME|FILE,..",
       "price the measured operators of these files too: names in data/operators or your own .json files", "Question"},
      options->operators);
  add_draws_option(app, *options);
  add_flag(app, {"--strict", "", "exit with code 5 if a target is missed", "Results"}, options->strict);
  add_result_options(app, *options, "write a self-contained page with all tables");
  add_general_options(app, *options);
  app.footer(reproduce_examples);
  return [options](const std::vector<std::string>& command_line) { return reproduce(*options, command_line); };
}

}  // namespace dovetail::bench
