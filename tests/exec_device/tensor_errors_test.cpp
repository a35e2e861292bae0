// SPDX-License-Identifier: Apache-2.0
// The comparison of a GPU's tensors with the host's, without a GPU.
#include "tests/exec_device/tensor_errors.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <limits>

#include "exec/device/device_executor.hpp"
#include "exec/device/device_memory.hpp"
#include "models/price/build_schedule.hpp"
#include "tests/exec_device/counted_products.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/experiments.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

// Adds up from the last element on, bf16 and floats in float, as libraries of GPUs do; double in double.
template <class Scalar, class Result>
void from_behind(const Product& p) {
  for (std::int64_t batch = 0; batch < p.batch.count; ++batch) {
    const auto* const a = static_cast<const Scalar*>(p.a.data) + batch * p.batch.a;
    const auto* const b = static_cast<const Scalar*>(p.b.data) + batch * p.batch.b;
    auto* const c = static_cast<Result*>(p.c) + batch * p.batch.c;
    const auto at = [](const Product::Side& side, std::int64_t row, std::int64_t column) {
      return side.transposed ? column * side.stride + row : row * side.stride + column;
    };
    for (std::int64_t i = 0; i < p.m; ++i)
      for (std::int64_t j = 0; j < p.n; ++j) {
        Wide<Result> sum = 0;
        for (std::int64_t l = p.k; l-- > 0;) sum += wide(a[at(p.a, i, l)]) * wide(b[at(p.b, l, j)]);
        Result& to = c[i * p.c_stride + j];
        to = narrow<Result>(p.add ? sum + wide(to) : sum);
      }
  }
}
void multiply_from_behind(const Product& p) {
  if (p.factors == Stored::Double) return from_behind<double, double>(p);
  if (p.factors == Stored::Float) return from_behind<float, float>(p);
  if (p.result == Stored::Float) return from_behind<Bf16, float>(p);
  from_behind<Bf16, Bf16>(p);
}

// The same values but for one tensor of one rank.
class Changed final : public RankValues {
 public:
  Changed(const RankValues& values, std::size_t local, TensorId id, std::function<void(Values&)> change)
      : values_(values), local_(local), id_(id), change_(std::move(change)) {}
  std::vector<int> ranks() const override { return values_.ranks(); }
  Values values(std::size_t local, TensorId id) const override {
    Values values = values_.values(local, id);
    if (local == local_ && id == id_) change_(values);
    return values;
  }

 private:
  const RankValues& values_;
  std::size_t local_;
  TensorId id_;
  std::function<void(Values&)> change_;
};

TensorId find_tensor(const Schedule& s, TensorKind kind) {
  for (const TensorId id : s.tensors.ids())
    if (s.tensors[id].kind == kind) return id;
  throw InternalError("no such tensor");
}

}  // namespace

TEST_CASE("Tensors of a device that adds up in another order and in float are within their limits in all formats") {
  CountingDevice device;
  device.multiply = multiply_from_behind;
  check_tensors_on_device(device, cases(10));
  CHECK(device.flops > 0);
}

TEST_CASE("A wrong tensor of one rank is listed first, whatever else differs, and is too far off") {
  const Stored stored = GENERATE(Stored::Double, Stored::Float, Stored::Bf16);
  CountingDevice device;
  device.multiply = multiply_from_behind;
  const auto host = make_loop_device();
  Experiment e = round_numbers();
  if (stored == Stored::Bf16) e.workload.dtype = DType::Bf16;
  const auto schedule = std::make_shared<const Schedule>(build_schedule(e, Plan()));
  const ModelData data = rounded(random_model_data(e, 3), stored);
  const auto run = [&](ComputeDevice& on, Stored format) {
    DeviceSettings settings;
    settings.scalar = format;
    auto executor = make_device_executor(on, e, schedule, data, settings);
    executor->run_step(Poison::No);
    return executor;
  };
  const auto on_device = run(device, stored), on_host = run(*host, stored), exact = run(*host, Stored::Double);
  const TensorId id = find_tensor(*schedule, TensorKind::AttentionContext);
  const auto errors = [&](const std::function<void(Values&)>& change) {
    return tensor_errors(*schedule, stored, Changed(*on_device, 2, id, change), *on_host, *exact);
  };
  const std::vector<TensorError> right = errors([](Values&) {});
  for (const TensorError& each : right) CHECK_FALSE(each.too_large());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<std::function<void(Values&)>> faults{[](Values& v) { v[5] += 1; }, [&](Values& v) { v[5] = nan; },
                                                         [](Values& v) { std::swap(v[0], v[1]); }};
  for (const auto& fault : faults) {
    const std::vector<TensorError> wrong = errors(fault);
    REQUIRE(wrong.size() == right.size());
    CHECK(wrong[0].too_large());
    CHECK(wrong[0].rank == 2);
    CHECK(wrong[0].tensor == to_string(schedule->tensors[id]));
    CHECK(wrong[0].op.starts_with("attention"));
    CHECK_FALSE(wrong[1].too_large());
    const std::string list = list_errors(wrong, 3);
    CHECK(std::ranges::count(list, '\n') == 3);
    CHECK(list.find("too far off") < list.find('\n'));
  }
}

TEST_CASE("The limit of an error is 1e-11 in double, else three times the host's and some rounding") {
  CHECK(error_limit(Stored::Double, 1) == 1e-11);
  CHECK(error_limit(Stored::Float, 1e-6) == 3e-6 + 0x1p-21);
  CHECK(error_limit(Stored::Bf16, .01) == 3 * .01 + 0x1p-8);
}
