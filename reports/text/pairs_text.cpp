// SPDX-License-Identifier: Apache-2.0
#include "reports/text/pairs_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/text/format.hpp"

namespace dovetail::reports {
namespace {

constexpr double pays = 1.02;  // less is no gain to speak of

struct LimitWords {
  const char* otherwise;
  const char* because;
};
LimitWords words(PairLimit limit, bool one_connection) {
  switch (limit) {
    case PairLimit::Multiprocessors:
      return {"if operations that run together did not slow each other",
              "communication takes multiprocessors from the computation beside it"};
    case PairLimit::Launches:
      return {"if launches took no time", "the host launches the kernels of both passes in one order"};
    case PairLimit::Connections:
      return one_connection
                 ? LimitWords{"if each stream had a hardware queue (plan.one_connection false)",
                              "all streams share one hardware queue"}
                 : LimitWords{"if all streams shared one hardware queue (CUDA_DEVICE_MAX_CONNECTIONS=1)", ""};
    case PairLimit::Order:
      return {"in the best other plan.pair_order", "the order of passes in a pair is not the best"};
  }
  return {"", ""};
}

// "gain 3.4 %", "lose 2.0 %", and without the verb where `before` has it too.
std::string gain(double ratio, double before = -1) {
  const double by = 100 * (ratio - 1);
  const bool same = before >= 0 && (before < 1) == (by < 0);
  return fmt::format("{}{:.{}f} %", same ? "" : by < 0 ? "lose " : "gain ", std::abs(by), std::abs(by) < 9.95 ? 1 : 0);
}
std::string more_memory(Bytes more) {
  constexpr double least = 1 << 20;
  if (std::abs(more.value()) < least) return "as much memory";
  return fmt::format("{} {}", bytes(more < Bytes(0) ? -1.0 * more : more), more < Bytes(0) ? "less" : "more");
}

double ratio(const PairStep& step) {
  return step.apart / step.paired;
}

// The limit without which pairs would gain most, if that is more than they gain.
const PairStep* decisive(const PairsExplained& p, double now) {
  const PairStep* most = nullptr;
  for (const PairStep& step : p.otherwise)
    if ((step.limit != PairLimit::Connections || p.one_connection) &&
        ratio(step) > std::max(now + .005, most == nullptr ? 0 : ratio(*most)))
      most = &step;
  return most;
}

// The reason where no limit is decisive.
std::string nothing_else(const Explanation& x) {
  const int micro_batches = x.pairs->micro_batches;
  if (!x.pairs->chosen && x.degree > 1) return "the chunks of rows, which pairs are without, overlap as much";
  if (x.stages > 1) return "a pass waits for that of its own micro-batch on another stage";
  if (micro_batches <= 4)
    return fmt::format("only {} of {} forward passes have one beside them", micro_batches - 1, micro_batches);
  return "exchanges last longer than the computation beside them";
}

std::string why_not(const Explanation& x, const ExplainedStep& paired, const ExplainedStep& apart) {
  const PairsExplained& p = *x.pairs;
  if (paired.peak > x.limit && apart.peak <= x.limit) return " They need more memory than there is.";
  const double now = apart.metrics.makespan / paired.metrics.makespan;
  if (now >= pays) return "";
  if (apart.metrics.exposed_communication / apart.metrics.makespan < pays - 1)
    return " They do not pay, because little communication is exposed without them.";
  const PairStep* limit = decisive(p, now);
  if (limit == nullptr) return fmt::format(" They do not pay, because {}.", nothing_else(x));
  return fmt::format(" They do not pay, mostly because {}.", words(limit->limit, p.one_connection).because);
}

}  // namespace

std::string pairs_text(const Explanation& x) {
  if (!x.pairs) return "";
  const PairsExplained& p = *x.pairs;
  if (!p.other) return fmt::format("Pairs of micro-batches are not for this plan: {}.", p.refusal);
  const ExplainedStep &paired = p.chosen ? x.best : *p.other, &apart = p.chosen ? *p.other : x.best;
  std::string text = fmt::format(
      "Pairs: {} of micro-batches the step would take {}, expose {} of communication in place of {}, and hold {}.",
      p.chosen ? "without pairs" : "with pairs", change(p.other->metrics.makespan / x.best.metrics.makespan),
      duration(p.other->metrics.exposed_communication), duration(x.best.metrics.exposed_communication),
      more_memory(p.other->peak - x.best.peak));
  std::vector<std::string> otherwise;
  double before = -1;
  for (const PairStep& step : p.otherwise) {
    otherwise.push_back(fmt::format("{} {}", gain(ratio(step), before), words(step.limit, p.one_connection).otherwise));
    before = ratio(step);
  }
  if (!otherwise.empty())
    text += fmt::format(" Pairs {}, and would {}.", gain(apart.metrics.makespan / paired.metrics.makespan),
                        listed(otherwise));
  return text + why_not(x, paired, apart);
}

}  // namespace dovetail::reports
