#include "bench/validate/device_study.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "models/base/errors.hpp"
#include "models/base/json/json_reader.hpp"
#include "models/files/device_points.hpp"
#include "models/files/peer_times.hpp"

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

JsonReader measured_result(const JsonReader& json) {
  for (const JsonReader& result : json.at("results").elements())
    if (result.string("kind") == "measured") return result;
  json.fail("results", "none is measured, expected a result of dovetail run");
}

StepComparison read_step(const StudyFiles& from, FilesRead& files) {
  const PeerStep peer = read_peer_step(from.step, files);
  const JsonFile file = JsonFile::read(from.run);
  files[from.run] = file.text();
  const JsonReader json(file);
  const JsonReader hidden = json.at("inputs").at("model").at("hidden");
  if (hidden.long_integer(1) != peer.hidden)
    hidden.fail(
        fmt::format("{}, but {} is of hidden size {}: another layer", hidden.long_integer(1), from.step, peer.hidden));
  const JsonReader result = measured_result(json);
  const JsonReader plan = result.at("plan");
  if (plan.integer("forward_degree", 1) > 1)
    plan.fail("forward_degree", "more than 1: work that overlaps has no time of its own to compare");
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
    for (const PeerPoint& peer : peers.points)
      if (const DevicePoint* ours = ours_of(study.points, peer.point))
        study.peers.push_back({peer.name, *ours, peer.point});
    if (const std::size_t missing = peers.points.size() - study.peers.size(); missing > 0)
      notes.push_back(fmt::format("{} of {} measurements of PyTorch have no point of ours of the same size", missing,
                                  peers.points.size()));
  }
  if (!from.step.empty()) study.step = read_step(from, files);
  return study;
}

}  // namespace dovetail::bench
