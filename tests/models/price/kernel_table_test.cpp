// SPDX-License-Identifier: Apache-2.0
// Kernels by their shapes: laws, tables of measured shapes, and what ops then cost.
#include "models/price/kernel_table.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "models/base/draws.hpp"
#include "models/base/errors.hpp"
#include "models/price/calibration.hpp"
#include "models/price/kernel_fit.hpp"
#include "models/price/kernel_price.hpp"

using namespace dovetail;

namespace {

// rate, bandwidth, launch, extra_inner, share_128x128, share_128x64, share_64x64, tiles_at_once
const std::vector<double> product_law{800, 2800, 2.5, 200, .9, .7, .5, 132};
const std::vector<double> attention_law{500, 2500, 5};

// Shapes of a grid, and what `seconds` says of each.
template <class Time>
std::vector<MeasuredKernel> gemms(Time time) {
  std::vector<MeasuredKernel> points;
  for (std::int64_t rows : {64, 192, 256, 512, 1024, 2048, 4096, 6144, 8192})
    for (std::int64_t columns : {256, 1024, 2048, 4096, 7168})
      for (std::int64_t inner : {256, 1024, 2048, 4096, 7168}) {
        const KernelShape shape = gemm_shape(rows, columns, inner);
        points.push_back({shape, time(shape)});
      }
  return points;
}

Seconds by_law(const KernelShape& shape) {
  return law_of(KernelKind::Gemm).seconds(shape, product_law, Bytes(2));
}

}  // namespace

TEST_CASE("the flops of a kernel follow from its sizes") {
  CHECK(flops(gemm_shape(3, 5, 7)).value() == 2 * 3 * 5 * 7);
  CHECK(flops(gemm_shape(3, 5, 7, 4)).value() == 4 * 2 * 3 * 5 * 7);
  // Two products of 2 * 8 * 8 * 16 flops for each of 3 heads and 2 sequences, halved by the mask.
  CHECK(flops(attention_shape(2, 8, 3, 1, 16)).value() == 2 * (2 * 8 * 8 * 16) * 3 * 2 / 2);
  // 10 rows through three matrices of 6 x 4.
  CHECK(flops(experts_shape(10, 5, 6, 4, 10)).value() == 3 * 2 * 10 * 6 * 4);
}

TEST_CASE("a product takes the waves of its tiles, or what memory carries") {
  // 4096 x 4096 are 16 x 32 = 512 tiles of 256 x 128, in 4 waves of 132. Each tile does 2 * 256 * 128 * (4096 + 200)
  // operations at 800 / 132 TFLOP/s, so four of them take 185.82 us. The three matrices of 2 * 4096^2 bytes take 35.95
  // us at 2800 GB/s. (185.82^4 + 35.95^4)^(1/4) = 185.88; the launch takes 2.5.
  CHECK(by_law(gemm_shape(4096, 4096, 4096)).value() * 1e6 == Approx(188.38).epsilon(1e-4));
  // 4225 rows begin a 34th row of tiles of 128 x 256: 544 tiles, five waves instead of four.
  CHECK(by_law(gemm_shape(4225, 4096, 4096)) > 1.2 * by_law(gemm_shape(4096, 4096, 4096)));
  CHECK(by_law(gemm_shape(4224, 4096, 4096)) < 1.01 * by_law(gemm_shape(4096, 4096, 4096)));
  // One row: a wave of 64 x 64 tiles takes 132 * 64 * 64 * 2 * 8392 / (800e12 * .5) = 22.7 us, and the 2 * 8192^2 bytes
  // of the matrix 47.9 us. (22.7^4 + 47.9^4)^(1/4) = 48.5.
  CHECK(by_law(gemm_shape(1, 8192, 8192)).value() * 1e6 == Approx(51.03).epsilon(1e-3));
  // Groups share waves: eight products of 16 tiles take one wave, 46.46 us. Their 109 MB take 38.9 us, and
  // (46.46^4 + 38.9^4)^(1/4) = 51.4.
  CHECK(by_law(gemm_shape(1024, 512, 4096, 8)).value() * 1e6 == Approx(53.86).epsilon(1e-3));
}

TEST_CASE("a table gives measured shapes their times, and shapes between them the same ratio to the law") {
  const auto slower = [](const KernelShape& shape) { return 1.3 * by_law(shape); };
  const KernelTable table(KernelKind::Gemm, DType::Bf16, product_law, gemms(slower));
  for (const MeasuredKernel& point : table.points())
    CHECK(table.seconds(point.shape).value() == Approx(point.time.value()).epsilon(1e-9));
  const KernelShape between = gemm_shape(3000, 3000, 3000);
  CHECK(table.seconds(between).value() == Approx(slower(between).value()).epsilon(1e-9));
  CHECK(table.seconds(between) == table.seconds(between));  // remembered
  CHECK(table.launch().value() == Approx(2.5e-6));
}

TEST_CASE("no shape is faster than the fastest measured one") {
  const KernelTable table(KernelKind::Gemm, DType::Bf16, product_law, gemms([](const KernelShape& shape) {
                            return std::max(by_law(shape), flops(shape) / FlopsPerSecond(500e12));
                          }));
  CHECK(table.fastest() == Approx(500e12));
  const KernelShape huge = gemm_shape(65536, 65536, 8192);  // the law alone: some 780 TFLOP/s
  CHECK(amount(huge) / table.seconds(huge).value() <= table.fastest());
}

TEST_CASE("a fit finds the law that made the times, and its error on shapes held back") {
  const auto measured = gemms(by_law);
  const KernelTable table = fit_table(DType::Bf16, measured, measured.size() / 2);
  CHECK(table.points().size() == measured.size() / 2);
  CHECK(table.error.rows == measured.size() - measured.size() / 2);
  CHECK(table.error.mean < .02);
  CHECK(table.error.ninetieth <= table.error.worst);
  CHECK(error_on(table, table.points()).mean < 1e-9);
  // One time of the others is doubled: at least this one is off by half.
  auto wrong = measured;
  std::ranges::for_each(wrong, [&](MeasuredKernel& m) {
    if (m.shape == table.error.worst_shape) m.time = 2 * m.time;
  });
  const HeldBackError found = fit_table(DType::Bf16, wrong, measured.size() / 2).error;
  CHECK(found.worst > .4);
  CHECK(found.worst_shape == table.error.worst_shape);
}

TEST_CASE("a fit takes no launch from kernels that are all long") {
  // The law's least product here takes 11 us, and a launch of 2.5 us shows in times below 40 times that.
  const auto launched = [](double longer) {
    const auto measured = gemms([&](const KernelShape& shape) { return by_law(shape) + Seconds(longer * 1e-6); });
    return fit_table(DType::Bf16, measured, measured.size()).launch().value() * 1e6;
  };
  CHECK(launched(20) > 5);
  CHECK(launched(150) == Approx(2.5));
}

TEST_CASE("the same shapes are kept on every device") {
  const auto kept = [](double factor) {
    const auto measured = gemms([&](const KernelShape& shape) { return factor * by_law(shape); });
    const KernelTable table = fit_table(DType::Bf16, measured, 40);
    std::vector<KernelShape> shapes;
    for (const MeasuredKernel& point : table.points()) shapes.push_back(point.shape);
    return shapes;
  };
  CHECK(kept(1) == kept(2));
}

TEST_CASE("kernels that a table knows take its times, the others those of their flops") {
  Calibration c;
  c.gemms = {{DType::Bf16, Seconds(1e-5), SecondsPerFlop(1e-12), {}}};
  const KernelShape product = gemm_shape(1024, 1024, 1024), attention = attention_shape(1, 1024, 8, 8, 128);
  const std::array<KernelUse, 2> kernels{{{product, 1, 1}, {attention, 2.5, 2}}};
  const auto total = [&](const ResourceTime& time) { return (time.fixed + time.busy).value(); };
  const double by_flops = 3e-5 + 1e-12 * (flops(product).value() + 2.5 * flops(attention).value());
  CHECK(total(KernelPrices(c, DType::Bf16).of(kernels, 1)) == Approx(by_flops));
  CHECK_FALSE(KernelPrices(c, DType::Bf16).tells_kernels_apart());

  c.tables.emplace_back(KernelKind::Gemm, DType::Bf16, product_law, gemms(by_law));
  const KernelPrices prices(c, DType::Bf16);
  CHECK(prices.tells_kernels_apart());
  const double attention_time = 2e-5 + 1e-12 * 2.5 * flops(attention).value();
  CHECK(total(prices.of(kernels, 1)) == Approx(attention_time + by_law(product).value()).epsilon(1e-6));
  CHECK(prices.of(std::span(kernels).first(1), 1).fixed.value() == Approx(2.5e-6));
  // A quarter of the rows arrives; attention sees all of them.
  const KernelShape quarter = gemm_shape(256, 1024, 1024);
  CHECK(total(prices.of(kernels, .25)) == Approx(attention_time + by_law(quarter).value()).epsilon(1e-6));
  // Experts without a table of their own: grouped products, and an activation that reads two numbers and writes one for
  // each of 4096 x 1024.
  c.memory.beta = SecondsPerByte(1e-12);
  const KernelShape shape = experts_shape(4096, 4, 2048, 1024, 4096);
  const std::array<KernelUse, 1> experts{{{shape, 1, 3}}};
  const double grouped =
      (2 * c.tables[0].seconds(gemm_shape(1024, 1024, 2048, 4)) + c.tables[0].seconds(gemm_shape(1024, 2048, 1024, 4)))
          .value() +
      3 * 4096 * 1024 * 2 * 1e-12;
  CHECK(total(KernelPrices(c, DType::Bf16).of(experts, 1)) == Approx(grouped));
  // With one, the measured kernel; or the faster way, where the table says so.
  std::vector<double> experts_law = product_law;
  experts_law.push_back(4);
  for (const double factor : {.5, 2.0}) {
    Calibration both = c;
    both.tables.emplace_back(KernelKind::Experts, DType::Bf16, experts_law,
                             std::vector<MeasuredKernel>{{shape, Seconds(factor * grouped)}});
    CHECK(total(KernelPrices(both, DType::Bf16).of(experts, 1)) == Approx(factor * grouped));
    both.tables.back().or_grouped = true;
    CHECK(total(KernelPrices(both, DType::Bf16).of(experts, 1)) == Approx(std::min(factor, 1.0) * grouped));
  }
  // fp16 runs on the same units; fp32 does not.
  c.gemms.push_back({DType::Fp16, {}, SecondsPerFlop(1e-12), {}});
  c.gemms.push_back({DType::Fp32, {}, SecondsPerFlop(1e-11), {}});
  CHECK(total(KernelPrices(c, DType::Fp16).of(kernels, 1)) < total(KernelPrices(c, DType::Fp32).of(kernels, 1)));
  CHECK_FALSE(KernelPrices(c, DType::Fp32).tells_kernels_apart());
}

TEST_CASE("least costs are undercut by no shape") {
  Calibration c;
  c.gemms = {{DType::Bf16, Seconds(1e-5), SecondsPerFlop(1e-12), {}}};
  c.tables.emplace_back(KernelKind::Gemm, DType::Bf16, product_law, gemms(by_law));
  const Calibration least = least_costs(c, DType::Bf16);
  CHECK(least.tables.empty());
  for (std::int64_t rows = 1; rows < 20000; rows = rows * 5 / 4 + 1) {
    const KernelShape shape = gemm_shape(rows, 4096, 3072);
    CHECK(flops(shape) * least.gemms[0].beta <= c.tables[0].seconds(shape) * (1 + 1e-12));
  }
}

TEST_CASE("a table needs points and as many parameters as its law") {
  CHECK_THROWS_AS(KernelTable(KernelKind::Gemm, DType::Bf16, product_law, {}), InputError);
  CHECK_THROWS_AS(KernelTable(KernelKind::Gemm, DType::Bf16, attention_law, gemms(by_law)), InputError);
  CHECK_THROWS_AS(fit_table(DType::Bf16, {{gemm_shape(1, 1, 1), Seconds(1)}}, 1), InputError);
}

TEST_CASE("a table states how far its times are off, and nine of ten held-back shapes keep it") {
  // Times scatter around the law: by 2 % where rows are many and by 15 % where they are few, each shape by its own
  // draw.
  const auto noisy = [](const KernelShape& shape) {
    const double spread = shape.size[0] >= 1024 ? .02 : .15;
    return std::exp(spread * normal_draw(mixed(shape))) * by_law(shape);
  };
  std::vector<MeasuredKernel> measured;
  for (std::int64_t rows = 128; rows <= 8192; rows *= 2)
    for (std::int64_t columns = 256; columns <= 8192; columns += 256)
      for (std::int64_t inner = 512; inner <= 8192; inner += 512) {
        const KernelShape shape = gemm_shape(rows, columns, inner);
        measured.push_back({shape, noisy(shape)});
      }
  const KernelTable table = fit_table(DType::Bf16, measured, measured.size() / 2);
  CHECK(table.error.covered > .85);
  CHECK(table.error.covered < .95);
  // It knows where it is sure.
  CHECK(table.within(gemm_shape(2048, 4000, 4000)) < 1.1);
  CHECK(table.within(gemm_shape(200, 4000, 4000)) > 1.1);
}

TEST_CASE("times of a table may be off: all by a factor, each by its own range") {
  // Shapes that followed the law exactly would be known exactly.
  const std::vector<MeasuredKernel> points =
      gemms([](const KernelShape& shape) { return std::exp(.05 * normal_draw(mixed(shape))) * by_law(shape); });
  KernelTable table(KernelKind::Gemm, DType::Bf16, product_law, points);
  const KernelShape shape = gemm_shape(3000, 3000, 3000), other = gemm_shape(3000, 3000, 3100);
  const Seconds time = table.seconds(shape), other_time = table.seconds(other);
  table.deviate({.factor = 1.5});
  CHECK(table.seconds(shape) / time == Approx(1.5));
  table.deviate({.factor = 1, .shapes = -1});
  CHECK(table.seconds(shape) / time == Approx(1 / table.within(shape)));
  table.deviate({.factor = 1, .shapes = 0, .seed = 5});
  const double off = table.seconds(shape) / time, other_off = table.seconds(other) / other_time;
  CHECK(off != Approx(1).epsilon(1e-6));
  CHECK(off != Approx(other_off).epsilon(1e-6));
  KernelTable again(KernelKind::Gemm, DType::Bf16, product_law, points);
  again.deviate({.factor = 1, .shapes = 0, .seed = 5});
  CHECK(again.seconds(shape) / time == Approx(off));
  // Machines differ independently of how sure the table is: the logarithms add up as squares do.
  again.deviate({.factor = 1, .shapes = 0, .seed = 5, .machines = 1.2});
  const double sure = std::log(table.within(shape));
  CHECK(std::log(again.seconds(shape) / time) == Approx(std::log(off) * std::hypot(sure, std::log(1.2)) / sure));
}

TEST_CASE("right factors that a cache holds are read from memory once") {
  Calibration c;
  c.gemms = {{DType::Bf16, {}, SecondsPerFlop(1e-15), {}}};
  c.tables.emplace_back(KernelKind::Gemm, DType::Bf16, product_law, gemms(by_law));
  // 2,048 products of 8 rows with one factor of 2048 x 2048. In tiles of 64 x 128: 249 waves of 132 x 64 x 128 / .7 x 2
  // x 2248 operations at 800 TFLOP/s take 2.162 ms. Read each time, the factors are 17.18 GB and the rows .13: 6.184 ms
  // at 2800 GB/s. (2.162^4 + 6.184^4)^(1/4) = 6.207, and .0025 for the launch.
  const KernelShape shape = gemm_shape(8, 2048, 2048, 2048);
  CHECK(by_law(shape).value() * 1e3 == Approx(6.209).epsilon(1e-3));
  // 2,047 of them at 9900 GB/s and one from memory take as long as 580 from memory: 1.786 ms with the rows.
  // (2.162^4 + 1.786^4)^(1/4) = 2.379.
  const SharedFactor shared{2048, BytesPerSecond(9.9e12)};
  CHECK(c.tables[0].seconds(shape, shared).value() * 1e3 == Approx(2.381).epsilon(1e-3));
  CHECK(seconds_with_shared(shape, product_law, Bytes(2), {1, BytesPerSecond(9.9e12)}) == by_law(shape));
  CHECK(seconds_with_shared(shape, product_law, Bytes(2), {2048, BytesPerSecond(1e9)}) == by_law(shape));  // no cache
  CHECK(right_factor(shape) == 2048 * 2048);
  CHECK(right_factors(shape) == 2048.0 * 2048 * 2048);
  CHECK(right_factors(experts_shape(64, 16, 3, 5, 64)) == 3 * 16 * 3 * 5);

  // Only where both the cache's size and its rate are known, and 8 MiB fit.
  const std::array<KernelUse, 1> kernels{{{shape, 1, 1, {}, 2048}}};
  const auto total = [&](Bytes l2_cache) {
    const ResourceTime time = KernelPrices(c, DType::Bf16, {}, false, l2_cache).of(kernels, 1);
    return (time.fixed + time.busy).value() * 1e3;
  };
  CHECK(total(Bytes(8 << 20)) == Approx(6.209).epsilon(1e-3));
  c.l2_cache = CacheRate{BytesPerSecond(9.9e12), {}};
  CHECK(total(Bytes(8 << 20)) == Approx(2.381).epsilon(1e-3));
  CHECK(total(Bytes((8 << 20) - 1)) == Approx(6.209).epsilon(1e-3));
  CHECK(total(Bytes(0)) == Approx(6.209).epsilon(1e-3));
  const KernelPrices prices(c, DType::Bf16, {}, false, Bytes(8 << 20));
  CHECK(prices.read_from_cache(kernels).value() == 2047.0 * 2048 * 2048 * 2);
  CHECK(prices.read_from_cache(std::array<KernelUse, 1>{{{shape}}}) == Bytes(0));
}
