// SPDX-License-Identifier: Apache-2.0
// Plans that move rows, weights or both in other ways compute what the reference does.
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "models/question/volumes.hpp"
#include "tests/exec/check_numerics.hpp"
#include "tests/exec/exec_support.hpp"

using namespace dovetail;
using namespace dovetail::test;

namespace {

Plan degrees_plan(int forward_degree = 1, int backward_degree = 1) {
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = forward_degree;
  plan.backward_degree = backward_degree;
  return plan;
}

Plan peers(int group) {
  Plan plan = degrees_plan();
  plan.split = Split::Peers;
  plan.peer_group = group;
  return plan;
}

// Ranks in groups of `esp` that share experts, without model parallelism: ep x esp of them.
SmallExperiment grid(int ep, int esp) {
  SmallExperiment s;
  s.dp = ep * esp;
  s.ep = ep;
  s.esp = esp;
  return s;
}

}  // namespace

TEST_CASE("Peer groups of any size compute the same, with any order and streams", "[experts]") {
  SmallExperiment s = grid(4, 1);
  s.experts = 8;
  s.layers = 2;
  s.kind = GENERATE(ExpertKind::Ffn, ExpertKind::Gated);
  Plan plan = peers(GENERATE(1, 2, 3, 4, 9));
  plan.comm_streams = GENERATE(CommStreams::One, CommStreams::InterIntra);
  check_numerics(small_experiment(s), plan);
}

TEST_CASE("Peer groups with shared experts, replicas and drops", "[experts]") {
  SmallExperiment s = grid(3, 2);
  s.experts = 6;
  s.edp = 2;
  s.dp = 12;
  s.capacity_factor = .5;
  check_numerics(small_experiment(s), peers(GENERATE(1, 2)), true);
}

TEST_CASE("Weights gathered, rows repeated, or some of both: the same results", "[experts]") {
  SmallExperiment s = grid(2, 4);
  s.layers = 2;
  s.kind = GENERATE(ExpertKind::Ffn, ExpertKind::Gated);
  Plan plan = degrees_plan(2, 3);
  plan.comm_streams = GENERATE(CommStreams::One, CommStreams::InterIntra);
  SECTION("gathered") {
    plan.expert_sharding = ExpertSharding::EpDp;
  }
  SECTION("repeated") {
    plan.expert_sharding = ExpertSharding::EpMp;
    plan.sharding_repeats = GENERATE(0, 1, 2, 4);
  }
  const Experiment e = small_experiment(s);
  REQUIRE(layer_volumes(e).capacity == 10);  // 3 does not divide it
  check_numerics(e, plan);
}

TEST_CASE("Shadowed experts stay with every rank", "[experts]") {
  SmallExperiment s = grid(4, 1);
  s.experts = 8;
  s.layers = 2;
  s.kind = GENERATE(ExpertKind::Ffn, ExpertKind::Gated);
  Plan plan = degrees_plan(2, 3);
  plan.comm_streams = GENERATE(CommStreams::One, CommStreams::InterIntra);
  // One of an owner; all of one owner; all but one expert.
  plan.shadowed_experts = GENERATE(values<std::vector<int>>({{5}, {2, 3}, {0, 3, 6}, {0, 1, 2, 3, 4, 6, 7}}));
  const Experiment e = small_experiment(s);
  SECTION("in capacity chunks") {
    check_numerics(e, plan);
  }
  SECTION("in peer groups") {
    plan.split = Split::Peers;
    plan.forward_degree = plan.backward_degree = 1;
    plan.peer_group = 2;
    check_numerics(e, plan);
  }
}

TEST_CASE("A GEMM for each rank's rows gives the same", "[experts]") {
  SmallExperiment s = grid(2, 2);
  s.kind = GENERATE(ExpertKind::Ffn, ExpertKind::Gated);
  Plan plan = degrees_plan(3, 2);
  plan.layout = Layout::RankMajor;
  plan.row_tile = GENERATE(0, 8);
  check_numerics(small_experiment(s), plan);
}

TEST_CASE("Random mixes of all of it compute the same", "[experts]") {
  std::mt19937 random(5);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  for (int i = 0; i < 60; ++i) {
    SmallExperiment s = grid(pick(1, 3), 1 << pick(0, 2));
    s.edp = pick(1, 4) == 1 ? 2 : 1;
    s.dp *= s.edp;
    s.experts = s.ep * pick(1, 4);
    s.top_k = std::min(pick(1, 3), s.experts);
    s.sequence = 4 * pick(1, 4);
    s.layers = pick(1, 2);
    s.capacity_factor = std::min(pick(1, 12) / 4.0, static_cast<double>(s.experts) / s.top_k);  // up to all tokens
    s.kind = pick(0, 1) == 0 ? ExpertKind::Ffn : ExpertKind::Gated;
    const Experiment e = small_experiment(s);
    const int capacity = static_cast<int>(layer_volumes(e).capacity);
    Plan plan = pick(0, 1) == 0 ? degrees_plan(pick(1, std::min(4, capacity)), pick(1, std::min(4, capacity)))
                                : peers(pick(1, 4));
    plan.comm_streams = pick(0, 1) == 0 ? CommStreams::One : CommStreams::InterIntra;
    plan.grad_sync = pick(0, 1) == 0 ? GradSync::After : GradSync::WithDense;
    plan.layout = pick(0, 2) == 0 ? Layout::RankMajor : Layout::ExpertMajor;
    plan.expert_sharding = std::array{ExpertSharding::Ep, ExpertSharding::EpDp,
                                      ExpertSharding::EpMp}[static_cast<std::size_t>(pick(0, 2))];
    if (plan.expert_sharding == ExpertSharding::EpMp) plan.sharding_repeats = std::gcd(s.esp, pick(1, 4));
    if (s.ep > 1 && s.esp == 1 && s.experts > 1 && pick(0, 1) == 0) {
      for (int expert = 0; expert < s.experts; ++expert)
        if (pick(0, 2) == 0) plan.shadowed_experts.push_back(expert);
      if (static_cast<int>(plan.shadowed_experts.size()) == s.experts) plan.shadowed_experts.pop_back();
    }
    INFO("mix " << i << ": ep " << s.ep << " esp " << s.esp << " edp " << s.edp << " experts " << s.experts);
    check_numerics(e, plan);
  }
}
