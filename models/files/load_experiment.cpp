// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>

#include "models/base/json/at_place_of.hpp"
#include "models/files/experiment_file.hpp"
#include "models/files/known_parts.hpp"
#include "models/files/load_trace.hpp"
#include "models/files/read_parts.hpp"
#include "models/price/calibration.hpp"
#include "models/price/hardware.hpp"
#include "models/price/plan_costs.hpp"
#include "models/question/capacity.hpp"
#include "models/question/experiment_rules.hpp"
#include "models/question/fields.hpp"
#include "models/question/volumes.hpp"

namespace dovetail {
namespace {

// Keeps GPUs busy where nothing says how large the batch is: samples as long as in the model's own training, or else as
// pretraining usually has them, as many tokens for each GPU, and for each pipeline stage four samples to follow one
// another.
constexpr int usual_sequence = 4096, filling_tokens = 4096, filling_samples = 4;

// The object at `key`, or an empty one.
JsonReader object_at(const JsonReader& experiment, std::string_view key) {
  static const JsonFile empty = JsonFile::wrap(nlohmann::json::object(), "");
  return experiment.find(key).value_or(JsonReader(empty));
}

int default_layers(const Experiment& e, const WorkloadDefaults& defaults, std::vector<std::string>& notes) {
  const auto cut = defaults.layers.find(e.model.name);
  if (cut == defaults.layers.end() || cut->second >= e.model.layers) return e.model.layers;
  notes.push_back(fmt::format("{}: {} of the {} layers of {}{}", e.cluster.name, cut->second, e.model.layers,
                              e.model.name, defaults.layers_reason.empty() ? "" : " (" + defaults.layers_reason + ")"));
  return cut->second;
}

// The workload's step of its trace; its tables become those of the routing. Nothing where there is no trace.
TraceStep read_trace_step(const JsonReader& json, const ExperimentFile& file, const Experiment& e, Workload& w,
                          FilesRead& files) {
  if (w.routing.kind != RoutingKind::Trace || !w.routing.layers.empty()) return {};
  const JsonReader trace = json.at("routing").at("trace");
  return at_place_of(trace, [&] {
    const std::string name = file.resolved(trace);
    const std::vector<TraceStep> steps = load_trace(name, files);
    if (static_cast<std::size_t>(w.step) >= steps.size())
      json.fail("step", fmt::format("{}, expected 0 to {} (the steps of {})", w.step, steps.size() - 1, name));
    TraceStep step = steps[static_cast<std::size_t>(w.step)];
    if (step.layers.empty())
      json.fail("step", fmt::format("{}: this step of {} has no loads of experts", w.step, name));
    w.routing.layers = spread_over_experts(step.layers, e.model.experts);
    return step;
  });
}

// A workload by the model, the cluster and the trace, each more than the one before.
Workload usual_workload(const Model& model, const WorkloadDefaults& defaults, const TraceStep& step) {
  const auto by_cluster = [&](std::string_view field) { return defaults.workload.contains(std::string(field)); };
  Workload w = workload_of(defaults);
  if (!by_cluster("batch")) w.batch = 0;  // until fill_gpus()
  if (!by_cluster("sequence")) w.sequence = model.sequence > 0 ? model.sequence : usual_sequence;
  if (!by_cluster("extent")) w.extent = model.vocabulary > 0 ? Extent::Model : Extent::WholeLayers;
  w.top_k = model.top_k;
  w.batch = step.batch.value_or(w.batch);
  w.sequence = step.sequence.value_or(w.sequence);
  w.top_k = step.top_k.value_or(w.top_k);
  w.capacity_factor = step.capacity_factor.value_or(w.capacity_factor);
  return w;
}

// The values that follow from others where nobody gives them.
void complete_workload(const JsonReader& json, const Model& model, bool capacity_given, Workload& w) {
  const bool dropless = model.dropless && w.gate.token_choice() && !capacity_given;
  if (dropless && !json.has("capacity_factor")) w.capacity_factor = 0;
  if (dropless && w.capacity_factor == 0 && !json.has("message_sizes")) w.message_sizes = MessageSizes::Routed;
  const bool whole = w.extent == Extent::Model && w.layers == model.layers;
  if (whole && !json.has("mtp_layers")) w.mtp_layers = model.mtp_layers;
  if (!w.gradients && w.extent == Extent::Model && size_of(w.dtype) < size_of(DType::Fp32)) w.gradients = DType::Fp32;
}

Workload read_workload(const JsonReader& json, const ExperimentFile& file, const Experiment& e,
                       const WorkloadDefaults& defaults, FilesRead& files, std::vector<std::string>& notes) {
  if (e.model.dense())
    for (const Field& field : fields_of<Workload>().fields)
      if (field.of_experts && json.has(field.name))
        json.fail(field.name, fmt::format("given, but {} has no experts", e.model.name));
  Workload traced = fields_from<Workload>(json);
  read_routing_layers(json, traced.routing);
  const TraceStep step = read_trace_step(json, file, e, traced, files);
  Workload w = usual_workload(e.model, defaults, step);
  read_fields(json, w);
  w.routing = traced.routing;
  if (!json.has("layers")) w.layers = default_layers(e, defaults, notes);
  complete_workload(json, e.model, step.capacity_factor || defaults.workload.contains("capacity_factor"), w);
  return w;
}

// Tutel's placement: that many experts on each GPU, or each expert split over -count GPUs. It says how many experts
// there are and the groups that hold them; what is given beside it must agree.
void place_experts(const JsonReader& json, Parallelism& p, Experiment& e, std::vector<std::string>& notes) {
  const JsonReader place = json.at("count_per_node");
  const int count = place.integer(-JsonReader::int_max), gpus = e.cluster.gpus() / p.pp;
  if (e.model.dense()) place.fail(fmt::format("given, but {} has no experts", e.model.name));
  if (count == 0) place.fail("0, expected experts on each GPU, or minus the GPUs that share one");
  p.esp = count > 0 ? 1 : -count;
  if (gpus % p.esp != 0) place.fail(fmt::format("{}: {} GPUs do not divide the cluster's {}", count, p.esp, gpus));
  p.ep = gpus / p.esp;
  p.edp = 1;
  for (const auto& [name, size] : {std::pair{"ep", p.ep}, {"esp", p.esp}, {"edp", p.edp}})
    if (json.has(name) && json.integer(name) != size)
      json.fail(name, fmt::format("contradicts count_per_node {} on {} GPUs, which is {} {}", count, gpus, name, size));
  const std::int64_t experts = std::int64_t{p.ep} * std::max(count, 1);
  if (experts > most_experts)
    place.fail(fmt::format("{} are {} experts, expected at most {}", count, experts, most_experts));
  if (experts != e.model.experts)
    notes.push_back(fmt::format("{} experts in place of the {} of {}: count_per_node {} on {} GPUs", experts,
                                e.model.experts, e.model.name, count, gpus));
  e.model.experts = static_cast<int>(experts);
}

// Sizes that are not given fill up the GPUs around those that are; where that does not divide, validate() says so.
Parallelism read_parallelism(const JsonReader& json, Experiment& e, const WorkloadDefaults& defaults,
                             bool esp_follows_mp, std::vector<std::string>& notes) {
  const int gpus = e.cluster.gpus();
  const auto rest = [&](int a, int b, int c = 1) {
    const double taken = static_cast<double>(a) * b * c;  // which no product of three sizes exceeds
    return taken < gpus ? static_cast<int>(gpus / taken) : 1;
  };
  const GivenGroups given{json.integer_or("pp", 1, 1), json.integer_or("esp", 0, 0), json.integer_or("ep", 0, 0)};
  const Parallelism usual = defaults.groups_fill_nodes ? default_parallelism(e.cluster, e.model)
                                                       : trained_parallelism(e.cluster, e.model, given);
  if (const int cp = json.integer_or("cp", 1, 1); cp > 1)
    json.fail("cp",
              fmt::format("{}: context parallelism, which divides the positions of each sample over ranks, is not "
                          "built yet; expected 1",
                          cp));
  Parallelism p;
  p.pp = json.integer_or("pp", usual.pp, 1);
  if (json.has("pipeline_layout")) p.pipeline_layout = json.string("pipeline_layout");
  p.mp = json.integer_or("mp", usual.mp, 1);
  if (json.has("sequence_parallel")) p.sequence_parallel = json.boolean("sequence_parallel");
  const bool follows = esp_follows_mp && !e.model.dense() && !json.has("esp") && !json.has("count_per_node");
  p.esp = json.integer_or("esp", follows ? p.mp : json.has("ep") && !defaults.groups_fill_nodes ? 1 : usual.esp, 1);
  if (follows && p.esp > 1)
    notes.push_back(fmt::format("esp {}: etp follows tp, as in Megatron-LM, unless it is given", p.esp));
  p.dp = json.integer_or("dp", rest(p.pp, p.mp), 1);
  if (json.has("count_per_node")) {
    place_experts(json, p, e, notes);
    return p;
  }
  p.ep = usual_ep(e.model, e.cluster, rest(p.pp, p.esp), p.esp);
  if (json.has("edp")) p.ep = rest(p.pp, p.esp, json.integer("edp", 1));
  p.ep = json.integer_or("ep", p.ep, 1);
  p.edp = json.integer_or("edp", rest(p.pp, p.ep, p.esp), 1);
  return p;
}

std::vector<SpeedEvent> read_events(const JsonReader& list) {
  std::vector<SpeedEvent> events;
  for (const JsonReader& json : list.elements()) {
    auto event = fields_from<SpeedEvent>(json);
    event.where = json.location("resource");
    if (event.until && *event.until <= event.at) json.fail("until", "not after \"at\"");
    events.push_back(std::move(event));
  }
  return events;
}

// A batch that is given nowhere: enough samples, of which one or a few together divide over the mp ranks.
void fill_gpus(Experiment& e, std::vector<std::string>& notes) {
  Workload& w = e.workload;
  const Parallelism& p = e.parallelism;
  if (w.batch > 0) return;
  const std::int64_t tokens = std::int64_t{filling_tokens} * p.mp;
  const std::int64_t samples = std::max<std::int64_t>((tokens + w.sequence - 1) / w.sequence,
                                                      p.pp > 1 ? std::int64_t{filling_samples} * p.pp : 1);
  const int together = std::max(1, p.mp / std::gcd(p.mp, w.sequence));
  w.batch = static_cast<int>((samples + together - 1) / together * together);
  notes.push_back(fmt::format(
      "nothing says how large the batch is: {} samples of {} tokens for each {}, which give every GPU {} tokens{}; set "
      "workload.batch",
      w.batch, w.sequence, p.mp == 1 ? "GPU" : fmt::format("{} GPUs of mp", p.mp),
      std::int64_t{w.batch} * w.sequence / p.token_shares(),
      p.pp == 1 ? "" : fmt::format(" and each of the {} stages {} samples or more", p.pp, filling_samples)));
}

// A key, and where it stands.
struct Spelling {
  const JsonReader& part;
  const char* key;
  bool given() const { return part.has(key); }
  bool by_option() const { return part.location(key).line == 0; }
};

// Whether a size counts that has another spelling too. An option precedes the file; otherwise the two contradict each
// other, for this reason.
bool counts(const Spelling& size, const Spelling& other, std::string_view why) {
  if (!size.given() || !other.given()) return size.given();
  if (size.by_option() == other.by_option()) size.part.fail(size.key, why);
  return size.by_option();
}

// The samples of a model-parallel group, of those of all groups.
int samples_of_group(const JsonReader& workload, int groups) {
  const int samples = workload.integer("global_batch", 1);
  if (samples % groups != 0)
    workload.fail("global_batch", fmt::format("{} samples do not divide over dp {}", samples, groups));
  return samples / groups;
}

// The micro-batches of a batch follow from the samples of each.
int micro_batches(const JsonReader& workload, int batch) {
  const int samples = workload.integer("micro_batch", 1);
  if (batch % samples != 0)
    workload.fail("micro_batch",
                  fmt::format("{} do not divide the {} samples of a model-parallel group", samples, batch));
  return batch / samples;
}

// The rules that hold between the parts, with the place of the value that breaks one where there is such a place.
void require_fit(Experiment& e, const JsonFile& json) {
  try {
    if (e.workload.capacity_factor <= 0) e.workload.capacity_rows = 1;  // all else must be right before it is known
    validate(e);
    resolve_capacity(e);
    validate(e);
    require_costs(e);
  } catch (const InputError& error) {
    throw InputError(json.locate(error.where().pointer), error.message());
  }
}

// The model's way of training, where its messages cannot be routed.
void pad_messages(Experiment& e, const JsonReader& given, std::vector<std::string>& notes) {
  if (e.workload.message_sizes == MessageSizes::Padded || given.has("message_sizes")) return;
  try {
    require_message_sizes(e);
  } catch (const InputError& error) {
    e.workload.message_sizes = MessageSizes::Padded;
    notes.push_back(fmt::format("{} is trained with messages of routed sizes, but here they are padded: {}",
                                e.model.name, error.message()));
  }
}

void note_trained_groups(const Experiment& e, const JsonReader& given, bool esp_follows_mp,
                         std::vector<std::string>& notes) {
  const Parallelism& p = e.parallelism;
  std::vector<std::string> sizes;
  const auto add = [&](const char* name, int size) {
    if (!given.has(name)) sizes.push_back(fmt::format("{} {}", name, size));
  };
  add("mp", p.mp);
  if (!e.model.dense() && !given.has("count_per_node")) {
    add("ep", p.ep);
    if (!esp_follows_mp) add("esp", p.esp);
  }
  if (!sizes.empty())
    notes.push_back(
        fmt::format("nobody gave all groups: {}, with which GPUs share no more of a layer than memory asks "
                    "for; dovetail tune looks for better ones",
                    fmt::join(sizes, ", ")));
}

// Sharing over all GPUs of a node is usual in the paper. A note says when fewer GPUs share.
void note_node_groups(const Experiment& e, const JsonReader& given, std::vector<std::string>& notes) {
  const int gpus = e.cluster.gpus_per_node;
  const bool no_esp = e.model.dense() || given.has("count_per_node");
  const auto note = [&](const char* name, int size, const char* sizes) {
    if (!given.has(name) && size != gpus)
      notes.push_back(
          fmt::format("{} {}, not the {} GPUs of a node, which do not fit the {}", name, size, gpus, sizes));
  };
  note("mp", e.parallelism.mp, "heads or dense hidden sizes");
  if (!no_esp) note("esp", e.parallelism.esp, "expert hidden size");
}

void note_padding(const Experiment& e, std::vector<std::string>& notes) {
  const int heads = e.model.attention.heads, mp = e.parallelism.mp;
  const std::int64_t padded = layer_volumes(e).query_heads * mp;
  if (padded != heads)
    notes.push_back(fmt::format("{}: {} attention heads padded to {}, because mp {} does not divide them", e.model.name,
                                heads, padded, mp));
}

void note_trace(const Experiment& e, std::vector<std::string>& notes) {
  const RoutingModel& r = e.workload.routing;
  if (r.kind != RoutingKind::Trace) return;
  const auto ranks = static_cast<int>(r.layers.front().size());
  if (ranks != e.cluster.gpus())
    notes.push_back(fmt::format("routing of {} recorded ranks on {} ranks: rank r does as r mod {} did", ranks,
                                e.cluster.gpus(), ranks));
}

Experiment load_experiment(const ExperimentRequest& request, const ExperimentFile& file, const ExperimentParts& parts,
                           FilesRead& files, std::vector<std::string>& notes) {
  Experiment e{parts.cluster, parts.model, parts.calibration, {}, {}};
  e.workload = read_workload(object_at(file.reader(), "workload"), file, e, parts.defaults, files, notes);
  const JsonReader groups = object_at(file.reader(), "parallelism"), workload = object_at(file.reader(), "workload");
  e.parallelism = read_parallelism(groups, e, parts.defaults, request.esp_follows_mp, notes);
  pad_messages(e, workload, notes);
  if (counts({workload, "global_batch"}, {workload, "batch"},
             "given beside batch, which is its share of a model-parallel group"))
    e.workload.batch = samples_of_group(workload, e.parallelism.dp);
  fill_gpus(e, notes);
  if (const auto events = file.reader().find("events")) e.events = read_events(*events);
  e.overlap = file.reader().enumeration_or("overlap", overlap_names, e.overlap);
  e.framework = parts.framework;
  if (!e.framework.name.empty() && !e.calibration->host)
    notes.push_back(fmt::format("the work of {} on the host is left out, because calibration {} has no \"host\"",
                                e.framework.name, e.calibration->name));
  require_fit(e, file.json());
  if (parts.defaults.groups_fill_nodes)
    note_node_groups(e, groups, notes);
  else
    note_trained_groups(e, groups, request.esp_follows_mp, notes);
  note_padding(e, notes);
  note_trace(e, notes);
  const auto sets_interference = [](const std::string& option) {
    return option.starts_with("calibration.interference");
  };
  if (e.overlap == Overlap::Ideal && std::ranges::any_of(request.set, sets_interference))
    notes.emplace_back("overlap is ideal: calibration.interference has no effect");
  return e;
}

}  // namespace

Experiment load_experiment(const ExperimentRequest& request, FilesRead& files, std::vector<std::string>& notes) {
  KnownParts known;
  return load_experiment(request, known, files, notes);
}

Experiment load_experiment(const ExperimentRequest& request, KnownParts& known, FilesRead& files,
                           std::vector<std::string>& notes) {
  const ExperimentFile file(request, files);
  return load_experiment(request, file, load_parts(request, file, known, files), files, notes);
}

Experiment load_experiment(const ExperimentRequest& request, const ExperimentParts& parts, FilesRead& files,
                           std::vector<std::string>& notes) {
  return load_experiment(request, ExperimentFile(request, files), parts, files, notes);
}

bool has_whole_plan(const ExperimentRequest& request) {
  if (request.file.empty()) return false;
  FilesRead seen;
  const ExperimentFile file(request, seen);
  const auto plan = file.reader().find("plan");
  return plan && std::ranges::all_of(knobs(), [&](const Knob& knob) { return plan->has(knob.name); });
}

std::function<void(Plan&)> plan_settings(const ExperimentRequest& request, const Experiment& experiment) {
  FilesRead seen;
  return [file = std::make_shared<const ExperimentFile>(request, seen), batch = experiment.workload.batch](Plan& plan) {
    const JsonReader settings = object_at(file->reader(), "plan");
    read_plan(settings, plan);
    const JsonReader workload = object_at(file->reader(), "workload");
    if (counts({workload, "micro_batch"}, {settings, "micro_batches"},
               "given beside plan.micro_batches, which follows from it"))
      plan.micro_batches = micro_batches(workload, batch);
  };
}

void apply_to_plan(const ExperimentRequest& request, const Experiment& experiment, Plan& plan) {
  plan_settings(request, experiment)(plan);
}

}  // namespace dovetail
