// The sizes that a calibration measures.
#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "exec/host/host_run.hpp"
#include "exec/run/calibrate.hpp"

namespace dovetail::exec {
namespace {

// Multiprocessors that an exchange takes.
constexpr std::array footprints{4, 8, 16, 24, 32};

std::vector<Probe> gemms(DType dtype, const std::vector<std::int64_t>& rows,
                         const std::vector<std::pair<std::int64_t, std::int64_t>>& shapes) {
  std::vector<Probe> probes;
  for (const auto& [inner, columns] : shapes)
    for (std::int64_t r : rows) probes.push_back({ProbeKind::Gemm, dtype, Collective::None, r, inner, columns});
  return probes;
}

std::vector<Probe> copies(std::initializer_list<ProbeKind> kinds, DType dtype, const std::vector<std::int64_t>& rows,
                          std::int64_t columns) {
  std::vector<Probe> probes;
  for (ProbeKind kind : kinds)
    for (std::int64_t r : rows) probes.push_back({kind, dtype, Collective::None, r, 0, columns});
  return probes;
}

std::vector<std::vector<Probe>> all_collectives(const std::vector<std::int64_t>& elements, int ranks) {
  std::vector<std::vector<Probe>> all;
  for (const auto& [name, collective] : collective_names) {
    if (collective == Collective::None) continue;
    all.emplace_back();
    for (std::int64_t n : elements)
      all.back().push_back({ProbeKind::Collective, DType::Fp32, collective, (n + ranks - 1) / ranks * ranks, 0, 1});
  }
  return all;
}

std::vector<std::int64_t> multiples(std::int64_t step, int last) {
  std::vector<std::int64_t> all;
  for (int i = 1; i <= last; ++i) all.push_back(step * i);
  return all;
}

// Ops of about a millisecond on a core.
std::vector<std::pair<InterferenceClass, Probe>> one_of_each_kind(int ranks) {
  constexpr std::int64_t elements = 1 << 18;
  const auto exchange = [&](Collective c) {
    return Probe{ProbeKind::Collective, DType::Fp32, c, (elements + ranks - 1) / ranks * ranks, 0, 1};
  };
  return {{InterferenceClass::Compute, {ProbeKind::Gemm, DType::Fp32, Collective::None, 256, 256, 256}},
          {InterferenceClass::Inter, exchange(Collective::AllToAll)},
          {InterferenceClass::Intra, exchange(Collective::AllGather)},
          {InterferenceClass::Copy, {ProbeKind::HostCopy, DType::Fp32, Collective::None, elements, 0, 1}}};
}

Probe exchange_probe(int blocks, std::int64_t elements) {
  Probe p{ProbeKind::Exchange, DType::Bf16, Collective::None, 1, 0, elements};
  p.blocks = blocks;
  return p;
}

// Products of several experts, as their gradients take them too; attention; copies; exchanges by their footprint.
void add_alone(bool quick, std::vector<Probe>& more) {
  using Sizes = std::vector<std::int64_t>;
  for (std::int64_t batch : quick ? Sizes{8} : Sizes{2, 8})
    for (std::int64_t rows : quick ? Sizes{1024} : Sizes{64, 256, 1024, 2048})
      for (ProductLayout layout :
           {ProductLayout::Plain, ProductLayout::LeftTransposed, ProductLayout::RightTransposed}) {
        Probe p{ProbeKind::Gemm, DType::Bf16, Collective::None, rows, 2048, 8192};
        if (layout == ProductLayout::LeftTransposed) std::swap(p.rows, p.inner);  // the gradient of weights
        if (layout == ProductLayout::RightTransposed) std::swap(p.inner, p.columns);
        p.batch = batch;
        p.layout = layout;
        more.push_back(p);
      }
  for (ProbeKind kind : {ProbeKind::AttentionForward, ProbeKind::AttentionBackward})
    for (std::int64_t sequence : quick ? Sizes{1024} : Sizes{512, 1024, 2048, 4096})
      for (std::int64_t head_size : quick ? Sizes{128} : Sizes{64, 128})
        for (int heads : quick ? std::vector{16} : std::vector{16, 32}) {
          Probe p{kind, DType::Bf16, Collective::None, sequence, 0, head_size};
          p.batch = 2;
          p.heads = heads;
          p.kv_heads = heads / 4;
          more.push_back(p);
        }
  const Sizes sizes = quick ? Sizes{1 << 20, 1 << 24} : Sizes{1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26};
  for (ProbeKind kind : {ProbeKind::StridedCopy, ProbeKind::CopyToHost, ProbeKind::CopyFromHost})
    for (std::int64_t elements : sizes) more.push_back({kind, DType::Bf16, Collective::None, 1, 0, elements});
  for (int blocks : footprints)
    for (std::int64_t elements : sizes) more.push_back(exchange_probe(blocks, elements));
}

// Adds single operations, and pairs of which each may slow the other: products, exchanges by their footprint, copies.
void add_points(bool quick, CalibrationGrid& grid) {
  add_alone(quick, grid.more);
  const auto& [compute, exchange, copy] = std::tie(grid.kinds[0].second, grid.kinds[1].second, grid.kinds[2].second);
  for (int blocks : footprints) {
    const Probe other = exchange_probe(blocks, exchange.columns);
    if (other != exchange) {
      grid.together.push_back({compute, other});
      grid.together.push_back({other, copy});
    }
    grid.together.push_back({compute, other, copy});
  }
  Probe there = copy, back = copy;
  there.kind = ProbeKind::CopyToHost;
  back.kind = ProbeKind::CopyFromHost;
  grid.together.push_back({there, back});
}

// Ops of about a tenth of a millisecond to a millisecond on a large GPU.
CalibrationGrid gpu_grid(bool quick) {
  using Sizes = std::vector<std::int64_t>;
  const Sizes rows = quick ? Sizes{256, 1024, 4096} : Sizes{128, 256, 512, 1024, 2048, 4096, 8192};
  const auto shapes = quick ? std::vector<std::pair<std::int64_t, std::int64_t>>{{2048, 2048}}
                            : std::vector<std::pair<std::int64_t, std::int64_t>>{
                                  {2048, 2048}, {2048, 8192}, {8192, 2048}, {4096, 4096}};
  const Sizes tokens = quick ? Sizes{256, 2048, 16384} : Sizes{128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
  constexpr std::int64_t columns = 4096, elements = 1 << 24;
  CalibrationGrid grid;
  grid.gemms = {gemms(DType::Fp32, rows, shapes), gemms(DType::Bf16, rows, shapes)};
  grid.memory = copies({ProbeKind::Encode, ProbeKind::Decode}, DType::Bf16, tokens, columns);
  grid.strided = copies({ProbeKind::StridedCopy}, DType::Bf16, tokens, columns);
  grid.copies = copies({ProbeKind::HostCopy}, DType::Bf16, tokens, columns);
  grid.kinds = {{InterferenceClass::Compute, {ProbeKind::Gemm, DType::Bf16, Collective::None, 4096, 4096, 4096}},
                {InterferenceClass::Intra, exchange_probe(RunOptions().exchange_blocks, elements)},
                {InterferenceClass::Copy, {ProbeKind::HostCopy, DType::Bf16, Collective::None, elements, 0, 1}}};
  add_points(quick, grid);
  return grid;
}

}  // namespace

int CalibrationGrid::points() const {
  const std::size_t k = kinds.size();
  return static_cast<int>(gemms.size() + collectives.size() + (memory.empty() ? 0 : 1) + (strided.empty() ? 0 : 1) +
                          (copies.empty() ? 0 : 1) + (k < 2 ? 0 : k * (k - 1) / 2) + more.size() + together.size());
}

CalibrationGrid calibration_grid(GridName name, int ranks) {
  if (name == GridName::Gpu || name == GridName::GpuQuick) return gpu_grid(name == GridName::GpuQuick);
  const bool quick = name == GridName::Quick, fsmoe = name == GridName::Fsmoe;
  CalibrationGrid grid;
  const std::vector<std::int64_t> rows = quick   ? std::vector<std::int64_t>{32, 128, 512}
                                         : fsmoe ? multiples(512, 12)
                                                 : std::vector<std::int64_t>{16, 32, 64, 128, 256, 512, 1024};
  const std::vector<std::pair<std::int64_t, std::int64_t>> shapes =
      quick   ? std::vector<std::pair<std::int64_t, std::int64_t>>{{128, 256}, {256, 128}}
      : fsmoe ? std::vector<std::pair<std::int64_t, std::int64_t>>{{1024, 1024}}
              : std::vector<std::pair<std::int64_t, std::int64_t>>{{128, 256}, {256, 128}, {512, 512}};
  grid.gemms.push_back(gemms(DType::Fp32, rows, shapes));
  if (!quick) grid.gemms.push_back(gemms(DType::Fp64, rows, shapes));
  const std::vector<std::int64_t> tokens = quick ? std::vector<std::int64_t>{128, 512, 2048}
                                                 : std::vector<std::int64_t>{64, 128, 256, 512, 1024, 2048, 4096};
  grid.memory = copies({ProbeKind::Encode, ProbeKind::Decode}, DType::Fp32, tokens, 128);
  grid.strided = copies({ProbeKind::StridedCopy}, DType::Fp32, tokens, 128);
  grid.copies = copies({ProbeKind::HostCopy}, DType::Fp32, tokens, 128);
  std::vector<std::int64_t> elements = fsmoe ? multiples(1 << 18, 24) : std::vector<std::int64_t>{};
  for (std::int64_t n = 1 << 12; !fsmoe && n <= 1 << 20; n *= quick ? 16 : 4) elements.push_back(n);
  grid.collectives = all_collectives(elements, ranks);
  grid.kinds = one_of_each_kind(ranks);
  return grid;
}

}  // namespace dovetail::exec
