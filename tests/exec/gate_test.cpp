#include <catch2/catch.hpp>

#include "exec/host_kernels.hpp"
#include "tests/exec/exec_support.hpp"

using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

LayerShape gate_shape() {
  LayerShape s;
  s.tokens = 6;
  s.hidden = 4;
  s.experts = 3;
  s.top_k = 2;
  s.capacity = 3;
  return s;
}

struct GateRun {
  LayerShape shape = gate_shape();
  Values layer_input = random_values(24, 1), attention_output = random_values(24, 2), router = random_values(12, 3);
  Values moe_input = Values(24), routing = Values(36);
  void forward(const Routing& preset = {}) {
    gate_forward<double>(shape, matrix(layer_input, 4), matrix(attention_output, 4), matrix(router, 3), preset,
                         matrix(moe_input, 4), routing.data());
  }
};

}  // namespace

TEST_CASE("The gate adds the residual and routes its sum") {
  GateRun run;
  run.forward();
  Values sum;
  for (std::size_t i = 0; i < 24; ++i) sum.push_back(run.layer_input[i] + run.attention_output[i]);
  CHECK(run.moe_input == sum);
  const Values p = router_probabilities<double>(matrix(sum, 4), matrix(run.router, 3));
  const Routing expected = route(p, 3, 2, 3);
  CHECK(drop_count(expected) > 0);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(run.routing[3 * i] == expected[i].expert);
    CHECK(run.routing[3 * i + 1] == expected[i].slot);
    CHECK(run.routing[3 * i + 2] == p[i / 2 * 3 + static_cast<std::size_t>(expected[i].expert)]);
  }
}

TEST_CASE("A preset routing replaces choices and slots, not scores") {
  GateRun run;
  Routing preset(12, Choice{2, -1});
  preset[5] = {1, 2};
  run.forward(preset);
  const Values p = router_probabilities<double>(matrix(run.moe_input, 4), matrix(run.router, 3));
  CHECK(run.routing[15] == 1);
  CHECK(run.routing[16] == 2);
  CHECK(run.routing[17] == p[2 * 3 + 1]);
  CHECK(run.routing[1] == -1);
}

TEST_CASE("The gate's gradients are those of finite differences") {
  GateRun run;
  run.forward();
  const Values routing = run.routing;
  const Values score_gradient = random_values(12, 4), output_gradient = random_values(24, 5);
  // The loss: the output through the residual, and each choice's score.
  const auto loss = [&] {
    run.forward();
    double sum = dovetail::test::dot(run.moe_input, output_gradient);
    for (std::size_t i = 0; i < 12; ++i) sum += run.routing[3 * i + 2] * score_gradient[i];
    return sum;
  };
  Values d_moe_input(24), d_router(12), sum_gradient = output_gradient;
  gate_backward<double>(run.shape, matrix(sum_gradient, 4), score_gradient.data(), routing.data(),
                        {matrix(run.moe_input, 4), matrix(run.router, 3)}, matrix(d_moe_input, 4), matrix(d_router, 3));
  CHECK(gradient_error(run.layer_input, d_moe_input, loss) < 1e-7);
  CHECK(gradient_error(run.router, d_router, loss) < 1e-7);
}
