// SPDX-License-Identifier: Apache-2.0
#include "exec/run/gpu_grid.hpp"

#include <array>
#include <tuple>

#include "exec/host/host_run.hpp"

namespace dovetail::exec {
namespace {

using Sizes = std::vector<std::int64_t>;

// Multiprocessors that an exchange takes, from libraries made for experts to more than NCCL.
constexpr std::array footprints{4, 8, 16, 24};

struct Widths {
  std::int64_t hidden, expert;
};
// The widths of Mixtral 8x7B, Qwen3 30B and 235B, DeepSeek-V3, gpt-oss and OLMoE.
constexpr std::array shipped_widths{Widths{4096, 14336}, Widths{2048, 768},  Widths{4096, 1536},
                                    Widths{7168, 2048},  Widths{2880, 2880}, Widths{2048, 1024}};

Probe product_probe(DType dtype, std::int64_t rows, std::int64_t inner, std::int64_t columns, int carve_out = 0) {
  Probe p{ProbeKind::Gemm, dtype, Collective::None, rows, inner, columns};
  p.carve_out = carve_out;
  return p;
}

// A fifth of a millisecond on an H100: the product that others run beside.
Probe usual_product(int carve_out) {
  return product_probe(DType::Bf16, 4096, 4096, 4096, carve_out);
}

Probe rows_probe(ProbeKind kind, std::int64_t rows, std::int64_t columns) {
  return {kind, DType::Bf16, Collective::None, rows, 0, columns};
}

Probe exchange_probe(int blocks, std::int64_t elements) {
  Probe p = rows_probe(ProbeKind::Exchange, 1, elements);
  p.blocks = blocks;
  return p;
}

Probe attention_probe(ProbeKind kind, std::int64_t batch, std::int64_t sequence, int heads, std::int64_t head_size) {
  Probe p = rows_probe(kind, sequence, head_size);
  p.batch = batch;
  p.heads = heads;
  p.kv_heads = heads / 4;
  return p;
}

std::vector<Probe> rows_probes(std::initializer_list<ProbeKind> kinds, const Sizes& rows, std::int64_t columns) {
  std::vector<Probe> probes;
  for (ProbeKind kind : kinds)
    for (std::int64_t r : rows) probes.push_back(rows_probe(kind, r, columns));
  return probes;
}

// An expert's product from `inner` to `columns`, forward or as its gradients take it.
Probe expert_product(std::int64_t batch, std::int64_t rows, std::int64_t inner, std::int64_t columns,
                     ProductLayout layout) {
  Probe p = product_probe(DType::Bf16, rows, inner, columns);
  if (layout == ProductLayout::LeftTransposed) std::swap(p.rows, p.inner);  // the gradient of weights
  if (layout == ProductLayout::RightTransposed) std::swap(p.inner, p.columns);
  p.batch = batch;
  p.layout = layout;
  return p;
}

void add_expert_products(bool quick, std::vector<Probe>& more) {
  for (const auto& [hidden, expert] : std::span(shipped_widths).first(quick ? 1 : shipped_widths.size()))
    for (const auto& [inner, columns] : {std::pair(hidden, expert), std::pair(expert, hidden)})
      for (std::int64_t rows : quick ? Sizes{1024} : Sizes{256, 1024, 4096})
        for (ProductLayout layout :
             {ProductLayout::Plain, ProductLayout::LeftTransposed, ProductLayout::RightTransposed})
          more.push_back(expert_product(1, rows, inner, columns, layout));
  for (std::int64_t rows : quick ? Sizes{1024} : Sizes{64, 256, 1024})  // of eight experts in one batch
    for (ProductLayout layout : {ProductLayout::Plain, ProductLayout::LeftTransposed, ProductLayout::RightTransposed})
      more.push_back(expert_product(8, rows, 2048, 1024, layout));
}

// No cost is fitted to these: experts' products, attention, copies of one direction, exchanges by their footprint.
void add_alone(bool quick, std::vector<Probe>& more) {
  add_expert_products(quick, more);
  for (ProbeKind kind : {ProbeKind::AttentionForward, ProbeKind::AttentionBackward})
    for (std::int64_t sequence : quick ? Sizes{1024} : Sizes{512, 1024, 2048, 4096})
      for (std::int64_t head_size : quick ? Sizes{128} : Sizes{64, 128})
        more.push_back(attention_probe(kind, 2, sequence, 32, head_size));
  const Sizes sizes = quick ? Sizes{1 << 20, 1 << 24} : Sizes{1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26};
  for (ProbeKind kind : {ProbeKind::StridedCopy, ProbeKind::CopyToHost, ProbeKind::CopyFromHost})
    for (std::int64_t elements : sizes) more.push_back(rows_probe(kind, 1, elements));
  for (int blocks : footprints)
    for (std::int64_t elements : sizes) more.push_back(exchange_probe(blocks, elements));
}

// Pairs of which each may slow the other. Products beside exchanges are made for all multiprocessors, which makes them
// wait for those of the exchange, and for what it leaves.
void add_pairs(CalibrationGrid& grid) {
  const auto& [compute, exchange, copy] = std::tie(grid.kinds[0].second, grid.kinds[1].second, grid.kinds[2].second);
  for (int blocks : footprints) {
    const Probe other = exchange_probe(blocks, exchange.columns);
    grid.together.push_back({usual_product(0), other});
    if (other == exchange) continue;
    grid.together.push_back({usual_product(blocks), other});
    grid.together.push_back({other, copy});
  }
  grid.together.push_back({compute, exchange, copy});
  Probe there = copy, back = copy;
  there.kind = ProbeKind::CopyToHost;
  back.kind = ProbeKind::CopyFromHost;
  grid.together.push_back({there, back});
}

// An exchange beside products lasts as long as twenty of them, as it does in steps: one that ends sooner has to win its
// multiprocessors again all the time.
std::int64_t long_exchange(bool quick) {
  return std::int64_t{1} << (quick ? 28 : 31);
}

}  // namespace

CalibrationGrid gpu_grid(bool quick) {
  const Sizes rows = quick ? Sizes{256, 1024, 4096} : Sizes{128, 256, 512, 1024, 2048, 4096, 8192};
  const auto shapes = quick ? std::vector<std::pair<std::int64_t, std::int64_t>>{{2048, 2048}}
                            : std::vector<std::pair<std::int64_t, std::int64_t>>{
                                  {2048, 2048}, {2048, 8192}, {8192, 2048}, {4096, 4096}};
  const Sizes tokens = quick ? Sizes{256, 2048, 16384} : Sizes{128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
  constexpr std::int64_t columns = 4096, elements = 1 << 24;
  CalibrationGrid grid;
  grid.gemms.resize(2);
  for (std::int64_t r : {512, 2048, 8192}) grid.gemms[0].push_back(product_probe(DType::Fp32, r, 4096, 4096));
  for (const auto& [inner, to] : shapes)
    for (std::int64_t r : rows) grid.gemms[1].push_back(product_probe(DType::Bf16, r, inner, to));
  grid.memory = rows_probes({ProbeKind::Encode, ProbeKind::Decode}, tokens, columns);
  grid.strided = rows_probes({ProbeKind::StridedCopy}, tokens, columns);
  grid.copies = rows_probes({ProbeKind::HostCopy}, tokens, columns);
  grid.kinds = {{InterferenceClass::Compute, usual_product(usual_exchange_blocks)},
                {InterferenceClass::Intra, exchange_probe(usual_exchange_blocks, long_exchange(quick))},
                {InterferenceClass::Copy, rows_probe(ProbeKind::HostCopy, 1, elements)}};
  add_alone(quick, grid.more);
  add_pairs(grid);
  return grid;
}

CalibrationGrid first_gpu_grid() {
  CalibrationGrid grid;
  grid.gemms = {{usual_product(0), product_probe(DType::Bf16, 1024, 4096, 4096)}};
  grid.memory = rows_probes({ProbeKind::Encode, ProbeKind::Decode}, {2048, 16384}, 4096);
  for (int carve_out : {8, 16, 32}) grid.more.push_back(usual_product(carve_out));
  for (ProbeKind kind : {ProbeKind::AttentionForward, ProbeKind::AttentionBackward})
    grid.more.push_back(attention_probe(kind, 2, 2048, 32, 128));
  for (ProbeKind kind : {ProbeKind::StridedCopy, ProbeKind::CopyToHost, ProbeKind::CopyFromHost})
    grid.more.push_back(rows_probe(kind, 1, 1 << 26));
  for (const auto& [carve_out, blocks] :
       {std::pair(0, 16), std::pair(16, 16), std::pair(32, 16), std::pair(0, 8), std::pair(8, 8)})
    grid.together.push_back({usual_product(carve_out), exchange_probe(blocks, long_exchange(false))});
  return grid;
}

}  // namespace dovetail::exec
