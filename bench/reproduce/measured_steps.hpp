// SPDX-License-Identifier: Apache-2.0
// Measured steps as data/steps has them, each predicted as `dovetail simulate` would predict the question that states
// it.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "bench/cli/options.hpp"
#include "models/base/json/json_reader.hpp"
#include "models/files/load.hpp"
#include "models/results/measured_steps.hpp"

namespace dovetail::bench {

class StepsFile {
 public:
  // A name in data/steps, or a path. Throws InputError with the place of what is wrong.
  StepsFile(const std::string& name, FilesRead& files);

  const StepsTable& table() const { return table_; }
  std::size_t steps() const { return table_.steps.size(); }

  // Fills in the prediction of one step by the analytic model, with its range in as many draws as `options` say. The
  // files that it reads are added to `files`. Throws InputError at the place of what cannot be asked.
  void predict_step(std::size_t step, const Options& options, FilesRead& files);

 private:
  using Settings = std::vector<std::pair<std::string, JsonReader>>;

  Settings settings_of(std::size_t step) const;
  Options options_of(std::size_t step, const Options& options) const;
  std::string beside_it(const std::string& name) const;

  std::string path_;
  JsonFile file_;
  StepsTable table_;
  std::vector<std::string> jobs_;  // what the steps of each job have in common
};

}  // namespace dovetail::bench
