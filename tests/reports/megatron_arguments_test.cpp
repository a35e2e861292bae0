// SPDX-License-Identifier: Apache-2.0
// Exported flags against Megatron-LM's own parser: the arguments that it has at the commit which the export names, as
// recorded in tests/data/frameworks, and the rules of its validate_args and TransformerConfig that are about them.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <charconv>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "models/base/errors.hpp"
#include "models/files/load.hpp"
#include "models/plan/plan_rules.hpp"
#include "reports/flags/frameworks.hpp"
#include "tests/reports/exported_plans.hpp"

using namespace dovetail;
using namespace dovetail::reports;

namespace {

struct Argument {
  std::string action, type, nargs;
  std::set<std::string> choices;
};

std::set<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::set<std::string> words;
  for (std::string word; in >> word;) words.insert(word);
  return words;
}

// The recorded parser: a line of comment that names the commit, a line of headings, and a line for each argument.
struct Parser {
  std::string recorded;
  std::map<std::string, Argument> arguments;
};

Parser recorded_parser() {
  std::ifstream file(DOVETAIL_TEST_DATA "/frameworks/megatron-lm.csv");
  Parser parser;
  std::string line;
  std::getline(file, parser.recorded);
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream in(line);
    std::string name, choices;
    Argument argument;
    for (std::string* cell : {&name, &argument.action, &argument.type, &argument.nargs, &choices})
      std::getline(in, *cell, ',');
    argument.choices = words_of(choices);
    parser.arguments.emplace(name, argument);
  }
  return parser;
}

const Parser& parser() {
  static const Parser recorded = recorded_parser();
  return recorded;
}

// The words between the parentheses of an array of bash, without comments and quotes.
std::vector<std::string> pasted(const std::string& text) {
  std::istringstream lines(text);
  std::vector<std::string> words;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(')')) inside = false;
    std::istringstream in(line.substr(0, line.find('#')));
    for (std::string word; inside && in >> word;) {
      std::erase(word, '"');
      words.push_back(word);
    }
    if (line.ends_with("=(")) inside = true;
  }
  return words;
}

bool is_number(const std::string& text, const std::string& type) {
  const char *first = text.data(), *last = first + text.size();
  double number = 0;
  long whole = 0;
  const auto end = type == "int" ? std::from_chars(first, last, whole) : std::from_chars(first, last, number);
  return end.ec == std::errc() && end.ptr == last;
}

class Arguments {
 public:
  explicit Arguments(const std::vector<std::string>& words) {
    for (const std::string& word : words)
      if (word.starts_with("--"))
        values_[name_ = word];
      else
        values_[name_].push_back(word);
  }

  bool has(const std::string& name) const { return values_.contains(name); }
  std::string of(const std::string& name) const { return has(name) ? values_.at(name).front() : ""; }
  int number(const std::string& name, int fallback = 1) const { return has(name) ? std::stoi(of(name)) : fallback; }
  bool lists(const std::string& name, const std::string& value) const {
    return has(name) && std::ranges::count(values_.at(name), value) > 0;
  }
  const std::map<std::string, std::vector<std::string>>& all() const { return values_; }

 private:
  std::map<std::string, std::vector<std::string>> values_;
  std::string name_;
};

// As argparse: the name is known, and its values are as many and of the kind that it takes. Empty: nothing is wrong.
std::string mistake(const std::string& name, const std::vector<std::string>& values) {
  const auto found = parser().arguments.find(name);
  if (found == parser().arguments.end()) return "unknown";
  const Argument& argument = found->second;
  if (!argument.action.empty()) return values.empty() ? "" : "takes no value";
  if (argument.nargs == "+" ? values.empty() : values.size() != 1) return "another number of values";
  for (const std::string& value : values) {
    if ((argument.type == "int" || argument.type == "float") && !is_number(value, argument.type)) return "no number";
    if (!argument.choices.empty() && !argument.choices.contains(value)) return "none of the choices";
  }
  return "";
}

// One letter for each layer of each stage: "Ett|ttL" of "Et*2|t*2L".
std::string unrolled(const std::string& layout) {
  std::string text;
  for (std::size_t i = 0; i < layout.size(); ++i)
    if (layout[i] == '*') {
      const char repeated = text.back();
      text.pop_back();
      std::size_t digits = 0;
      text.append(std::stoul(layout.substr(i + 1), &digits), repeated);
      i += digits;
    } else if (layout[i] != ',') {
      text += layout[i];
    }
  return text;
}

struct Exported {
  const Arguments& args;
  const Experiment& e;

  int stages() const { return args.number("--pipeline-model-parallel-size"); }
  int micro_batches() const {
    return args.number("--global-batch-size") / args.number("--micro-batch-size") / e.parallelism.dp;
  }
  bool layout_is_valid() const {
    const std::string layout = unrolled(args.of("--pipeline-model-parallel-layout"));
    const auto count = [&](char kind) { return static_cast<int>(std::ranges::count(layout, kind)); };
    const auto first_mtp = layout.find('m');
    return (count('|') + 1) % stages() == 0 && layout.front() == 'E' && layout.back() == 'L' && count('E') == 1 &&
           count('L') == 1 && count('t') == e.workload.layers && count('m') == args.number("--mtp-num-layers", 0) &&
           (first_mtp == std::string::npos || layout.find_first_of("t|", first_mtp) == std::string::npos);
  }
  bool captures(const char* module) const { return args.lists("--cuda-graph-modules", module); }
  bool recomputes(const char* module) const { return args.lists("--recompute-modules", module); }
};

struct Rule {
  const char* says;
  bool (*holds)(const Exported&);
};

constexpr const char* graph_impl = "--cuda-graph-impl";

// They stand in megatron/training/arguments.py (validate_args), megatron/core/transformer/transformer_config.py
// (__post_init__), pipeline_parallel_layer_layout.py and pipeline_parallel/schedules.py.
const std::vector<Rule> rules{
    {"world size is a multiple of tensor and pipeline sizes",
     [](const Exported& x) {
       return x.e.cluster.gpus() % (x.args.number("--tensor-model-parallel-size") * x.stages()) == 0;
     }},
    {"experts divide over expert-model-parallel-size",
     [](const Exported& x) {
       const int ep = x.args.number("--expert-model-parallel-size");
       return ep == 1 || (x.e.model.experts > 0 && x.e.model.experts % ep == 0);
     }},
    {"global batch is a multiple of micro-batch times data-parallel size",
     [](const Exported& x) {
       return x.args.number("--global-batch-size") % (x.args.number("--micro-batch-size") * x.e.parallelism.dp) == 0;
     }},
    {"at most one of layout and virtual stages",
     [](const Exported& x) {
       return !x.args.has("--pipeline-model-parallel-layout") || !x.args.has("--num-virtual-stages-per-pipeline-rank");
     }},
    {"a layout has each layer once, the embedding first, the loss last and prediction layers in one stage",
     [](const Exported& x) { return !x.args.has("--pipeline-model-parallel-layout") || x.layout_is_valid(); }},
    {"without a layout pipeline stages divide the layers",
     [](const Exported& x) {
       const int virtual_stages = x.args.number("--num-virtual-stages-per-pipeline-rank");
       return x.args.has("--pipeline-model-parallel-layout") ||
              x.e.workload.layers % (x.stages() * virtual_stages) == 0;
     }},
    {"virtual stages need a pipeline, and micro-batches that fill it",
     [](const Exported& x) {
       return !x.args.has("--num-virtual-stages-per-pipeline-rank") ||
              (x.stages() > 1 && x.micro_batches() % x.stages() == 0);
     }},
    {"overlap-param-gather needs use-distributed-optimizer and overlap-grad-reduce",
     [](const Exported& x) {
       return !x.args.has("--overlap-param-gather") ||
              (x.args.has("--use-distributed-optimizer") && x.args.has("--overlap-grad-reduce"));
     }},
    {"one of bf16 and fp16, and one format of reduced gradients",
     [](const Exported& x) {
       return !(x.args.has("--bf16") && x.args.has("--fp16")) &&
              !(x.args.has("--accumulate-allreduce-grads-in-fp32") && x.args.has("--grad-reduce-in-bf16"));
     }},
    {"full recomputing has a method and a number of layers, selective has neither",
     [](const Exported& x) {
       const std::string granularity = x.args.of("--recompute-granularity");
       const bool full = granularity == "full";
       return (granularity.empty() || x.args.has("--recompute-method") == full) &&
              (granularity.empty() || x.args.has("--recompute-num-layers") == full) &&
              (!x.args.has("--recompute-modules") || granularity == "selective");
     }},
    {"recomputed modules are known",
     [](const Exported& x) {
       const std::set<std::string> known{"core_attn", "moe_act",        "layernorm",    "mla_up_proj", "mlp",    "moe",
                                         "mhc",       "shared_experts", "gdn_norm_out", "gdp_in_proj", "gdp_qkv"};
       const auto& all = x.args.all();
       const auto modules = all.find("--recompute-modules");
       return modules == all.end() ||
              std::ranges::all_of(modules->second, [&](const std::string& module) { return known.contains(module); });
     }},
    {"moe_act is recomputed with moe-grouped-gemm, mla_up_proj with latent attention",
     [](const Exported& x) {
       return (!x.recomputes("moe_act") || x.args.has("--moe-grouped-gemm")) &&
              (!x.recomputes("mla_up_proj") || x.e.model.attention.kind == AttentionKind::Latent);
     }},
    {"delayed scaling of fp8 recomputes neither moe_act nor layernorm",
     [](const Exported& x) {
       const std::string recipe = x.args.has("--fp8-recipe") ? x.args.of("--fp8-recipe") : "delayed";
       return !x.args.has("--fp8-format") || recipe != "delayed" ||
              !(x.recomputes("moe_act") || x.recomputes("layernorm"));
     }},
    {"padding needs a capacity, and another dispatcher than DeepEP's",
     [](const Exported& x) {
       return !x.args.has("--moe-pad-expert-input-to-capacity") ||
              (x.args.has("--moe-expert-capacity-factor") && x.args.of("--moe-flex-dispatcher-backend") != "deepep");
     }},
    {"a dispatcher's backend is one of the flex dispatcher",
     [](const Exported& x) {
       return !x.args.has("--moe-flex-dispatcher-backend") || x.args.of("--moe-token-dispatcher-type") == "flex";
     }},
    {"a graph of the whole iteration checks no NaN and has no modules",
     [](const Exported& x) {
       return x.args.of(graph_impl) != "full_iteration" ||
              (x.args.has("--no-check-for-nan-in-loss-and-grad") && !x.args.has("--cuda-graph-modules"));
     }},
    {"captured modules are known, and of a graph",
     [](const Exported& x) {
       const std::set<std::string> known{"attn", "mlp", "moe", "moe_router", "moe_preprocess", "mamba"};
       const auto& all = x.args.all();
       const auto modules = all.find("--cuda-graph-modules");
       return modules == all.end() ||
              (x.args.has(graph_impl) &&
               std::ranges::all_of(modules->second, [&](const std::string& module) { return known.contains(module); }));
     }},
    {"the router is captured of experts, and where the MoE part is not recomputed",
     [](const Exported& x) { return !x.captures("moe_router") || (x.e.model.experts > 1 && !x.recomputes("moe")); }},
    {"full recomputing is captured as the whole iteration alone",
     [](const Exported& x) {
       return x.args.of("--recompute-granularity") != "full" || !x.args.has(graph_impl) ||
              x.args.of(graph_impl) == "full_iteration";
     }},
};

// A shipped model on 16 GPUs: pp 2, mp 2, dp 4, experts over 8 ranks of a stage, 8 samples of a group.
Experiment on_sixteen(const std::string& model, const std::vector<std::string>& more) {
  ExperimentRequest request;
  request.cluster = "dgx-h100";
  request.model = model;
  request.nodes = 2;
  request.set = {"parallelism.pp=2", "parallelism.mp=2",  "parallelism.esp=1",
                 "workload.batch=8", "workload.layers=4", "workload.extent=model"};
  request.set.insert(request.set.end(), more.begin(), more.end());
  FilesRead files;
  std::vector<std::string> notes;
  return load_experiment(request, files, notes);
}

struct Training {
  const char* model;
  std::vector<std::string> set;
};

// Every kind of layer, number format and message that flags are about.
const std::vector<Training> trainings{
    {"mixtral-8x7b", {"workload.capacity_factor=1.2"}},
    {"qwen3-30b-a3b", {"workload.message_sizes=routed", "workload.capacity_factor=0", "workload.layers=5"}},
    {"deepseek-v2-lite", {"workload.capacity_factor=1.2", "workload.products=fp8"}},
    {"deepseek-v3", {"workload.capacity_factor=1.2", "workload.layers=6", "workload.mtp_layers=1"}},
    {"deepseek-v3",
     {"workload.capacity_factor=1.2", "workload.layers=7", "workload.mtp_layers=1", "workload.gradients=bf16"}},
    {"llama-3.1-8b", {}},
};

bool can_be_built(const Plan& plan, const Experiment& e) {
  try {
    validate(plan, e);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

// Plans that the knob's values make with interleaved stages, graphs and all kinds of recomputing beside.
std::vector<Plan> plans_of(const Knob& knob) {
  std::vector<Plan> plans;
  for (const Plan& plan : {test::with_its_effect(knob.name), test::usual_plan()})
    for (Plan other : test::others(knob, plan)) {
      if (other.all_to_all == AllToAll::NodeDeduplicated) other.scores_at = ScoresAt::Experts;
      plans.push_back(other);
      for (const Graphs graphs : {Graphs::Attention, Graphs::Router, Graphs::All}) {
        plans.push_back(other);
        plans.back().graphs = graphs;
      }
      plans.push_back(other);
      plans.back().pipeline_schedule = pipeline_schedule("interleaved");
      plans.back().virtual_stages = 2;
      for (const EnumSet<Recompute> parts :
           {EnumSet<Recompute>{Recompute::Full}, EnumSet<Recompute>{Recompute::Moe, Recompute::SharedExperts},
            EnumSet<Recompute>{Recompute::Attention, Recompute::Norms, Recompute::Activation}}) {
        plans.push_back(other);
        plans.back().recompute = parts;
      }
    }
  return plans;
}

}  // namespace

TEST_CASE("Megatron-LM's parser takes every flag that is exported") {
  std::map<std::string, int> exported;
  std::map<std::string, std::string> wrong;  // and the first export that it is of
  for (const auto& [model, set] : trainings) {
    const Experiment e = on_sixteen(model, set);
    for (const Knob& knob : knobs())
      for (const Plan& plan : plans_of(knob)) {
        if (!can_be_built(plan, e)) continue;
        const FrameworkFlags flags = flags_for(Framework::Megatron, e, plan);
        const Arguments args(pasted(flags.text));
        for (const auto& [name, values] : args.all()) {
          ++exported[name];
          if (const std::string what = mistake(name, values); !what.empty())
            wrong.emplace(fmt::format("{}: {}", name, what), flags.text);
        }
        for (const Rule& rule : rules)
          if (!rule.holds({args, e})) wrong.emplace(rule.says, fmt::format("{}, {}\n{}", model, knob.name, flags.text));
      }
  }
  for (const auto& [what, text] : wrong) {
    INFO(text);
    CHECK(what == "");
  }
  // The plans above are for these.
  for (const char* name :
       {"--mtp-num-layers", "--no-check-for-nan-in-loss-and-grad", "--cuda-graph-modules",
        "--num-virtual-stages-per-pipeline-rank", "--pipeline-model-parallel-layout", "--moe-flex-dispatcher-backend",
        "--moe-deepep-num-sms", "--recompute-method", "--fp8-recipe", "--ddp-bucket-size", "--overlap-param-gather"}) {
    INFO(name);
    CHECK(exported[name] > 0);
  }
}

TEST_CASE("The recorded arguments are those of the commit that the export names") {
  const FrameworkFlags flags = flags_for(Framework::Megatron, on_sixteen("mixtral-8x7b", {}), test::usual_plan());
  const std::string commit = flags.checked.substr(0, flags.checked.find(','));
  CHECK_THAT(parser().recorded, Catch::Contains("NVIDIA/Megatron-LM " + commit));
  CHECK_THAT(parser().recorded, Catch::Contains(flags.checked.substr(flags.checked.find("core"))));
  CHECK(parser().arguments.size() > 800);
}
