// SPDX-License-Identifier: Apache-2.0
#include "reports/text/explanation_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "models/base/errors.hpp"
#include "reports/text/format.hpp"
#include "reports/text/pairs_text.hpp"

namespace dovetail::reports {
namespace {

constexpr std::array<std::pair<StepPart, const char*>, step_part_names.size()> part_words{
    {{StepPart::RowExchanges, "exchanges of rows between tokens and experts"},
     {StepPart::ModelParallel, "collectives of model-parallel ranks"},
     {StepPart::Gradients, "sums of gradients and gathers of weights"},
     {StepPart::StageMessages, "messages between pipeline stages"},
     {StepPart::HostCopies, "copies to the host and back"},
     {StepPart::Attention, "attention and its projections"},
     {StepPart::Routing, "gate, norms, and the placing of rows"},
     {StepPart::Experts, "products of experts"},
     {StepPart::DenseFfn, "dense feed-forward parts"},
     {StepPart::Ends, "embedding, output head and loss"},
     {StepPart::Update, "update of weights"},
     {StepPart::Launches, "launches by the host"}}};

const char* words(StepPart part) {
  const auto found = std::ranges::find(part_words, part, &std::pair<StepPart, const char*>::first);
  check(found != part_words.end(), "a part without words");
  return found->second;
}

std::string share(Seconds time, Seconds step) {
  return fmt::format("{:.0f} %", 100 * (time / step));
}

// "computes 5.1 ms more, waits for communication 60 ms less": from the first to the second, whatever is worth a word.
std::vector<std::string> differences(const ExplainedStep& from, const ExplainedStep& to) {
  constexpr double least = .003;  // of the step
  std::vector<std::string> list;
  const auto add = [&](const char* verb, Seconds before, Seconds after) {
    const Seconds by = after - before;
    if (std::abs(by / from.metrics.makespan) < least) return;
    list.push_back(
        fmt::format("{} {} {}", verb, duration(by < Seconds(0) ? -1.0 * by : by), by < Seconds(0) ? "less" : "more"));
  };
  add("computes", from.metrics.computation, to.metrics.computation);
  add("waits for communication", from.metrics.exposed_communication, to.metrics.exposed_communication);
  add("idles", from.metrics.waiting, to.metrics.waiting);
  return list;
}

std::string winner(const Explanation& x) {
  const Metrics& m = x.best.metrics;
  if (!x.next) return fmt::format("{} takes {} a step.", x.name, duration(m.makespan));
  const NextBest& next = *x.next;
  const double ratio = next.step.metrics.makespan / m.makespan;
  std::string text = ratio < 1.0005 ? fmt::format("{} takes {} a step. The next best, {}, takes the same time.", x.name,
                                                  duration(m.makespan), next.name)
                                    : fmt::format("{} takes {} a step. The next best, {}, takes {}", x.name,
                                                  duration(m.makespan), next.name, change(ratio));
  if (ratio >= 1.0005) text += next.tied ? ", which is not known to be slower." : ".";
  if (const auto parts = differences(x.best, next.step); !parts.empty())
    text += fmt::format(" On average over its ranks, it {}.", listed(parts));
  constexpr std::size_t most = 6;
  std::vector<std::string> changes = next.changes;
  if (changes.size() > most) {
    const std::size_t more = changes.size() - most + 1;
    changes.resize(most - 1);
    changes.push_back(fmt::format("{} other settings", more));
  }
  if (!changes.empty()) text += fmt::format(" It has {}.", listed(changes));
  return text;
}

std::string where_time_goes(const Explanation& x) {
  const Metrics& m = x.best.metrics;
  return fmt::format("A rank computes for {} of the step, waits for communication for {}, and idles for {}{}.",
                     share(m.computation, m.makespan), share(m.exposed_communication, m.makespan),
                     share(m.waiting, m.makespan),
                     x.stages > 1 ? ", while other stages work or nothing is launched" : "");
}

std::string limit(const Explanation& x) {
  const Seconds step = x.best.metrics.makespan;
  if (x.without.empty()) return "No part of the step limits it alone: without any one of them it takes as long.";
  constexpr std::size_t most = 4;
  const WithoutPart& first = x.without.front();
  std::string text = fmt::format("The largest limit is the {}: if they took no time, the step would take {}, {}.",
                                 words(first.part), duration(first.step), change(first.step / step));
  std::vector<std::string> others;
  for (std::size_t i = 1; i < std::min(most, x.without.size()); ++i)
    others.push_back(fmt::format("without {} {}", words(x.without[i].part), change(x.without[i].step / step)));
  if (!others.empty()) text += fmt::format(" It would take, {}.", listed(others));
  return text;
}

std::string overlap(const Explanation& x) {
  const Metrics& m = x.best.metrics;
  const Seconds communication = m.hidden + m.exposed_communication;
  if (communication / m.makespan < 1e-3) return "There is no communication to hide behind computation.";
  std::string text =
      fmt::format("Overlap: {} of the time of communication lies beside computation.", share(m.hidden, communication));
  for (const Alternative& other : x.alternatives) {
    if (other.choice != OtherChoice::Uncut && other.choice != OtherChoice::Cut) continue;
    const double ratio = other.step.metrics.makespan / m.makespan;
    const bool cut = other.choice == OtherChoice::Cut;
    text +=
        cut ? " Cut into two chunks, the rows of experts could travel while others are computed: the step would take "
            : fmt::format(" With the rows of experts in one piece instead of {}, the step would take ",
                          x.degree > 1 ? fmt::format("up to {}", x.degree) : "a piece for each group of peers");
    text += std::abs(ratio - 1) < 5e-4 ? "as long." : change(ratio) + ".";
    if (const auto parts = differences(x.best, other.step); !parts.empty())
      text += fmt::format(" A rank then {}.", listed(parts));
  }
  return text;
}

std::string memory(const Explanation& x) {
  const Bytes free = x.limit - x.best.peak;
  std::string text = free < Bytes(0)
                         ? fmt::format("Memory: the fullest rank needs {}, {} more than there are.", bytes(x.best.peak),
                                       bytes(-1.0 * free))
                         : fmt::format("Memory: the fullest rank holds {} of {}.", bytes(x.best.peak), bytes(x.limit));
  for (const Alternative& other : x.alternatives) {
    if (other.choice != OtherChoice::KeepRows) continue;
    const bool fits = other.step.peak <= x.limit;
    text += fmt::format(" With all rows kept instead of made again, the step would take {} and need {}, {}.",
                        change(other.step.metrics.makespan / x.best.metrics.makespan), bytes(other.step.peak),
                        fits ? "which fits" : "so memory is a limit");
  }
  return text;
}

std::string pipeline(const Explanation& x) {
  for (const Alternative& other : x.alternatives) {
    if (other.choice != OtherChoice::MoreMicroBatches) continue;
    const double of_sample = other.step.metrics.makespan / x.best.metrics.makespan / 2;
    return fmt::format(
        "Pipeline: with twice the samples a step, each would take {} time{}, because filling and draining the stages "
        "counts less.",
        change(of_sample), other.step.peak > x.limit ? " (but would not fit)" : "");
  }
  return "";
}

std::string launches(const Explanation& x) {
  const Metrics& m = x.best.metrics;
  if (m.launch_bound / m.makespan < .01) return "";
  std::string text = fmt::format("Host: the step waits for the host, which launches kernels, for {} of its time.",
                                 share(m.launch_bound, m.makespan));
  std::vector<std::string> changes;
  for (const auto& [choice, with] : {std::pair{OtherChoice::Graphs, "in captured graphs"},
                                     {OtherChoice::LargerMicroBatches, "in half as many micro-batches"},
                                     {OtherChoice::FusedKernels, "with the framework's fused kernels"}})
    for (const Alternative& other : x.alternatives)
      if (other.choice == choice)
        changes.push_back(fmt::format("{} {}{}", with, change(other.step.metrics.makespan / m.makespan),
                                      other.step.peak > x.limit ? " (but would not fit)" : ""));
  if (!changes.empty()) text += fmt::format(" It would take {}.", listed(changes));
  return text;
}

std::string backend(const Explanation& x) {
  if (!x.reported) return "";
  return fmt::format("These figures are the analytic model's; the backend of this result has a step of {}.",
                     duration(*x.reported));
}

}  // namespace

std::vector<std::string> explanation_text(const Explanation& x) {
  std::vector<std::string> text{winner(x), where_time_goes(x), limit(x),    overlap(x), pairs_text(x),
                                memory(x), pipeline(x),        launches(x), backend(x)};
  std::erase(text, "");
  return text;
}

}  // namespace dovetail::reports
