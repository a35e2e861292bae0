#include "bench/cli/megatron_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace dovetail::bench {
namespace {

struct MegatronName {
  std::string_view name, option, ours;
};

constexpr std::array names{
    MegatronName{"tp", "--tensor-model-parallel-size", "parallelism.mp"},
    MegatronName{"pp", "--pipeline-model-parallel-size", "parallelism.pp"},
    MegatronName{"cp", "--context-parallel-size", "parallelism.cp"},
    MegatronName{"ep", "--expert-model-parallel-size", "parallelism.ep"},
    MegatronName{"etp", "--expert-tensor-parallel-size", "parallelism.esp"},
    MegatronName{"dp", "", "parallelism.dp"},
    MegatronName{"edp", "", "parallelism.edp"},
    MegatronName{"vpp", "--num-virtual-stages-per-pipeline-rank", "plan.virtual_stages"},
    MegatronName{"mbs", "--micro-batch-size", "workload.micro_batch"},
    MegatronName{"gbs", "--global-batch-size", "workload.global_batch"},
    MegatronName{"seq", "--seq-length", "workload.sequence"},
};

}  // namespace

std::vector<std::string> without_megatron_names(const std::string& setting) {
  constexpr std::string_view groups = "parallelism.";
  const std::size_t equals = std::min(setting.find('='), setting.size());
  std::string_view key = std::string_view(setting).substr(0, equals);
  const bool of_groups = key.starts_with(groups);
  if (of_groups) key.remove_prefix(groups.size());
  const auto found = std::ranges::find_if(
      names, [&](const MegatronName& n) { return n.name == key && (!of_groups || n.ours.starts_with(groups)); });
  if (found == names.end() || equals == setting.size()) return {setting};
  const std::string value = setting.substr(equals);
  std::vector<std::string> ours{std::string(found->ours) + value};
  if (found->name == "vpp" && value != "=1") ours.emplace_back("plan.pipeline_schedule=interleaved");
  return ours;
}

std::string megatron_setting(std::string_view option) {
  const auto found = std::ranges::find_if(
      names, [&](const MegatronName& n) { return n.option == option || option == fmt::format("--{}", n.name); });
  return found == names.end() ? "" : fmt::format("{}=N", found->name);
}

}  // namespace dovetail::bench
