// SPDX-License-Identifier: Apache-2.0
#include "models/files/interference_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "models/base/json/json_reader.hpp"
#include "models/base/names.hpp"
#include "models/files/read_parts.hpp"

namespace dovetail {
namespace {

constexpr double rounding = 1e-9;

// Three kinds that get no more done together than two of them would be no reason to run all three.
void require_more_work(const JsonReader& json, const Interference& three, const std::vector<Interference>& all) {
  double together = 0;
  for_each_kept(three, [&](const KeptSpeed& kept) { together += kept.speed; });
  for_each_kept(three, [&](const KeptSpeed& left_out) {
    double pair_speeds = 2;
    for (const Interference& pair : all)
      if (!pair.c && !has_kind(pair, left_out.kind) && has_kind(three, pair.a) && has_kind(three, pair.b))
        pair_speeds = std::min(pair_speeds, pair.a_speed + pair.b_speed);
    if (together < pair_speeds - rounding)
      json.fail(fmt::format("speeds add up to {:.4g}, less than the {:.4g} of its kinds without {}", together,
                            pair_speeds, name_in(interference_class_names, left_out.kind)));
  });
}

Interference read_entry(const JsonReader& json) {
  Interference entry;
  entry.a = json.enumeration("a", interference_class_names);
  entry.b = json.enumeration("b", interference_class_names);
  entry.a_speed = json.number("a_speed", 0, 1);
  entry.b_speed = json.number("b_speed", 0, 1);
  entry.provenance = read_provenance(json.at("provenance"));
  const auto twice = [&](const char* key, InterferenceClass kind) {
    json.fail(key, fmt::format("{} twice, expected {} kinds", name_in(interference_class_names, kind),
                               json.has("c") ? "three" : "two"));
  };
  if (entry.a == entry.b) twice("b", entry.b);
  if (json.has("c")) {
    const KeptSpeed c{json.enumeration("c", interference_class_names), json.number("c_speed", 0, 1)};
    if (has_kind(entry, c.kind)) twice("c", c.kind);
    entry.c = c;
  } else if (entry.a_speed + entry.b_speed < 1) {
    json.fail(fmt::format("speeds {} and {} add up to less than 1: then one after the other would be faster",
                          entry.a_speed, entry.b_speed));
  }
  if (json.has("all_to_all")) entry.all_to_all = json.enumeration("all_to_all", all_to_all_names);
  if (json.has("messages")) entry.messages = json.enumeration("messages", std::span(protocol_names).first(2));
  return entry;
}

}  // namespace

std::vector<Interference> read_interference(const JsonReader& list) {
  std::vector<Interference> all;
  for (const JsonReader& json : list.elements()) {
    Interference entry = read_entry(json);
    for (const Interference& other : all)
      if (same_kinds(other, entry) && other.all_to_all == entry.all_to_all && other.messages == entry.messages)
        json.fail(fmt::format("a second entry for {}, expected one", name_of(entry)));
    all.push_back(std::move(entry));
  }
  std::size_t i = 0;
  for (const JsonReader& json : list.elements())
    if (const Interference& entry = all[i++]; entry.c) require_more_work(json, entry, all);
  return all;
}

nlohmann::ordered_json to_json(const Interference& entry) {
  nlohmann::ordered_json json{{"a", name_in(interference_class_names, entry.a)},
                              {"b", name_in(interference_class_names, entry.b)},
                              {"a_speed", entry.a_speed},
                              {"b_speed", entry.b_speed}};
  if (entry.c) {
    json["c"] = name_in(interference_class_names, entry.c->kind);
    json["c_speed"] = entry.c->speed;
  }
  if (entry.all_to_all) json["all_to_all"] = name_in(all_to_all_names, *entry.all_to_all);
  if (entry.messages) json["messages"] = name_in(protocol_names, *entry.messages);
  return json;
}

}  // namespace dovetail
