// SPDX-License-Identifier: Apache-2.0
// dovetail simulate: one system or plan in detail.
#include <fmt/format.h>

#include <memory>
#include <ostream>

#include "bench/cli/commands.hpp"
#include "bench/cli/interrupt.hpp"
#include "bench/cli/outputs.hpp"
#include "bench/pipeline/backend_option.hpp"
#include "bench/pipeline/backends.hpp"
#include "bench/pipeline/explain.hpp"
#include "bench/pipeline/notes.hpp"
#include "bench/pipeline/predict.hpp"
#include "bench/pipeline/provenance.hpp"
#include "bench/pipeline/step_ranges.hpp"
#include "models/base/errors.hpp"
#include "models/results/add_figures.hpp"
#include "reports/answer/table.hpp"
#include "reports/text/gantt_text.hpp"
#include "reports/text/text_table.hpp"
#include "reports/text/window.hpp"

namespace dovetail::bench {
namespace {

constexpr auto simulate_examples = R"(Examples:
  One system with its timeline as text:
    dovetail simulate --cluster fsmoe-testbed-b --model mixtral-8x7b --system fsmoe -v

  Another system with a degree of your own, by SimGrid, as a trace:
    dovetail simulate --cluster fsmoe-testbed-b --model mixtral-8x7b --system tutel \
      --set plan.forward_degree=4 --backend simgrid --trace trace.json

Times are milliseconds of one training step. Memory is GiB of one GPU. A plan that does not fit the memory is shown too,
with the amount that is missing.)";

void write_timeline(std::ostream& out, const SystemResult& result) {
  const Interval window = reports::representative_window(*result.schedule, result.timeline);
  out << fmt::format("\ntimeline of {}, {:.3f} to {:.3f} ms of the step\n", result.system, window.start.value() * 1e3,
                     window.finish.value() * 1e3)
      << reports::gantt_text(*result.schedule, result.timeline, {.window = window});
}

Exit simulate(const Options& options, const std::vector<std::string>& command_line) {
  check_options(options);
  stop_after(options.timeout);
  if (options.systems.size() + options.plans.size() != 1 && !has_whole_plan(options.request))
    throw InputError("simulate takes one --system NAME or one --plan FILE; for several see dovetail compare --help");
  const std::unique_ptr<Backend> backend = make_backend(options.backend, options.platform);
  const Question question = load_question(options);
  const Outputs outputs(options, question.files);
  Report report = predict(question, *backend);
  add_limits(report);
  add_figures(report);
  add_step_ranges(options, report);
  add_explanation(options, report);
  report.provenance = provenance(command_line, question.files, options.seed);
  outputs.write(report, [&](std::ostream& out, bool colour) {
    reports::write_table(out, report, colour, options.verbose);
    if (options.verbose) write_timeline(out, report.results.front());
  });
  return Exit::Ok;
}

}  // namespace

Action declare_simulate(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  add_experiment_options(app, *options);
  add_system_options(app, *options, Systems::One);
  add_backend_option(app, *options);
  add_draws_option(app, *options);
  add_explain_option(app, *options);
  add_output_options(app, *options);
  add_general_options(app, *options);
  app.footer(simulate_examples);
  return [options](const std::vector<std::string>& command_line) { return simulate(*options, command_line); };
}

}  // namespace dovetail::bench
