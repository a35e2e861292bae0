// SPDX-License-Identifier: Apache-2.0
// The devices of a measured run: CPUs or GPUs. Everything that differs between the two for a run stands here.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/reference/model_data.hpp"
#include "exec/reference/routing.hpp"
#include "exec/run/compute_rules.hpp"
#include "exec/run/dilation.hpp"
#include "exec/run/executor.hpp"
#include "models/results/result.hpp"

namespace dovetail::exec {

class RunTarget {
 public:
  virtual ~RunTarget() = default;

  virtual RunReport report() const = 0;            // device, transport and ranks; the rest is the run's
  virtual double maximum(double value) const = 0;  // over all processes of the run
  // Throws InputError where it cannot run this schedule.
  virtual void require_possible() const = 0;

  // Numerics. With ReLU in float, an input within rounding of 0 has a gradient that the reference lacks.
  virtual bool in_float() const = 0;
  virtual double tolerance(const ComputeRules& rules) const = 0;
  virtual ModelData data(std::uint64_t seed) const = 0;  // in the format that is computed in
  // With all ranks, so that results are exact. `routing` as in Reference: replaces the gates' own choices, unless
  // empty.
  virtual std::unique_ptr<Executor> make_exact(const ModelData& data, std::vector<std::vector<Routing>> routing) = 0;

  // A training. With all ranks; in double where that can be chosen, so that what a schedule computes can be told from
  // what rounding makes of it over many steps.
  virtual std::unique_ptr<Executor> make_trained(const ModelData& data) = 0;
  // The tolerance of the gradients of one of its steps; none: losses are reported and not judged.
  virtual std::optional<double> training_tolerance(const ComputeRules& rules) const = 0;

  // Times. By op: is it held to its modelled time?
  virtual IdVector<OpId, bool> held_ops(std::vector<std::string>& notes) = 0;
  // The executor whose times count: the exact one (null where numerics were not checked), or one in its place.
  virtual std::unique_ptr<Executor> make_timed(std::unique_ptr<Executor> exact, const ModelData& data,
                                               const IdVector<OpId, bool>& held, std::vector<std::string>& notes) = 0;
  // How long steps must have run, by the device's time, before their times count.
  virtual Seconds warm_up() const { return {}; }
  // Real work must fit into modelled times, which may be stretched for that. False: they are held as they are.
  virtual bool stretches() const = 0;
  // Holds ops to their predicted times from the next step of the timed executor on, if they are not yet.
  virtual void hold(const PricedSchedule& predicted, const IdVector<OpId, bool>& held) = 0;
  // No op, or no step that is waited for as a whole, should take longer from now on.
  virtual void expect(Seconds longest) = 0;
};

}  // namespace dovetail::exec
