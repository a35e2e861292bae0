// Costs of kernels from what ops of executed schedules really took: one line for each kind of op and pass.
#pragma once
#include <vector>

#include "models/base/fit.hpp"
#include "models/price/calibration.hpp"
#include "models/price/price.hpp"

namespace dovetail::bench {

class KernelFit {
 public:
  // Ops of the compute streams count, but for those that `held` says were held to a modelled time. `priced` without
  // kernel costs; `work`: by op.
  void add(const PricedSchedule& priced, const IdVector<OpId, Seconds>& work, const IdVector<OpId, bool>& held);

  // alpha + factor * modelled work, fitted by least squares of relative errors; a kind that was seen at one size only
  // gets a factor alone, one without modelled work an alpha alone. `source` goes into the provenance.
  std::vector<KernelCost> costs(const std::string& source) const;

 private:
  struct Points {
    OpKind op;
    Phase phase;
    std::vector<TimedSize> points;  // modelled seconds, measured
  };
  std::vector<Points> kinds_;
};

}  // namespace dovetail::bench
