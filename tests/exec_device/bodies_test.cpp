// SPDX-License-Identifier: Apache-2.0
// Kernel bodies as loops on the host: formats against the host's own, slots against the host's assignment.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <list>
#include <random>

#include "exec/device/device.hpp"
#include "exec/device/gate_bodies.hpp"
#include "exec/device/rotary.hpp"
#include "exec/device/tensor_bodies.hpp"
#include "exec/device/wire_bodies.hpp"
#include "exec/host/rotary.hpp"
#include "exec/reference/routing.hpp"
#include "exec/step/wire_format.hpp"

using namespace dovetail::exec;

TEST_CASE("bf16 and e4m3 round as messages on the host do") {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  for (int i = 0; i < 20000; ++i) {
    const double x = std::ldexp(normal(random), i % 24 - 12);
    CHECK(from_e4m3(e4m3(x)) == to_e4m3(x));
    const auto in_float = static_cast<float>(x);
    CHECK(wide(bf16(in_float)) == to_bf16(in_float));
    CHECK(wide(bf16(x)) == to_bf16(x));
  }
  for (int bits = 0; bits < 256; ++bits)  // every number is its own nearest
    if ((bits & 0x7f) != 0x7f) CHECK(e4m3(from_e4m3(static_cast<std::uint8_t>(bits))) == bits);
  // Just above and below the middle between 1 and the next bf16: a float would take both for the middle.
  CHECK(wide(bf16(1 + 0x1p-8 + 0x1p-40)) == 1 + 0x1p-7);
  CHECK(wide(bf16(1 + 3 * 0x1p-8 - 0x1p-40)) == 1 + 0x1p-7);
  CHECK(wide(bf16(-1 - 0x1p-8 - 0x1p-40)) == -1 - 0x1p-7);
  CHECK(from_e4m3(e4m3(1e9)) == 448);
  CHECK(std::isnan(from_e4m3(e4m3(NAN))));
  CHECK(std::isnan(wide(bf16(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(std::isinf(wide(bf16(std::numeric_limits<float>::infinity()))));
}

namespace {

// Tables in host memory.
class KeptTables final : public Tables {
 public:
  const void* upload(const void* data, std::int64_t bytes) override {
    const auto* const first = static_cast<const std::byte*>(data);
    return kept_.emplace_back(first, first + bytes).data();
  }

 private:
  std::list<std::vector<std::byte>> kept_;
};

// The largest difference between heads that a device turns and those that the host turns in double. From rows of
// queries, keys and values to rows without values.
template <class Scalar>
double turn_error(const LayerShape& s, Turn turn) {
  std::mt19937 random(4);
  std::uniform_real_distribution<float> uniform(-1, 1);
  const std::int64_t width = s.query_width() + s.key_width(), length = width + s.key_width();
  const auto size = static_cast<std::size_t>(s.sequence_tokens() * width);
  std::vector<Scalar> from, to(size);
  std::vector<double> exact_from, exact_to(size);
  for (std::int64_t i = 0; i < s.sequence_tokens() * length; ++i) {
    from.push_back(narrow<Scalar>(uniform(random)));
    exact_from.push_back(wide(from.back()));
  }
  KeptTables tables;
  Recorder recorder(&tables, nullptr);
  const Matrix<const Scalar> source(from.data(), s.sequence_tokens(), length);
  const Matrix<Scalar> target(to.data(), s.sequence_tokens(), width);
  record_turn<Scalar>(recorder, s, turn,
                      {source.cols_from(0, s.query_width()), source.cols_from(s.query_width(), s.key_width())},
                      {target.cols_from(0, s.query_width()), target.cols_from(s.query_width(), s.key_width())});
  const std::vector<DeviceWork> work = recorder.take();
  CHECK(work.size() == 2);  // kernels, as op_table.cpp counts them
  const auto queue = make_loop_device()->make_queue();
  for (const DeviceWork& kernel : work) kernel(*queue);
  turn_queries_keys<double>(s, turn, {exact_from.data(), s.sequence_tokens(), width, length},
                            {exact_to.data(), s.sequence_tokens(), width});
  double error = 0;
  for (std::size_t i = 0; i < size; ++i) error = std::max(error, std::abs(wide(to[i]) - exact_to[i]));
  return error;
}

}  // namespace

TEST_CASE("Devices turn queries and keys as hosts do, in packs and one by one, in all formats", "[rotary]") {
  LayerShape s;
  s.samples = 2;
  s.sequence = 300;
  s.heads = 4;
  s.kv_heads = 2;
  s.head_size = GENERATE(2, 6, 16, 64);
  const Turn turn = GENERATE(Turn::On, Turn::Back);
  CHECK(turn_error<double>(s, turn) < 1e-12);
  CHECK(turn_error<float>(s, turn) < 1e-6);
  CHECK(turn_error<Bf16>(s, turn) < 0x1p-8);  // half a unit in the last of 8 digits, of at most 2
}

TEST_CASE("A float knows the angle of a position far away", "[rotary]") {
  LayerShape s;
  s.samples = s.heads = s.kv_heads = 1;
  s.sequence = 100000;
  s.head_size = 2;
  CHECK(turn_error<float>(s, Turn::On) < 1e-6);
}

TEST_CASE("Segments give the slots that one pass gives") {
  LayerShape s;
  s.tokens = 150;  // 300 choices: four whole segments of 64 and a part of one
  s.experts = 5;
  s.top_k = 2;
  s.capacity = 40;
  s.first_slot = 7;
  std::mt19937 random(9);
  Routing expected;
  std::vector<std::int32_t> experts;
  for (std::int32_t t = 0; t < 150; ++t)
    for (int j = 0; j < 2; ++j) {
      experts.push_back(static_cast<std::int32_t>(random() % 5));
      expected.push_back({t, experts.back()});
    }
  assign_slots(s, std::vector<double>(150 * 5), expected);
  const GateShape shape{150, 5, 2, 40, 7, false, false};
  std::vector<std::int32_t> counts(5 * 5), slots(300);
  const SlotOrder order{shape, experts.data(), counts.data()};
  REQUIRE(order.segments() == 5);
  for (std::int64_t i = 0; i < 5; ++i) CountChoices{order}(i, OneLane());
  for (std::int64_t i = 0; i < 5; ++i) AddUpCounts{order}(i, OneLane());
  for (std::int64_t i = 0; i < 5; ++i) GiveSlots{order, slots.data()}(i, OneLane());
  for (std::size_t i = 0; i < 300; ++i) CHECK(slots[i] == expected[i].slot);
}

TEST_CASE("The k best experts come best first, ties to the lower index") {
  const std::vector<float> scores{.1F, .4F, .1F, .4F};
  std::vector<std::int32_t> chosen(3);
  ChooseExperts<float>{{1, 4, 3, 1, 0, false, false}, scores.data(), chosen.data()}(0);
  CHECK(chosen == std::vector<std::int32_t>{1, 3, 0});
}

TEST_CASE("A bf16 weight follows its master copy") {
  Bf16 gradient = bf16(1.0F), weight = bf16(1.0F);
  float mean = 0, variance = 0, master = 1;
  const AdamScales<float> first(1);
  AdamStep<Bf16, 1>{&gradient, &weight, &mean, &variance, &master, &first}(0);
  CHECK(master == Approx(1 - 1e-3));  // the first step is the rate, whatever the gradient's size
  CHECK(wide(weight) == 1);           // bf16 has steps of 2^-8 below 1: 0.999 rounds to 1
}
