// SPDX-License-Identifier: Apache-2.0
// The norm of all gradients, and the updates of gradients that are clipped by it.
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>

#include "exec/host/host_executor.hpp"
#include "exec/reference/reference.hpp"
#include "exec/run/numerics.hpp"
#include "exec/transport/inproc_transport.hpp"
#include "models/price/build_schedule.hpp"
#include "models/schedule/operands.hpp"
#include "tests/exec/check_numerics.hpp"
#include "tests/exec/exec_support.hpp"

using namespace dovetail;
using namespace dovetail::test;

namespace {

constexpr double largest = 1e-3;

Experiment clipped_model(int mp, int layers) {
  SmallExperiment s;
  s.mp = s.esp = mp;
  s.dp = s.ep = 4 / mp;
  s.layers = layers;
  s.batch = 2;
  Experiment e = small_experiment(s);
  e.workload.extent = Extent::Model;
  e.workload.clip_gradients = largest;
  e.model.vocabulary = 23;
  return e;
}

struct Step {
  std::shared_ptr<const Schedule> schedule;
  exec::NumericsReport report;
  double norm = 0;                           // of the reference's gradients
  std::vector<std::vector<Values>> tensors;  // after the step, by rank and tensor; empty in other rank classes
};

Step step_of(const Experiment& e, const Plan& plan) {
  Step step{std::make_shared<const Schedule>(build_schedule(e, plan)), {}, 0, {}};
  const exec::ModelData data = exec::random_model_data(e, 3, plan.micro_batches);
  const exec::Reference reference = exec::compute_reference(e, data, exec::rules_of(*step.schedule));
  const auto transport = exec::make_inproc_transport(step.schedule->groups, e.cluster.gpus(),
                                                     static_cast<int>(step.schedule->streams.size()));
  const auto executor =
      exec::make_host_executor(e, step.schedule, exec::Element::Double, data, reference.routing, *transport);
  executor->run_step(exec::Poison::No);
  step.report = exec::compare(e, *step.schedule, *executor, reference);
  step.norm = exec::gradient_norm(reference);
  for (std::size_t local = 0; local < executor->ranks().size(); ++local) {
    step.tensors.emplace_back();
    for (const TensorId id : step.schedule->tensors.ids()) {
      const bool here = step.schedule->tensors[id].rank_class == step.schedule->class_of_rank(static_cast<int>(local));
      step.tensors.back().push_back(here ? executor->values(local, id) : Values());
    }
  }
  return step;
}

// visit(an element of a tensor of a role, the same element of the other step, the tensor's share before it) on all
// ranks.
template <class Visit>
void for_both(const Step& a, const Step& b, Role role, Visit visit) {
  REQUIRE(a.schedule->tensors.size() >= b.schedule->tensors.size());
  for (std::size_t rank = 0; rank < a.tensors.size(); ++rank)
    for (std::size_t in_a = 0, in_b = 0; in_a < a.tensors[rank].size(); ++in_a) {
      const auto kind = [](const Step& s, std::size_t i) { return s.schedule->tensors[TensorId(i)].kind; };
      if (kind(a, in_a) == TensorKind::GradientSquares || kind(a, in_a) == TensorKind::SquaresOfAll) continue;
      REQUIRE(kind(a, in_a) == kind(b, in_b));
      const Values &of_a = a.tensors[rank][in_a], &of_b = b.tensors[rank][in_b++];
      for (std::size_t i = 0; i < of_a.size() && role.covers(kind(a, in_a), false); ++i)
        visit(of_a[i], of_b[i], static_cast<double>(i) / static_cast<double>(of_a.size()));
    }
}

}  // namespace

TEST_CASE("Clipped gradients: the norm is the reference's, and Adam's moments are those of scaled gradients") {
  Experiment e = clipped_model(GENERATE(1, 2), 2);
  if (GENERATE(false, true)) e.parallelism.edp = e.parallelism.ep, e.parallelism.ep = 1;
  Plan plan;
  plan.zero = GENERATE(0, 1);
  if (GENERATE(false, true)) {
    e.parallelism.pp = 2;
    e.cluster.nodes *= 2;
    plan.micro_batches = 2;
  }
  CAPTURE(e.parallelism.mp, e.parallelism.edp, e.parallelism.pp, plan.zero);
  const Step clipped = step_of(e, plan);
  e.workload.clip_gradients = 0;
  const Step plain = step_of(e, plan);
  CHECK(clipped.report.gradient_norm_error <= 1e-12);
  CHECK(clipped.report.ok(1e-12));
  REQUIRE(clipped.norm > 100 * largest);
  // Both moments start at 0: the first is .1 s g, the second .001 (s g)^2, with s = largest / (norm + 1e-6).
  const double scale = largest / (clipped.norm + 1e-6);
  int seen = 0;
  double worst = 0;
  const auto moment = [&](double with, double without, double before) {
    const double expected = (before < .5 ? scale : scale * scale) * without;
    if (without == 0) return;
    worst = std::max(worst, std::abs(with - expected) / std::abs(expected));
    ++seen;
  };
  for_both(clipped, plain, TensorKind::OptimizerState, moment);
  CHECK(seen > 100);
  CHECK(worst < 1e-9);  // of sums that nearly vanish, which another order changes
  // The first step of Adam is hardly shorter: rate g / (|g| + 1e-8 / s).
  double differ = 0;
  for_both(clipped, plain, roles::weights,
           [&](double a, double b, double) { differ = std::max(differ, std::abs(a - b)); });
  CHECK(differ > 0);
  CHECK(differ < 2e-3);
}

TEST_CASE("Gradients whose norm is small enough stay as they are") {
  Experiment e = clipped_model(2, 1);
  e.workload.clip_gradients = 1e6;
  const Step clipped = step_of(e, Plan{});
  e.workload.clip_gradients = 0;
  const Step plain = step_of(e, Plan{});
  CHECK(clipped.report.gradient_norm_error <= 1e-12);
  for_both(clipped, plain, roles::weights, [](double a, double b, double) { CHECK(a == b); });
}

TEST_CASE("The norm of a single rank's gradients needs no other's") {
  SmallExperiment s;
  Experiment e = small_experiment(s);
  e.workload.extent = Extent::WholeLayers;
  e.workload.clip_gradients = largest;
  const Step step = step_of(e, Plan{});
  CHECK(step.report.gradient_norm_error <= 1e-12);
  CHECK(std::ranges::none_of(step.schedule->ops, [](const Op& op) { return op.exchange() != nullptr; }));
}

TEST_CASE("A step whose gradients are clipped computes what the reference does in double and float") {
  Experiment e = clipped_model(2, 2);
  Plan plan;
  plan.zero = 1;
  plan.scope = Scope::Moe;
  plan.forward_degree = plan.backward_degree = 2;
  check_numerics(e, plan);
}
