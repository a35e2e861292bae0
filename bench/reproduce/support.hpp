// SPDX-License-Identifier: Apache-2.0
// Shared by the functions that recompute published tables. They use the parts that commands use: experiments, shipped
// systems, their planners, the analytic backend. A system therefore gets the figures that `dovetail compare` prints.
#pragma once
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/base/json/json_reader.hpp"
#include "models/files/load.hpp"
#include "models/results/reproduction.hpp"

namespace dovetail::bench {

inline constexpr double gibibyte = 1 << 30;
inline constexpr int largest_setting = 10'000'000;  // so that products of a few stay integers

// Ours by the names of the table's values: all of them, no others. Notes are added to those of the file.
struct Recomputed {
  std::map<std::string, TableValue> values;
  std::vector<std::string> notes;
};

// The experiment that these --set options describe: an object such as {"cluster": "ndv4", "workload.batch": 4}, then
// more of them as text.
Experiment read_experiment(const JsonReader& options, FilesRead& files, const std::vector<std::string>& more = {});

// A system's plan as its planner completes it; all that a report says of it; and of it or any plan just the makespan,
// which is much quicker.
Plan choose_plan(const Experiment& experiment, const System& system);
SystemResult run_system(const Experiment& experiment, const System& system);
double step_seconds(const Experiment& experiment, const System& system);
double step_seconds(const Experiment& experiment, const Plan& plan);

// Shipped systems.
std::vector<System> read_systems(const JsonReader& names, FilesRead& files);

std::vector<std::string> read_strings(const JsonReader& json);
std::vector<double> read_numbers(const JsonReader& json);
// Values that a table goes over. Throw InputError for one that stands there twice: it would count twice in means.
std::vector<double> read_axis(const JsonReader& json);
std::vector<int> read_integer_axis(const JsonReader& json);

// Every n-th, from the first on.
template <class T>
std::vector<T> thinned(const std::vector<T>& all, int every) {
  std::vector<T> some;
  for (std::size_t i = 0; i < all.size(); i += static_cast<std::size_t>(every)) some.push_back(all[i]);
  return some;
}

double mean(std::span<const double> values);  // 0 of none
// "b < a < c", ascending.
std::string in_order(std::vector<std::pair<std::string, double>> named);

}  // namespace dovetail::bench
