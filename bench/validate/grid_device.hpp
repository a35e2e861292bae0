// SPDX-License-Identifier: Apache-2.0
// Runs steps at the sizes of a validation grid, on the CPUs or the GPU that the grid names.
#pragma once
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/validate/kernel_fit.hpp"
#include "bench/validate/measurements.hpp"
#include "bench/validate/undisturbed.hpp"
#include "bench/validate/validation_grid.hpp"
#include "bench/validate/validation_settings.hpp"
#include "exec/host/host_run.hpp"
#include "models/files/schedule_json.hpp"
#include "models/results/validation.hpp"

namespace dovetail::bench {

// Costs that were fitted to measured steps.
struct FittedCosts {
  std::vector<KernelCost> kernels;
  std::optional<MemoryCost> copy;
};

class GridDevice {
 public:
  // `given`: the calibration whose kept speeds count on a GPU, and whose costs predict without any fit; none: the
  // cluster's. All but it and `files` must outlive this.
  GridDevice(const ValidationGrid& grid, const ValidationSettings& settings, std::optional<Calibration> given,
             FilesRead& files, Measurements& measurements);

  // The experiment at one size with its links as they are held, and with these costs; none: those of the cluster's
  // calibration. On a GPU what is known of kept speeds counts.
  Experiment experiment_of(const GridSize& size, const FittedCosts& fitted) const;
  // How much links of this size are slowed so that they are busy for links_to_computation times as long as computation
  // in one chunk, by these costs. Throws InputError if nothing is exchanged.
  double slowdown_of(const GridSize& size, const FittedCosts& fitted) const;
  // The experiment with the costs of kernels and copies of the given calibration, which no step of this grid was fitted
  // to.
  Experiment unfitted_experiment_of(const GridSize& size) const;

  // Adds to `fit` what the ops of a plan take.
  void measure_kernels(const GridSize& size, const Plan& plan, int round, KernelFit& fit);

  // Adds a round to the outcome of its plan. `where`: the name of the size.
  void measure_plan(const Experiment& experiment, const std::string& where, int round, bool check_numerics,
                    PlanOutcome& outcome);

  // The share of their held time that links were at work on cores, while kernels were measured; 0: nothing was held.
  double held_work() const { return held_time_ > Seconds(0) ? held_work_ / held_time_ : 0; }

  const std::string& described() const { return described_; }  // as the device calls itself; empty: CPUs
  std::string clocks() const;                                  // a note on those of a GPU; empty: not known
  std::string pace() const;  // a note on other work of this machine; empty: kernels do not run on it, or are held

 private:
  const Experiment& full_size_of(const GridSize& size) const { return full_.at(size.set); }
  const Calibration& given() const { return given_ ? *given_ : *full_.begin()->second.calibration; }
  bool on_gpu() const { return grid_.device == exec::RunDevice::Cuda; }
  void note_device(const JsonReader& json, std::vector<ClockReading>& clocks);
  exec::RunResult execute(const ScheduleFile& file, bool check_numerics) const;
  // Measures, or takes what an earlier run has measured, and gives it to `use`.
  void make(const std::string& key, const std::function<nlohmann::ordered_json()>& measure,
            const std::function<void(const JsonReader&)>& use);

  const ValidationGrid& grid_;
  const ValidationSettings& settings_;
  std::map<std::vector<std::string>, Experiment> full_;  // before they are scaled to the ranks, by a size's settings
  std::optional<Calibration> given_;
  Measurements& measurements_;
  std::optional<Undisturbed> undisturbed_;  // where kernels really run on this machine
  Seconds held_time_, held_work_;
  std::string described_;
  std::vector<ClockReading> fitted_at_, measured_at_;
};

}  // namespace dovetail::bench
