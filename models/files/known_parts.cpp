// SPDX-License-Identifier: Apache-2.0
#include "models/files/known_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "models/price/calibration.hpp"
#include "models/price/hardware.hpp"

namespace dovetail {
namespace {

// The calibration whose costs a cluster without one takes, adapted to its hardware.
constexpr const char* derive_from = "dgx-h100";
constexpr std::string_view calibration_settings = "calibration.";
// The framework that trains where none is named.
constexpr const char* usual_framework = "megatron_lm";

bool sets_costs(const ExperimentRequest& request) {
  return std::ranges::any_of(request.set, [](const auto& option) { return option.starts_with(calibration_settings); });
}

// The calibration without what options set in it; an empty one where it cannot be read without.
Calibration calibration_before(ExperimentRequest request, const std::string& fallback) {
  std::erase_if(request.set, [](const std::string& option) { return option.starts_with(calibration_settings); });
  Calibration before;
  try {
    FilesRead seen;
    ExperimentFile(request, seen)
        .read_part(calibration_input, fallback, seen,
                   [&](const JsonReader& json, const std::string&) { before = read_calibration(json); });
  } catch (const InputError&) {
    return {};
  }
  return before;
}

// A part as its file has it with the settings of this experiment.
template <class Part>
Shared<Part> known_part(const ExperimentFile& file, const InputKind& kind, const std::string& fallback,
                        FilesRead& files, std::map<std::string, Shared<Part>>& known, Part (*read)(const JsonReader&)) {
  const std::string source = file.source_of(kind, fallback);
  if (const auto found = known.find(source); found != known.end() && !source.empty()) return found->second;
  Shared<Part> part;
  file.read_part(kind, fallback, files, [&](const JsonReader& json, const std::string&) { part = read(json); });
  if (known.size() == KnownParts::most) known.clear();
  if (!source.empty()) known.emplace(source, part);
  return part;
}

}  // namespace

ExperimentParts load_parts(const ExperimentRequest& request, const ExperimentFile& file, KnownParts& known,
                           FilesRead& files) {
  ExperimentParts parts;
  file.read_part(cluster_input, "", files, [&](const JsonReader& json, const std::string& name) {
    parts.cluster = read_cluster(json, parts.defaults);
    parts.cluster.calibration = beside(name, parts.cluster.calibration);
  });
  parts.model = *known_part(file, model_input, parts.defaults.model, files, known.models, read_model);
  const bool derived = parts.cluster.calibration.empty() && !file.reader().has("calibration");
  const std::string fallback = derived ? derive_from : parts.cluster.calibration;
  parts.calibration = known_part(file, calibration_input, fallback, files, known.calibrations, read_calibration);
  Calibration& calibration = parts.calibration.edit();
  if (derived)
    calibration.adapted.push_back(
        fmt::format("{} names no calibration: its costs are derived from {}", parts.cluster.name, derive_from));
  const Calibration before = sets_costs(request) ? calibration_before(request, fallback) : calibration;
  adapt(calibration, parts.cluster, before);
  if (!calibration.host && !file.reader().has(framework_input.name)) return parts;
  const Shared<FrameworkParts> framework =
      known_part(file, framework_input, usual_framework, files, known.frameworks, read_framework);
  parts.framework = framework->framework;
  if (calibration.host) calibration.host->profile = framework->host;
  return parts;
}

ExperimentParts load_parts(const ExperimentRequest& request, KnownParts& known, FilesRead& files) {
  return load_parts(request, ExperimentFile(request, files), known, files);
}

ExperimentParts load_parts(const ExperimentRequest& request, FilesRead& files) {
  KnownParts known;
  return load_parts(request, known, files);
}

}  // namespace dovetail
