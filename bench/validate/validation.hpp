// Calibrates on some sizes, predicts others, and measures every plan that planners consider there.
#pragma once
#include <functional>
#include <string>

#include "bench/cli/terminal.hpp"
#include "bench/validate/validation_grid.hpp"
#include "models/results/validation.hpp"

namespace dovetail::bench {

struct ValidationSettings {
  Seconds measure_time{2};  // longest, for one plan, in all rounds together
  int rounds = 5;           // through all plans, each in another order: drifts of the machine hit all alike
  bool check_numerics = true;
  std::uint64_t seed = 1;  // of weights, data and the orders of plans
  Talk talk = Talk::Normal;
  Seconds time_limit;   // no measurement begins later than so long after the start; 0: never too late
  std::string journal;  // file in which finished plans are kept until the end
};

// Runs on this machine's CPUs or its first GPU, as the grid says, with emulated links. Picks up where a journal of the
// same work ends, and removes it after `keep` was given the whole result, whose provenance is for `keep` to say. A
// partial result has the plans that were measured at least once; false: none was, and `keep` was given nothing.
bool validate_grid(const ValidationGrid& grid, const ValidationSettings& settings, FilesRead& files,
                   const std::function<void(Validation&)>& keep);

}  // namespace dovetail::bench
