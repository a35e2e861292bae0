// SPDX-License-Identifier: Apache-2.0
// The page of a validation. Its plot is drawn here, so that the page needs no script.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <ostream>

#include "models/base/names.hpp"
#include "reports/data/validation_goals.hpp"
#include "reports/data/validation_report.hpp"
#include "reports/data/validation_statistics.hpp"
#include "reports/page/html_table.hpp"
#include "reports/page/page_text.hpp"
#include "reports/page/validation_device.hpp"
#include "reports/text/format.hpp"
#include "reports/text/summary.hpp"

namespace dovetail::reports {
namespace {

// Both axes logarithmic and alike, so that equal errors are equally far from the diagonal.
class ParityPlot {
 public:
  explicit ParityPlot(const Validation& v) : v_(v) {
    for (const ValidationCell& cell : v.cells)
      for (const PlanOutcome& plan : cell.plans)
        for (double time : {plan.predicted.value(), plan.median.value()}) {
          low_ = std::min(low_, time);
          high_ = std::max(high_, time);
        }
    low_ /= 1.1;
    high_ *= 1.1;
  }

  std::string svg() const {
    std::string svg = fmt::format(
        "<svg viewBox=\"0 0 {0} {0}\" style=\"max-width:{0}px\" role=\"img\" aria-label=\"Predicted against measured "
        "step times; the table below has the numbers\">\n",
        size);
    svg += fmt::format("<path d=\"M{0} {0}V{1}H{2}\" fill=\"none\" stroke=\"var(--quiet)\"/>\n", margin, size - margin,
                       size - margin);
    for (double error : {-.05, 0.0, .05}) svg += line_of_error(error);
    svg += ticks();
    for (std::size_t c = 0; c < v_.cells.size(); ++c)
      for (const PlanOutcome& plan : v_.cells[c].plans) svg += point(v_.cells[c], c, plan);
    return svg + "</svg>\n";
  }

  std::string legend() const {
    std::string html = "<div class=\"legend\">";
    for (std::size_t c = 0; c < v_.cells.size(); ++c)
      html += fmt::format("<span><b style=\"color:{}\">&#9679;</b>{}</span>\n", colour(c), escaped(v_.cells[c].name));
    return html + "</div>\n";
  }

 private:
  static constexpr double size = 640, margin = 56;

  static std::string colour(std::size_t cell) { return fmt::format("hsl({},60%,50%)", cell * 137 % 360); }
  double x(double time) const { return margin + (size - 2 * margin) * std::log(time / low_) / std::log(high_ / low_); }
  double y(double time) const { return size - x(time); }

  std::string line_of_error(double error) const {
    const double first = std::max(low_, low_ / (1 + error)), last = std::min(high_, high_ / (1 + error));
    return fmt::format("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" stroke=\"var(--{})\"{}/>\n", x(first),
                       y(first * (1 + error)), x(last), y(last * (1 + error)), error == 0 ? "ink" : "quiet",
                       error == 0 ? "" : " stroke-dasharray=\"4 4\"");
  }

  std::string ticks() const {
    std::string svg;
    for (double decade = std::pow(10, std::floor(std::log10(low_))); decade < high_; decade *= 10)
      for (double digit : {1, 2, 5}) {
        const double time = decade * digit;
        if (time < low_ || time > high_) continue;
        const std::string label = duration(Seconds(time));
        svg += fmt::format(
            "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" font-size=\"12\" "
            "fill=\"var(--quiet)\">{}</text>\n",
            x(time), size - margin + 18, label);
        svg += fmt::format(
            "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\" font-size=\"12\" "
            "fill=\"var(--quiet)\">{}</text>\n",
            margin - 6, y(time) + 4, label);
      }
    svg += fmt::format(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" font-size=\"13\" fill=\"var(--ink)\">measured "
        "step</text>\n<text x=\"14\" y=\"{}\" font-size=\"13\" fill=\"var(--ink)\">predicted step"
        "</text>\n",
        size / 2, size - 12, margin - 16);
    return svg;
  }

  std::string point(const ValidationCell& cell, std::size_t c, const PlanOutcome& plan) const {
    return fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\" fill-opacity=\".7\"><title>{} {}, {} / {}: predicted "
        "{}, "
        "measured {}</title></circle>\n",
        x(plan.median.value()), y(plan.predicted.value()), colour(c), escaped(cell.name), escaped(plan.system),
        plan.plan.forward_degree, backward_degrees(plan.plan), duration(plan.predicted), duration(plan.median));
  }

  const Validation& v_;
  double low_ = 1e9, high_ = 0;
};

void write_cards(std::ostream& out, const Validation& v) {
  const Estimate error = mean_error(v), ranks = mean_rank_correlation(v);
  const WorstPlan worst = worst_plan(v);
  const auto card = [&](const char* label, const std::string& value, const std::string& hint) {
    out << fmt::format(
        "<div class=\"card\"><div class=\"label\">{}</div><div class=\"value\">{}</div><div class=\"hint\">{}</div>"
        "</div>\n",
        label, value, hint);
  };
  out << "<div class=\"cards\">\n";
  card("Mean absolute error", fmt::format("{:.2f} %", 100 * error.value),
       fmt::format("95 %: {:.2f} to {:.2f}", 100 * error.low, 100 * error.high));
  if (const std::optional<Estimate> unfitted = mean_unfitted_error(v))
    card("Without any fit", fmt::format("{:.2f} %", 100 * unfitted->value),
         fmt::format("by costs of {}; 95 %: {:.2f} to {:.2f}", escaped(v.unfitted_by), 100 * unfitted->low,
                     100 * unfitted->high));
  card("Worst", fmt::format("{:+.2f} %", 100 * worst.plan->error()),
       fmt::format("{} at {}", escaped(worst.plan->system), escaped(worst.cell->name)));
  card("Rank correlation of plans", fmt::format("{:.3f}", ranks.value),
       fmt::format("95 %: {:.3f} to {:.3f}", ranks.low, ranks.high));
  if (const std::optional<Repeatability> again = repeatability(v))
    card("Measured again", fmt::format("{:.2f} %", 100 * again->mean_error),
         fmt::format("every second round for the others; rank correlation {:.3f}", again->rank_correlation));
  out << fmt::format("</div>\n<p class=\"hint\">{}</p>\n", meaning_of_error(v));
}

void write_regrets(std::ostream& out, const Validation& v) {
  out << "<section><h2>Regret of each planner's choice, by measured time</h2><div class=\"scroll\"><table>\n";
  write_row(out, "th", {"System", "Planner", "Size", "Degree", "Measured", "Regret", "95 %"});
  for (const ValidationCell& cell : v.cells)
    for (const ChoiceOutcome& choice : cell.choices) {
      const PlanOutcome& plan = cell.plans[choice.plan];
      const Estimate r = regret(cell, choice);
      write_row(out, "td",
                {escaped(choice.system), choice.planner, escaped(cell.name),
                 fmt::format("{} / {}", plan.plan.forward_degree, backward_degrees(plan.plan)), duration(plan.median),
                 fmt::format("{:.2f} %", 100 * r.value), fmt::format("{:.2f} - {:.2f} %", 100 * r.low, 100 * r.high)});
    }
  out << "</table></div>\n";
  if (const std::optional<BestDegrees> best = best_degrees(v))
    out << fmt::format("<p class=\"hint\">{}</p>\n", meaning_of_degrees(*best));
  out << "</section>\n";
}

void write_planners(std::ostream& out, const Validation& v) {
  out << "<section><h2>Mean regret of each planner</h2><div class=\"scroll\"><table>\n";
  write_row(out, "th",
            {"System", "Planner", "Bound by computation", "Mixed", "Bound by links", "All", "95 %", "Worst",
             "Behind all systems", "By medians"});
  for (const PlannerRegret& r : planner_regrets(v)) {
    std::vector<std::string> row{escaped(r.system), r.planner};
    for (const auto& [name, regime] : regime_names) row.push_back(regret_where(r, regime));
    row.insert(row.end(), {fmt::format("{:.2f} %", 100 * r.mean.value),
                           fmt::format("{:.2f} - {:.2f} %", 100 * r.mean.low, 100 * r.mean.high),
                           fmt::format("{:.2f} %", 100 * r.worst), fmt::format("{:.2f} %", 100 * r.behind_all.value),
                           fmt::format("{:.2f} %", 100 * r.behind_all_by_medians)});
    write_row(out, "td", row);
  }
  out << fmt::format("</table></div>\n<p class=\"hint\">{}</p></section>\n", meaning_of_regimes(v));
}

void write_online(std::ostream& out, const Validation& v) {
  if (v.online.empty()) return;
  out << "<section><h2>Planners that learn, replayed over measured times</h2><div class=\"scroll\"><table>\n";
  write_row(out, "th", {"Planner", "System", "Strategies", "At", "Regret", "95 % of replays", "Second half"});
  for (const OnlineOutcome& o : v.online)
    write_row(out, "td",
              {o.planner, escaped(o.system), fmt::format("{}", o.strategies), escaped(o.where),
               fmt::format("{:.2f} %", 100 * o.regret), fmt::format("{:.2f} - {:.2f} %", 100 * o.low, 100 * o.high),
               fmt::format("{:.2f} %", 100 * o.late_regret)});
  out << "</table></div></section>\n";
}

std::string difference_text(const PlanOutcome& plan) {
  const OpTimes* const op = largest_difference(plan);
  if (op == nullptr) return "-";
  return fmt::format("{} {}: {:+.3f} ms", name_in(op_kind_names, op->op), name_in(phase_names, op->phase),
                     1e3 * (op->measured - op->predicted).value());
}

void write_plans(std::ostream& out, const Validation& v) {
  out << "<section><h2>All plans</h2><p class=\"hint\">Bound: the longest stream or chain of the plan, with the times "
         "that its ops had in the measured step.</p><div class=\"scroll\"><table>\n";
  write_row(out, "th",
            {"Size", "System", "Degree", "Restore", "Predicted", "Without a fit", "Measured", "95 %", "Error", "Bound",
             "Largest difference of ops", "Emulated"});
  for (const ValidationCell& cell : v.cells)
    for (const PlanOutcome& p : cell.plans)
      write_row(out, "td",
                {escaped(cell.name), escaped(p.system),
                 fmt::format("{} / {}", p.plan.forward_degree, backward_degrees(p.plan)),
                 std::string(name_in(restore_names, p.plan.restore)), duration(p.predicted),
                 p.unfitted ? duration(*p.unfitted) : "-", duration(p.median),
                 fmt::format("{} - {}", duration(p.ci95_low), duration(p.ci95_high)),
                 fmt::format("{:+.2f} %", 100 * p.error()), duration(p.bound), difference_text(p),
                 fmt::format("{:.0f} %", 100 * p.emulated_share)});
  out << "</table></div></section>\n";
}

}  // namespace

void write_html(std::ostream& out, const Validation& v) {
  const std::string title =
      escaped(fmt::format("Predicted against measured: {} on {}", v.experiment.model.name, v.provenance.host));
  out << fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" "
      "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>{0}</title>\n<style>{1}</style></head>\n"
      "<body><header><p class=\"brand\">Dovetail <span>validation</span></p><h1>{0}</h1></header><main>\n",
      title, style_text);
  if (const Progression& p = v.measurements; p.partial())
    out << fmt::format(
        "<p class=\"hint\"><strong>Partial:</strong> {} of {} measurements were made before time ran out."
        "</p>\n",
        p.made, p.all);
  write_cards(out, v);
  write_labels(out, v.device);
  const ParityPlot plot(v);
  out << "<section><h2>Predicted against measured</h2>\n"
      << plot.legend() << plot.svg() << "<p class=\"hint\">Dashed: 5 % off. "
      << (v.kernels_held
              ? "All ops are held to their modelled times."
              : "Costs of kernels were fitted to other sizes than these; links are held to their modelled times.")
      << "</p></section>\n";
  write_goals(out, v);
  write_planners(out, v);
  write_online(out, v);
  write_regrets(out, v);
  write_restores(out, v);
  write_plans(out, v);
  write_device(out, v.device);
  out << "<section><h2>Notes</h2><ul>\n";
  for (const std::string& note : v.notes) out << "<li>" << escaped(note) << "</li>\n";
  out << "</ul></section>\n</main></body></html>\n";
}

}  // namespace dovetail::reports
