// The kernels of ops do the work that parameters and tokens ask for.
#include "models/schedule/op_work.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "models/plan/expert_sharding.hpp"
#include "models/price/build_schedule.hpp"
#include "tests/support/experiments.hpp"
#include "tests/support/random_plans.hpp"

using namespace dovetail;

namespace {

double shapes_flops(const Schedule& s, const KernelWork& work) {
  double sum = 0;
  for (const KernelUse& kernel : s.kernels_of(work)) sum += kernel.times * flops(kernel.shape).value();
  return sum;
}

int launches(const Schedule& s, const KernelWork& work) {
  int sum = 0;
  for (const KernelUse& kernel : s.kernels_of(work)) sum += kernel.launches;
  return sum;
}

}  // namespace

TEST_CASE("the flops of random steps are those of their kernels' shapes") {
  test::Random random(17);
  for (int tried = 0; tried < 200; ++tried) {
    const Experiment e = test::random_experiment(random);
    const Plan plan = test::random_legal_plan(random, e);
    const Schedule s = build_schedule(e, plan);
    INFO(test::describe(e, plan));
    for (const Op& op : s.ops)
      if (const KernelWork* work = op.kernel()) {
        CHECK(shapes_flops(s, *work) == Approx(work->flops.value()));
        CHECK(launches(s, *work) == work->gemms);
        CHECK(work->row_share == 1);
      }
  }
}

TEST_CASE("attention, dense layers and experts do two operations for each parameter and row, twice that backward") {
  test::Random random(18);
  for (int tried = 0; tried < 100; ++tried) {
    const Experiment e = test::random_experiment(random);
    const Plan plan;
    const LayerVolumes v = layer_volumes(e, plan, e.model.first_moe());
    ScheduleWriter writer(0);
    const OpWork work(v, e, plan, writer);
    const double tokens = 2.0 * static_cast<double>(v.sequence_tokens);
    const double projections = tokens * static_cast<double>(v.attention_parameters);
    const double scores = v.attention_score_flops.value();
    CHECK(work.attention(Phase::Forward).flops.value() == Approx(projections + scores));
    CHECK(work.attention(Phase::Backward).flops.value() == Approx(2 * projections + 2.5 * scores));
    CHECK(work.dense_ffn(Phase::Forward).flops.value() == Approx(tokens * static_cast<double>(v.ffn_parameters)));
    const ChunkRange all = RowRange{0, v.capacity};
    const auto experts = [&](Phase phase) { return std::get<KernelWork>(work.expert(phase, all)).flops.value(); };
    CHECK(experts(Phase::Forward) == Approx(v.expert_flops(v.expert_rows(all)).value()));
    CHECK(experts(Phase::Backward) == Approx(2 * experts(Phase::Forward)));
  }
}

TEST_CASE("chunks of attention add up to the whole") {
  test::Random random(19);
  for (int tried = 0; tried < 50; ++tried) {
    const Experiment e = test::random_experiment(random);
    const Plan plan;
    const LayerVolumes v = layer_volumes(e, plan, e.model.first_moe());
    ScheduleWriter writer(0);
    double chunks = 0;
    for (int i = 0; i < 4; ++i) {
      const TokenPart part = token_part(v, 4, i);
      chunks += OpWork(part.volumes, e, plan, writer).attention_chunk(Phase::Forward).flops.value();
    }
    CHECK(chunks == Approx(OpWork(v, e, plan, writer).attention_chunk(Phase::Forward).flops.value()));
  }
}

TEST_CASE("products backward have the shapes of the gradients of the input and of the weights") {
  KernelList kernels;
  kernels.add_product(Phase::Backward, 3, 5, 7);  // forward C[3, 5] = A[3, 7] B[7, 5]
  REQUIRE(kernels.all().size() == 2);
  CHECK(kernels.all()[0].shape == gemm_shape(3, 7, 5));
  CHECK(kernels.all()[1].shape == gemm_shape(7, 5, 3));
}

TEST_CASE("layers that are alike share their list of kernels") {
  const Experiment e = test::testbed_b(7);
  const Schedule seven = build_schedule(e, Plan{});
  const Schedule one = build_schedule(test::testbed_b(1), Plan{});
  CHECK(seven.kernels == one.kernels);
}
