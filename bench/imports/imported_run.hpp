// SPDX-License-Identifier: Apache-2.0
// An experiment made from the arguments of a training framework, and what of them it cannot say.
#pragma once
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace dovetail::bench {

// All that the experiment does not say of the arguments.
struct Unsaid {
  std::vector<std::string> missing;  // "--context-parallel-size 2: ...", one for each argument
  std::vector<std::string> unknown;  // names that the framework has not, with the nearest one
  std::vector<std::string> notes;    // assumptions, and what a file leaves open
  int set = 0;                       // arguments that the experiment says
  int silent = 0;                    // those that change no step
};

struct ImportedRun {
  std::string read;  // what was read, in words
  nlohmann::ordered_json experiment;
  Unsaid unsaid;
};

// Choices of the user beside the file.
struct ImportRequest {
  std::string model = {};    // a name or file that has the model; empty: the arguments describe it
  std::string name = {};     // of the model that they describe
  std::string source = {};   // the file, in a model's `source`
  std::string cluster = {};  // empty: left open
  int nodes = 0;             // 0: as the launch says, else as the cluster is described
  int vocabulary = 0;        // words; 0: as the arguments say
};

// The text of the experiment file, which load_experiment reads. Parts of a framework file stand on one line.
std::string to_experiment_file(const ImportedRun& run);

// A line about what was read, and one for each thing that the experiment does not say.
void write_unsaid(std::ostream& out, const ImportedRun& run);

}  // namespace dovetail::bench
