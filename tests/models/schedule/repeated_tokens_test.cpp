// SPDX-License-Identifier: Apache-2.0
// Model-parallel ranks that repeat the work on all tokens of their group (parallelism.sequence_parallel false).
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "models/base/errors.hpp"
#include "models/plan/plan_rules.hpp"
#include "models/plan/system.hpp"
#include "models/price/build_schedule.hpp"
#include "models/question/capacity.hpp"
#include "models/question/experiment_rules.hpp"
#include "models/question/expert_loads.hpp"
#include "models/question/volumes.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/other_models.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;

namespace {

// 2 x 2 ranks; mp and esp are the two of a node.
Experiment repeating(int layers = 1) {
  Experiment e = test::round_numbers(layers);
  e.parallelism.sequence_parallel = false;
  return e;
}

std::string exchanges(const Schedule& s) {
  std::string text;
  for (const Op& op : s.ops)
    if (s.streams[op.stream].kind == StreamKind::Communication) text += to_string(op) + " ";
  return text;
}

const Op& first_of(const Schedule& s, OpKind kind, Phase phase) {
  const auto found = std::ranges::find_if(s.ops, [&](const Op& op) { return op.kind == kind && op.phase == phase; });
  REQUIRE(found != s.ops.end());
  return *found;
}

std::string fault(const Experiment& e, const Plan& plan = {}) {
  try {
    validate(e);
    validate(plan, e);
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("Ranks that repeat tokens gather none: they add up what each has made of the same rows") {
  const Schedule s = build_schedule(repeating(), {});
  CHECK(exchanges(s) ==
        "mp_all_reduce[0] dispatch[0].0 esp_all_reduce[0].0 combine[0].0 "
        "d_combine[0].0 d_esp_all_reduce[0].0 d_dispatch[0].0 d_mp_all_reduce[0] dense_gradient_all_reduce[0] ");
  // L 16 tokens of M 8 numbers of 4 bytes.
  CHECK(first_of(s, OpKind::MpAllReduce, Phase::Forward).message() == Bytes(16 * 8 * 4));
  CHECK(first_of(s, OpKind::MpAllReduce, Phase::Backward).message() == Bytes(16 * 8 * 4));
}

TEST_CASE("They dispatch mp times the rows to experts that work on as many rows as before") {
  const Experiment shared = test::round_numbers(), repeated = repeating();
  const LayerVolumes one = layer_volumes(shared), all = layer_volumes(repeated);
  CHECK(one.tokens == 8);
  CHECK(all.tokens == 16);
  CHECK(one.capacity == 4);  // k f T / E = 2 x 8 / 4
  CHECK(all.capacity == 8);
  // Rows for 2 peers with 2 experts each.
  CHECK(one.all_to_all_elements(RowRange{0, 4}) == 2 * 2 * 4 * 8);
  CHECK(all.all_to_all_elements(RowRange{0, 8}) == 2 * 2 * 8 * 8);
  CHECK(one.expert_rows(RowRange{0, 4}) == 2 * 2 * 4 * 2);  // of 2 peers, and of both ranks of a node
  CHECK(all.expert_rows(RowRange{0, 8}) == 2 * 2 * 8);
  const Schedule s = build_schedule(repeated, {});
  CHECK(first_of(s, OpKind::Dispatch, Phase::Forward).message() == Bytes(2 * 2 * 8 * 8 * 4));
  CHECK(first_of(s, OpKind::EspAllReduce, Phase::Forward).message() == Bytes(2 * 2 * 8 * 8 * 4));
  CHECK(first_of(s, OpKind::Expert, Phase::Forward).flops() ==
        first_of(build_schedule(shared, {}), OpKind::Expert, Phase::Forward).flops());
}

TEST_CASE("All choices of a step are counted once, however many ranks repeat them") {
  CHECK(summarize_routing(repeating()).choices == summarize_routing(test::round_numbers()).choices);
}

TEST_CASE("Only the norms of a rank's own heads have gradients to add up over ranks that repeat tokens") {
  Experiment e = repeating();
  e.workload.extent = Extent::WholeLayers;
  const auto reductions = [](const Schedule& s) {
    std::string text;
    for (const Op& op : s.ops)
      if (op.kind == OpKind::ReplicatedGradientAllReduce)
        text += std::string(name_in(group_kind_names, op.group())) + " ";
    return text;
  };
  CHECK(reductions(build_schedule(e, {})) == "dp ");
  e.model.attention.qk_norm = QkNorm::Head;
  const Schedule s = build_schedule(e, {});
  CHECK(reductions(s) == "mp dp ");
  // After the 2 M of both norms come those of queries and of keys, each of a head of 4.
  CHECK(first_of(s, OpKind::ReplicatedGradientAllReduce, Phase::Backward).gradients == RowRange{16, 24});
  e.parallelism.sequence_parallel = true;
  CHECK(first_of(build_schedule(e, {}), OpKind::ReplicatedGradientAllReduce, Phase::Backward).message() ==
        Bytes((16 + 8 + 8 * 4) * 4));  // norms and router
}

TEST_CASE("Repeated tokens are refused where they are not built") {
  CHECK(fault(repeating()).empty());
  Experiment e = repeating();
  e.parallelism.esp = 1;
  e.parallelism.ep = 4;
  CHECK_THAT(fault(e), Contains("/parallelism: without sequence_parallel the 2 ranks of mp have the same tokens") &&
                           Contains("expected esp 2, not 1"));
  e = repeating();
  e.workload.message_sizes = MessageSizes::Routed;
  CHECK_THAT(fault(e), Contains("/plan/pad_messages: false is not built yet without parallelism.sequence_parallel"));
  e = test::with_predictions(repeating(), 1);
  e.model.vocabulary = 10;
  CHECK_THAT(fault(e), Contains("/workload/mtp_layers: 1 layers over 2 ranks of mp"));
  Plan plan;
  plan.expert_sharding = ExpertSharding::EpDp;
  CHECK_THAT(fault(repeating(), plan), Contains("/plan/expert_sharding: ep_dp is not built yet without"));
  plan = {};
  plan.recompute = {Recompute::MpGather};
  CHECK_THAT(fault(repeating(), plan), Contains("without parallelism.sequence_parallel each has all of them"));
}

TEST_CASE("A system repeats tokens where the experiment leaves it open and its groups allow it") {
  System system;
  system.sequence_parallel = false;
  const std::optional<Experiment> own = as_run_by(system, test::round_numbers());
  REQUIRE(own);
  CHECK(own->parallelism.repeats_tokens());
  SECTION("with the capacity that follows") {
    Experiment e = test::round_numbers();
    e.workload.capacity_factor = 0;
    resolve_capacity(e);
    CHECK(e.workload.capacity_rows == 4);
    CHECK(as_run_by(system, e)->workload.capacity_rows == 8);
  }
  SECTION("but not where the experiment says otherwise") {
    Experiment e = test::round_numbers();
    e.parallelism.sequence_parallel = true;
    CHECK(!as_run_by(system, e));
  }
  SECTION("nor where experts are whole, or there is nothing to repeat") {
    Experiment e = test::round_numbers();
    e.parallelism = {.dp = 2, .mp = 2, .ep = 4, .esp = 1};
    CHECK(!as_run_by(system, e));
    e.parallelism = {.dp = 4, .mp = 1, .ep = 4, .esp = 1};
    CHECK(!as_run_by(system, e));
  }
  SECTION("nor does any other system") {
    CHECK(!as_run_by(System(), test::round_numbers()));
  }
}
