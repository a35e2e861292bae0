// Collects the flags of one framework, and knows which knobs of the plan they say.
#pragma once
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>

#include "models/plan/plan.hpp"
#include "models/question/experiment.hpp"
#include "reports/flags/framework_flags.hpp"

namespace dovetail::reports {

class FlagWriter {
 public:
  FlagWriter(std::string framework, std::string checked);

  void flag(std::string name, std::string value, std::string versions);
  void flag(std::string name, int value, std::string versions);
  void in_file(std::string name, std::string value, std::string versions);

  // These knobs need no line of their own: a flag or a sentence says them, or they are of no effect here.
  void say(std::initializer_list<std::string_view> knobs);
  void cannot(std::string sentence);

  // Adds a line for each knob that nobody has said and whose value is not the framework's own.
  FrameworkFlags finish(const Plan& plan, const Plan& own);

  const std::vector<Flag>& flags() const { return result_.flags; }

 private:
  FrameworkFlags result_;
  std::set<std::string_view> said_;
};

// Each defined in the file of its name.
FrameworkFlags megatron_flags(const Experiment& experiment, const Plan& plan);
FrameworkFlags deepspeed_flags(const Experiment& experiment, const Plan& plan);
FrameworkFlags tutel_flags(const Experiment& experiment, const Plan& plan);

}  // namespace dovetail::reports
