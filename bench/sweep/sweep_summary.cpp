// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep/sweep_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <ostream>
#include <set>

#include "reports/text/csv_cells.hpp"
#include "reports/text/format.hpp"
#include "reports/text/text_table.hpp"

namespace dovetail::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// "batch 2, cluster ndv4": the last part of a dotted path is enough.
std::string point_name(const Json& values) {
  std::string name;
  for (const auto& [key, value] : values.items())
    name += fmt::format("{}{} {}", name.empty() ? "" : ", ", key.substr(key.rfind('.') + 1), text_of(value));
  return name;
}

// Times of one point: infinite where a system is refused or too large.
struct Point {
  std::string name;
  std::vector<double> times;
};

struct Extremes {
  double best = 0, worst = std::numeric_limits<double>::infinity();
};

void add_point(const Point& point, SweepSummary& summary, std::vector<Extremes>& extremes) {
  ++summary.points;
  for (std::size_t i = 0; i < point.times.size(); ++i) {
    SystemSummary& system = summary.systems[i];
    if (!std::isfinite(point.times[i])) continue;
    ++system.fits;
    double other = std::numeric_limits<double>::infinity();
    for (std::size_t j = 0; j < point.times.size(); ++j)
      if (j != i) other = std::min(other, point.times[j]);
    if (point.times[i] <= other) ++system.fastest;
    if (!std::isfinite(other)) continue;
    const double ratio = other / point.times[i];
    system.ratios.push_back(ratio);
    if (ratio > extremes[i].best) {
      extremes[i].best = ratio;
      system.best = point.name;
    }
    if (ratio < extremes[i].worst) {
      extremes[i].worst = ratio;
      system.worst = point.name;
    }
  }
}

// Whether anything that comes out depends on an axis: compares each cell with the one before it along the axis.
class Effects {
 public:
  Effects(const std::vector<SummaryAxis>& axes, std::int64_t systems) {
    std::int64_t stride = systems;
    for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
      along_.push_back({axis->name, stride, axis->values, axis->values < 2});
      stride *= axis->values;
    }
  }

  void add(const Json& cell) {
    std::string outcome;
    for (const auto& [key, value] : cell.items())
      if (key != "cell" && key != "values" && key != "plan") outcome += value.dump() + ' ';
    outcomes_.push_back(std::hash<std::string>()(outcome));
    const auto at = std::ssize(outcomes_) - 1;
    for (Along& a : along_)
      if (at / a.stride % a.values > 0 &&
          outcomes_[static_cast<std::size_t>(at)] != outcomes_[static_cast<std::size_t>(at - a.stride)])
        a.matters = true;
  }

  std::vector<std::string> idle() const {
    std::vector<std::string> names;
    for (auto a = along_.rbegin(); a != along_.rend(); ++a)
      if (!a->matters) names.push_back(a->name);
    return names;
  }

 private:
  struct Along {
    std::string name;
    std::int64_t stride, values;  // cells from one value to the next
    bool matters;
  };
  std::vector<Along> along_;  // the last axis first
  std::vector<std::size_t> outcomes_;
};

double quantile(const std::vector<double>& ascending, double q) {
  return ascending[static_cast<std::size_t>(q * static_cast<double>(ascending.size() - 1) + .5)];
}

constexpr std::array result_keys{"makespan_s",
                                 "forward_s",
                                 "backward_s",
                                 "exposed_communication_s",
                                 "lower_bound_s",
                                 "peak_bytes",
                                 "feasible",
                                 "missing_bytes",
                                 "plan",
                                 "refused",
                                 "launch_bound_s",
                                 "interval_low_s",
                                 "interval_high_s",
                                 "mfu"};

std::string csv_cell(const Json& value) {
  return value.is_number() ? text_of(value) : reports::csv_text(text_of(value));
}

}  // namespace

SweepSummary summarize(const CellIndex& index, const std::vector<std::string>& systems,
                       const std::vector<SummaryAxis>& axes) {
  SweepSummary summary;
  Effects effects(axes, static_cast<std::int64_t>(systems.size()));
  for (const std::string& system : systems) summary.systems.push_back({system, 0, 0, 0, 0, {}, "", ""});
  std::vector<Extremes> extremes(systems.size());
  Point point;
  index.for_each([&](std::string_view line) {
    const Json cell = Json::parse(line);
    effects.add(cell);
    SystemSummary& system = summary.systems[point.times.size()];
    double time = std::numeric_limits<double>::infinity();
    if (cell.contains("refused")) {
      ++system.refused;
      if (summary.first_refusal.empty()) summary.first_refusal = cell["refused"];
    } else if (cell["feasible"].get<bool>()) {
      time = cell["makespan_s"];
    } else {
      ++system.too_large;
    }
    if (cell.value("mfu", 0.) > 1 && ++summary.beyond_peak == 1)
      summary.first_beyond_peak = fmt::format("{} at {}, {:.3g} %", text_of(cell["system"]), point_name(cell["values"]),
                                              100 * cell["mfu"].get<double>());
    point.times.push_back(time);
    if (point.times.size() < systems.size()) return;
    point.name = point_name(cell["values"]);
    add_point(point, summary, extremes);
    point.times.clear();
  });
  for (SystemSummary& system : summary.systems) std::ranges::sort(system.ratios);
  summary.idle_axes = effects.idle();
  return summary;
}

void write_table(std::ostream& out, const SweepSummary& summary, bool colour) {
  reports::TextTable table(
      {"system", "points", "too large", "refused", "fastest at", "median\nfaster than next", "mean", "least", "most"});
  for (const SystemSummary& s : summary.systems) {
    std::vector<std::string> row{s.system, fmt::format("{}", s.fits), fmt::format("{}", s.too_large),
                                 fmt::format("{}", s.refused), fmt::format("{}", s.fastest)};
    if (s.ratios.empty()) {
      row.insert(row.end(), 4, "-");
    } else {
      const double mean = std::reduce(s.ratios.begin(), s.ratios.end()) / static_cast<double>(s.ratios.size());
      for (double value : {quantile(s.ratios, .5), mean, s.ratios.front(), s.ratios.back()})
        row.push_back(fmt::format("{:.3f}", value));
    }
    table.add(std::move(row));
  }
  out << table.text(colour);
  out << fmt::format("{} points; faster than next: time of the fastest other system over its own\n", summary.points);
  for (const SystemSummary& s : summary.systems)
    if (!s.ratios.empty() && s.fastest > 0)
      out << reports::wrapped(fmt::format("  {}: best at {}; worst at {}", s.system, s.best, s.worst), 118, 4) << '\n';
  for (const std::string& axis : summary.idle_axes) out << fmt::format("  axis {} changes nothing\n", axis);
  for (const std::string& note : summary.notes) out << reports::wrapped(fmt::format("  {}", note), 118, 4) << '\n';
  if (summary.beyond_peak > 0)
    out << reports::wrapped(
               fmt::format("  an MFU above 100 % in {} of {} cells ({}): costs of a calibration, or the peak "
                           "that a cluster states, are wrong",
                           summary.beyond_peak, summary.points * std::ssize(summary.systems),
                           summary.first_beyond_peak),
               118, 4)
        << '\n';
  if (!summary.first_refusal.empty())
    out << reports::wrapped(fmt::format("  first refusal: {}", summary.first_refusal), 118, 4) << '\n';
}

void write_csv(std::ostream& out, const CellIndex& index) {
  std::vector<std::string> keys;  // values of an axis may have different ones
  index.for_each([&](std::string_view line) {
    const Json cell = Json::parse(line);
    for (const auto& [key, value] : cell["values"].items())
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  });
  out << "cell,system";
  for (const std::string& key : keys) out << ',' << csv_cell(key);
  for (const char* key : result_keys) out << ',' << key;
  out << '\n';
  index.for_each([&](std::string_view line) {
    const Json cell = Json::parse(line);
    out << cell["cell"] << ',' << csv_cell(cell["system"]);
    for (const std::string& key : keys)
      out << ',' << (cell["values"].contains(key) ? csv_cell(cell["values"][key]) : "");
    for (const char* key : result_keys) out << ',' << (cell.contains(key) ? csv_cell(cell[key]) : "");
    out << '\n';
  });
}

}  // namespace dovetail::bench
