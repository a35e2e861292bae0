// SPDX-License-Identifier: Apache-2.0
// The sub-modules of the user's own that an experiment has, and a registry of those that a program knows by name.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "models/extend/custom_all_to_all.hpp"
#include "models/extend/custom_expert.hpp"
#include "models/extend/custom_gate.hpp"
#include "models/extend/custom_order.hpp"

namespace dovetail {

// Set in an experiment, they replace the project's own in everything made of it: schedules, prices, runs on hosts and
// their reference. Null: the project's own. Copies share the objects, which must stay as they are.
struct Extensions {
  std::shared_ptr<const CustomGate> gate;
  std::shared_ptr<const CustomOrder> order;
  std::shared_ptr<const CustomExpert> expert;
  std::shared_ptr<const CustomAllToAll> all_to_all;

  bool empty() const;
  std::string names() const;  // "gate hash, expert gelu"; empty if there are none
  std::string note() const;   // the names, and whose word predictions take; empty if there are none
};

// The registered sub-modules to take; an empty name is none.
struct ExtensionNames {
  std::string gate, order, expert, all_to_all;
};

class ExtensionRegistry {
 public:
  // Under its name(). Throws InputError where the name is empty or its kind has one of that name.
  void add(std::shared_ptr<const CustomGate> gate);
  void add(std::shared_ptr<const CustomOrder> order);
  void add(std::shared_ptr<const CustomExpert> expert);
  void add(std::shared_ptr<const CustomAllToAll> all_to_all);

  // Throws InputError for a name that nobody has registered, with those of its kind.
  Extensions choose(const ExtensionNames& names) const;

 private:
  template <class Part>
  using ByName = std::map<std::string, std::shared_ptr<const Part>, std::less<>>;

  ByName<CustomGate> gates_;
  ByName<CustomOrder> orders_;
  ByName<CustomExpert> experts_;
  ByName<CustomAllToAll> all_to_alls_;
};

}  // namespace dovetail
