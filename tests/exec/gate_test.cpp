// SPDX-License-Identifier: Apache-2.0
// Worked examples of every gate, and its gradients against finite differences of the kernel itself.
#include <catch2/catch.hpp>
#include <cmath>

#include "exec/host/host_kernels.hpp"
#include "exec/step/gate_scores.hpp"
#include "models/base/names.hpp"
#include "tests/exec/exec_support.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

LayerShape gate_shape(GateKind kind = GateKind::Softmax) {
  LayerShape s;
  s.tokens = 6;
  s.hidden = 4;
  s.experts = 3;
  s.top_k = 2;
  s.capacity = 3;
  s.gate.kind = kind;
  s.router_parameters = 12;
  if (kind == GateKind::Gshard) s.router_parameters = 24;
  if (kind == GateKind::SoftMoe) s.router_parameters = 36;
  if (s.gate.cosine()) {
    s.projection = 5;
    s.router_parameters = 5 * (4 + 3) + 1;
  }
  return s;
}

struct GateRun {
  LayerShape shape;
  Values input = random_values(24, 1), router;
  Values routing, combine, dispatch;
  TokenPlace place{1, 12};

  explicit GateRun(const LayerShape& s)
      : shape(s),
        router(random_values(static_cast<std::size_t>(s.router_parameters), 3)),
        routing(static_cast<std::size_t>(3 * s.routing_entries())),
        combine(static_cast<std::size_t>(s.tokens * s.slots())),
        dispatch(combine.size()) {
    if (s.gate.cosine()) router.back() = .4;
  }
  void forward(const Routing& preset = {}) {
    gate_forward<double>(shape, matrix(input, 4), router.data(), place, preset,
                         {routing.data(), combine.data(), dispatch.data()});
  }
  Values logits() { return gate_logits(shape, place, matrix(input, 4), router.data()); }
  bool soft() const { return shape.gate.kind == GateKind::SoftMoe; }
};

LayerShape one_token(GateKind kind, std::int64_t hidden, std::int64_t experts) {
  LayerShape s;
  s.tokens = 1;
  s.hidden = hidden;
  s.experts = experts;
  s.top_k = 2;
  s.capacity = 1;
  s.gate.kind = kind;
  return s;
}

}  // namespace

TEST_CASE("The gate routes its input") {
  GateRun run(gate_shape());
  run.forward();
  const Values p = expert_scores(run.shape, run.logits());
  const Routing expected = route(run.shape, p);
  CHECK(drop_count(expected) > 0);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto [token, expert, slot] = expected[i];
    CHECK(run.routing[3 * i] == token);
    CHECK(run.routing[3 * i + 1] == (slot < 0 ? -1 - expert : 3 * expert + slot));
    CHECK(run.routing[3 * i + 2] == p[static_cast<std::size_t>(3 * token + expert)]);
  }
}

TEST_CASE("The dense weights hold each score at its token and slot, and one for the mask") {
  GateRun run(gate_shape());
  run.forward();
  Values combine(run.combine.size()), dispatch(run.combine.size());
  for (std::int64_t i = 0; i < 12; ++i)
    if (const RoutedChoice<double> c(run.routing.data(), i); !c.dropped()) {
      combine[static_cast<std::size_t>(c.token * 9 + c.place)] = c.score;
      dispatch[static_cast<std::size_t>(c.token * 9 + c.place)] = 1;
    }
  CHECK(run.combine == combine);
  CHECK(run.dispatch == dispatch);
}

TEST_CASE("A preset routing replaces choices and slots, not scores") {
  GateRun run(gate_shape());
  Routing preset;
  for (int t = 0; t < 6; ++t) preset.insert(preset.end(), 2, Choice{t, 2, Choice::dropped});
  preset[5] = {2, 1, 2};
  run.forward(preset);
  const Values p = expert_scores(run.shape, run.logits());
  CHECK(run.routing[16] == 1 * 3 + 2);
  CHECK(run.routing[17] == p[2 * 3 + 1]);
  CHECK(run.routing[1] == -1 - 2);
  for (Choice& c : preset) c = {c.token, (&c - preset.data()) % 2 == 0 ? 0 : 1, Choice::no_slot_yet};
  run.forward(preset);
  CHECK(run.routing[1] == 0);               // token 0 to expert 0's first slot
  CHECK(run.routing[3 * 6 + 1] == -1 - 0);  // token 3: expert 0 has only three
}

TEST_CASE("Softmax scores, as they are or renormalised") {
  // Logits 0, log 2, log 5: p = 1/8, 2/8, 5/8; the best two renormalised: 5/7 and 2/7.
  LayerShape s = one_token(GateKind::Softmax, 2, 3);
  const Values x{1, 2}, w{0, std::log(2.0), std::log(5.0), 0, 0, 0};
  const Values p = expert_scores(s, gate_logits(s, {}, {x.data(), 1, 2}, w.data()));
  CHECK(p[0] == Approx(.125));
  const Routing r = route(s, p);
  CHECK(r[0].expert == 2);
  CHECK(choice_scores(s, p, r)[0] == Approx(.625));
  s.gate.renormalise = true;
  CHECK(choice_scores(s, p, r)[0] == Approx(5.0 / 7));
  CHECK(choice_scores(s, p, r)[1] == Approx(2.0 / 7));
  Values large{1000, 1000 + std::log(3.0)};
  softmax(large);
  CHECK(large[1] == Approx(.75));
}

TEST_CASE("Sigmoid scores are independent of each other") {
  LayerShape s = one_token(GateKind::Sigmoid, 1, 3);
  const Values x{1}, w{0, std::log(3.0), -std::log(3.0)};  // 1/2, 3/4, 1/4
  const Values p = expert_scores(s, gate_logits(s, {}, {x.data(), 1, 1}, w.data()));
  CHECK(p[0] == Approx(.5));
  CHECK(p[1] == Approx(.75));
  CHECK(p[2] == Approx(.25));
  s.gate.renormalise = true;
  CHECK(choice_scores(s, p, route(s, p))[0] == Approx(.6));  // .75 / (.75 + .5)
}

TEST_CASE("GShard's noise is softplus of the second matrix times a normal number, the softmax is over those kept") {
  const LayerShape s = one_token(GateKind::Gshard, 1, 3);
  const Values x{1}, w{1, 2, 3, 0, 0, -50};  // softplus(0) = log 2, softplus(-50) is nearly 0
  const TokenPlace place{2, 7};
  const Values z = gate_logits(s, place, {x.data(), 1, 1}, w.data());
  const auto noise = [&](std::int64_t expert) { return gate_noise(s.gate.noise_seed, 2, 7, expert); };
  CHECK(z[0] == Approx(1 + noise(0) * std::log(2)));
  CHECK(z[1] == Approx(2 + noise(1) * std::log(2)));
  CHECK(z[2] == Approx(3));
  const Values kept = choice_scores(s, expert_scores(s, z), {{0, 1, 0}, {0, 2, 0}});
  CHECK(kept[0] == Approx(1 / (1 + std::exp(z[2] - z[1]))));
  CHECK(kept[0] + kept[1] == Approx(1));
}

TEST_CASE("The noise is standard normal and depends on seed, layer, token and expert") {
  double sum = 0, squares = 0;
  const int count = 40000;
  for (int i = 0; i < count; ++i) {
    const double n = gate_noise(1, 0, i / 8, i % 8);
    sum += n;
    squares += n * n;
  }
  CHECK(std::fabs(sum / count) < 4 / std::sqrt(count));  // four standard errors
  CHECK(std::fabs(squares / count - 1) < 4 * std::sqrt(2.0 / count));
  CHECK(gate_noise(1, 0, 0, 0) == gate_noise(1, 0, 0, 0));
  CHECK(gate_noise(1, 0, 0, 0) != gate_noise(2, 0, 0, 0));
  CHECK(gate_noise(1, 0, 0, 1) != gate_noise(1, 0, 1, 0));
  CHECK(gate_noise(1, 0, 0, 0) != gate_noise(1, 1, 0, 0));
}

TEST_CASE("Cosine gates divide by lengths and by a temperature of at least .01") {
  LayerShape s = one_token(GateKind::Cosine, 2, 2);
  s.projection = 2;
  // x Wp = (3, 4) of length 5; embeddings (2, 0) and (1, 1): cosines .6 and 7 / (5 sqrt 2).
  const Values x{3, 4};
  Values w{1, 0, 0, 1, 2, 1, 0, 1, std::log(2.0)};
  const Values z = gate_logits(s, {}, {x.data(), 1, 2}, w.data());
  CHECK(z[0] == Approx(2 * .6));
  CHECK(z[1] == Approx(2 * 7 / (5 * std::sqrt(2))));
  w.back() = 9;  // temperature e^-9
  CHECK(gate_logits(s, {}, {x.data(), 1, 2}, w.data())[0] == Approx(100 * .6));
}

TEST_CASE("Soft gates: a slot's weights over the tokens add up to one, and a token's over the slots") {
  LayerShape s = one_token(GateKind::SoftMoe, 1, 2);
  s.tokens = 2;
  const Values logits{0, std::log(3.0), std::log(2.0), 0};  // tokens x slots
  const SoftWeights w = soft_weights(s, logits);
  const Values dispatch{1.0 / 3, 3.0 / 4, 2.0 / 3, 1.0 / 4}, combine{1.0 / 4, 3.0 / 4, 2.0 / 3, 1.0 / 3};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(w.dispatch[i] == Approx(dispatch[i]));
    CHECK(w.combine[i] == Approx(combine[i]));
  }
}

TEST_CASE("Every gate's gradients are those of finite differences") {
  const auto kind = GENERATE(GateKind::Softmax, GateKind::Gshard, GateKind::Sigmoid, GateKind::XMoe, GateKind::Cosine,
                             GateKind::ExpertChoice, GateKind::SoftMoe);
  const bool renormalise = GENERATE(false, true);
  INFO(name_in(gate_kind_names, kind) << (renormalise ? " renormalised" : ""));
  GateRun run(gate_shape(kind));
  if (renormalise && !run.shape.gate.token_choice()) return;
  run.shape.gate.renormalise = renormalise;
  run.forward();
  const Values routing = run.routing;
  Values d_scores = random_values(routing.size() / 3, 4), d_combine = random_values(54, 6), d_dispatch = d_combine;
  std::reverse(d_dispatch.begin(), d_dispatch.end());
  if (!run.soft()) std::ranges::fill(d_combine, 0);  // a linear loss of the scores, dropped ones included
  // The loss: each choice's score or each weight.
  const auto loss = [&] {
    run.forward();
    double sum = 0;
    for (std::size_t i = 0; i < d_scores.size(); ++i) sum += run.routing[3 * i + 2] * d_scores[i];
    return run.soft()
               ? sum + dovetail::test::dot(run.combine, d_combine) + dovetail::test::dot(run.dispatch, d_dispatch)
               : sum;
  };
  Values d_input(24), d_router(run.router.size());
  GateWeights<const double> gradient{d_scores.data()};
  if (run.soft()) gradient = {nullptr, d_combine.data(), d_dispatch.data()};
  gate_backward<double>(run.shape, gradient, routing.data(), {matrix(run.input, 4), run.router.data(), run.place},
                        matrix(d_input, 4), d_router.data());
  CHECK(gradient_error(run.input, d_input, loss) < 1e-7);
  CHECK(gradient_error(run.router, d_router, loss) < 1e-7);
}

TEST_CASE("Gradients that stand in dense weights are those of the choices' scores") {
  GateRun run(gate_shape());
  run.forward();
  const Values d_combine = random_values(54, 4);
  Values d_scores;
  for (std::int64_t i = 0; i < 12; ++i) {
    const RoutedChoice<double> c(run.routing.data(), i);
    d_scores.push_back(c.dropped() ? 0 : d_combine[static_cast<std::size_t>(c.token * 9 + c.place)]);
  }
  const auto backward = [&](const GateWeights<const double>& gradient) {
    Values d_input(24), d_router(12);
    gate_backward<double>(run.shape, gradient, run.routing.data(), {matrix(run.input, 4), run.router.data(), run.place},
                          matrix(d_input, 4), d_router.data());
    d_input.insert(d_input.end(), d_router.begin(), d_router.end());
    return d_input;
  };
  CHECK(backward({nullptr, d_combine.data()}) == backward({d_scores.data()}));
}
