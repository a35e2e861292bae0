// SPDX-License-Identifier: Apache-2.0
// A question to tune: an experiment whose groups and batch are left open, and the sizes that the user has fixed.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "bench/pipeline/question.hpp"

namespace dovetail::bench {

struct TuneOptions : Options {
  int global_batch = 0, sequence = 0, micro_batch = 0;  // 0: not given
  double memory_margin = 10;                            // percent of device memory that is left free
  int count = 10;                                       // of the best that are shown
  std::string gpus;                                     // counts of them, see tune_curve.hpp; empty: by nodes
  double gpu_watts = 0;                                 // for energy; 0: not given
  std::string confirm;                                  // a name of confirm.hpp; empty: none
  double measure_time = 0;                              // of a plan that really runs for that; 0: not given
  std::optional<reports::Framework> plans_for;          // none: for any
  bool gains = true;                                    // whether to say what a framework would gain by others
};

// The question with groups and batch left open. `fixed`: the sizes that the user has set by --set parallelism.x=y or
// in the experiment file. Batches are those of the options or of --set workload.global_batch and micro_batch, else of
// the file. A file with workload.batch is a run in a layout of its own: its groups and pipeline are left open too.
// Throws InputError where something in it contradicts that, or where the global batch is missing.
struct TuneQuestion {
  Question question;
  std::map<std::string, int> fixed;
  int global_batch = 0, micro_batch = 0;  // micro_batch 0: open
};
TuneQuestion load_tune_question(const TuneOptions& options);

}  // namespace dovetail::bench
