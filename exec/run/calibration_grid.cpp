// SPDX-License-Identifier: Apache-2.0
// The sizes that a calibration measures.
#include <utility>

#include "exec/run/calibrate.hpp"
#include "exec/run/gpu_grid.hpp"

namespace dovetail::exec {
namespace {

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

}  // namespace

int CalibrationGrid::points() const {
  const std::size_t k = kinds.size();
  return static_cast<int>(gemms.size() + collectives.size() + (memory.empty() ? 0 : 1) + (strided.empty() ? 0 : 1) +
                          (copies.empty() ? 0 : 1) + (k < 2 ? 0 : k * (k - 1) / 2) + more.size() + together.size());
}

CalibrationGrid calibration_grid(GridName name, int ranks) {
  if (name == GridName::Gpu || name == GridName::GpuQuick) return gpu_grid(name == GridName::GpuQuick);
  if (name == GridName::GpuFirst) return first_gpu_grid();
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
