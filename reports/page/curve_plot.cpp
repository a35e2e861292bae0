// SPDX-License-Identifier: Apache-2.0
#include "reports/page/curve_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "reports/text/format.hpp"

namespace dovetail::reports {
namespace {

// The clusters' names in the order of the points, each once.
std::vector<std::string> clusters_of(const TuningCurve& curve) {
  std::vector<std::string> names;
  for (const TuningPoint& point : curve.points)
    if (point.best && std::ranges::find(names, point.cluster) == names.end()) names.push_back(point.cluster);
  return names;
}

std::string colour_of(std::size_t cluster) {
  return fmt::format("hsl({},60%,50%)", cluster * 137 % 360);
}

// A figure of the best plans over the GPUs, whose axis is logarithmic. The other begins at zero.
class CurvePlot {
 public:
  using Figure = std::function<double(const SystemResult&)>;

  CurvePlot(const TuningCurve& curve, std::string label, Figure figure)
      : curve_(curve), label_(std::move(label)), figure_(std::move(figure)) {
    for (const TuningPoint& point : curve.points) {
      if (!point.best) continue;
      fewest_ = std::min<double>(fewest_, point.gpus);
      most_ = std::max<double>(most_, point.gpus);
      top_ = std::max(top_, figure_(*point.best));
    }
    if (most_ <= fewest_) most_ = 2 * fewest_;
  }

  std::string svg() const {
    std::string svg = fmt::format(
        "<svg viewBox=\"0 0 {0} {1}\" style=\"max-width:{0}px\" role=\"img\" aria-label=\"{2} over GPUs; the table has "
        "the numbers\">\n<path d=\"M{3} {4}V{5}H{6}\" fill=\"none\" stroke=\"var(--quiet)\"/>\n",
        width, height, label_, left, margin, height - margin, width - margin);
    svg += text(left, margin - 14, "start", label_) + text((left + width) / 2, height - 8, "middle", "GPUs");
    for (int part = 0; part <= 4; ++part)
      svg += text(left - 6, y(top_ * part / 4) + 4, "end", significant(top_ * part / 4));
    const std::vector<std::string> clusters = clusters_of(curve_);
    for (std::size_t c = 0; c < clusters.size(); ++c) svg += line(clusters[c], colour_of(c));
    return svg + "</svg>\n";
  }

 private:
  static constexpr double width = 560, height = 320, left = 70, margin = 40;

  double x(double gpus) const {
    return left + (width - left - margin) * std::log(gpus / fewest_) / std::log(most_ / fewest_);
  }
  double y(double value) const { return height - margin - (height - 2 * margin) * value / top_; }

  static std::string text(double x, double y, const char* anchor, const std::string& content) {
    return fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"12\" fill=\"var(--quiet)\">{}</text>\n", x, y,
        anchor, content);
  }

  std::string line(const std::string& cluster, const std::string& colour) const {
    std::string path, points;
    for (const TuningPoint& point : curve_.points) {
      if (!point.best || point.cluster != cluster) continue;
      const double at = x(point.gpus), value = figure_(*point.best);
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", at, y(value));
      points += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"><title>{}, {} GPUs: {}</title></circle>\n", at,
          y(value), colour, escaped(cluster), point.gpus, significant(value));
      points += text(at, height - margin + 16, "middle", std::to_string(point.gpus));
    }
    return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n{}", path, colour, points);
  }

  const TuningCurve& curve_;
  std::string label_;
  Figure figure_;
  double fewest_ = 1e9, most_ = 0, top_ = 0;
};

}  // namespace

std::string curve_figures(const TuningCurve& curve) {
  const std::vector<std::string> clusters = clusters_of(curve);
  if (clusters.empty()) return "";
  std::string html = "<section><h2>Throughput</h2><div class=\"legend\">";
  for (std::size_t c = 0; c < clusters.size(); ++c)
    html += fmt::format("<span style=\"color:{}\">&#9679; {}</span>", colour_of(c), escaped(clusters[c]));
  html += "</div>\n";
  html += CurvePlot(curve, "million tokens a second", [](const SystemResult& plan) {
            return plan.throughput.tokens_per_second / 1e6;
          }).svg();
  html += CurvePlot(curve, "GPU-hours for 1e12 tokens", [](const SystemResult& plan) {
            return gpu_hours(plan, trillion);
          }).svg();
  return html + "</section>\n";
}

}  // namespace dovetail::reports
