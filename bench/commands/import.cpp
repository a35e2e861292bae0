// SPDX-License-Identifier: Apache-2.0
// dovetail import: a model file from the config.json of a Hugging Face checkpoint.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>

#include "bench/cli/commands.hpp"
#include "bench/cli/option_values.hpp"
#include "bench/cli/outputs.hpp"
#include "models/base/errors.hpp"
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

Configs of any family are read, by the sizes that they have. The parameters, of the model and of a token, what the model
file cannot say, and keys that are not known are printed on standard error. Sizes are counts (elements, heads, layers, experts).)";

struct ImportOptions {
  std::string config, name, output = "-";
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
  if (options.config.empty())
    throw InputError("import: expected the path of a config.json; see dovetail import --help");
  ExpertChoice choice;
  if (options.experts > 0) choice.experts = options.experts;
  if (options.top_k > 0) choice.top_k = options.top_k;
  std::filesystem::path path(options.config);
  if (std::filesystem::is_directory(path)) path = (path / "config.json").lexically_normal();
  require_outputs({{"--output", options.output}}, {}, {path.string()});
  const std::string own_name = (path.stem() == "config" ? path.parent_path().filename() : path.stem()).string();
  const std::string name = !options.name.empty() ? options.name : !own_name.empty() ? own_name : "imported";
  const ImportedModel imported =
      import_hf(JsonFile::parse(without_python_numbers(JsonFile::read_text(path)), path.string()), name, choice);
  const std::string text = to_model_file(imported.model);
  write_all({{options.output, [&](std::ostream& out) { out << text; }}});
  describe(imported);
  return Exit::Ok;
}

}  // namespace

Action declare_import(CLI::App& app) {
  const auto options = std::make_shared<ImportOptions>();
  app.add_option("CONFIG", options->config, "the config.json of a checkpoint, or the folder that it is in")
      ->type_name("");
  add_text(app, {"--name", "NAME", "name of the model [the file's name; of a config.json its folder's name]", "Model"},
           options->name);
  add_integer(app, {"--experts", "COUNT", "experts per layer, to turn a dense model into an MoE model", "Model"},
              options->experts, 1, 1'000'000);
  add_integer(app, {"--top-k", "COUNT", "experts that each token goes to [the config's, else 2]", "Model"},
              options->top_k, 1, 1'000'000);
  add_text(app, {"-o,--output", "FILE", "write the model to this file [standard output]", "Results"}, options->output);
  app.footer(import_examples);
  return [options](const std::vector<std::string>&) { return import_model(*options); };
}

}  // namespace dovetail::bench
