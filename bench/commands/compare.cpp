// SPDX-License-Identifier: Apache-2.0
// dovetail compare: several systems or plans on one experiment.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "bench/cli/commands.hpp"
#include "bench/cli/interrupt.hpp"
#include "bench/cli/option_values.hpp"
#include "bench/cli/outputs.hpp"
#include "bench/pipeline/answer.hpp"
#include "bench/pipeline/backend_option.hpp"
#include "bench/pipeline/backends.hpp"
#include "bench/pipeline/explain.hpp"
#include "bench/pipeline/idle_knobs.hpp"
#include "bench/pipeline/notes.hpp"
#include "bench/pipeline/provenance.hpp"
#include "bench/pipeline/step_ranges.hpp"
#include "models/base/errors.hpp"
#include "models/base/json/json_text.hpp"
#include "models/base/json/nearest.hpp"
#include "models/base/streams.hpp"
#include "models/results/add_figures.hpp"
#include "reports/text/summary.hpp"

namespace dovetail::bench {
namespace {

constexpr auto compare_examples = R"(Examples:
  All shipped systems on a described cluster:
    dovetail compare --cluster fsmoe-testbed-b --model mixtral-8x7b

  Three systems with contention, as data, as a page and as a trace:
    dovetail compare --cluster fsmoe-testbed-a --model gpt2-xl-moe --systems tutel,tutel_improved,fsmoe \
      --backend simgrid -o report.json --html report.html --trace trace.json

  Half of the nodes and a larger batch; the command fails unless fsmoe is 1.1 times as fast as the first system:
    dovetail compare --cluster fsmoe-testbed-b --model mixtral-8x7b --nodes 4 --set workload.batch=2 \
      --systems deepspeed_moe,fsmoe --fail-on fsmoe:1.1

Times are milliseconds of one training step. Memory is GiB of one GPU. A plan that does not fit the memory is shown too,
with the amount that is missing.)";

struct Threshold {
  std::string system;
  double speedup = 0;
};

Threshold read_threshold(const std::string& text) {
  const auto colon = text.rfind(':');
  Threshold threshold{text.substr(0, colon), 0};
  if (colon != std::string::npos) {
    const char* last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data() + colon + 1, last, threshold.speedup);
    if (error == std::errc() && end == last && threshold.speedup > 0 && !threshold.system.empty()) return threshold;
  }
  throw InputError(fmt::format("--fail-on {}: expected SYSTEM:SPEEDUP, such as fsmoe:1.1", in_quotes(text)));
}

void require_candidates(const std::vector<Threshold>& thresholds, const std::vector<Candidate>& candidates) {
  std::vector<std::string> names;
  for (const Candidate& candidate : candidates) names.push_back(candidate.system.name);
  for (const Threshold& threshold : thresholds)
    if (std::ranges::find(names, threshold.system) == names.end())
      throw InputError(fmt::format("--fail-on: {} is not compared here{}", in_quotes(threshold.system),
                                   did_you_mean(threshold.system, names)));
}

// A system that is left out has no speed-up to judge.
void require_results(const std::vector<Threshold>& thresholds, const Report& report) {
  for (const Threshold& threshold : thresholds)
    for (const RefusedSystem& refused : report.refused)
      if (refused.system == threshold.system)
        throw InputError(fmt::format("--fail-on: {} is left out: {}", in_quotes(refused.system), refused.reason));
}

Exit judge(const Report& report, const std::vector<Threshold>& thresholds) {
  Exit exit = Exit::Ok;
  for (const reports::SummaryRow& row : reports::summarize(report))
    for (const Threshold& threshold : thresholds) {
      if (row.result->system != threshold.system || row.speedup.value_or(0) >= threshold.speedup) continue;
      say(fmt::format("dovetail: {} has a speed-up of {:.4g}, below the {:.4g} of --fail-on\n", threshold.system,
                      row.speedup.value_or(0), threshold.speedup));
      exit = Exit::Threshold;
    }
  return exit;
}

Exit compare(const Options& options, const std::vector<std::string>& fail_on,
             const std::vector<std::string>& command_line) {
  check_options(options);
  stop_after(options.timeout);
  std::vector<Threshold> thresholds;
  for (const std::string& text : fail_on) thresholds.push_back(read_threshold(text));
  const std::unique_ptr<Backend> backend = make_backend(options.backend, options.platform);
  const Question question = load_question(options);
  require_candidates(thresholds, question.candidates);
  const Outputs outputs(options, question.files);

  Report report{"compare", question.experiment, {}, {}, {}, question.notes};
  {
    ProgressLine progress("compare", static_cast<int>(question.candidates.size()), options.talk());
    Evaluation evaluation(question, *backend);
    Answers answers = answer(question, evaluation, progress, options);
    report.results = std::move(answers.results);
    report.refused = std::move(answers.refused);
  }
  require_results(thresholds, report);
  std::ranges::move(idle_knobs(report), std::back_inserter(report.notes));
  add_limits(report);
  add_figures(report);
  add_step_ranges(options, report);
  add_explanation(options, report);
  report.provenance = provenance(command_line, question.files, options.seed);
  outputs.write(report);
  return judge(report, thresholds);
}

}  // namespace

Action declare_compare(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  const auto fail_on = std::make_shared<std::vector<std::string>>();
  add_experiment_options(app, *options);
  add_system_options(app, *options, Systems::Many);
  add_backend_option(app, *options);
  add_draws_option(app, *options);
  add_explain_option(app, *options);
  add_output_options(app, *options);
  add_repeatable(app,
                 {"--fail-on", "SYSTEM:SPEEDUP",
                  "exit with code 5 if the system's speed-up over the first one is lower", "Results"},
                 *fail_on);
  add_general_options(app, *options);
  app.footer(compare_examples);
  return [options, fail_on](const std::vector<std::string>& command_line) {
    return compare(*options, *fail_on, command_line);
  };
}

}  // namespace dovetail::bench
