// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/journal.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "bench/pipeline/differences.hpp"
#include "models/base/errors.hpp"

namespace dovetail::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *journal_kind = "dovetail_journal", *journal_version = "1.0";

constexpr int deepest = 64;  // a file of another program may be anything

void require_same_work(const std::string& path, const std::string& line, const Json& expected) {
  const auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= deepest; };
  const Json there = Json::parse(line, shallow, /*allow_exceptions=*/false);
  const auto refuse = [&](const std::string& why) { throw InputError(Location{path, 1, 1, ""}, why); };
  if (!there.is_object() || there.value("kind", Json()) != journal_kind)
    refuse("this is not a journal of dovetail: rename it, or name another output");
  if (there != expected)
    refuse(fmt::format("this journal belongs to other work ({}): finish that work, or remove the journal",
                       differences(there, expected)));
}

}  // namespace

Journal::Journal(const std::string& path, const Json& work) : log_(path) {
  const Json header{{"kind", journal_kind}, {"schema_version", journal_version}, {"work", work}};
  const std::string first = header.dump();
  std::string rest;
  const std::optional<std::string> there = log_.first_line(first);
  if (there) {
    require_same_work(path, *there, header);
    rest = log_.rest();
  }
  long number = 1;
  for (std::size_t at = 0, end; (end = rest.find('\n', at)) != std::string::npos; at = end + 1)
    finished_.emplace_back(path, ++number, rest.substr(at, end - at));
  log_.begin(first, number == 1 ? 0 : std::ssize(*there) + 1 + std::ssize(rest), {});
}

void Journal::add(const Json& part) {
  log_.add(part.dump() + '\n');
}

}  // namespace dovetail::bench
