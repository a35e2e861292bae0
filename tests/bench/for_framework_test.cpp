// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/for_framework.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/pipeline/tune.hpp"
#include "models/base/errors.hpp"
#include "models/base/json/json_schema.hpp"
#include "models/files/schema_file.hpp"
#include "planners/layouts/layout.hpp"
#include "planners/steps/refusal.hpp"
#include "planners/steps/step_prediction.hpp"
#include "reports/answer/json_report.hpp"
#include "reports/answer/table.hpp"
#include "reports/page/html.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;
using namespace dovetail::bench;
using Catch::Matchers::Contains;
using reports::Framework;

namespace {

TuneOptions short_question(std::vector<std::string> set = {}) {
  TuneOptions options;
  options.request.cluster = "dgx-h100";
  options.request.nodes = 2;
  options.request.model = "qwen3-30b-a3b";
  options.request.set = std::move(set);
  options.request.set.insert(options.request.set.end(), {"workload.layers=8", "parallelism.mp=1"});
  options.global_batch = 32;
  options.sequence = 2048;
  options.draws = 0;
  return options;
}

TuneOptions asked_for(Framework framework, std::vector<std::string> set = {}) {
  TuneOptions options = short_question(std::move(set));
  options.plans_for = framework;
  return with_its_costs(std::move(options));
}

Report tuned_by(const TuneOptions& options) {
  return tune(load_tune_question(options), options, {});
}

// The answers that several tests look at.
const Report& answer_for(Framework framework) {
  static std::map<Framework, Report> known;
  const auto found = known.find(framework);
  return found != known.end() ? found->second : known.emplace(framework, tuned_by(asked_for(framework))).first->second;
}

std::string error_for(const TuneOptions& options) {
  try {
    tuned_by(options);
  } catch (const InputError& error) {
    return error.message();
  }
  return "";
}

constexpr std::array every_framework{Framework::Megatron, Framework::DeepSpeed, Framework::Tutel};

}  // namespace

TEST_CASE("tune --for: every plan is one that the framework runs as it is") {
  for (const Framework framework : every_framework) {
    const Report& report = answer_for(framework);
    INFO(name_in(reports::framework_names, framework));
    REQUIRE(!report.results.empty());
    REQUIRE(report.tuning->framework);
    const Experiment question = load_tune_question(asked_for(framework)).question.experiment;
    const auto runs = [&](const SystemResult& plan) {
      const Experiment e = planners::with_layout(question, {plan.groups, plan.micro_batch, plan.plan.micro_batches});
      INFO(plan.system);
      CHECK(reports::flags_for(framework, e, plan.plan).cannot.empty());
    };
    for (const SystemResult& plan : report.results) {
      CHECK(plan.system == "for " + report.tuning->framework->name);
      runs(plan);
    }
    for (const SystemResult& plan : report.tuning->front) runs(plan);
    REQUIRE(!report.tuning->systems.empty());
    for (const TunedSystem& system : report.tuning->systems) {
      runs(system.own);
      CHECK(system.own.metrics.makespan >= report.results.front().metrics.makespan);
    }
  }
}

TEST_CASE("tune --for: the answer is never faster than that to the same question for any plan") {
  for (const Framework framework : every_framework) {
    const Report& report = answer_for(framework);
    INFO(name_in(reports::framework_names, framework));
    TuneOptions options = asked_for(framework);
    options.plans_for.reset();
    options.systems = {"tutel"};
    const Seconds any = tuned_by(options).results.front().metrics.makespan;
    CHECK(any <= report.results.front().metrics.makespan * 1.005);
    REQUIRE(report.tuning->framework->any);
    CHECK(report.tuning->framework->any->metrics.makespan <= report.results.front().metrics.makespan);
    CHECK(report.tuning->framework->any->metrics.makespan.value() == Approx(any.value()).epsilon(.005));
  }
}

// Tutel leaves what is not its layer to others.
TEST_CASE("tune --for: two plans with the same arguments take the same time") {
  std::map<Framework, int> tried;
  for (int seed = 1; seed <= test::cases(300); ++seed) {
    test::Random random(static_cast<unsigned>(seed));
    Experiment e = test::random_experiment(random);
    e.parallelism.pipeline_layout.clear();
    const Plan drawn = test::random_legal_plan(random, e), other = test::random_legal_plan(random, e);
    for (const Framework framework : {Framework::Megatron, Framework::DeepSpeed}) {
      const std::optional<Plan> plan = reports::as_run_by(framework, e, drawn);
      if (!plan || planners::refusal(*plan, e)) continue;
      const reports::FrameworkFlags flags = reports::flags_for(framework, e, *plan);
      for (const Knob& knob : knobs()) {
        Plan changed = *plan;
        copy_value(knob, other, changed);
        if (changed == *plan || planners::refusal(changed, e)) continue;
        const reports::FrameworkFlags of_changed = reports::flags_for(framework, e, changed);
        if (!of_changed.whole() || of_changed.text != flags.text || of_changed.elsewhere != flags.elsewhere) continue;
        ++tried[framework];
        INFO("seed " << seed << ": " << knob.name << "\n" << test::describe(e, *plan) << "\n" << flags.text);
        CHECK(planners::StepPrediction(e, changed).time().value() ==
              Approx(planners::StepPrediction(e, *plan).time().value()));
      }
    }
  }
  CHECK(tried[Framework::Megatron] > test::cases(20));
  CHECK(tried[Framework::DeepSpeed] > test::cases(20));
}

TEST_CASE("tune --for: what is missing is what the best plan of all has and the flags do not say") {
  for (const Framework framework : every_framework) {
    const ForFramework& its = *answer_for(framework).tuning->framework;
    INFO(its.name);
    CHECK(its.missing.empty() == (its.any->metrics.makespan == answer_for(framework).results.front().metrics.makespan));
    for (const MissingValue& missing : its.missing) {
      INFO(missing.key);
      CHECK(missing.value != missing.instead);
      if (!missing.key.starts_with("plan.")) continue;
      const Knob& of = knob(std::string_view(missing.key).substr(5));
      const Plan& own = answer_for(framework).results.front().plan;
      CHECK(!same_value(of, its.any->plan, own));
    }
    for (std::size_t i = 1; i < its.missing.size(); ++i)
      if (its.missing[i].alone) CHECK(*its.missing[i - 1].alone <= *its.missing[i].alone);
  }
}

TEST_CASE("tune --for: the steps are with the framework's own work, unless the question names another") {
  CHECK(answer_for(Framework::DeepSpeed).experiment.framework.name == "deepspeed");
  CHECK(answer_for(Framework::Megatron).experiment.framework.name == "megatron_lm");
  const std::vector<std::string> bare = asked_for(Framework::Tutel, {"framework=bare"}).request.set;
  CHECK(std::ranges::count(bare, "framework=tutel") == 0);
  TuneOptions paper = asked_for(Framework::Tutel);
  paper.request.cluster = "fsmoe-testbed-b";
  paper.request.set = {};
  CHECK(with_its_costs(paper).request.set.empty());  // costs of a paper, without a host
}

TEST_CASE("tune --for: settings that the framework cannot have are named with it") {
  CHECK_THAT(error_for(asked_for(Framework::Megatron, {"plan.forward_degree=2"})),
             Catch::StartsWith("--for megatron: Megatron-LM (d98e8a6, core 0.20.0) does not run what is set: "
                               "plan.forward_degree 2: "));
  CHECK_THAT(error_for(asked_for(Framework::DeepSpeed, {"parallelism.pp=2"})),
             Catch::StartsWith("--for deepspeed: DeepSpeed (edaa722, 0.19.6) runs none of the ") &&
                 Contains(" layouts that divide everything: parallelism.pp 2: "));
  CHECK_THAT(error_for(asked_for(Framework::DeepSpeed, {"plan.zero=0", "plan.grad_sync=with_dense"})),
             Contains("plan.grad_sync with_dense: without ZeRO"));
  CHECK_THAT(error_for(asked_for(Framework::Megatron, {"workload.message_sizes=padded"})),
             Contains("workload.message_sizes padded: without a capacity factor"));
}

TEST_CASE("tune --for: settings may need others for the framework to run them") {
  for (const auto& [framework, set] : {std::pair{Framework::Megatron, "plan.parameter_gather=ahead"},
                                       {Framework::Tutel, "plan.backward_degree=2"},
                                       {Framework::DeepSpeed, "plan.grad_sync=with_dense"}}) {
    TuneOptions options = asked_for(framework, {set, "parallelism.pp=1", "parallelism.ep=8"});
    options.gains = false;
    INFO(set);
    const Report report = tuned_by(options);
    REQUIRE(!report.results.empty());
    const Plan& plan = report.results.front().plan;
    if (framework == Framework::Megatron) CHECK(plan.grad_sync != GradSync::After);
    if (framework == Framework::Tutel) CHECK(plan.forward_degree == 2);
    CHECK(!report.tuning->framework->any);
  }
}

TEST_CASE("tune --for: a system that is asked for and that the framework does not run is refused with the reason") {
  TuneOptions options = asked_for(Framework::Megatron, {"parallelism.pp=1", "parallelism.ep=8"});
  options.gains = false;
  options.systems = {"megatron_lm", "fsmoe"};
  const Report report = tuned_by(options);
  REQUIRE(report.tuning->systems.size() == 1);
  CHECK(report.tuning->systems.front().own.system == "megatron_lm");
  REQUIRE(report.refused.size() == 1);
  CHECK_THAT(report.refused.front().reason, Catch::StartsWith("Megatron-LM does not run it: plan."));
}

TEST_CASE("tune --for: the table, the page and the file say what the framework cannot do") {
  Report report = answer_for(Framework::Megatron);
  ForFramework& its = *report.tuning->framework;
  const Seconds own = report.results.front().metrics.makespan;
  its.any->metrics.makespan = .8 * own;
  its.missing = {{"plan.scope", "moe", "layer", {"plan.order alternate"}, .95 * own, .9 * own},
                 {"parallelism.pp", "2", "", {}, {}, {}}};
  std::ostringstream table, page, json;
  reports::write_table(table, report, false, true);
  CHECK_THAT(table.str(), Contains("for Megatron-LM (d98e8a6, core 0.20.0): plans that it runs as they are"));
  CHECK_THAT(table.str(), Contains("what Megatron-LM cannot do, and what it would gain by that"));
  CHECK_THAT(table.str(), Catch::Matches("[^]*plan\\.scope moe +layer +5\\.0 +10\\.0 +plan\\.order alternate\n[^]*"));
  CHECK_THAT(table.str(), Catch::Matches("[^]*parallelism\\.pp 2 +- +- +- *\n[^]*"));
  CHECK_THAT(table.str(), Contains("20.0 % less than"));
  std::istringstream lines(table.str());
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(line.size() <= 120);
  }
  reports::write_html(page, report);
  CHECK_THAT(page.str(), Contains("what Megatron-LM cannot do") && Contains("--use-distributed-optimizer"));
  reports::write_json(json, report);
  CHECK_NOTHROW(validate(JsonFile::parse(json.str(), "result"), load_schema("tuning")));
}
