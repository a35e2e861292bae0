// SPDX-License-Identifier: Apache-2.0
// Keys and defaults were read in DeepSpeed edaa722 (0.19.6): runtime/constants.py, runtime/zero/config.py and
// moe/layer.py.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/imports/imported_parts.hpp"
#include "bench/imports/megatron_import.hpp"
#include "models/base/json/json_reader.hpp"
#include "models/base/json/json_text.hpp"
#include "models/base/json/nearest.hpp"
#include "models/files/load.hpp"

namespace dovetail::bench {
namespace {

// A key of the file, with a dot inside an object. `why` is empty for those that change no step here.
struct DeepSpeedKey {
  std::string_view key, why = {};
  bool reads = false;  // the experiment says it
};

constexpr std::string_view no_stage = "ZeRO-2 and ZeRO-3 are not built; ZeRO-1 stands in";
constexpr std::string_view no_host_states = "offloading to the host is not built for it";

constexpr std::array deepspeed_keys{
    DeepSpeedKey{"train_batch_size", {}, true},
    DeepSpeedKey{"train_micro_batch_size_per_gpu", {}, true},
    DeepSpeedKey{"gradient_accumulation_steps", {}, true},
    DeepSpeedKey{"gradient_clipping", {}, true},
    DeepSpeedKey{"bf16", {}, true},
    DeepSpeedKey{"bfloat16", {}, true},
    DeepSpeedKey{"fp16", {}, true},
    DeepSpeedKey{"zero_optimization.stage", {}, true},
    DeepSpeedKey{"zero_optimization.overlap_comm", {}, true},
    DeepSpeedKey{"zero_optimization.reduce_bucket_size", {}, true},
    DeepSpeedKey{"zero_optimization.offload_optimizer", no_host_states},
    DeepSpeedKey{"zero_optimization.offload_param", no_host_states},
    DeepSpeedKey{"zero_optimization.cpu_offload", no_host_states},
    DeepSpeedKey{"zero_optimization.zero_quantized_weights", "weights are gathered in the workload's format"},
    DeepSpeedKey{"zero_optimization.zero_quantized_gradients", "gradients are reduced in their own format"},
    DeepSpeedKey{"zero_optimization.zero_hpz_partition_size", no_stage},
    DeepSpeedKey{"zero_optimization.mics_shard_size", no_stage},
    DeepSpeedKey{"zero_optimization"},
    DeepSpeedKey{"moe.enabled"},
    DeepSpeedKey{"moe.ep_size", {}, true},
    DeepSpeedKey{"moe.num_experts", {}, true},
    DeepSpeedKey{"moe.moe_experts", {}, true},
    DeepSpeedKey{"moe.k", {}, true},
    DeepSpeedKey{"moe.top_k", {}, true},
    DeepSpeedKey{"moe.capacity_factor", {}, true},
    DeepSpeedKey{"moe.drop_tokens", {}, true},
    DeepSpeedKey{"moe.enable_expert_tensor_parallelism", {}, true},
    DeepSpeedKey{"moe"},
    DeepSpeedKey{"communication_data_type", "gradients are reduced in the format that they add up in"},
    DeepSpeedKey{"data_types.grad_accum_dtype", {}, true},
    DeepSpeedKey{"data_types"},
    DeepSpeedKey{"amp", "mixed precision of another library is not known"},
    DeepSpeedKey{"activation_checkpointing", "the model's code says which layers are computed again"},
    DeepSpeedKey{"optimizer.type", {}, true},
    DeepSpeedKey{"optimizer"},
    DeepSpeedKey{"tensor_parallel.autotp_size", {}, true},
    DeepSpeedKey{"tensor_parallel"},
    DeepSpeedKey{"pipeline.stages", {}, true},
    DeepSpeedKey{"pipeline"},
    DeepSpeedKey{"sparse_attention", "attention here is dense, or of one window"},
    DeepSpeedKey{"compression_training", "compression is not built"},
    DeepSpeedKey{"sequence_parallel_size", "context parallelism is not built; each group has whole samples"},
    DeepSpeedKey{"scheduler"},
    DeepSpeedKey{"steps_per_print"},
    DeepSpeedKey{"wall_clock_breakdown"},
    DeepSpeedKey{"dump_state"},
    DeepSpeedKey{"memory_breakdown"},
    DeepSpeedKey{"prescale_gradients"},
    DeepSpeedKey{"gradient_predivide_factor"},
    DeepSpeedKey{"sparse_gradients"},
    DeepSpeedKey{"zero_allow_untested_optimizer"},
    DeepSpeedKey{"zero_force_ds_cpu_optimizer"},
    DeepSpeedKey{"disable_allgather"},
    DeepSpeedKey{"flops_profiler"},
    DeepSpeedKey{"comms_logger"},
    DeepSpeedKey{"tensorboard"},
    DeepSpeedKey{"wandb"},
    DeepSpeedKey{"csv_monitor"},
    DeepSpeedKey{"monitor_config"},
    DeepSpeedKey{"checkpoint"},
    DeepSpeedKey{"data_efficiency"},
    DeepSpeedKey{"curriculum_learning"},
    DeepSpeedKey{"elasticity"},
    DeepSpeedKey{"autotuning"},
    DeepSpeedKey{"aio"},
    DeepSpeedKey{"seq_parallel_communication_data_type"},
};

const DeepSpeedKey* find_key(std::string_view key) {
  const auto found = std::ranges::find(deepspeed_keys, key, &DeepSpeedKey::key);
  if (found != deepspeed_keys.end()) return &*found;
  const std::size_t dot = key.find('.');
  return dot == std::string_view::npos ? nullptr : find_key(key.substr(0, dot));
}

class DeepSpeedImport {
 public:
  DeepSpeedImport(const JsonFile& config, const ImportRequest& request)
      : file_(config), root_(config), request_(request) {}

  ImportedRun run() {
    if (request_.model.empty())
      throw InputError(file_.locate(""), "DeepSpeed's file says nothing of the model; --model NAME gives one");
    if (!file_.root().is_object()) throw InputError(file_.locate(""), "expected an object");
    FilesRead files;
    Model model = load_model(request_.model, files);
    imported_.read = fmt::format("the DeepSpeed configuration in {}", file_.name());
    name_keys("", file_.root());
    require_agreement_with(model);
    imported_.experiment["model"] = request_.model;
    imported_.experiment["framework"] = "deepspeed";
    ImportedRanks ranks = imported_ranks(request_, {}, {});
    if (request_.cluster.empty() && request_.nodes == 0) ranks.nodes = 0;
    imported_.experiment["workload"] = workload(model);
    const ImportedSizes groups = sizes(model, ranks);
    add_sizes(ranks, groups, model, plan(model), file_.name(), imported_.experiment, imported_.unsaid);
    require_experiment(imported_, file_.name());
    return std::move(imported_);
  }

 private:
  // Says of every key whether the experiment has it.
  void name_keys(const std::string& prefix, const nlohmann::json& object) {
    for (const auto& [key, value] : object.items()) {
      const std::string name = prefix + key;
      const std::string pointer = child_pointer(prefix.empty() ? "" : "/" + prefix.substr(0, prefix.size() - 1), key);
      const DeepSpeedKey* const known = find_key(name);
      const bool has_parts =
          value.is_object() && prefix.empty() && std::ranges::any_of(deepspeed_keys, [&](const DeepSpeedKey& each) {
            return each.key.starts_with(name + ".");
          });
      if (has_parts) {
        name_keys(name + ".", value);
      } else if (known == nullptr) {
        std::vector<std::string> names;
        for (const DeepSpeedKey& each : deepspeed_keys) names.emplace_back(each.key);
        const Location at = file_.locate_key(pointer);
        imported_.unsaid.unknown.push_back(
            fmt::format("{}:{}:{}: {}{}", at.file, at.line, at.column, in_quotes(name), did_you_mean(name, names)));
      } else if (value == "auto") {
        imported_.unsaid.notes.push_back(
            fmt::format("{} is auto, which the program decides; it counts as not given", name));
      } else if (!known->why.empty() && !value.is_null() && value != false) {
        imported_.unsaid.missing.push_back(fmt::format("{}: {}", name, known->why));
      } else {
        ++(known->reads ? imported_.unsaid.set : imported_.unsaid.silent);
      }
    }
  }

  // A value that is there and not "auto".
  std::optional<JsonReader> value(std::string_view object, std::string_view key) const {
    std::optional<JsonReader> inside = root_;
    if (!object.empty()) inside = root_.find(object);
    if (!inside || !inside->value().is_object()) return {};
    const auto found = inside->find(key);
    return found && found->value() != "auto" && !found->value().is_null() ? found : std::nullopt;
  }
  int whole(std::string_view object, std::string_view key, int fallback, int least = 1) const {
    const auto found = value(object, key);
    return found ? found->integer(least) : fallback;
  }
  double real(std::string_view object, std::string_view key, double fallback) const {
    const auto found = value(object, key);
    return found ? found->number(0) : fallback;
  }
  bool on(std::string_view object, std::string_view key, bool fallback = false) const {
    const auto found = value(object, key);
    return found ? found->boolean() : fallback;
  }

  // The model comes from elsewhere, and may contradict the file.
  void require_agreement_with(Model& model) {
    for (const char* key : {"num_experts", "moe_experts"}) {
      const auto given = value("moe", key);
      if (!given) continue;
      const JsonReader number =
          given->value().is_array() && given->value().size() == 1 ? given->elements().front() : *given;
      if (number.integer(1) != model.experts)
        given->fail(fmt::format("{}, but the model {} has {} experts", number.integer(1), model.name, model.experts));
    }
  }

  DType format() const {
    const bool bf16 = on("bf16", "enabled") || on("bfloat16", "enabled"), fp16 = on("fp16", "enabled");
    if (bf16 && fp16) root_.at("fp16").fail("enabled beside bf16; expected one of them");
    return bf16 ? DType::Bf16 : fp16 ? DType::Fp16 : DType::Fp32;
  }

  nlohmann::ordered_json workload(const Model& model) {
    nlohmann::ordered_json json;
    json["extent"] = name_in(extent_names, model.vocabulary > 0 ? Extent::Model : Extent::WholeLayers);
    json["dtype"] = name_in(dtype_names, format());
    json["gradients"] = name_in(dtype_names, gradient_format());
    json["clip_gradients"] = real("", "gradient_clipping", 0);
    if (model.dense()) return json;
    json["top_k"] = whole("moe", "k", whole("moe", "top_k", model.top_k));
    // Messages always have room for the fullest expert.
    json["capacity_factor"] = on("moe", "drop_tokens", true) ? real("moe", "capacity_factor", 1) : 0.0;
    json["message_sizes"] = name_in(message_sizes_names, MessageSizes::Padded);
    return json;
  }

  DType gradient_format() const {
    const auto given = value("data_types", "grad_accum_dtype");
    if (!given) return format() == DType::Bf16 ? DType::Fp32 : format();
    const std::string name = given->string();
    if (name == "fp32" || name == "fp16" || name == "bf16")
      return name == "fp32" ? DType::Fp32 : name == "fp16" ? DType::Fp16 : DType::Bf16;
    given->fail(fmt::format("{}, expected \"fp32\", \"fp16\" or \"bf16\"", in_quotes(name)));
  }

  ImportedSizes sizes(const Model& model, ImportedRanks& ranks) {
    ImportedSizes sizes{.mp = whole("tensor_parallel", "autotp_size", 1), .pp = 1};
    if (const auto stages = value("pipeline", "stages"); stages && stages->value().is_number())
      sizes.pp = stages->integer(1);
    if (sizes.mp > 1) sizes.sequence_parallel = false;
    if (!model.dense()) sizes.ep = whole("moe", "ep_size", 1);
    if (!model.dense() && (on("moe", "enable_expert_tensor_parallelism") || sizes.mp > 1)) sizes.esp = sizes.mp;
    if (!model.dense() && model.experts % sizes.ep != 0)
      root_.at("moe").fail("ep_size", fmt::format("{} does not divide the {} experts", sizes.ep, model.experts));
    sizes.global_batch = whole("", "train_batch_size", 0);
    sizes.micro_batch = whole("", "train_micro_batch_size_per_gpu", 0);
    const int steps = whole("", "gradient_accumulation_steps", 0);
    complete(sizes, steps, ranks);
    return sizes;
  }

  // Two of the three sizes of a batch give the third, or the number of replicas.
  void complete(ImportedSizes& sizes, int steps, ImportedRanks& ranks) {
    const std::int64_t groups = std::int64_t{sizes.mp} * sizes.pp;
    const std::int64_t replicas = ranks.total > 0 ? ranks.total / groups : 0;
    if (sizes.global_batch == 0 && sizes.micro_batch > 0 && replicas > 0)
      sizes.global_batch = product(sizes.micro_batch, std::max(steps, 1), replicas);
    if (sizes.micro_batch == 0 && sizes.global_batch > 0 && replicas > 0) {
      const std::int64_t parts = replicas * std::max(steps, 1);
      if (sizes.global_batch % parts != 0)
        root_.fail("train_batch_size", fmt::format("{} samples do not divide over {} replicas and {} steps",
                                                   sizes.global_batch, replicas, std::max(steps, 1)));
      sizes.micro_batch = static_cast<int>(sizes.global_batch / parts);
    }
    if (sizes.global_batch == 0 || sizes.micro_batch == 0 || steps == 0) return;
    const std::int64_t of_replica = std::int64_t{sizes.micro_batch} * steps;
    if (sizes.global_batch % of_replica != 0 || (replicas > 0 && sizes.global_batch / of_replica != replicas))
      root_.fail(
          "train_batch_size",
          fmt::format("{} is not train_micro_batch_size_per_gpu {} times gradient_accumulation_steps {} times {}",
                      sizes.global_batch, sizes.micro_batch, steps,
                      replicas > 0 ? fmt::format("the {} replicas", replicas) : "the replicas"));
    const std::int64_t total = sizes.global_batch / of_replica * groups;
    if (ranks.total == 0 && total <= JsonReader::int_max) ranks.total = static_cast<int>(total);
  }

  int product(int a, int b, std::int64_t c) const {
    const double samples = static_cast<double>(a) * b * static_cast<double>(c);
    if (samples > JsonReader::int_max)
      root_.fail("train_micro_batch_size_per_gpu", "gives more samples than any step has");
    return static_cast<int>(samples);
  }

  Plan plan(const Model& model) {
    Plan plan;
    plan.pipeline_schedule = pipeline_schedule("1f1b");
    plan.pad_messages = !model.dense();
    const int stage = whole("zero_optimization", "stage", 0, 0);
    if (stage > 3) root_.at("zero_optimization").fail("stage", fmt::format("{}, expected 0 to 3", stage));
    if (stage > 1) imported_.unsaid.missing.push_back(fmt::format("zero_optimization.stage {}: {}", stage, no_stage));
    plan.zero = std::min(stage, 1);
    if (stage > 0 && on("zero_optimization", "overlap_comm", stage == 3)) {
      plan.grad_sync = GradSync::FixedChunks;
      const double elements = real("zero_optimization", "reduce_bucket_size", 500'000'000);
      plan.gradient_chunk_bytes =
          static_cast<std::int64_t>(std::min(elements, 1e12) * static_cast<double>(size_of(gradient_format()).value()));
    }
    if (const auto type = value("optimizer", "type"); type && type->string().find("Adam") == std::string::npos)
      imported_.unsaid.missing.push_back(
          fmt::format("optimizer.type {}: the optimizer of a step here is Adam", type->string()));
    return plan;
  }

  const JsonFile& file_;
  JsonReader root_;
  const ImportRequest& request_;
  ImportedRun imported_{};
};

}  // namespace

ImportedRun import_deepspeed(const JsonFile& config, const ImportRequest& request) {
  return DeepSpeedImport(config, request).run();
}

}  // namespace dovetail::bench
