// SPDX-License-Identifier: Apache-2.0
// Every gate, encoding, capacity mode and routing model on real plans, against the reference.
#include <catch2/catch.hpp>

#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "models/question/capacity.hpp"
#include "models/question/experiment_rules.hpp"
#include "models/question/volumes.hpp"
#include "tests/exec/check_numerics.hpp"
#include "tests/exec/exec_support.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

Plan chunked(int forward_degree, int backward_degree, Encoding encoding) {
  Plan plan;
  plan.scope = Scope::Moe;
  plan.forward_degree = forward_degree;
  plan.backward_degree = backward_degree;
  plan.comm_streams = CommStreams::InterIntra;
  plan.encoding = encoding;
  return plan;
}

SmallExperiment two_gated_layers() {
  SmallExperiment s;
  s.dp = s.mp = s.ep = s.esp = 2;
  s.layers = 2;
  s.kind = ExpertKind::Gated;
  return s;
}

std::string describe(const Experiment& e, const Plan& p) {
  const Workload& w = e.workload;
  return std::string(name_in(gate_kind_names, w.gate.kind)) + ", " + std::string(name_in(encoding_names, p.encoding)) +
         ", routing " + std::string(name_in(routing_kind_names, w.routing.kind)) + ", top " + std::to_string(w.top_k) +
         ", f " + std::to_string(w.capacity_factor) + ", C " + std::to_string(layer_volumes(e).capacity);
}

void check_all_encodings(const Experiment& e, bool some_dropped = false) {
  for (const Encoding encoding : {Encoding::Sparse, Encoding::Dense}) {
    if (e.workload.gate.kind == GateKind::SoftMoe && encoding == Encoding::Sparse) continue;
    const Plan plan = chunked(2, 3, encoding);
    INFO(describe(e, plan));
    check_numerics(e, plan, some_dropped);
  }
}

}  // namespace

TEST_CASE("Every gate computes what the reference does, in chunks, sparse and dense") {
  Experiment e = small_experiment(two_gated_layers());
  e.workload.gate.kind = GENERATE(GateKind::Softmax, GateKind::Gshard, GateKind::Sigmoid, GateKind::XMoe,
                                  GateKind::Cosine, GateKind::ExpertChoice, GateKind::SoftMoe);
  REQUIRE(layer_volumes(e).capacity == 5);  // neither 2 nor 3 divides it
  check_all_encodings(e);
}

TEST_CASE("Renormalised and batch prioritised gates, with drops") {
  Experiment e = small_experiment(two_gated_layers());
  e.workload.gate.kind = GENERATE(GateKind::Softmax, GateKind::Gshard, GateKind::Sigmoid, GateKind::Cosine);
  e.workload.gate.renormalise = GENERATE(false, true);
  e.workload.gate.batch_prioritised = true;
  e.workload.capacity_factor = .75;
  check_all_encodings(e, true);
}

TEST_CASE("Skewed routing drops what its model says, whatever the gate") {
  Experiment e = small_experiment(two_gated_layers());
  e.workload.gate.kind = GENERATE(GateKind::Softmax, GateKind::Gshard, GateKind::Sigmoid, GateKind::XMoe);
  e.workload.routing.kind = GENERATE(RoutingKind::Zipf, RoutingKind::Hot);
  e.workload.routing.exponent = 2;
  e.workload.routing.hot_expert = 3;
  e.workload.routing.hot_share = .5;  // of 16 choices of 8 tokens: all tokens, and 8 over the other three
  e.workload.capacity_factor = 1.25;
  check_all_encodings(e, true);
  CHECK(numerics_of(e, chunked(2, 2, Encoding::Sparse), Element::Double).dropped == summarize_routing(e).dropped);
}

TEST_CASE("Experts without tokens") {
  SmallExperiment s = two_gated_layers();
  s.experts = 6;
  s.top_k = GENERATE(1, 2);
  Experiment e = small_experiment(s);
  e.workload.gate.kind = GENERATE(GateKind::Softmax, GateKind::Gshard);
  e.workload.routing.kind = RoutingKind::Trace;
  e.workload.routing.layers = {{{0, 3, 0, 1, 0, 0}, {1, 1, 0, 0, 0, 0}}, {{0, 0, 0, 0, 5, 5}}};
  e.workload.capacity_factor = 2;
  check_all_encodings(e);
}

TEST_CASE("Any number of choices, at the capacity that drops nothing and at a capped one") {
  SmallExperiment s = two_gated_layers();
  s.top_k = GENERATE(1, 2, 3, 4);
  s.capacity_factor = GENERATE(0.0, -1.25);
  Experiment e = small_experiment(s);
  e.workload.routing.kind = RoutingKind::Zipf;
  resolve_capacity(e);
  validate(e);
  check_all_encodings(e);
  const std::int64_t dropped = numerics_of(e, chunked(1, 1, Encoding::Sparse), Element::Double).dropped;
  CHECK(dropped == summarize_routing(e).dropped);
  if (s.capacity_factor == 0) CHECK(dropped == 0);
}

TEST_CASE("The router's own loads give the capacity that drops nothing") {
  SmallExperiment s = two_gated_layers();
  s.capacity_factor = 0;
  Experiment e = small_experiment(s);
  const std::int64_t largest = compute_reference(e, random_model_data(e, 11)).largest_load;
  e.workload.router_loads = {{1, largest}};
  resolve_capacity(e);
  CHECK(layer_volumes(e).capacity == largest);
  check_all_encodings(e);
  CHECK(numerics_of(e, chunked(1, 1, Encoding::Sparse), Element::Double).dropped == 0);
  e.workload.capacity_rows = largest - 1;
  CHECK(numerics_of(e, chunked(1, 1, Encoding::Sparse), Element::Double).dropped > 0);
}
