// SPDX-License-Identifier: Apache-2.0
// dovetail reproduce: published tables of the papers, recomputed and put beside the published numbers.
#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "bench/cli/commands.hpp"
#include "bench/cli/interrupt.hpp"
#include "bench/cli/option_values.hpp"
#include "bench/cli/outputs.hpp"
#include "bench/pipeline/provenance.hpp"
#include "bench/reproduce/tables.hpp"
#include "models/base/errors.hpp"
#include "models/base/streams.hpp"
#include "reports/data/reproduction_report.hpp"

namespace dovetail::bench {
namespace {

constexpr auto reproduce_examples = R"(Examples:
  List the tables, then recompute two of them (all of them take half a minute):
    dovetail reproduce --list
    dovetail reproduce ampipe-appendix-c fsmoe-table2

  As data and as a page:
    dovetail reproduce fsmoe-table6 -o reproduction.json --html reproduction.html

Each value is shown with the published number, ours, the target that was set for it, and the number of constants that were
fitted to that very table (0: ours is a prediction). A miss is shown with its reason, if that is known. With --strict a
miss gives exit code 5.)";

struct ReproduceOptions : Options {
  std::vector<std::string> ids;
  bool list = false, strict = false;
};

std::string list_of_tables() {
  FilesRead files;
  std::string list;
  for (const std::string& id : reproduced_ids()) list += fmt::format("{:<20}{}\n", id, describe_table(id, files));
  return list;
}

Exit reproduce(const ReproduceOptions& options, const std::vector<std::string>& command_line) {
  check_options(options);
  stop_after(options.timeout);
  if (options.list) {
    show(list_of_tables());
    return Exit::Ok;
  }
  const std::vector<std::string> ids = options.ids.empty() ? reproduced_ids() : options.ids;
  FilesRead files;
  for (const std::string& id : ids) describe_table(id, files);  // for the files that it reads
  const Outputs outputs(options, files);
  Reproduction reproduction;
  {
    ProgressLine progress("reproduce", static_cast<int>(ids.size()), options.talk());
    for (const std::string& id : ids) {
      progress.begin(id);
      reproduction.tables.push_back(reproduce_table(id, files));
      progress.done();
    }
  }
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
  app.add_option("ids", options->ids, "ids of the tables to recompute [all]")->type_name("IDS");
  add_flag(app, {"--list", "", "list the ids and titles of all tables", "Question"}, options->list);
  add_flag(app, {"--strict", "", "exit with code 5 if a target is missed", "Results"}, options->strict);
  add_result_options(app, *options, "write a self-contained page with all tables");
  add_general_options(app, *options);
  app.footer(reproduce_examples);
  return [options](const std::vector<std::string>& command_line) { return reproduce(*options, command_line); };
}

}  // namespace dovetail::bench
