// SPDX-License-Identifier: Apache-2.0
// Rotary positions: the turn by hand, on the host and in the reference, and what follows from it.
#include "exec/host/rotary.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "exec/reference/attention.hpp"
#include "exec/reference/reference.hpp"
#include "models/base/errors.hpp"
#include "tests/exec/check_numerics.hpp"
#include "tests/exec/exec_support.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

LayerShape heads_of(int samples, int sequence, int heads, int kv_heads, int head_size) {
  LayerShape s;
  s.samples = samples;
  s.sequence = sequence;
  s.heads = heads;
  s.kv_heads = kv_heads;
  s.head_size = head_size;
  s.rotary = true;
  return s;
}

Values turned(const LayerShape& s, Turn turn, const Values& from) {
  Values to(from.size());
  const std::int64_t cols = s.query_width() + s.key_width();
  turn_queries_keys<double>(s, turn, matrix(from, cols), matrix(to, cols));
  return to;
}

// (1, 2, 3, 4) at position 1: the pair (1, 3) is turned by 1, and the pair (2, 4) by 1 / 10000^(2 / 4) = 1 / 100.
const Values head_at_1{1 * std::cos(1.0) - 3 * std::sin(1.0), 2 * std::cos(.01) - 4 * std::sin(.01),
                       3 * std::cos(1.0) + 1 * std::sin(1.0), 4 * std::cos(.01) + 2 * std::sin(.01)};

Experiment whole_layers(QkNorm norm = QkNorm::None, int mp = 1) {
  SmallExperiment sizes;
  sizes.mp = sizes.esp = mp;
  sizes.dp = sizes.ep = 4 / mp;
  sizes.sequence = 8;
  sizes.kv_heads = 2;
  Experiment e = small_experiment(sizes);
  e.workload.extent = Extent::WholeLayers;
  e.model.attention.qk_norm = norm;
  return e;
}

}  // namespace

TEST_CASE("A head of 4 elements is turned by its position, by hand", "[rotary]") {
  const LayerShape s = heads_of(2, 2, 1, 1, 4);  // two samples of positions 0 and 1; a query and a key
  Values rows;
  for (int token = 0; token < 4; ++token) rows.insert(rows.end(), {1, 2, 3, 4, -1, -2, -3, -4});
  Values expected;
  for (int token = 0; token < 4; ++token)
    for (int sign : {1, -1})
      for (std::size_t i = 0; i < 4; ++i)
        expected.push_back(sign * (token % 2 == 0 ? static_cast<double>(i + 1) : head_at_1[i]));
  CHECK_THAT(turned(s, Turn::On, rows), Catch::Approx(expected).epsilon(1e-15));
  CHECK_THAT(turned(s, Turn::Back, turned(s, Turn::On, rows)), Catch::Approx(rows).epsilon(1e-15));
}

TEST_CASE("A score depends on the difference of two positions alone", "[rotary]") {
  const int apart = GENERATE(0, 1, 7), head_size = GENERATE(2, 6, 64), sequence = 40;
  const auto size = static_cast<std::size_t>(head_size);
  const Values query = random_values(size, 1), key = random_values(size, 2);
  Values rows;
  for (int position = 0; position < sequence; ++position) {
    rows.insert(rows.end(), query.begin(), query.end());
    rows.insert(rows.end(), key.begin(), key.end());
  }
  const Values all = turned(heads_of(1, sequence, 1, 1, head_size), Turn::On, rows);
  const auto score = [&](int of_query, int of_key) {
    const double* const q = &all[static_cast<std::size_t>(of_query) * 2 * size];
    const double* const k = &all[static_cast<std::size_t>(of_key) * 2 * size + size];
    return naive::dot(q, k, size);
  };
  if (apart == 0) CHECK(score(3, 3) == Approx(dovetail::test::dot(query, key)));
  for (int position = apart; position < sequence; ++position)
    CHECK(score(position, position - apart) == Approx(score(apart, 0)).epsilon(1e-12));
  CHECK(score(9, 8) != Approx(score(9, 7)));
}

TEST_CASE("The reference turns queries and keys of whole layers, and of no others", "[rotary]") {
  Experiment e = whole_layers();
  e.model.hidden = 4;
  e.workload.extent = GENERATE(Extent::Layers, Extent::WholeLayers);
  e.workload.sequence = 2;
  const bool turns = e.workload.extent == Extent::WholeLayers;
  const naive::Sizes s(e, {});
  LayerWeights w = zero_weights(e, 0);
  for (std::size_t i = 0; i < 4; ++i)  // every head of queries and keys is the token itself
    for (std::size_t head = 0; head < 4; ++head) {
      w.query[i * 16 + head * 4 + i] = 1;
      if (head < 2) w.key[i * 8 + head * 4 + i] = 1;
    }
  Values x, sum(s.tokens * 4);
  for (std::size_t token = 0; token < s.tokens; ++token) x.insert(x.end(), {1, 2, 3, 4});
  naive::AttentionPass pass;
  naive::add_attention(s, w, x, pass, sum);
  for (std::size_t token = 0; token < s.tokens; ++token)
    for (std::size_t i = 0; i < 4; ++i) {
      const double expected = turns && token % 2 == 1 ? head_at_1[i] : static_cast<double>(i + 1);
      for (std::size_t head = 0; head < 4; ++head)
        CHECK(pass.query[token * 16 + head * 4 + i] == Approx(expected).epsilon(1e-14));
      for (std::size_t head = 0; head < 2; ++head)
        CHECK(pass.key[token * 8 + head * 4 + i] == Approx(expected).epsilon(1e-14));
    }
}

TEST_CASE("Gradients through turned queries and keys are those of finite differences", "[rotary]") {
  const Experiment e = whole_layers(GENERATE(QkNorm::None, QkNorm::Head));
  ModelData data = random_model_data(e, 5);
  const Reference r = compute_reference(e, data);
  const auto loss = [&] { return dovetail::test::dot(compute_reference(e, data).output, data.output_gradient); };
  CHECK(gradient_error(data.layers[0].query, r.gradients[0].query, loss) < 1e-6);
  CHECK(gradient_error(data.layers[0].key, r.gradients[0].key, loss) < 1e-6);
}

TEST_CASE("Hosts turn what the reference turns: whole, in chunks of positions, recomputed, and over mp ranks",
          "[rotary]") {
  const QkNorm norm = GENERATE(QkNorm::None, QkNorm::Head);
  const int mp = GENERATE(1, 2);
  Experiment e = whole_layers(norm, mp);
  e.workload.batch = 2;
  e.workload.layers = e.model.layers = 2;
  CAPTURE(mp, norm == QkNorm::Head);
  Plan plan;
  check_numerics(e, plan);
  plan.scope = Scope::Block;
  plan.forward_degree = plan.backward_degree = 4;
  check_numerics(e, plan);
  plan.recompute = {Recompute::Full};
  check_numerics(e, plan);
  plan.recompute = {Recompute::Attention, Recompute::Norms};
  check_numerics(e, plan);
}

TEST_CASE("Heads of an odd size have no pairs, which whole layers need", "[rotary]") {
  Experiment e = whole_layers();
  e.model.attention.head_size = 3;
  CHECK_THROWS_AS(layer_shape(e), InputError);
  e.workload.extent = Extent::Layers;
  CHECK_NOTHROW(layer_shape(e));
}
