// SPDX-License-Identifier: Apache-2.0
// Measured operators as data/operators has them, each priced by the costs of a calibration.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "bench/cli/options.hpp"
#include "bench/reproduce/operator_price.hpp"
#include "models/base/json/json_reader.hpp"
#include "models/files/load.hpp"
#include "models/results/measured_operators.hpp"

namespace dovetail::bench {

class OperatorsFile {
 public:
  // A name in data/operators, or a path. Reads its cluster and calibration too. Throws InputError with the place of
  // what is wrong.
  OperatorsFile(const std::string& name, FilesRead& files);

  const OperatorsTable& table() const { return table_; }

  // Fills in the price of each operator, with its range in as many draws as `options` say. Throws InputError at the
  // place of what cannot be priced.
  void price(const Options& options);

 private:
  void read_costs(const JsonReader& json, FilesRead& files);
  std::vector<double> seconds(const Calibration& costs) const;

  std::string path_;
  JsonFile file_;
  OperatorsTable table_;
  Cluster cluster_;
  Shared<Calibration> calibration_;
  bool sustained_ = false;
  std::vector<OperatorWork> works_;
};

}  // namespace dovetail::bench
