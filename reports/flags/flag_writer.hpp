// SPDX-License-Identifier: Apache-2.0
// Collects the flags of one framework, and knows which knobs of the plan they say and which plan they make of it.
#pragma once
#include <functional>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/plan/plan.hpp"
#include "models/question/experiment.hpp"
#include "reports/flags/framework_flags.hpp"

namespace dovetail::reports {

class FlagWriter {
 public:
  // `checked`: the version whose arguments these are. The experiment is laid out.
  FlagWriter(std::string framework, std::string checked, const Experiment& experiment, const Plan& plan);

  void flag(std::string name, std::string value, std::string versions);
  void flag(std::string name, int value, std::string versions);
  void in_file(std::string name, std::string value, std::string versions);

  // These knobs need no line of their own: a flag or a sentence says them, or they are of no effect here.
  void say(std::initializer_list<std::string_view> knobs);

  // `does` makes of the plan what the framework does instead. Without it nothing is known that it would do.
  using Change = std::function<void(TakenPlan&)>;
  void cannot(std::string sentence, const Change& does = {});
  // The same without a sentence: both are one to the framework.
  void takes(const Change& does) { does(result_.taken); }
  // The framework leaves this to the code around it, and so can have it.
  void elsewhere(std::string sentence) { result_.elsewhere.push_back(std::move(sentence)); }

  // Adds a line for each knob that nobody has said and whose value is not the framework's own.
  FrameworkFlags finish(const Plan& own);

 private:
  FrameworkFlags result_;
  std::set<std::string_view> said_;
};

// Each defined in the file of its name.
FrameworkFlags megatron_flags(const Experiment& experiment, const Plan& plan);
FrameworkFlags deepspeed_flags(const Experiment& experiment, const Plan& plan);
FrameworkFlags tutel_flags(const Experiment& experiment, const Plan& plan);

}  // namespace dovetail::reports
