// SPDX-License-Identifier: Apache-2.0
// dovetail import: a model file from the config.json of a Hugging Face checkpoint, or an experiment from the arguments
// of a training framework.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>

#include "bench/cli/commands.hpp"
#include "bench/cli/option_values.hpp"
#include "bench/cli/outputs.hpp"
#include "bench/imports/megatron_import.hpp"
#include "models/base/errors.hpp"
#include "models/base/json/json_text.hpp"
#include "models/base/json/write_file.hpp"
#include "models/files/import_hf.hpp"
#include "models/question/parameters.hpp"

namespace dovetail::bench {
namespace {

constexpr auto import_examples = R"(Examples:
  A mixture-of-experts model:
    dovetail import tests/data/hf/mixtral-8x7b/config.json -o mixtral.json
    dovetail simulate --cluster fsmoe-testbed-b --model mixtral.json --system tutel

  A dense model whose feed-forward parts each become 8 experts of the same size:
    dovetail import tests/data/hf/gpt2-xl/config.json --experts 8 --top-k 2

  A training of Megatron-LM, from its launch script; the script is read and never run:
    dovetail import --megatron tests/data/launch/moe-16b.sh --cluster dgx-h100 -o training.json
    dovetail simulate --experiment training.json

  A training of DeepSpeed, whose file says nothing of the model:
    dovetail import --deepspeed tests/data/launch/ds_config.json --model olmoe-1b-7b --cluster dgx-h100 --nodes 2

Configs of any family are read, by the sizes that they have. The parameters, of the model and of a token, what the model
file cannot say, and keys that are not known are printed on standard error. Sizes are counts (elements, heads, layers, experts).
Arguments are those of Megatron-LM core 0.20.0, with its defaults for those that are not given. Arguments that the
experiment does not express are printed on standard error, each with the reason, and so are unknown ones.)";

struct ImportOptions {
  std::string config, megatron, deepspeed, entry, output = "-";
  std::vector<std::string> variables;
  ImportRequest request;
  int experts = 0, top_k = 0;
};

// On standard error, since the model may go to standard output.
void describe(const ImportedModel& imported) {
  const auto billions = [](std::int64_t count) { return static_cast<double>(count) * 1e-9; };
  const Model& model = imported.model;
  const Parameters active = active_parameters(model);
  std::cerr << fmt::format(
      "{}: {:.4g} billion parameters; {:.4g} billion of them for a token, {:.4g} billion without the embedding\n",
      model.name, billions(parameters(model).total()), billions(active.total()),
      billions(active.total() - active.embedding));
  for (const std::string& part : imported.left_out) std::cerr << "note: left out: " << part << '\n';
  if (!imported.unknown.empty())
    std::cerr << fmt::format("note: keys that import does not know, so that what they say is not in the model: {}\n",
                             fmt::join(imported.unknown, ", "));
}

Exit import_model(const ImportOptions& options) {
  ExpertChoice choice;
  if (options.experts > 0) choice.experts = options.experts;
  if (options.top_k > 0) choice.top_k = options.top_k;
  std::filesystem::path path(options.config);
  if (std::filesystem::is_directory(path)) path = (path / "config.json").lexically_normal();
  require_outputs({{"--output", options.output}}, {}, {path.string()});
  const std::string own_name = (path.stem() == "config" ? path.parent_path().filename() : path.stem()).string();
  const std::string name = !options.request.name.empty() ? options.request.name
                           : !own_name.empty()           ? own_name
                                                         : "imported";
  const ImportedModel imported =
      import_hf(JsonFile::parse(without_python_numbers(JsonFile::read_text(path)), path.string()), name, choice);
  const std::string text = to_model_file(imported.model);
  write_all({{options.output, [&](std::ostream& out) { out << text; }}});
  describe(imported);
  return Exit::Ok;
}

Variables variables_of(const std::vector<std::string>& settings) {
  Variables variables;
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0)
      throw InputError(fmt::format("--var {}: expected NAME=VALUE", in_quotes(setting)));
    variables[setting.substr(0, equals)] = setting.substr(equals + 1);
  }
  return variables;
}

// By the ending of the file, else by how it begins.
GivenRun read_arguments(const ImportOptions& options) {
  const std::filesystem::path path(options.megatron);
  const std::string text = JsonFile::read_text(path), ending = path.extension().string();
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const char begin = first == std::string::npos ? '\0' : text[first];
  const Variables variables = variables_of(options.variables);
  const bool json = ending == ".json" || (ending != ".sh" && (begin == '{' || begin == '['));
  if (!json && !options.entry.empty())
    throw InputError(fmt::format("--entry: {} is no JSON file, which alone has entries", options.megatron));
  if (json) return read_json_arguments(text, path.string(), options.entry);
  if (ending == ".yaml" || ending == ".yml") return read_yaml_arguments(text, path.string(), variables);
  return read_launch_script(text, path.string(), variables);
}

Exit import_training(const ImportOptions& options) {
  const std::string& file = options.megatron.empty() ? options.deepspeed : options.megatron;
  require_outputs({{"--output", options.output}}, {}, {file});
  ImportRequest request = options.request;
  request.source = file;
  if (request.name.empty()) request.name = std::filesystem::path(file).stem().string();
  if (request.name.empty()) request.name = "imported";
  const ImportedRun imported = options.megatron.empty() ? import_deepspeed(JsonFile::read(file), request)
                                                        : import_megatron(read_arguments(options), request);
  const std::string text = to_experiment_file(imported);
  write_all({{options.output, [&](std::ostream& out) { out << text; }}});
  write_unsaid(std::cerr, imported);
  return Exit::Ok;
}

Exit import_file(const ImportOptions& options) {
  const int files = !options.config.empty() + !options.megatron.empty() + !options.deepspeed.empty();
  if (files == 0)
    throw InputError(
        "import: expected the path of a config.json, --megatron FILE or --deepspeed FILE; see dovetail import --help");
  if (files > 1) throw InputError("import: expected one of a config.json, --megatron FILE and --deepspeed FILE");
  if (!options.config.empty()) {
    const ImportRequest& request = options.request;
    if (!request.model.empty() || !request.cluster.empty() || request.nodes > 0 || request.vocabulary > 0 ||
        !options.entry.empty() || !options.variables.empty())
      throw InputError(
          "import: --model, --cluster, --nodes, --vocabulary, --entry and --var belong to --megatron and --deepspeed");
    return import_model(options);
  }
  if (options.experts > 0 || options.top_k > 0)
    throw InputError("import: --experts and --top-k belong to a config.json");
  return import_training(options);
}

void add_training_options(CLI::App& app, ImportOptions& options) {
  add_text(
      app,
      {"--megatron", "FILE",
       "make an experiment from a training of Megatron-LM: a launch script, a list of arguments, a YAML file, or JSON",
       "Training"},
      options.megatron);
  add_text(
      app,
      {"--deepspeed", "FILE", "make an experiment from a configuration file of DeepSpeed; needs --model", "Training"},
      options.deepspeed);
  add_text(app, {"--model", "NAME", "model in data/models, or a file [what the arguments describe]", "Training"},
           options.request.model);
  add_text(app, {"--cluster", "NAME", "cluster in data/clusters, or a file [left open]", "Training"},
           options.request.cluster);
  add_integer(app, {"--nodes", "COUNT", "nodes of the cluster [as the launch says]", "Training"}, options.request.nodes,
              1, 10'000'000);
  add_integer(app, {"--vocabulary", "WORDS", "words of the tokenizer, before they are padded", "Training"},
              options.request.vocabulary, 1, 100'000'000);
  add_text(app,
           {"--entry", "NAME", "which of several lists of arguments in a JSON file, by name or number", "Training"},
           options.entry);
  add_repeatable(app, {"--var", "NAME=VALUE", "a variable that the script does not set", "Training"},
                 options.variables);
}

}  // namespace

Action declare_import(CLI::App& app) {
  const auto options = std::make_shared<ImportOptions>();
  app.add_option("CONFIG", options->config, "the config.json of a checkpoint, or the folder that it is in")
      ->type_name("");
  add_text(app, {"--name", "NAME", "name of the model [the file's name; of a config.json its folder's name]", "Model"},
           options->request.name);
  add_integer(app, {"--experts", "COUNT", "experts per layer, to turn a dense model into an MoE model", "Model"},
              options->experts, 1, 1'000'000);
  add_integer(app, {"--top-k", "COUNT", "experts that each token goes to [the config's, else 2]", "Model"},
              options->top_k, 1, 1'000'000);
  add_training_options(app, *options);
  add_text(app, {"-o,--output", "FILE", "write the model or the experiment to this file [standard output]", "Results"},
           options->output);
  app.footer(import_examples);
  return [options](const std::vector<std::string>&) { return import_file(*options); };
}

}  // namespace dovetail::bench
