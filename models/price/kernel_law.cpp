// SPDX-License-Identifier: Apache-2.0
#include "models/price/kernel_law.hpp"

#include <algorithm>
#include <cmath>

#include "models/base/errors.hpp"

namespace dovetail {
namespace {

constexpr double tera = 1e12, giga = 1e9, micro = 1e-6, nano = 1e-9;

constexpr std::array<LawParameter, 8> product_parameters{
    {{"rate", "TFLOP/s of full tiles of 256 x 128", 800, 1, 20000, GrowsWith::Peak},
     {"bandwidth", "GB/s", 2800, 10, 50000, GrowsWith::MemoryBandwidth},
     {"launch", "us", 2.5, .01, 1000},
     {"extra_inner", "elements of the inner size that a tile's beginning and end cost", 200, 1, 4000},
     {"share_128x128", "of the rate in tiles of 128 x 128", .9, .05, 1.5},
     {"share_128x64", "of the rate in tiles of 128 x 64", .7, .05, 1.5},
     {"share_64x64", "of the rate in tiles of 64 x 64", .5, .05, 1.5},
     {"tiles_at_once", "that run together: a wave", 132, 1, 1000}}};
constexpr std::array<LawParameter, 9> experts_parameters = [] {
  std::array<LawParameter, 9> all{};
  std::ranges::copy(product_parameters, all.begin());
  all.back() = {"row_passes", "times that each seen row is read or written beside the products", 4, .01, 1000};
  return all;
}();
enum Product { Rate, Bandwidth, Launch, ExtraInner, Share128, Share64, ShareSmall, TilesAtOnce, RowPasses };

constexpr std::array<LawParameter, 3> attention_parameters{
    {{"rate", "TFLOP/s", 500, 1, 20000, GrowsWith::Peak},
     {"bandwidth", "GB/s", 2500, 10, 50000, GrowsWith::MemoryBandwidth},
     {"launch", "us", 5, .01, 1000}}};

constexpr std::array<LawParameter, 3> collective_parameters{
    {{"launch", "us", 6, .01, 1000},
     {"rank", "us for each rank but one", 1, .001, 1000},
     {"bandwidth", "GB/s between GPUs of a node", 250, .1, 50000, GrowsWith::NodeBandwidth}}};

constexpr std::array<LawParameter, 4> exchange_parameters{
    {{"launch", "us", 30, .01, 1000},
     {"share", "GB/s that a multiprocessor can send", 25, .1, 5000},
     {"bandwidth", "GB/s between GPUs of a node", 350, .1, 50000, GrowsWith::NodeBandwidth},
     {"row", "ns that a row costs a multiprocessor", 100, .001, 100000}}};

double size(const KernelShape& shape, std::size_t i) {
  return static_cast<double>(std::max<std::int64_t>(shape.size[i], 1));
}

double log_size(const KernelShape& shape, std::size_t i) {
  return std::log2(size(shape, i));
}

double seconds_of_tiles(double rows, double columns, double inner, double groups, std::span<const double> p) {
  struct Tile {
    double rows, columns, share;
  };
  const std::array<Tile, 6> tiles{{{256, 128, 1},
                                   {128, 256, 1},
                                   {128, 128, p[Share128]},
                                   {128, 64, p[Share64]},
                                   {64, 128, p[Share64]},
                                   {64, 64, p[ShareSmall]}}};
  double least = HUGE_VAL;
  for (const Tile& t : tiles) {
    const double count = groups * std::ceil(rows / t.rows) * std::ceil(columns / t.columns);
    const double waves = std::ceil(count / p[TilesAtOnce]);
    least = std::min(least, waves * p[TilesAtOnce] * t.rows * t.columns / t.share);
  }
  return 2 * least * (inner + p[ExtraInner]) / (p[Rate] * tera);
}

double together(double a, double b, double power) {
  return std::pow(std::pow(a, power) + std::pow(b, power), 1 / power);
}

// `factors`: how many right factors take as long to read as all those that are read.
double product_seconds(double rows, double columns, double inner, double groups, double factors,
                       std::span<const double> p, double element) {
  const double bytes = element * (groups * (rows * inner + rows * columns) + factors * inner * columns);
  return together(seconds_of_tiles(rows, columns, inner, groups, p), bytes / (p[Bandwidth] * giga), 4);
}

Seconds gemm_with(const KernelShape& s, std::span<const double> p, Bytes element, double factors) {
  return Seconds(product_seconds(size(s, 0), size(s, 1), size(s, 2), size(s, 3), factors, p, element.value()) +
                 p[Launch] * micro);
}

Seconds gemm_seconds(const KernelShape& s, std::span<const double> p, Bytes element) {
  return gemm_with(s, p, element, size(s, 3));
}

// A kernel counts one launch, which the products of gate and up, the activation and the product down share.
Seconds experts_with(const KernelShape& s, std::span<const double> p, Bytes element, double factors) {
  const double experts = size(s, 1), rows = size(s, 0) / experts, hidden = size(s, 2), inter = size(s, 3);
  return Seconds(product_seconds(rows, 2 * inter, hidden, experts, factors, p, element.value()) +
                 product_seconds(rows, hidden, inter, experts, factors, p, element.value()) +
                 p[RowPasses] * element.value() * hidden * size(s, 4) / (p[Bandwidth] * giga) + p[Launch] * micro);
}

Seconds experts_seconds(const KernelShape& s, std::span<const double> p, Bytes element) {
  return experts_with(s, p, element, size(s, 1));
}

Seconds attention_seconds(const KernelShape& s, std::span<const double> p, Bytes element) {
  const double rows = size(s, 0) * size(s, 1);
  const double bytes = element.value() * rows * size(s, 4) * 2 * (size(s, 2) + size(s, 3));
  return Seconds(together(flops(s).value() / (p[0] * tera), bytes / (p[1] * giga), 3) + p[2] * micro);
}

Seconds collective_seconds(const KernelShape& s, std::span<const double> p, Bytes /*element*/) {
  return Seconds((p[0] + p[1] * (size(s, 0) - 1)) * micro + amount(s) / (p[2] * giga));
}

Seconds exchange_seconds(const KernelShape& s, std::span<const double> p, Bytes element) {
  const double bytes = element.value() * amount(s), multiprocessors = size(s, 3);
  return Seconds(p[0] * micro + bytes / (std::min(multiprocessors * p[1], p[2]) * giga) +
                 size(s, 1) * p[3] * nano / multiprocessors);
}

// Odd numbers of rows take a slower kernel.
KernelFeatures gemm_features(const KernelShape& s) {
  return {2 * log_size(s, 0), log_size(s, 1), .7 * log_size(s, 2), .3 * static_cast<double>(s.size[0] % 2),
          log_size(s, 3)};
}

KernelFeatures attention_features(const KernelShape& s) {
  return {std::log2(size(s, 0) * size(s, 2)), log_size(s, 1), .3 * (log_size(s, 2) - log_size(s, 3)),
          3 * log_size(s, 4), 0};
}

KernelFeatures experts_features(const KernelShape& s) {
  return {log_size(s, 0) - log_size(s, 1), log_size(s, 1), 3 * log_size(s, 2), 3 * log_size(s, 3), .5 * log_size(s, 4)};
}

// Groups of one size first.
KernelFeatures collective_features(const KernelShape& s) {
  return {4 * log_size(s, 0), log_size(s, 1)};
}

KernelFeatures exchange_features(const KernelShape& s) {
  return {log_size(s, 0), 2 * (log_size(s, 1) - log_size(s, 0)), 2 * log_size(s, 2), 2 * log_size(s, 3)};
}

constexpr std::array<KernelLaw, kernel_kind_names.size()> laws{
    {{KernelKind::Gemm, product_parameters, gemm_seconds, gemm_features, Launch},
     {KernelKind::Attention, attention_parameters, attention_seconds, attention_features, 2},
     {KernelKind::Experts, experts_parameters, experts_seconds, experts_features, Launch},
     {KernelKind::WeightGradient, product_parameters, gemm_seconds, gemm_features, Launch},
     {KernelKind::AttentionBackward, attention_parameters, attention_seconds, attention_features, 2},
     {KernelKind::ExpertGradients, experts_parameters, experts_seconds, experts_features, Launch},
     {KernelKind::AllToAll, collective_parameters, collective_seconds, collective_features},
     {KernelKind::AllGather, collective_parameters, collective_seconds, collective_features},
     {KernelKind::ReduceScatter, collective_parameters, collective_seconds, collective_features},
     {KernelKind::AllReduce, collective_parameters, collective_seconds, collective_features},
     {KernelKind::Dispatch, exchange_parameters, exchange_seconds, exchange_features},
     {KernelKind::Combine, exchange_parameters, exchange_seconds, exchange_features}}};

}  // namespace

const KernelLaw& law_of(KernelKind kind) {
  for (const KernelLaw& law : laws)
    if (law.kind == kind) return law;
  throw InternalError("a kind of kernel without a law");
}

Seconds seconds_with_shared(const KernelShape& shape, std::span<const double> p, Bytes element,
                            const SharedFactor& shared) {
  const bool experts = shape.kind == KernelKind::Experts || shape.kind == KernelKind::ExpertGradients;
  check(experts || shape.kind == KernelKind::Gemm || shape.kind == KernelKind::WeightGradient,
        "products have right factors");
  const double all = size(shape, experts ? 1 : 3), first = all / static_cast<double>(shared.readers);
  const double faster = std::max(1.0, shared.cache.value() / (p[Bandwidth] * giga));
  const double factors = first + (all - first) / faster;
  return experts ? experts_with(shape, p, element, factors) : gemm_with(shape, p, element, factors);
}

}  // namespace dovetail
