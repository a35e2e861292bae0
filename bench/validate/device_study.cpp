// SPDX-License-Identifier: Apache-2.0
#include "bench/validate/device_study.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "models/base/errors.hpp"
#include "models/base/json/json_reader.hpp"
#include "models/base/names.hpp"
#include "models/files/device_points.hpp"
#include "models/files/peer_times.hpp"
#include "models/files/saved_format.hpp"
#include "reports/answer/json_report.hpp"

namespace dovetail::bench {
namespace {

using Labels = std::vector<std::pair<std::string, std::string>>;

// Objects and lists value by value, called by the way to them; what is not known is left out.
void add_labels(const std::string& name, const nlohmann::json& value, Labels& labels) {
  if (value.is_null() || value == "") return;
  if (!value.is_structured()) {
    labels.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
    return;
  }
  for (const auto& [key, each] : value.items()) add_labels(value.is_array() ? name : name + " " + key, each, labels);
}

// The labels are those of the newest call.
void read_labels(const std::string& path, FilesRead& files, Labels& labels) {
  const JsonFile file = JsonFile::read(path);
  files[path] = file.text();
  const JsonReader json(file);
  const std::vector<JsonReader> calls = json.at("calls").elements();
  if (calls.empty()) json.fail("calls", "none, expected at least one");
  for (const auto& [name, value] : calls.back().members()) add_labels(name, value.value(), labels);
}

void add_peer_labels(const std::string& gpu, const std::map<std::string, std::string>& versions, Labels& labels) {
  labels.emplace_back("PyTorch on", gpu);
  for (const auto& [name, version] : versions) labels.emplace_back("PyTorch with " + name, version);
}

const DevicePoint* ours_of(const std::vector<DevicePoint>& points, const DevicePoint& peer) {
  const DevicePoint* found = nullptr;
  for (const DevicePoint& point : points)
    if (point.beside.empty() && point.same_work(peer)) found = &point;  // the last one, where there are several
  return found;
}

std::string of_clocks(const ClockReading& ours, const ClockReading& peer) {
  return fmt::format("ours at {:.0f} MHz, PyTorch's at {:.0f} MHz", ours.mhz, peer.mhz);
}

// Points of the same work at the same clock are compared.
void add_peers(const std::vector<PeerPoint>& peers, DeviceStudy& study, std::vector<std::string>& notes) {
  std::size_t missing = 0;
  for (const PeerPoint& peer : peers) {
    const DevicePoint* const ours = ours_of(study.points, peer.point);
    if (ours == nullptr)
      ++missing;
    else if (!comparable(ours->clock, peer.point.clock))
      notes.push_back(fmt::format("{} of PyTorch is not compared, because clocks differ by more than 2 %: {}",
                                  peer.name, of_clocks(ours->clock, peer.point.clock)));
    else
      study.peers.push_back({peer.name, *ours, peer.point});
  }
  if (missing > 0)
    notes.push_back(
        fmt::format("{} of {} measurements of PyTorch have no point of ours of the same size", missing, peers.size()));
}

// Null stands for a clock that is not known.
ClockReading clock_of(const JsonReader& result) {
  const auto run = result.find("run");
  const auto mhz = run ? run->find("clock_mhz") : std::nullopt;
  return {mhz && !mhz->value().is_null() ? mhz->number(0) : 0, 0};
}

JsonReader measured_result(const JsonReader& json) {
  for (const JsonReader& result : json.at("results").elements())
    if (result.string("kind") == "measured") return result;
  json.fail("results", "none is measured, expected a result of dovetail run");
}

// Whole models have an embedding, norms, a head and a loss, too.
void require_bare_layer(const JsonReader& inputs) {
  const auto workload = inputs.find("workload");
  const Extent extent = workload ? workload->enumeration_or("extent", extent_names, Extent::Layers) : Extent::Layers;
  if (extent != Extent::Layers)
    workload->fail("extent",
                   fmt::format("{}, but PyTorch's layer has no embedding, norms, head or loss: run with --set "
                               "workload.extent=layers",
                               name_in(extent_names, extent)));
}

// None, and a note, where their clocks were different ones.
std::optional<StepComparison> read_step(const StudyFiles& from, FilesRead& files, std::vector<std::string>& notes) {
  const PeerStep peer = read_peer_step(from.step, files);
  const JsonFile file = JsonFile::read(from.run);
  files[from.run] = file.text();
  const JsonReader json(file);
  require_format(json, std::array{SavedFormat{"run", reports::result_schema_version}});
  const JsonReader hidden = json.at("inputs").at("model").at("hidden");
  if (hidden.long_integer(1) != peer.hidden)
    hidden.fail(
        fmt::format("{}, but {} is of hidden size {}: another layer", hidden.long_integer(1), from.step, peer.hidden));
  require_bare_layer(json.at("inputs"));
  const JsonReader result = measured_result(json);
  const JsonReader plan = result.at("plan");
  if (plan.integer("forward_degree", 1) > 1)
    plan.fail("forward_degree", "more than 1: work that overlaps has no time of its own to compare");
  const ClockReading clock = clock_of(result);
  if (!comparable(clock, peer.clock)) {
    notes.push_back(fmt::format("the step of PyTorch is not compared, because clocks differ by more than 2 %: {}",
                                of_clocks(clock, peer.clock)));
    return {};
  }
  StepComparison step;
  step.what = peer.what;
  step.system = result.string("system");
  step.peer = peer.median;
  step.peer_low = peer.ci95_low;
  step.peer_high = peer.ci95_high;
  step.ours = Seconds(result.number("makespan_s", 0));
  for (const JsonReader& stream : result.at("streams").elements())
    if (stream.string("name") == "compute") step.ours_compute += Seconds(stream.number("busy_s", 0));
  return step;
}

}  // namespace

DeviceStudy read_device_study(const StudyFiles& from, FilesRead& files, std::vector<std::string>& notes) {
  if (!from.baselines.empty() && from.points.empty())
    throw InputError("--baselines: compared with --points of the same run; give both");
  if (from.step.empty() != from.run.empty())
    throw InputError("--step and --run go together: a step of PyTorch, and dovetail run of the same layer");
  DeviceStudy study;
  if (!from.labels.empty()) read_labels(from.labels, files, study.labels);
  if (!from.points.empty()) study.points = read_device_points(from.points, files);
  if (!from.baselines.empty()) {
    const PeerPoints peers = read_peer_points(from.baselines, files);
    add_peer_labels(peers.gpu, peers.versions, study.labels);
    add_peers(peers.points, study, notes);
  }
  if (!from.step.empty()) study.step = read_step(from, files, notes);
  return study;
}

}  // namespace dovetail::bench
