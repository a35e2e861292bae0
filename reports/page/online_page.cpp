// SPDX-License-Identifier: Apache-2.0
// The page of an online run: capacity factor, choices and cumulative regret over the steps. The plot is drawn here, so
// that the page needs no script.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <ostream>

#include "models/base/names.hpp"
#include "reports/data/online_report.hpp"
#include "reports/page/page_text.hpp"
#include "reports/text/format.hpp"

namespace dovetail::reports {
namespace {

// Panels one above the other over a common axis of steps.
class StepPlot {
 public:
  explicit StepPlot(const OnlineRun& run) : run_(run) {}

  std::string svg() {
    for (const OnlineStep& step : run_.steps) loads_.push_back(step.capacity_factor * step.tokens);
    const double load = *std::ranges::max_element(loads_);
    std::vector<double> regret = cumulative_regret(run_);
    for (double& each : regret) each *= 100;
    const double worst = std::max(.01, regret.size() > 20 ? regret[20] : regret.front());
    body_.clear();
    double top = 30;
    line("capacity factor x tokens", loads_, load, top, 130, "--accent");
    top += 130 + gap;
    const double rows = 18.0 * static_cast<double>(run_.strategies.size());
    choices(top, rows);
    top += rows + gap;
    const double top_regret = std::max(worst, *std::ranges::max_element(regret.begin() + half(), regret.end()));
    line("cumulative regret, %", regret, top_regret, top, 170, "--exposed");
    top += 170;
    axis(top);
    return fmt::format(
               "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Capacity factor, chosen strategy and cumulative "
               "regret over the steps; the table below and the JSON result have the numbers\">\n",
               width, top + 44) +
           body_ + "</svg>\n";
  }

 private:
  static constexpr double width = 1000, left = 170, right = 16, gap = 46;

  std::ptrdiff_t half() const { return static_cast<std::ptrdiff_t>(run_.steps.size() / 2); }
  double x(std::size_t step) const {
    const auto last = static_cast<double>(std::max<std::size_t>(1, run_.steps.size() - 1));
    return left + (width - left - right) * static_cast<double>(step) / last;
  }

  void text(double x, double y, std::string_view anchor, std::string_view colour, const std::string& words) {
    body_ +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"12\" fill=\"var({})\">{}</text>\n",
                    x, y, anchor, colour, escaped(words));
  }

  void frame(const std::string& title, double top, double height) {
    text(left, top - 8, "start", "--ink", title);
    body_ += fmt::format("<path d=\"M{0} {1:.1f}V{2:.1f}H{3}\" fill=\"none\" stroke=\"var(--quiet)\"/>\n", left, top,
                         top + height, width - right);
  }

  // Values above `most` leave the panel at its top.
  void line(const std::string& title, const std::vector<double>& values, double most, double top, double height,
            std::string_view colour) {
    frame(title, top, height);
    for (double share : {0.0, .5, 1.0})
      text(left - 6, top + height * (1 - share) + 4, "end", "--quiet", fmt::format("{:.3g}", most * share));
    std::string path;
    for (std::size_t i = 0; i < values.size(); ++i)
      path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", x(i),
                          top + height * (1 - std::clamp(values[i] / most, 0.0, 1.0)));
    body_ += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"var({})\" stroke-width=\"1.5\"/>\n", path, colour);
  }

  // A row for each strategy: a pale mark where it was the best, a dark one where it was chosen.
  void choices(double top, double height) {
    frame("strategy: chosen (dark), best of the step (pale)", top, height);
    const double row = height / static_cast<double>(run_.strategies.size());
    for (std::size_t s = 0; s < run_.strategies.size(); ++s) {
      const double y = top + row * (static_cast<double>(s) + .5);
      text(left - 6, y + 4, "end", "--quiet", run_.strategies[s].name);
      const auto is_best = [&](const OnlineStep& step) { return step.times[s] == best_time(step); };
      marks(y, row - 4, "--bound", .2, is_best);
      marks(y, row - 10, "--accent", .9, [&](const OnlineStep& step) { return step.chosen == s; });
    }
  }

  // One path for a whole row; neighbouring steps join.
  void marks(double y, double thickness, std::string_view colour, double opacity,
             const std::function<bool(const OnlineStep&)>& marked) {
    std::string path;
    const double half_step = run_.steps.size() > 1 ? (x(1) - x(0)) / 2 : 2;
    for (std::size_t i = 0; i < run_.steps.size(); ++i) {
      if (!marked(run_.steps[i])) continue;
      const std::size_t first = i;
      while (i + 1 < run_.steps.size() && marked(run_.steps[i + 1])) ++i;
      path += fmt::format("M{:.1f} {:.1f}H{:.1f}", x(first) - half_step, y, x(i) + half_step);
    }
    if (!path.empty())
      body_ += fmt::format("<path d=\"{}\" stroke=\"var({})\" stroke-width=\"{:.1f}\" opacity=\"{}\"/>\n", path, colour,
                           std::max(2.0, thickness), opacity);
  }

  void axis(double y) {
    const std::size_t last = run_.steps.size() - 1;
    for (std::size_t tick = 0; tick <= 4; ++tick) {
      const std::size_t step = last * tick / 4;
      text(x(step), y + 18, "middle", "--quiet", std::to_string(step));
    }
    text((left + width) / 2, y + 36, "middle", "--ink", "step");
  }

  const OnlineRun& run_;
  std::vector<double> loads_;
  std::string body_;
};

void card(std::ostream& out, std::string_view label, const std::string& value, const std::string& hint) {
  out << fmt::format(
      "<div class=\"card\"><div class=\"label\">{}</div><div class=\"value\">{}</div><div "
      "class=\"hint\">{}</div></div>\n",
      label, value, hint);
}

void write_cards(std::ostream& out, const OnlineRun& run) {
  std::size_t best = 0;
  for (std::size_t s = 1; s < run.strategies.size(); ++s)
    if (regret_of(run, s) < regret_of(run, best)) best = s;
  const std::size_t last = run.steps.size() - last_part(run);
  out << "<div class=\"cards\">\n";
  card(out, "Regret", fmt::format("{:.2f} %", 100 * regret(run)), "over the best strategy of each step");
  card(out, fmt::format("Regret of the last {} steps", last),
       fmt::format("{:.2f} %", 100 * regret(run, last_part(run))), "when most is known");
  card(out, "Best single strategy", fmt::format("{:.2f} %", 100 * regret_of(run, best)),
       escaped(run.strategies[best].name) + " in all steps, known beforehand");
  out << "</div>\n";
}

void write_strategies(std::ostream& out, const OnlineRun& run) {
  out << "<section><h2>Strategies</h2><div class=\"scroll\"><table>\n"
         "<tr><th>Strategy</th><th>Chosen in steps</th><th>Regret if always taken</th></tr>\n";
  for (std::size_t s = 0; s < run.strategies.size(); ++s)
    out << fmt::format("<tr><td>{}</td><td>{}</td><td>{:.2f} %</td></tr>\n", escaped(run.strategies[s].name),
                       std::ranges::count(run.steps, s, &OnlineStep::chosen), 100 * regret_of(run, s));
  out << "</table></div></section>\n";
}

}  // namespace

void write_html(std::ostream& out, const OnlineRun& run) {
  const std::string title =
      escaped(fmt::format("Planning step by step: {} on {}", run.experiment.model.name, run.experiment.cluster.name));
  out << fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" "
      "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>{0}</title>\n<style>{1}</style></head>\n"
      "<body><header><p class=\"brand\">Dovetail <span>plan --online</span></p><h1>{0}</h1><div id=\"question\">\n",
      title, style_text);
  for (const std::string& each : experiment_lines(run.experiment)) out << "<p>" << escaped(each) << "</p>\n";
  out << "</div></header><main>\n";
  write_cards(out, run);
  out << fmt::format("<section><h2>{} over {} steps of {}</h2>\n", escaped(run.planner), run.steps.size(),
                     escaped(run.trace))
      << StepPlot(run).svg()
      << fmt::format("<p class=\"hint\">Times are {} by {}{}.</p></section>\n", name_in(result_kind_names, run.kind),
                     escaped(run.backend),
                     run.noise > 0 ? fmt::format("; the planner sees them with noise of {} %", 100 * run.noise) : "");
  write_strategies(out, run);
  if (!run.notes.empty()) out << "<section><h2>Notes</h2><ul>\n";
  for (const std::string& note : run.notes) out << "<li>" << escaped(note) << "</li>\n";
  out << (run.notes.empty() ? "" : "</ul></section>\n") << "</main></body></html>\n";
}

}  // namespace dovetail::reports
