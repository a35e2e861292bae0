// What the functions that recompute published tables share. They use the parts that commands use: experiments, shipped
// systems, their planners, the analytic backend. So what a system gets here is what `dovetail compare` prints.
#pragma once
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/files/load.hpp"
#include "models/json/json_reader.hpp"
#include "models/reproduction.hpp"

namespace dovetail::bench {

// Ours by the names of the table's values: all of them, no others. Notes are added to those of the file.
struct Recomputed {
  std::map<std::string, TableValue> values;
  std::vector<std::string> notes;
};

// The experiment that these --set options describe: an object such as {"cluster": "ndv4", "workload.batch": 4}; later
// ones win.
Experiment read_experiment(std::span<const JsonReader> options, FilesRead& files);
Experiment read_experiment(const JsonReader& options, FilesRead& files);

// A shipped system as its planner completes it, and a plan as it is.
SystemResult run_system(const Experiment& experiment, const std::string& system, FilesRead& files);
SystemResult run_plan(const Experiment& experiment, const Plan& plan);
// The makespan of run_system.
double step_seconds(const Experiment& experiment, const System& system);

std::vector<std::string> read_strings(const JsonReader& json);
std::vector<int> read_integers(const JsonReader& json);
std::vector<double> read_numbers(const JsonReader& json);

double mean(std::span<const double> values);  // 0 of none
// "b < a < c", ascending.
std::string in_order(std::vector<std::pair<std::string, double>> named);

}  // namespace dovetail::bench
