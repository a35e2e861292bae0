// SPDX-License-Identifier: Apache-2.0
#include "bench/imports/imported_run.hpp"

#include <fmt/format.h>

#include <ostream>
#include <sstream>

namespace dovetail::bench {

std::string to_experiment_file(const ImportedRun& run) {
  std::string text = "{\n";
  std::size_t left = run.experiment.size();
  for (const auto& [key, value] : run.experiment.items()) {
    const bool one_line = key == "framework" || key == "plan";
    std::istringstream lines(value.dump(one_line ? -1 : 2));
    text += fmt::format("  \"{}\": ", key);
    bool first = true;
    for (std::string line; std::getline(lines, line); first = false) text += (first ? "" : "\n  ") + line;
    text += --left > 0 ? ",\n" : "\n";
  }
  return text + "}\n";
}

void write_unsaid(std::ostream& out, const ImportedRun& run) {
  const Unsaid& unsaid = run.unsaid;
  out << fmt::format("{}: {} arguments are in the experiment; {} change no step that is modelled\n", run.read,
                     unsaid.set, unsaid.silent);
  for (const std::string& line : unsaid.missing) out << "not expressed: " << line << '\n';
  for (const std::string& line : unsaid.unknown) out << "unknown: " << line << '\n';
  for (const std::string& line : unsaid.notes) out << "note: " << line << '\n';
}

}  // namespace dovetail::bench
