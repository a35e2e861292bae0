// SPDX-License-Identifier: Apache-2.0
// Finished parts of long work, kept in a file while the work goes on, so that it resumes where it was stopped. One
// JSON object a line; the first says that this is a journal, of which version, and of what work.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/pipeline/json_line.hpp"
#include "bench/pipeline/line_log.hpp"

namespace dovetail::bench {

class Journal {
 public:
  // Opens or makes the file. `work` tells this work from any other. Throws InputError where the file is something else,
  // damaged, or of other work, with what differs; then it is left as it is. A line that a crash cut off counts as
  // never written.
  Journal(const std::string& path, const nlohmann::ordered_json& work);

  // Parts of earlier runs, in order. Their reader has to check the values.
  const std::vector<JsonLine>& finished() const { return finished_; }
  void add(const nlohmann::ordered_json& part);  // on the disk when it returns
  void remove() { log_.remove(); }               // once the results are kept elsewhere

 private:
  LineLog log_;
  std::vector<JsonLine> finished_;
};

}  // namespace dovetail::bench
