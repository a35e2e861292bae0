// SPDX-License-Identifier: Apache-2.0
// Steps that a mission on one GPU has measured (data/validation/gpu), and what they say of rows of published tables.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/base/json/json_reader.hpp"
#include "models/files/load.hpp"
#include "models/results/reproduction.hpp"

namespace dovetail::bench {

// The median step of a part, its 95 % interval, and the time of its ops by name, which is that of all in a step without
// chunks.
struct MissionStep {
  double seconds = 0, low = 0, high = 0;
  std::map<std::string, double> ops;
  int overruns = 0;  // exchanges that outlasted their modelled times
};

struct MissionResults {
  MeasuredBy by;
  std::map<std::string, MissionStep> steps;  // by the name of the part
};

// Results of all devices and revisions, in alphabetical order of their files. Throws InputError for files of another
// form.
std::vector<MissionResults> read_mission_results(int mission, FilesRead& files);

// The quantity that a row of /settled_by names: a ratio of two parts, an order, the faster of some, whether orders are
// the same, or the size from which a part is the fastest. None where a part of it was not measured.
std::optional<MeasuredValue> measured_value(const JsonReader& row, const MissionResults& results);

// Marks the rows that /settled_by names, and gives them what was measured. Throws InputError for a row that the table
// does not have.
void settle(const JsonReader& settled_by, ReproducedTable& table, FilesRead& files);

}  // namespace dovetail::bench
