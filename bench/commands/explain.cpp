// SPDX-License-Identifier: Apache-2.0
// dovetail explain: the explanation of a saved result.
#include <fmt/format.h>

#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/cli/commands.hpp"
#include "models/base/errors.hpp"
#include "models/base/json/json_reader.hpp"
#include "models/base/streams.hpp"
#include "models/files/saved_format.hpp"
#include "reports/answer/json_report.hpp"
#include "reports/text/format.hpp"

namespace dovetail::bench {
namespace {

constexpr auto explain_examples = R"(Examples:
  The best of several systems, explained later:
    dovetail compare --cluster fsmoe-testbed-b --model mixtral-8x7b --systems tutel,fsmoe -q -o result.json
    dovetail explain result.json

Results that tune, plan, compare and simulate save as JSON hold their explanation. With --explain these commands print
it at once.)";

// The results that may hold an explanation.
constexpr std::array explained{
    SavedFormat{"compare", reports::result_schema_version}, SavedFormat{"simulate", reports::result_schema_version},
    SavedFormat{"plan", reports::result_schema_version},    SavedFormat{"run", reports::result_schema_version},
    SavedFormat{"tuning", reports::tuning_schema_version},
};

Exit explain_result(const std::string& path) {
  if (path.empty()) throw InputError("explain: expected the path of a saved result; see dovetail explain --help");
  const JsonFile file = JsonFile::read(path);
  const JsonReader result(file);
  require_format(result, explained);
  const auto explanation = result.find("explanation");
  if (!explanation || explanation->value().is_null())
    result.fail("no explanation in it; expected a result that tune, plan, compare or simulate has saved as JSON");
  constexpr std::size_t width = 118;
  for (const JsonReader& paragraph : explanation->at("text").elements())
    show(fmt::format("{}\n", reports::wrapped(reports::printable(paragraph.string()), width, 2)));
  return Exit::Ok;
}

}  // namespace

Action declare_explain(CLI::App& app) {
  const auto path = std::make_shared<std::string>();
  app.add_option("RESULT", *path, "a result, saved as JSON")->type_name("");
  app.footer(explain_examples);
  return [path](const std::vector<std::string>&) { return explain_result(*path); };
}

}  // namespace dovetail::bench
