// SPDX-License-Identifier: Apache-2.0
// The time that a framework takes the host, and the ops that have it.
#include "models/price/host_profile.hpp"

#include <catch2/catch.hpp>

#include "models/base/errors.hpp"
#include "models/files/load.hpp"
#include "models/files/read_parts.hpp"
#include "models/price/build_schedule.hpp"
#include "models/schedule/launches.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;

namespace {

constexpr Seconds microsecond(1e-6);

Plan unchunked(Graphs graphs = Graphs::None) {
  Plan plan;
  plan.scope = Scope::Moe;
  plan.graphs = graphs;
  return plan;
}

OpId find_op(const Schedule& s, OpKind kind, Phase phase) {
  for (const OpId i : s.ops.ids())
    if (s.ops[i].kind == kind && s.ops[i].phase == phase) return i;
  FAIL("no such op");
  return {};
}

HostEntry entry(OpKind op, Phase phase, SizedHostWork work, std::vector<HostCase> cases = {}) {
  return {op, phase, std::move(cases), work};
}

FrameworkParts framework_of(const std::string& json) {
  const JsonFile file = JsonFile::parse(json, "own.json");
  return read_framework(JsonReader(file));
}

const std::string host_of_one = R"("host": {"provenance": {"origin": "assumed", "source": "a test"},
  "times": [{"name": "call", "time": "3 us", "kernels": 2}], "ops": )";

}  // namespace

TEST_CASE("The host takes a framework's work at its pace, and the launches of products beside it") {
  const Schedule s = build_schedule(test::testbed_b(), unchunked());
  HostProfile profile;
  // 10 microsecond and 2 kernels, and 1 microsecond for each of 4 experts: 14 microsecond of work.
  profile.entries.push_back(entry(OpKind::Gate, Phase::Forward, {{10 * microsecond, 2}, {1 * microsecond, 0}, {}, {}}));
  const OpId gate = find_op(s, OpKind::Gate, Phase::Forward);
  const auto times = host_times(s, profile, {5 * microsecond, 2}, {.experts = 4});
  const int products = s.ops[gate].kernel()->gemms;
  CHECK(times[gate].value() == Approx(2 * 14e-6 + (2 + products) * 5e-6));
  // Ops without an entry have their launches alone.
  const OpId encode = find_op(s, OpKind::Encode, Phase::Forward);
  CHECK(times[encode].value() == Approx(launches_of(s.ops[encode]) * 5e-6));
}

TEST_CASE("Entries of one kind add up where all their conditions hold") {
  const Schedule s = build_schedule(test::testbed_b(), unchunked());  // padded messages
  HostProfile profile;
  profile.entries.push_back(entry(OpKind::Encode, Phase::Forward, {{1 * microsecond, 0}, {}, {}, {}}));
  profile.entries.push_back(
      entry(OpKind::Encode, Phase::Forward, {{2 * microsecond, 0}, {}, {}, {}}, {HostCase::Padded}));
  profile.entries.push_back(
      entry(OpKind::Encode, Phase::Forward, {{4 * microsecond, 0}, {}, {}, {}}, {HostCase::Routed}));
  CHECK(host_times(s, profile, {})[find_op(s, OpKind::Encode, Phase::Forward)].value() == Approx(3e-6));
}

TEST_CASE("A step has its own work once, and each pass of a micro-batch has its") {
  Experiment e = test::testbed_b();
  e.workload.batch = 2;
  Plan plan = unchunked();
  plan.micro_batches = 2;
  const Schedule s = build_schedule(e, plan);
  HostProfile profile;
  profile.step.once = {100 * microsecond, 0};
  profile.forward_pass.once = {10 * microsecond, 0};
  profile.backward_pass.once = {1 * microsecond, 0};
  Seconds sum;
  for (const Seconds time : host_times(s, profile, {})) sum += time;
  CHECK(sum.value() == Approx(100e-6 + 2 * 10e-6 + 2 * 1e-6));
}

TEST_CASE("Passes of a pair, whose ops alternate, begin once each") {
  Experiment e = test::testbed_b();
  e.workload.batch = 4;
  Plan plan = unchunked();
  plan.micro_batches = 4;
  plan.pipeline_schedule = pipeline_schedule("1f1b");
  const auto begins = [&] {
    HostProfile profile;
    profile.forward_pass.once = {10 * microsecond, 0};
    profile.backward_pass.once = {1 * microsecond, 0};
    Seconds sum;
    for (const Seconds time : host_times(build_schedule(e, plan), profile, {})) sum += time;
    return sum.value();
  };
  CHECK(begins() == Approx(4 * 10e-6 + 4 * 1e-6));
  plan.scope = Scope::Batch;
  CHECK(begins() == Approx(4 * 10e-6 + 4 * 1e-6));
}

TEST_CASE("Captured ops take a replay of their graph in place of their work") {
  const Schedule s = build_schedule(test::testbed_b(), unchunked(Graphs::Attention));
  HostProfile profile;
  profile.entries.push_back(entry(OpKind::Attention, Phase::Forward, {{50 * microsecond, 3}, {}, {}, {}}));
  profile.graph = 7 * microsecond;
  Seconds captured;
  const auto times = host_times(s, profile, {2 * microsecond});
  for (const OpId i : s.ops.ids())
    if (is_captured(s.graphs, s.ops[i].kind) && s.ops[i].phase == Phase::Forward) captured += times[i];
  CHECK(captured.value() == Approx(7e-6 + 2e-6));
}

TEST_CASE("A framework's file counts operations, and its options choose among entries") {
  const FrameworkParts parts =
      framework_of(R"({"name": "own", "source": "a test", "options": {"fused": true}, )" + host_of_one +
                   R"([{"op": "gate", "phase": "forward", "if": ["fused", "routed"], "operations": {"call": 2}},
          {"op": "gate", "phase": "forward", "unless": ["fused"], "operations": {"call": 9}}]},
         "passes": [{"gradients": 12}, {"if": ["fused"], "gradients": 4, "logits": 10}]})");
  REQUIRE(parts.host.entries.size() == 1);
  CHECK(parts.host.entries[0].work.once.work.value() == Approx(6e-6));
  CHECK(parts.host.entries[0].work.once.kernels == 4);
  CHECK(parts.host.entries[0].cases == std::vector{HostCase::Routed});
  CHECK(parts.framework.passes.gradients == 16);
  CHECK(parts.framework.passes.logits == 10);
}

TEST_CASE("Operations measured in loops take longer inside a model") {
  const FrameworkParts parts = framework_of(R"({"name": "own", "source": "a test", "options": {"a": false, "b": true},
    "fused": ["a", "b"], "left_out": {"within": 1.15, "source": "a choice"},
    "host": {"provenance": {"origin": "assumed", "source": "a test"}, "in_model": {"factor": 1.8, "source": "a test"},
      "times": [{"name": "call", "time": "3 us", "in_loops": true}, {"name": "turn", "time": "1 us"}],
      "ops": [{"op": "gate", "phase": "forward", "operations": {"call": 2, "turn": 5}}]}})");
  CHECK(parts.host.entries[0].work.once.work.value() == Approx(1e-6 * (2 * 3 * 1.8 + 5 * 1)));
  CHECK(parts.framework.unfused == std::vector<std::string>{"a"});
  CHECK(parts.framework.left_out == 1.15);
  CHECK_THROWS_WITH(framework_of(R"({"name": "own", "source": "a test", "fused": ["c"]})"),
                    Contains("no option of this framework"));
}

TEST_CASE("Unknown operations and options of a framework are refused at their place") {
  const auto refused = [](const std::string& ops) {
    try {
      framework_of(R"({"name": "own", "source": "a test", )" + host_of_one + ops + "}}");
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(refused(R"([{"op": "gate", "phase": "forward", "operations": {"cal": 1}}])"),
             Contains("own.json:") && Contains("no operation \"cal\""));
  CHECK_THAT(refused(R"([{"op": "gate", "phase": "forward", "unless": ["fast"], "operations": {}}])"),
             Contains("no option \"fast\""));
  CHECK_THAT(refused(R"([{"op": "gate", "phase": "forward", "if": ["fast"], "operations": {}}])"), Contains("routed"));
}

TEST_CASE("A rank's weights are counted by its layers and experts") {
  Experiment e = test::testbed_b();  // one MoE layer
  const HostSizes sizes = host_sizes(e);
  const double experts = static_cast<double>(e.model.experts) / e.parallelism.ep;
  CHECK(sizes.experts == experts);
  CHECK(sizes.blocks == e.model.experts * e.parallelism.esp);
  CHECK(sizes.weights == 3 + 2 + 2 * experts + 2);  // attention, router and norm, experts, ends of the model
}
