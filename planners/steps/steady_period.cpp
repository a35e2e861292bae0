// SPDX-License-Identifier: Apache-2.0
#include "planners/steps/steady_period.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "models/schedule/op_table.hpp"

namespace dovetail::planners {
namespace {

// The ops of each pass of each micro-batch on each class, in the order of the schedule; not those of the step's end.
class PassOps {
 public:
  explicit PassOps(const Schedule& s)
      : micro_batches_(static_cast<std::size_t>(s.micro_batches)), ops_(2 * s.classes.size() * micro_batches_) {
    for (const OpId i : s.ops.ids()) {
      const Op& op = s.ops[i];
      if (entry_of(op.kind).part != OpPart::StepEnd)
        ops_[place(s.class_of(op), op.micro_batch, op.pass() == Phase::Forward)].push_back(i);
    }
  }

  const std::vector<OpId>& of(int rank_class, int micro_batch, bool forward) const {
    return ops_[place(rank_class, micro_batch, forward)];
  }

 private:
  std::size_t place(int rank_class, int micro_batch, bool forward) const {
    const auto c = static_cast<std::size_t>(rank_class), m = static_cast<std::size_t>(micro_batch);
    return (c * micro_batches_ + m) * 2 + (forward ? 1 : 0);
  }

  std::size_t micro_batches_;
  std::vector<std::vector<OpId>> ops_;
};

class Repetition {
 public:
  Repetition(const PricedSchedule& priced, const Timeline& timeline, int lag, double share)
      : priced_(priced), s_(*priced.schedule), timeline_(timeline), ops_(s_), lag_(lag), share_(share) {}

  std::optional<SteadyPeriod> run() const {
    const int last = s_.micro_batches - 1;
    if (last < 2 * lag_) return std::nullopt;
    const std::vector<OpId>&after = ops_.of(0, last, true), &before = ops_.of(0, last - lag_, true);
    if (after.empty() || after.size() != before.size()) return std::nullopt;
    const Seconds end = start_of(after.back()), time = end - start_of(before.back());
    const SteadyPeriod period{end - time, time};
    if (time <= Seconds(0) || !repeats(period) || !has_time_for_all(period)) return std::nullopt;
    return period;
  }

 private:
  Seconds start_of(OpId op) const { return timeline_.ops[op].start; }

  bool repeats(const SteadyPeriod& period) const {
    for (int c = 0; c < static_cast<int>(s_.classes.size()); ++c)
      for (const bool forward : {true, false})
        for (int m = 0; m < s_.micro_batches; ++m)
          if (!repeats(period, c, m, forward)) return false;
    return true;
  }

  // An op that starts in the share that is looked at, or a period before it, does so with its counterpart.
  bool repeats(const SteadyPeriod& period, int c, int m, bool forward) const {
    const double rounding = 1e-9 * period.time.value(), end = period.end().value() - rounding;
    const double from = period.end().value() - share_ * period.time.value() + rounding;
    const std::vector<OpId>* earlier = m >= lag_ ? &ops_.of(c, m - lag_, forward) : nullptr;
    const std::vector<OpId>& ops = ops_.of(c, m, forward);
    const bool last = m + lag_ >= s_.micro_batches;
    const bool alike = earlier != nullptr && earlier->size() == ops.size();
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const double start = start_of(ops[i]).value(), again = start + period.time.value();
      if (last && again > from && again < end) return false;
      const double shifted = alike ? start_of((*earlier)[i]).value() + period.time.value() : -1;
      const bool inside = (start > from && start < end) || (shifted > from && shifted < end);
      if (inside && std::abs(start - shifted) > rounding) return false;
    }
    return true;
  }

  // A stream or host that falls behind a little with each micro-batch holds up the others later.
  bool has_time_for_all(const SteadyPeriod& period) const {
    const int last = s_.micro_batches - 1;
    std::vector<Seconds> work(s_.streams.size() + s_.classes.size());
    for (int c = 0; c < static_cast<int>(s_.classes.size()); ++c)
      for (const bool forward : {true, false})
        for (int m = last - lag_; m < last; ++m)
          for (const OpId i : ops_.of(c, m, forward)) {
            work[static_cast<std::size_t>(s_.ops[i].stream)] += priced_.duration[i];
            if (!priced_.launch.empty()) work[s_.streams.size() + static_cast<std::size_t>(c)] += priced_.launch[i];
          }
    return std::ranges::all_of(work, [&](Seconds each) { return each <= period.time * (1 + 1e-9); });
  }

  const PricedSchedule& priced_;
  const Schedule& s_;
  const Timeline& timeline_;
  const PassOps ops_;
  const int lag_;
  const double share_;
};

}  // namespace

std::optional<SteadyPeriod> steady_period(const PricedSchedule& priced, const Timeline& timeline, int lag,
                                          double share) {
  return Repetition(priced, timeline, lag, share).run();
}

}  // namespace dovetail::planners
