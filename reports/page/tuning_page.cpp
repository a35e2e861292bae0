// SPDX-License-Identifier: Apache-2.0
#include "reports/page/tuning_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <ostream>

#include "reports/page/html_table.hpp"
#include "reports/page/page_text.hpp"
#include "reports/text/explanation_text.hpp"
#include "reports/text/format.hpp"
#include "reports/text/tuning_table.hpp"

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
  using Figure = std::function<double(const TunedPlan&)>;

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

void begin_page(std::ostream& out, const std::string& title, const std::vector<std::string>& question) {
  out << fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" "
      "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>{0}</title>\n<style>{1}</style></head>\n"
      "<body><header><p class=\"brand\">Dovetail <span>tune</span></p><h1>{0}</h1>\n",
      escaped(title), style_text);
  for (const std::string& line : question) out << "<p class=\"hint\">" << escaped(line) << "</p>\n";
  out << "</header><main>\n";
}

std::vector<std::string> with_units(const std::vector<std::string>& headings) {
  std::vector<std::string> cells;
  for (const std::string& heading : headings) cells.push_back(replaced(escaped(heading), "\n", "<br>"));
  return cells;
}

void write_section(std::ostream& out, const TuningTable& table) {
  out << "<section><h2>" << escaped(table.title) << "</h2><div class=\"scroll\"><table>\n";
  if (!table.rows.empty()) write_row(out, "th", with_units(table.headings));
  for (const std::vector<std::string>& row : table.rows) {
    std::vector<std::string> cells;
    for (const std::string& cell : row) cells.push_back(escaped(cell));
    write_row(out, "td", cells);
  }
  out << "</table></div>\n";
  for (const std::string& remark : table.remarks) out << "<p class=\"hint\">" << escaped(remark) << "</p>\n";
  out << "</section>\n";
}

void write_paragraphs(std::ostream& out, const char* title, const std::vector<std::string>& paragraphs) {
  if (paragraphs.empty()) return;
  out << "<section><h2>" << title << "</h2>\n";
  for (const std::string& paragraph : paragraphs) out << "<p>" << escaped(paragraph) << "</p>\n";
  out << "</section>\n";
}

void write_arguments(std::ostream& out, const ForFramework& framework) {
  out << "<section><h2>Arguments of " << escaped(framework.name) << "</h2><pre>";
  for (const std::string& line : framework.arguments) out << escaped(line) << '\n';
  for (const std::string& line : framework.elsewhere) out << "# " << escaped(line) << '\n';
  out << "</pre></section>\n";
}

void end_page(std::ostream& out, const RunProvenance& provenance) {
  std::string command;
  for (const std::string& word : provenance.command_line) command += (command.empty() ? "" : " ") + word;
  write_paragraphs(out, "Provenance",
                   {command, fmt::format("{}, version {} ({}). All figures are predicted.", provenance.created,
                                         provenance.version, provenance.git_revision)});
  out << "</main></body></html>\n";
}

}  // namespace

void write_html(std::ostream& out, const Tuning& tuning) {
  begin_page(
      out,
      fmt::format("{} on {} GPUs of {}: {} a step", tuning.experiment.model.name, tuning.experiment.cluster.gpus(),
                  tuning.experiment.cluster.name, duration(tuning.best.front().step)),
      question_lines(tuning));
  if (tuning.explanation) write_paragraphs(out, "In words", explanation_text(*tuning.explanation));
  for (const TuningTable& table : tuning_tables(tuning, /*verbose=*/true)) write_section(out, table);
  if (tuning.framework) write_arguments(out, *tuning.framework);
  write_paragraphs(out, "How it was found", {proof_line(tuning)});
  write_paragraphs(out, "Notes", tuning.notes);
  end_page(out, tuning.provenance);
}

void write_html(std::ostream& out, const TuningCurve& curve) {
  begin_page(out, fmt::format("{} on several clusters", curve.model), question_lines(curve));
  const std::vector<std::string> clusters = clusters_of(curve);
  if (!clusters.empty()) {
    out << "<section><h2>Throughput</h2><div class=\"legend\">";
    for (std::size_t c = 0; c < clusters.size(); ++c)
      out << fmt::format("<span style=\"color:{}\">&#9679; {}</span>", colour_of(c), escaped(clusters[c]));
    out << "</div>\n";
    out << CurvePlot(curve, "million tokens a second", [](const TunedPlan& plan) {
             return plan.throughput.tokens_per_second / 1e6;
           }).svg();
    out << CurvePlot(curve, "GPU-hours for 1e12 tokens", [](const TunedPlan& plan) {
             return gpu_hours(plan, trillion);
           }).svg();
    out << "</section>\n";
  }
  for (const TuningTable& table : tuning_tables(curve)) write_section(out, table);
  write_paragraphs(out, "Notes", curve.notes);
  end_page(out, curve.provenance);
}

}  // namespace dovetail::reports
