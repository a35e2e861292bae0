// SPDX-License-Identifier: Apache-2.0
// Norms of queries and keys against the double reference, and against finite differences.
#include <catch2/catch.hpp>
#include <cmath>

#include "exec/reference/reference.hpp"
#include "models/base/errors.hpp"
#include "models/base/names.hpp"
#include "tests/exec/check_numerics.hpp"
#include "tests/exec/exec_support.hpp"

using namespace dovetail;
using namespace dovetail::test;

namespace {

Experiment normed(QkNorm norm, int mp, int layers) {
  SmallExperiment s;
  s.mp = s.esp = mp;
  s.dp = s.ep = 4 / mp;
  s.layers = layers;
  s.kv_heads = 2;
  Experiment e = small_experiment(s);
  e.model.attention.qk_norm = norm;
  e.workload.extent = Extent::WholeLayers;
  return e;
}

}  // namespace

TEST_CASE("Norms of queries and keys compute what the reference does, whole, in chunks and recomputed") {
  const QkNorm norm = GENERATE(QkNorm::Head, QkNorm::Width);
  const int mp = GENERATE(1, 2);
  const Experiment e = normed(norm, mp, 2);
  CAPTURE(name_in(qk_norm_names, norm), mp);
  Plan plan;
  check_numerics(e, plan);
  plan.zero = 1;
  plan.recompute = {Recompute::Full};
  check_numerics(e, plan);
  plan.recompute = {Recompute::Attention, Recompute::Norms};
  check_numerics(e, plan);
  plan.scope = Scope::Block;
  plan.forward_degree = plan.backward_degree = 2;
  check_numerics(e, plan);
}

TEST_CASE("The norm of padded heads is nothing") {
  const QkNorm norm = GENERATE(QkNorm::Head, QkNorm::Width);
  SmallExperiment s;
  s.mp = s.esp = 2;
  s.dp = s.ep = 2;
  s.heads = s.kv_heads = 3;  // padded to 4
  Experiment e = small_experiment(s);
  e.model.attention.qk_norm = norm;
  e.workload.extent = Extent::WholeLayers;
  check_numerics(e, Plan{});
}

TEST_CASE("Ranks that share all heads of a norm send the sums that are simulated") {
  const Experiment e = normed(QkNorm::Width, 2, 1);
  const ExecutedStep step = execute(e, Plan{});
  int sums = 0;
  for (const OpId i : step.schedule->ops.ids()) {
    const Op& op = step.schedule->ops[i];
    if (op.exchange() == nullptr ||
        step.schedule->tensors[step.schedule->reads_of(op)[0]].kind != TensorKind::QueryKeySums)
      continue;
    CHECK(step.sent[i].sent == Approx(simulated_bytes(e, *step.schedule, op)));
    ++sums;
  }
  CHECK(sums == 2);  // forward and backward
}

TEST_CASE("Gradients of the norms of queries and keys are those of finite differences") {
  Experiment e = normed(GENERATE(QkNorm::Head, QkNorm::Width), 1, 1);
  exec::ModelData data = exec::random_model_data(e, 5);
  Values& weights = data.layers[0].norm;
  REQUIRE(weights.size() ==
          static_cast<std::size_t>(2 * 8 + (e.model.attention.qk_norm == QkNorm::Head ? 2 * 4 : 6 * 4)));
  const exec::Reference reference = exec::compute_reference(e, data);
  const auto loss = [&] { return dot(exec::compute_reference(e, data).output, data.output_gradient); };
  // The gate chooses the same experts, so that small steps change nothing else.
  Values own(weights.begin() + 2 * 8, weights.end());
  const Values gradient(reference.gradients[0].norm.begin() + 2 * 8, reference.gradients[0].norm.end());
  const auto of_own = [&] {
    std::ranges::copy(own, weights.begin() + 2 * 8);
    return loss();
  };
  CHECK(gradient_error(own, gradient, of_own) < 1e-6);
}
