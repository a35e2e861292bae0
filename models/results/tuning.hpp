// SPDX-License-Identifier: Apache-2.0
// The answer of a search over layouts beside its plans: "how do I train this model on this cluster".
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/results/system_result.hpp"

namespace dovetail {

// A system with a layout of its own, and on the winner's.
struct TunedSystem {
  SystemResult own;
  std::optional<Seconds> on_winners;  // step; none: it does not fit or cannot be built there
};

// A plan of the results again, by other means than the model that the search believes.
struct ConfirmedPlan {
  int rank = 1;            // from 1
  Seconds modelled, step;  // of the same question: as the search predicts it, and by those means
};

struct Confirmation {
  std::string by;         // a backend, or the device that really ran the plans
  bool in_small = false;  // plans ran in a size of this machine, so that times are of that size
  std::vector<ConfirmedPlan> plans;
  std::vector<std::string> refused;  // plans that could not be confirmed, each with its reason
};

// The least that any plan takes on a layout.
struct TuningFloor {
  Parallelism groups;
  int micro_batch = 1;
  Seconds step;
  // The parts of that on the stage that needs most: its layers, what they compute again to fit the memory, and the wait
  // for the stages before it.
  Seconds layers, again, filling;
};

// How the search went.
struct TuningProof {
  long layouts = 0;                     // that divide GPUs, batch, heads, experts and hidden sizes
  long too_large = 0;                   // of those, by the least that they hold
  long slower = 0;                      // of the rest, by their bound
  long estimated = 0;                   // plans on layouts
  long stages = 0;                      // kinds of stages that were built for that
  long predicted = 0;                   // whole steps
  Seconds bound;                        // no plan of any layout takes less
  Bytes least;                          // that any of the layouts that were looked at holds
  Seconds time;                         // of the search
  std::optional<int> enough_gpus = {};  // where nothing fits: of so many a layout holds no more than the limit
  TuningFloor lowest = {};              // of all layouts that may fit: the bound
  std::optional<TuningFloor> own = {};  // of the best plan's layout
};

// A value of the best plan of all that a framework cannot have.
struct MissingValue {
  std::string key, value, instead;  // "plan.scope", "moe", and what the framework has; `instead` empty: nothing else
  std::vector<std::string> along;   // other knobs that must change with it on the framework's best plan
  std::optional<Seconds> alone;     // step of that plan with this value; none: it cannot be built, or does not fit
  std::optional<Seconds> all_but;   // step of the best plan of all with what the framework has instead; none: the same
};

// The framework that the plans are for, and the best plan of all on the same question, whatever runs it.
struct ForFramework {
  std::string key, name, checked;      // "megatron", "Megatron-LM", the version whose arguments were asked
  std::vector<std::string> arguments;  // of its best plan, a line each, with versions as comments
  std::vector<std::string> elsewhere;  // what of the plan they leave to the code around the framework
  std::optional<SystemResult> any;     // none: it was not searched
  std::vector<std::string> cannot;     // what of that the framework does otherwise, in words
  std::vector<MissingValue> missing;   // the values of it that change a step, those that gain most alone first
  Seconds time;                        // of the search for it
};

// How layouts were searched, and what else was found than the plans of Report::results.
struct Tuning {
  int global_batch = 1;
  double gpu_watts = 0;              // see TuningCurve
  Bytes limit;                       // of device memory that may be used
  std::vector<TunedSystem> systems;  // the fastest first
  std::vector<SystemResult> front;   // of all these, those that no other beats in both time and memory
  std::optional<Confirmation> confirmation;
  std::optional<ForFramework> framework;  // none: for any
  TuningProof proof;
};

// The best plan of one size of one cluster.
struct TuningPoint {
  std::string cluster;
  int gpus = 1;
  Bytes memory;  // of a device
  std::optional<SystemResult> best;
  std::string refusal;  // why there is none
};

// One training on several clusters, or on several sizes of one.
struct TuningCurve {
  std::string model;
  int global_batch = 1, sequence = 1;
  std::string workload;   // a line for people: layers, samples, experts, routing and number format
  double gpu_watts = 0;   // that a GPU takes with its share of all else, as the user states it; 0: not stated
  std::string framework;  // that all plans are for, with its version, for people; empty: for any
  std::vector<TuningPoint> points;
};

inline constexpr double trillion = 1e12;  // tokens

// Hours of GPUs that training on so many tokens takes, and their energy.
double gpu_hours(const SystemResult& plan, double tokens);
double megawatt_hours(const SystemResult& plan, double tokens, double gpu_watts);

}  // namespace dovetail
