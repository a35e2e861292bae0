// A plan on a layout as the arguments of a training framework, and what of it the framework cannot do.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "models/base/names.hpp"
#include "models/plan/plan.hpp"
#include "models/question/experiment.hpp"

namespace dovetail::reports {

enum class Framework { Megatron, DeepSpeed, Tutel, Json };
inline constexpr Names<Framework, 4> framework_names{{{"megatron", Framework::Megatron},
                                                      {"deepspeed", Framework::DeepSpeed},
                                                      {"tutel", Framework::Tutel},
                                                      {"json", Framework::Json}}};

struct Flag {
  std::string name;   // as the framework writes it; in a configuration file a path with dots
  std::string value;  // as it is written there; empty: the name alone
  std::string versions = {};
  bool in_file = false;  // of the configuration file, where the framework has one beside arguments
};

struct FrameworkFlags {
  std::string framework, checked;   // `checked`: the version whose arguments these are
  std::vector<Flag> flags;          // of Json: none
  std::vector<std::string> cannot;  // what of the plan it does otherwise, a line each
  std::string text;                 // flags to paste, with versions as comments; lines end in line ends
};

// `experiment` is laid out, with the samples of all the plan's micro-batches. Every knob of the plan and every group is
// among the flags, is what the framework does anyway, or is in `cannot`.
FrameworkFlags flags_for(Framework framework, const Experiment& experiment, const Plan& plan);

void write_flags(std::ostream& out, const FrameworkFlags& flags);

}  // namespace dovetail::reports
