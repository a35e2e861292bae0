// SPDX-License-Identifier: Apache-2.0
// The whole of a measured run: numerics, choice of the dilation, samples, prediction.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/run/hooks.hpp"
#include "exec/run/measure.hpp"
#include "exec/run/numerics.hpp"
#include "exec/run/progress.hpp"
#include "exec/run/run_target.hpp"

namespace dovetail::exec {

// Auto: compute ops are held to their modelled times when there are more ranks than free cores.
enum class HoldCompute { Auto, Always, Never };
inline constexpr Names<HoldCompute, 3> hold_compute_names{
    {{"auto", HoldCompute::Auto}, {"always", HoldCompute::Always}, {"never", HoldCompute::Never}}};

// Multiprocessors that an exchange takes: NCCL on a node of eight GPUs has about as many blocks.
inline constexpr int usual_exchange_blocks = 16;

struct RunOptions {
  bool emulate_links = true;  // hold communication to its modelled time x dilation; compute as hold_compute says
  HoldCompute hold_compute = HoldCompute::Auto;
  double dilation = 0;  // 0: as small as the real work allows; else this, and a note where it does not suffice
  bool check_numerics = true;
  bool one_rank = false;  // of hosts: one rank stands for all, whose links are held; numerics are checked with all
  int exchange_blocks =
      usual_exchange_blocks;     // of a GPU that stands for one rank: multiprocessors that each exchange takes
  int gemm_multiprocessors = 0;  // of a GPU: for how many of them products are made; 0: all that held exchanges leave
  MeasureSettings measure;
  int train = 0;                 // steps of a training after the measured ones
  std::uint64_t seed = 1;        // of weights and data
  Hooks hooks;                   // of the user
  Progress* progress = nullptr;  // of a watched process: is told of each op, if given
  // Without a watch from outside the ranks are watched here, see StallWatch: how long no op may finish, and what is
  // done where a thread cannot be ended, which the run would wait for.
  Seconds patience{8};
  std::function<void(const std::string& why)> stuck = {};
};

struct RunResult {
  Timeline timeline;                                // of the step nearest to the median, wall seconds
  std::shared_ptr<const PricedSchedule> predicted;  // wall seconds too: dilated, and measured where not held
  IdVector<OpId, Seconds> work;                     // wall seconds of each op without waiting, median of the steps
  RunReport report;
  NumericsReport numerics;
  std::vector<std::string> notes;  // what a reader must know
};

// All processes of the target call it and get the same result.
RunResult measured_run(RunTarget& target, const Experiment& experiment, std::shared_ptr<const PricedSchedule> priced,
                       const RunOptions& options);

}  // namespace dovetail::exec
