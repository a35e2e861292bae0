// SPDX-License-Identifier: Apache-2.0
// A plan on a layout as the arguments of a training framework, and what of it the framework cannot do.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "models/plan/plan.hpp"
#include "models/question/parallelism.hpp"
#include "models/question/workload.hpp"

namespace dovetail::reports {

struct Flag {
  std::string name;   // as the framework writes it; in a configuration file a path with dots
  std::string value;  // as it is written there; empty: the name alone
  std::string versions = {};
  bool in_file = false;  // of the configuration file, where the framework has one beside arguments
};

// The plan that a framework runs with these flags, on its groups.
struct TakenPlan {
  Parallelism groups;
  int batch = 1;  // samples of a model-parallel group, of all micro-batches
  Plan plan;
  MessageSizes messages = MessageSizes::Padded;
};

struct FrameworkFlags {
  std::string framework, checked;           // `checked`: the version whose arguments these are
  std::vector<Flag> flags;                  // of Json: none
  std::vector<std::string> cannot;          // what of the plan it does otherwise or not at all, a line each
  std::string text;                         // flags to paste, with versions as comments; lines end in line ends
  TakenPlan taken = {};                     // the exported one, but for what is in `cannot`
  bool known = true;                        // `taken` says what it does; false: some of `cannot` it does not do at all
  std::vector<std::string> elsewhere = {};  // what of the plan is set outside of its arguments, a line each

  bool whole() const { return cannot.empty(); }  // it runs this plan, in the same time
};

void write_flags(std::ostream& out, const FrameworkFlags& flags);

}  // namespace dovetail::reports
