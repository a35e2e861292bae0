#include "models/results/reproduction.hpp"

#include <algorithm>
#include <cmath>

namespace dovetail {
namespace {

const double* number_in(const std::optional<TableValue>& value) {
  return value ? std::get_if<double>(&*value) : nullptr;
}

bool meets(const ReproducedValue& value) {
  const double* ours = std::get_if<double>(&value.ours);
  const std::optional<double> off = error(value);
  switch (value.target.kind) {
    case TargetKind::Shown:
      return true;
    case TargetKind::Equal:
      return value.published == value.ours || (off && std::abs(*off) < 1e-12);
    case TargetKind::Relative:
    case TargetKind::Absolute:
      return off && std::abs(*off) <= value.target.bound;
    case TargetKind::AtMost:
      return ours && *ours <= value.target.bound;
    case TargetKind::AtLeast:
      return ours && *ours >= value.target.bound;
  }
  return false;
}

}  // namespace

std::optional<double> error(const ReproducedValue& value) {
  const double* ours = std::get_if<double>(&value.ours);
  const double* published = number_in(value.published);
  if (!ours || !published) return std::nullopt;
  if (value.target.kind == TargetKind::Absolute) return *ours - *published;
  if (*published == 0) return std::nullopt;
  return *ours / *published - 1;
}

Verdict verdict(const ReproducedValue& value) {
  if (value.target.kind == TargetKind::Shown) return Verdict::Shown;
  return meets(value) ? Verdict::Pass : Verdict::Miss;
}

int count(const ReproducedTable& table, Verdict wanted) {
  return static_cast<int>(
      std::ranges::count_if(table.values, [&](const ReproducedValue& v) { return verdict(v) == wanted; }));
}

}  // namespace dovetail
