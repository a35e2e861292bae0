// SPDX-License-Identifier: Apache-2.0
// Bodies whose rows many lanes share, run by as many threads that wait for one another: they leave what one lane
// leaves.
#include <algorithm>
#include <array>
#include <barrier>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "exec/device/attention_bodies.hpp"
#include "exec/device/expert_bodies.hpp"
#include "exec/device/gate_bodies.hpp"

using namespace dovetail::exec;

namespace {

constexpr int lane_count = 8;

// Threads that stand for the lanes of a warp of a GPU.
class ThreadLanes {
 public:
  struct Shared {
    std::barrier<> barrier{lane_count};
    std::array<double, lane_count> values = {};
  };
  ThreadLanes(Shared& shared, int index) : shared_(shared), index_(index) {}

  int index() const { return index_; }
  int count() const { return lane_count; }
  void sync() const { shared_.barrier.arrive_and_wait(); }
  template <class Number>
  Number sum(Number x) const {
    return static_cast<Number>(reduced(x, lane_count, [](double a, double b) { return a + b; }));
  }
  template <class Number>
  Number max(Number x) const {
    return static_cast<Number>(reduced(x, lane_count, [](double a, double b) { return a > b ? a : b; }));
  }
  template <class Number>
  Number before(Number x) const {
    return static_cast<Number>(reduced(x, index_ + 1, [](double a, double b) { return a + b; })) - x;
  }
  Alike alike(int key) const {
    shared_.values[static_cast<std::size_t>(index_)] = key;
    sync();
    Alike result{0, 0};
    for (int i = 0; i < lane_count; ++i)
      if (static_cast<int>(shared_.values[static_cast<std::size_t>(i)]) == key) {
        ++result.count;
        result.before += i < index_;
      }
    sync();
    return result;
  }

 private:
  // Reduces over the first lanes.
  template <class Combine>
  double reduced(double x, int lanes, Combine combine) const {
    shared_.values[static_cast<std::size_t>(index_)] = x;
    sync();
    double result = shared_.values[0];
    for (int i = 1; i < lanes; ++i) result = combine(result, shared_.values[static_cast<std::size_t>(i)]);
    sync();
    return result;
  }

  Shared& shared_;
  int index_;
};

template <class Body>
void run_rows(std::int64_t rows, const Body& body) {
  ThreadLanes::Shared shared;
  std::vector<std::thread> threads;
  for (int lane = 0; lane < lane_count; ++lane)
    threads.emplace_back([&shared, &body, lane, rows] {
      for (std::int64_t row = 0; row < rows; ++row) body(row, ThreadLanes(shared, lane));
    });
  for (std::thread& thread : threads) thread.join();
}

std::vector<float> noise(std::size_t size) {
  static std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<Bf16> rounded(const std::vector<float>& values) {
  std::vector<Bf16> result;
  for (float value : values) result.push_back(bf16(value));
  return result;
}

}  // namespace

TEST_CASE("Lanes count and give the slots that one lane gives") {
  const GateShape shape{150, 5, 2, 40, 7, false, false};  // 300 choices: four segments of 64 and a part of one
  std::mt19937 random(9);
  std::vector<std::int32_t> experts(300), counts(25), slots(300), expected_slots(300);
  for (std::int32_t& expert : experts) expert = static_cast<std::int32_t>(random() % 5);
  const SlotOrder order{shape, experts.data(), counts.data()};
  for (std::int64_t i = 0; i < 5; ++i) CountChoices{order}(i, OneLane());
  for (std::int64_t i = 0; i < 5; ++i) AddUpCounts{order}(i, OneLane());
  for (std::int64_t i = 0; i < 5; ++i) GiveSlots{order, expected_slots.data()}(i, OneLane());
  std::ranges::fill(counts, 99);
  run_rows(5, CountChoices{order});
  CHECK(std::accumulate(counts.begin(), counts.end(), 0) == 300);
  run_rows(5, AddUpCounts{order});
  run_rows(5, GiveSlots{order, slots.data()});
  CHECK(slots == expected_slots);
}

TEST_CASE("Softmax by lanes is the softmax, in rows of whole packs and of others, and past the query it is 0") {
  for (const CausalRows rows :
       {CausalRows{16, 8, 2, 30}, CausalRows{90, 7, 2, 97}, CausalRows{0, 8, 1, 8}, CausalRows{128, 72, 1, 200}}) {
    constexpr std::int64_t samples = 2;
    const std::int64_t keys = rows.keys(), count = samples * rows.of_sample();
    const auto size = static_cast<std::size_t>(count * keys);
    const std::vector<float> scores = noise(size), d_p = noise(size);
    std::vector<float> log_sum_exp(static_cast<std::size_t>(samples * rows.sequence * rows.heads));
    std::vector<Bf16> p(size), again(size), d_s(size);
    run_rows(count, CausalSoftmax<Bf16>{rows, scores.data(), p.data(), log_sum_exp.data(), 2});
    run_rows(count,
             SoftmaxBackward<Bf16>{rows, scores.data(), d_p.data(), log_sum_exp.data(), again.data(), d_s.data(), 2});
    for (std::int64_t row = 0; row < count; ++row) {
      double sum = 0, mean = 0;
      const auto at = [&](std::int64_t i) { return static_cast<std::size_t>(row * keys + i); };
      for (std::int64_t i = 0; i < rows.visible(row); ++i) {
        sum += std::exp(2. * scores[at(i)]);
        mean += std::exp(2. * scores[at(i)]) * d_p[at(i)];
      }
      mean /= sum;
      const std::int64_t sample = row / rows.of_sample(), head = row % rows.of_sample() / rows.count;
      const std::int64_t token = sample * rows.sequence + rows.first + row % rows.count;
      CHECK(log_sum_exp[static_cast<std::size_t>(token * rows.heads + head)] == Approx(std::log(sum)).epsilon(1e-5));
      for (std::int64_t i = 0; i < keys; ++i) {
        const double exact = i < rows.visible(row) ? std::exp(2. * scores[at(i)]) / sum : 0;
        CHECK(wide(p[at(i)]) == Approx(exact).epsilon(.005).margin(0));
        CHECK(wide(again[at(i)]) == Approx(exact).epsilon(.005).margin(0));
        CHECK(wide(d_s[at(i)]) == Approx(exact * (d_p[at(i)] - mean) * 2).epsilon(.005).margin(1e-6));
      }
    }
  }
}

TEST_CASE("A token of more rows than registers hold gets the sum of all") {
  constexpr std::int64_t hidden = 24, experts = 12;  // each gives the token its one slot
  const std::vector<Bf16> rows = rounded(noise(experts * hidden)), base = rounded(noise(hidden));
  std::vector<float> routing;
  std::vector<std::int32_t> blocks, table;
  for (std::int32_t e = 0; e < experts; ++e) {
    routing.insert(routing.end(), {0, static_cast<float>(e), .25F * static_cast<float>(e + 1)});
    blocks.push_back(static_cast<std::int32_t>(experts) - 1 - e);
    table.push_back(e);
  }
  const ChunkView<Bf16> chunk{0, 1, rows.data(), blocks.data(), 1};
  for (const std::int64_t chosen : {3, 8, 12}) {
    std::vector<Bf16> token(hidden);
    const TokenEntries entries{chosen, table.data()};
    run_rows(1,
             CollectSlots<Bf16>{{hidden, 1, 0}, entries, base.data(), routing.data(), true, &chunk, 1, token.data()});
    for (std::size_t c = 0; c < hidden; ++c) {
      double sum = wide(base[c]);
      for (std::int64_t e = 0; e < chosen; ++e)
        sum += .25 * static_cast<double>(e + 1) *
               static_cast<double>(wide(rows[static_cast<std::size_t>((experts - 1 - e) * hidden) + c]));
      CHECK(wide(token[c]) == Approx(sum).epsilon(.005).margin(.005));
    }
    if (chosen != 12) continue;
    std::vector<float> gradient(experts);
    run_rows(experts, ScoreGradients<Bf16>{{hidden, 1, 0}, base.data(), routing.data(), &chunk, 1, gradient.data()});
    double dot = 0;
    for (std::size_t c = 0; c < hidden; ++c) dot += static_cast<double>(wide(base[c])) * wide(rows[11 * hidden + c]);
    CHECK(gradient[0] == Approx(dot).epsilon(1e-6));
  }
}

TEST_CASE("Gradients go through the gated activation as by finite differences, and the activation takes their place") {
  constexpr std::int64_t width = 16;
  std::vector<double> hidden(2 * width), d(width), d_hidden(2 * width), activation(width), there(width);
  const std::vector<float> random = noise(3 * width);
  for (std::size_t i = 0; i < 2 * width; ++i) hidden[i] = random[i];
  for (std::size_t i = 0; i < width; ++i) d[i] = random[2 * width + i];
  const std::vector<double> d_out = d;
  run_rows(1, GatedActivation<double>{hidden.data(), activation.data(), width, 1});
  run_rows(1,
           ActivationBackward<double>{{1, 0, 1, 0, 1}, hidden.data(), d.data(), d_hidden.data(), width, 1, true, true});
  CHECK(d == activation);
  for (std::size_t i = 0; i < 2 * width; ++i) {
    const double step = 1e-6;
    std::vector<double> moved = hidden;
    moved[i] += step;
    run_rows(1, GatedActivation<double>{moved.data(), there.data(), width, 1});
    CHECK(d_hidden[i] == Approx((there[i % width] - activation[i % width]) / step * d_out[i % width]).epsilon(1e-4));
  }
}

TEST_CASE("Blocks by source become blocks by expert and back, and a chunk's rows find their place in a larger one") {
  constexpr std::uint32_t sources = 3, experts = 2, cols = 4;
  std::vector<double> chunk(sources * experts * 2 * cols), moved(sources * experts * 4 * cols, -1), back(chunk.size());
  std::iota(chunk.begin(), chunk.end(), 0.);
  // Rows [2, 4) of 4 are the chunk's, two in each block.
  run_rows(sources * experts * 2,
           MoveBlocks<double>{{2, 0, 2, 2, 4}, {sources, experts}, chunk.data(), moved.data(), cols});
  const auto at = [&](std::uint32_t block, std::uint32_t row) { return moved[(block * 4 + row) * cols]; };
  for (std::uint32_t source = 0; source < sources; ++source)
    for (std::uint32_t expert = 0; expert < experts; ++expert) {
      CHECK(at(expert * sources + source, 1) == -1);
      CHECK(at(expert * sources + source, 3) == ((source * experts + expert) * 2 + 1) * cols);
    }
  run_rows(sources * experts * 2,
           MoveBlocks<double>{{2, 2, 4, 0, 2}, {experts, sources}, moved.data(), back.data(), cols});
  CHECK(back == chunk);
}
