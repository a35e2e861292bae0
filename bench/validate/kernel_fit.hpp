// Costs of kernels from what ops of executed schedules really took, for each kind of op and pass.
#pragma once
#include <vector>

#include "models/price/calibration.hpp"
#include "models/price/price.hpp"

namespace dovetail::bench {

// The form of the costs. ByWork: alpha and rates for what the kernels do (work_rates.hpp), for processors that no table
// knows. ByPrice: alpha + factor * the time that the calibration gives the work, where its tables know the shapes.
enum class CostForm { ByWork, ByPrice };

class KernelFit {
 public:
  explicit KernelFit(CostForm form) : form_(form) {}

  // Ops of the compute streams count, but for those that `held` says were held to a modelled time. `priced` without
  // kernel costs; `work`: by op; `element`: bytes of a number.
  void add(const PricedSchedule& priced, const IdVector<OpId, Seconds>& work, const IdVector<OpId, bool>& held,
           Bytes element);

  // Fitted to the median time of each size, by least squares of relative errors; a kind of one size has no alpha unless
  // its work is 0. `source` goes into the provenance.
  std::vector<KernelCost> costs(const std::string& source) const;

 private:
  struct Size {
    WorkAmounts amounts;
    Seconds by_price;
    std::vector<Seconds> times;
  };
  struct Kind {
    OpKind op;
    Phase phase;
    std::vector<Size> sizes;
  };
  static KernelCost cost_of(const Kind& kind, CostForm form);

  CostForm form_;
  std::vector<Kind> kinds_;
};

}  // namespace dovetail::bench
