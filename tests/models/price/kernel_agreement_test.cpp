// SPDX-License-Identifier: Apache-2.0
// No kernel does more than its hardware, nor more work in much less time.
#include "models/price/kernel_agreement.hpp"

#include <catch2/catch.hpp>

#include "models/price/peak_rates.hpp"

using namespace dovetail;
using Catch::Matchers::StartsWith;

namespace {

MeasuredKernel product(std::int64_t rows, std::int64_t columns, std::int64_t inner, double us) {
  return {gemm_shape(rows, columns, inner), Seconds(us * 1e-6)};
}

// 1 PFLOP/s in bf16, 3 TB/s of memory, 450 GB/s inside a node, 50 GB/s of a card.
Hardware hardware() {
  return {{{DType::Bf16, FlopsPerSecond(1e15)}}, BytesPerSecond(3e12), BytesPerSecond(450e9), BytesPerSecond(50e9)};
}

std::string claim(const KernelShape& shape, DType dtype, double us) {
  return beyond_peak(shape, dtype, Seconds(us * 1e-6), hardware()).value_or("");
}

std::string link_claim(const CollectiveGroup& group, double bytes, double us) {
  return beyond_links(group, Bytes(bytes), Seconds(us * 1e-6), hardware()).value_or("");
}

}  // namespace

TEST_CASE("a kernel that takes over three times as long as a larger one is of another kernel") {
  const std::vector<MeasuredKernel> one{product(64, 512, 512, 10), product(128, 512, 512, 4),
                                        product(512, 64, 512, 3.4)};
  CHECK_FALSE(larger_but_faster(one));
  std::vector<MeasuredKernel> two = one;
  two.push_back(product(128, 1024, 512, 3));
  const auto found = larger_but_faster(two);
  REQUIRE(found);
  CHECK(found->slower == 0);
  CHECK(found->faster == 3);
  CHECK(found->factor == Approx(10.0 / 3));
  // Larger groups and more multiprocessors are no more work.
  const auto time = [](double us) { return Seconds(us * 1e-6); };
  CHECK_FALSE(
      larger_but_faster(std::vector<MeasuredKernel>{{collective_shape(KernelKind::AllToAll, 2, 1024), time(40)},
                                                    {collective_shape(KernelKind::AllToAll, 8, 1024), time(10)}}));
  CHECK_FALSE(larger_but_faster(
      std::vector<MeasuredKernel>{{exchange_shape(KernelKind::Dispatch, 8, 32, 1024, 4), time(40)},
                                  {exchange_shape(KernelKind::Dispatch, 8, 32, 1024, 24), time(10)}}));
}

TEST_CASE("a kernel in fp8 does not take over three times as long as in half precision") {
  const std::vector<MeasuredKernel> half{product(4096, 1024, 512, 10), product(4096, 512, 512, 10)};
  CHECK_FALSE(dearer_in_fp8(std::vector{product(4096, 1024, 512, 29)}, half));
  CHECK(dearer_in_fp8(std::vector{product(4096, 1024, 512, 31)}, half));
  // A narrow one may: casting its left factor takes longer than multiplying. Shapes that were not measured say nothing.
  CHECK_FALSE(dearer_in_fp8(std::vector{product(4096, 512, 512, 31), product(4096, 2048, 512, 99)}, half));
}

TEST_CASE("kernels that compute keep to the peak of their format and to the bandwidth of memory") {
  // 2 x 4096^3 operations take 137.4 us at 1 PFLOP/s.
  CHECK(claim(gemm_shape(4096, 4096, 4096), DType::Bf16, 138).empty());
  CHECK_THAT(claim(gemm_shape(4096, 4096, 4096), DType::Bf16, 137),
             StartsWith("1.003 PFLOP/s in bf16, above the 1 PFLOP/s"));
  CHECK_THAT(claim(gemm_shape(4096, 4096, 4096), DType::Fp16, 137), StartsWith("1.003 PFLOP/s in fp16"));
  CHECK(claim(gemm_shape(4096, 4096, 4096), DType::Fp8, 1).empty());  // its peak is not known
  // 16 rows by 16384 x 16384: 537.9 MB take 179.3 us. A quarter of the columns fits into a cache.
  CHECK(claim(gemm_shape(16, 16384, 16384), DType::Bf16, 180).empty());
  CHECK_THAT(claim(gemm_shape(16, 16384, 16384), DType::Bf16, 179), StartsWith("3.005 TB/s from device memory"));
  CHECK(claim(gemm_shape(16, 4096, 16384), DType::Bf16, 40).empty());
  // 64 experts of three matrices of 2048 x 1024 read 805.3 MB, and 64 rows little: 268.6 us. Two rows reach two
  // experts.
  CHECK(claim(experts_shape(64, 64, 2048, 1024, 64), DType::Bf16, 269).empty());
  CHECK_THAT(claim(experts_shape(64, 64, 2048, 1024, 64), DType::Bf16, 268), Catch::Contains("from device memory"));
  CHECK(claim(experts_shape(2, 64, 2048, 1024, 2), DType::Bf16, 50).empty());
  // 2 x 8192 x 8192 x 64 heads of 128 elements: 1.0995e12 operations, which the mask halved.
  CHECK(claim(attention_shape(1, 8192, 64, 8, 128), DType::Bf16, 1100).empty());
  CHECK_FALSE(claim(attention_shape(1, 8192, 64, 8, 128), DType::Bf16, 1099).empty());
}

TEST_CASE("collectives and exchanges keep to their links") {
  // 7/8 of 100 MB leave each GPU, also in an all-reduce that a switch adds up: 194.4 us at 450 GB/s.
  for (const KernelKind kind : {KernelKind::AllToAll, KernelKind::AllGather, KernelKind::AllReduce}) {
    CHECK(claim(collective_shape(kind, 8, 100'000'000), DType::Bf16, 195).empty());
    CHECK_FALSE(claim(collective_shape(kind, 8, 100'000'000), DType::Bf16, 194).empty());
  }
  // At least 3000 of 4000 copies of 1000 tokens go to other ranks: 2 bytes x 7168 of each in 95.6 us.
  CHECK(claim(exchange_shape(KernelKind::Combine, 1000, 4000, 7168, 20), DType::Bf16, 96).empty());
  CHECK_FALSE(claim(exchange_shape(KernelKind::Combine, 1000, 4000, 7168, 20), DType::Bf16, 95).empty());
  // 8 ranks on each of 4 nodes send 8 x 3/4 x 100 MB through eight cards at 50 GB/s: 1,500 us. A gathered buffer comes
  // in once for all of them: 187.5 us. One rank on a node may use all its cards.
  const CollectiveGroup all{Collective::AllToAll, LinkKind::Inter, 32, 8};
  CHECK(link_claim(all, 1e8, 1501).empty());
  CHECK_THAT(link_claim(all, 1e8, 1499), Catch::Contains("through the network cards of a node, above the 400 GB/s"));
  const CollectiveGroup gather{Collective::AllGather, LinkKind::Inter, 32, 8};
  CHECK(link_claim(gather, 1e8, 188).empty());
  CHECK_FALSE(link_claim(gather, 1e8, 187).empty());
  CHECK(link_claim({Collective::Send, LinkKind::Inter, 2, 1}, 1e8, 251).empty());
}
