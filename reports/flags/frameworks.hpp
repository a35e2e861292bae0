// SPDX-License-Identifier: Apache-2.0
// The frameworks whose arguments a plan is written as.
#pragma once
#include <optional>

#include "models/base/names.hpp"
#include "models/plan/plan.hpp"
#include "models/question/experiment.hpp"
#include "reports/flags/framework_flags.hpp"

namespace dovetail::reports {

enum class Framework { Megatron, DeepSpeed, Tutel, Json };
inline constexpr Names<Framework, 4> framework_names{{{"megatron", Framework::Megatron},
                                                      {"deepspeed", Framework::DeepSpeed},
                                                      {"tutel", Framework::Tutel},
                                                      {"json", Framework::Json}}};

// All that train.
inline constexpr Names<Framework, 3> training_framework_names{framework_names[0], framework_names[1],
                                                              framework_names[2]};

// `experiment` is laid out, with the samples of all the plan's micro-batches. Every knob of the plan and every group is
// among the flags, is what the framework does anyway, or is in `cannot`.
FrameworkFlags flags_for(Framework framework, const Experiment& experiment, const Plan& plan);

// The plan itself if its flags say all of it, else the plan that the framework runs with them. Nothing where it does
// not run the experiment at all: other groups, other messages, or nothing that is known.
std::optional<Plan> as_run_by(Framework framework, const Experiment& experiment, const Plan& plan);

}  // namespace dovetail::reports
