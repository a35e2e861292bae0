// SPDX-License-Identifier: Apache-2.0
// Costs of kernels, for each kind of op and pass, and of copies to and from the host, from what ops of executed
// schedules really took.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "models/price/calibration.hpp"
#include "models/price/price.hpp"
#include "models/time/timeline.hpp"

namespace dovetail::bench {

// The form of the costs. ByWork: alpha and rates for what the kernels do (work_rates.hpp), for processors that no table
// knows. ByPrice: alpha + factor * the time that the calibration gives the work, where its tables know the shapes.
enum class CostForm { ByWork, ByPrice };

// The ops of a run beside which no other stream was at work, but for 2 % of their time.
IdVector<OpId, bool> ran_alone(const Schedule& schedule, const Timeline& timeline);

// The times that the ops of an executed step took. `held`: to a modelled time. `alone`: as ran_alone(); all, where
// nothing is to be told apart.
struct OpWork {
  IdVector<OpId, Seconds> times;
  IdVector<OpId, bool> held, alone;
};

class KernelFit {
 public:
  explicit KernelFit(CostForm form) : form_(form) {}

  // Kernels and copies that were not held count, and of a kind and pass only those that ran alone, if any did.
  // `priced` without kernel costs; `element`: bytes of a number.
  void add(const PricedSchedule& priced, const OpWork& work, Bytes element);

  // Fitted to the median time of each size, by least squares of relative errors; a kind of one size has no alpha unless
  // its work is 0. `source` goes into the provenance.
  std::vector<KernelCost> costs(const std::string& source) const;

  // The same of all copies together, both ways, by their bytes; none if none was made.
  std::optional<MemoryCost> copy(const std::string& source) const;

  // "expert backward", "copies": those of which no op ran alone, so that their times have in them what ran beside.
  std::vector<std::string> disturbed() const;

 private:
  struct Size {
    WorkAmounts amounts;
    Seconds by_price;
    std::vector<Seconds> times;
  };
  struct Kind {
    OpKind op;
    Phase phase;
    std::vector<Size> alone, beside;
    const std::vector<Size>& sizes() const { return alone.empty() ? beside : alone; }
  };
  struct CopySize {
    Bytes bytes;
    std::vector<Seconds> times;
  };
  static KernelCost cost_of(const Kind& kind, CostForm form);
  void add_kernel(const PricedSchedule& priced, OpId op, Seconds time, bool alone, Bytes element);
  const std::vector<CopySize>& copies() const { return copies_alone_.empty() ? copies_beside_ : copies_alone_; }

  CostForm form_;
  std::vector<Kind> kinds_;
  std::vector<CopySize> copies_alone_, copies_beside_;
};

}  // namespace dovetail::bench
