// SPDX-License-Identifier: Apache-2.0
// How many products the ops of experts issue, and how large: few that have all rows, whatever ranks these came from.
#include <catch2/catch.hpp>

#include "models/price/build_schedule.hpp"
#include "models/question/capacity.hpp"
#include "tests/exec_device/listing_queue.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

// The work of all expert ops of rank 0 in a phase.
ListingQueue expert_work(const Experiment& e, const Plan& plan, Phase phase) {
  return work_of_ops(e, std::make_shared<const Schedule>(build_schedule(e, plan)), OpKind::Expert, phase,
                     record_expert<float>);
}

// 8 ranks with `experts` each, which exchange rows with all others.
Experiment eight_sources(int experts) {
  Experiment e = round_numbers();
  e.cluster.nodes = 8;
  e.cluster.gpus_per_node = 1;
  e.model.experts = 8 * experts;
  e.model.expert_kind = ExpertKind::Gated;
  e.workload.sequence = 512;
  e.parallelism = default_parallelism(e.cluster, e.model);
  resolve_capacity(e);
  REQUIRE(e.parallelism.ep == 8);
  return e;
}

}  // namespace

TEST_CASE("Eight experts with rows of eight ranks are one batch of eight products for each matrix") {
  const Experiment e = eight_sources(8);
  const std::int64_t rows = 8 * layer_volumes(e).capacity, hidden = e.model.hidden, inner = e.model.expert_hidden;
  const ListingQueue forward = expert_work(e, Plan(), Phase::Forward),
                     backward = expert_work(e, Plan(), Phase::Backward);
  // x W1, x W3 and the activation's by W2; their gradients are 2 each, but the activation's is one for W1 and W3.
  REQUIRE(forward.products.size() == 3);
  REQUIRE(backward.products.size() == 6);
  for (const ListingQueue* queue : {&forward, &backward})
    for (const Product& p : queue->products) {
      CHECK(p.batch.count == 8);
      CHECK((p.m == rows || p.k == rows));
    }
  CHECK(operations(forward.products) == 3 * 2. * 8 * static_cast<double>(rows * hidden * inner));
  CHECK(operations(backward.products) == 2 * operations(forward.products));
  CHECK(forward.kernels == 3);   // rows there, activation, results back
  CHECK(backward.kernels == 4);  // gradients and rows there, activation, gradients back
}

TEST_CASE("Products of one expert with W1 and W3 are one batch of two, and nothing is moved") {
  const Experiment e = eight_sources(1);
  const ListingQueue forward = expert_work(e, Plan(), Phase::Forward),
                     backward = expert_work(e, Plan(), Phase::Backward);
  REQUIRE(forward.products.size() == 2);
  CHECK(forward.products[0].batch.count == 2);
  CHECK(forward.products[1].m == 8 * layer_volumes(e).capacity);
  CHECK(backward.products.size() == 5);
  CHECK(forward.kernels == 1);  // the activation
  CHECK(backward.kernels == 1);
}

TEST_CASE("Weights have one product for each backward chunk, however many forward chunks it covers") {
  const Experiment e = eight_sources(8);
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = 4;
  plan.backward_degree = 2;
  const double whole = operations(expert_work(e, Plan(), Phase::Backward).products);
  const ListingQueue backward = expert_work(e, plan, Phase::Backward);
  CHECK(backward.products.size() == 2 * 6);
  CHECK(operations(backward.products) == whole);
}

TEST_CASE("Rank-major rows are multiplied block by block") {
  const Experiment e = eight_sources(8);
  Plan plan;
  plan.layout = Layout::RankMajor;
  const ListingQueue forward = expert_work(e, plan, Phase::Forward);
  CHECK(forward.products.size() == 3 * 8);  // of each rank's rows a batch over the experts
  for (const Product& p : forward.products) CHECK(p.m == layer_volumes(e).capacity);
  CHECK(operations(forward.products) == operations(expert_work(e, Plan(), Phase::Forward).products));
}
