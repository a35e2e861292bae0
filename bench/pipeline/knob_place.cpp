// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/knob_place.hpp"

#include <nlohmann/json.hpp>

#include "models/files/input_file.hpp"

namespace dovetail::bench {
namespace {

constexpr std::string_view plan_part = "/plan/";

Location place_of(const std::string& knob, const Question& question, const Candidate& candidate) {
  const std::string pointer = std::string(plan_part) + knob;
  const auto& options = question.request.set;
  for (auto option = options.rbegin(); option != options.rend(); ++option)  // the last one counts
    if (option->starts_with("plan." + knob + "="))
      return {"--set " + question.request.as_written(*option), 0, 0, pointer};
  if (!question.request.file.empty()) {
    FilesRead seen;
    const JsonFile experiment = read_input(experiment_input, question.request.file, seen);
    if (experiment.root().contains(nlohmann::json::json_pointer(pointer))) return experiment.locate(pointer);
  }
  if (!candidate.file.empty()) return JsonFile::read(candidate.file).locate(candidate.pointer + "/" + knob);
  return {"system " + candidate.system.name, 0, 0, pointer};
}

}  // namespace

InputError at_its_place(const InputError& error, const Question& question, const Candidate& candidate) {
  const std::string& pointer = error.where().pointer;
  if (!error.where().file.empty() || !pointer.starts_with(plan_part)) return error;
  return {place_of(pointer.substr(plan_part.size()), question, candidate), error.message()};
}

}  // namespace dovetail::bench
