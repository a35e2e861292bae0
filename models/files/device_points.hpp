// SPDX-License-Identifier: Apache-2.0
// Measured points of a device as CSV: a line of names, then one line for each point, written as it is measured.
#pragma once
#include <fstream>
#include <string>
#include <vector>

#include "models/files/load.hpp"
#include "models/results/device_point.hpp"

namespace dovetail {

// Each line is in the file when `add` returns, so that a program that is ended leaves what it has measured.
class DevicePointsWriter {
 public:
  explicit DevicePointsWriter(const std::string& path);  // replaces the file; InputError where it cannot be written
  void add(const DevicePoint& point);

 private:
  std::string path_;
  std::ofstream file_;
};

// Throws InputError with file and line for what no such writer wrote. A last line without its end is left out.
std::vector<DevicePoint> read_device_points(const std::string& path, FilesRead& files);

}  // namespace dovetail
