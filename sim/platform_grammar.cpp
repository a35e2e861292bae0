// SPDX-License-Identifier: Apache-2.0
#include "sim/platform_grammar.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "models/base/json/json_text.hpp"

namespace dovetail::sim {
namespace {

using enum PlatformValue;
using Attribute = PlatformAttribute;

constexpr std::string_view sharing = "SHARED SPLITDUPLEX FULLDUPLEX FATPIPE", zones = "platform zone";
constexpr bool required = true;

constexpr std::array of_platform{Attribute{"version", Version, required}};
constexpr std::array of_zone{Attribute{"id", Name, required}, Attribute{"routing", Routing, required}};
constexpr std::array of_host{Attribute{"id", Name, required}, Attribute{"speed", Speed, required},
                             Attribute{"core", Count}};
constexpr std::array of_router{Attribute{"id", Name, required}};
constexpr std::array of_link{Attribute{"id", Name, required}, Attribute{"bandwidth", Bandwidth, required},
                             Attribute{"latency", Latency}, Attribute{"sharing_policy", Choice, false, sharing}};
constexpr std::array of_backbone{Attribute{"id", Name, required}, Attribute{"bandwidth", Bandwidth, required},
                                 Attribute{"latency", Latency, required}};
constexpr std::array of_host_link{Attribute{"id", Reference, required}, Attribute{"up", Reference, required},
                                  Attribute{"down", Reference, required}};
constexpr std::array of_cluster{Attribute{"id", Name, required},
                                Attribute{"prefix", Name, required},
                                Attribute{"suffix", Name, required},
                                Attribute{"radical", Radical, required},
                                Attribute{"speed", Speed, required},
                                Attribute{"core", Count},
                                Attribute{"bw", Bandwidth, required},
                                Attribute{"lat", Latency, required},
                                Attribute{"sharing_policy", Choice, false, sharing},
                                Attribute{"topology", Choice, false, "FLAT TORUS FAT_TREE DRAGONFLY"},
                                Attribute{"topo_parameters", Topology},
                                Attribute{"bb_bw", Bandwidth},
                                Attribute{"bb_lat", Latency},
                                Attribute{"bb_sharing_policy", Choice, false, "SHARED FATPIPE"},
                                Attribute{"router_id", Name},
                                Attribute{"limiter_link", Bandwidth},
                                Attribute{"loopback_bw", Bandwidth},
                                Attribute{"loopback_lat", Latency}};
constexpr std::string_view yes_or_no = "YES NO yes no";
constexpr std::array of_route{Attribute{"src", Reference, required}, Attribute{"dst", Reference, required},
                              Attribute{"symmetrical", Choice, false, yes_or_no}};
constexpr std::array of_zone_route{Attribute{"src", Reference, required}, Attribute{"dst", Reference, required},
                                   Attribute{"gw_src", Reference, required}, Attribute{"gw_dst", Reference, required},
                                   Attribute{"symmetrical", Choice, false, yes_or_no}};
constexpr std::array of_link_ctn{Attribute{"id", Reference, required},
                                 Attribute{"direction", Choice, false, "UP DOWN NONE"}};
constexpr std::array of_prop{Attribute{"id", Text, required}, Attribute{"value", Text, required}};

constexpr std::array elements{PlatformElement{"platform", "", of_platform},
                              PlatformElement{"zone", zones, of_zone},
                              PlatformElement{"cluster", zones, of_cluster},
                              PlatformElement{"host", "zone", of_host},
                              PlatformElement{"router", "zone", of_router},
                              PlatformElement{"link", "zone", of_link},
                              PlatformElement{"backbone", "zone", of_backbone},
                              PlatformElement{"host_link", "zone", of_host_link},
                              PlatformElement{"route", "zone", of_route},
                              PlatformElement{"zoneRoute", "zone", of_zone_route},
                              PlatformElement{"link_ctn", "route zoneRoute", of_link_ctn},
                              PlatformElement{"prop", "zone cluster host link", of_prop}};

// A number, then perhaps a unit, of which SimGrid knows more than anybody writes.
std::optional<double> number_before_unit(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (error != std::errc() || !std::isfinite(number) || !std::ranges::all_of(unit, is_letter)) return {};
  return number;
}

std::string objection_to_quantity(std::string_view text, bool zero_too, std::string_view example) {
  constexpr double smallest = 1e-6, largest = 1e15;  // before any unit: all that follows stays far from overflow
  const std::optional<double> number = number_before_unit(text);
  if (number && ((*number >= smallest && *number <= largest) || (zero_too && *number == 0))) return "";
  return fmt::format("{}, expected {}a number from {:g} to {:g} and its unit, such as {}", in_quotes(text),
                     zero_too ? "0 or " : "", smallest, largest, example);
}

// "0-3": first and last. None where it is anything else.
std::optional<std::pair<int, int>> range_of(std::string_view text) {
  constexpr int largest = 1'000'000;
  int first = 0, last = 0;
  const char* const end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, first);
  last = first;
  if (error == std::errc() && at != end && *at == '-') {
    const auto [behind, wrong] = std::from_chars(at + 1, end, last);
    at = behind;
    error = wrong;
  }
  if (error != std::errc() || at != end || first < 0 || last < first || last > largest) return {};
  return std::pair(first, last);
}

std::vector<std::string_view> split(std::string_view text, std::string_view at) {
  std::vector<std::string_view> parts;
  for (std::size_t first = 0; first <= text.size();) {
    const std::size_t end = std::min(text.find_first_of(at, first), text.size());
    parts.push_back(text.substr(first, end - first));
    first = end + 1;
  }
  return parts;
}

std::string objection_to_radical(std::string_view text) {
  std::size_t hosts = 0;
  for (std::string_view part : split(text, ",")) {
    const auto range = range_of(part);
    if (!range) return fmt::format("{}, expected numbers and ranges such as 0-3,7", in_quotes(text));
    hosts += static_cast<std::size_t>(range->second - range->first) + 1;
  }
  if (hosts <= most_platform_hosts) return "";
  return fmt::format("{} are {} hosts, expected at most {}", in_quotes(text), hosts, most_platform_hosts);
}

// SimGrid says whether these fit the topology; here they are kept from becoming millions of links.
std::string objection_to_topology(std::string_view text) {
  constexpr double largest = 65'536;
  double product = 1;
  for (std::string_view part : split(text, ",;")) {
    const auto range = range_of(part);
    if (!range || range->first != range->second || range->first < 1)
      return fmt::format("{}, expected numbers from 1 on with , or ; between", in_quotes(text));
    product *= range->first;
  }
  return product <= largest ? "" : fmt::format("{}, expected a product of at most {}", in_quotes(text), largest);
}

std::string objection_to_name(const std::string& text) {
  constexpr std::size_t longest = 1000;
  const bool plain = std::ranges::none_of(text, [](char c) {
    return static_cast<unsigned char>(c) < ' ' || c == '\x7f' ||
           std::string_view("<>&\"'").find(c) != std::string_view::npos;
  });
  if (plain && text.size() <= longest) return "";
  return fmt::format("{}, expected a name of at most {} bytes without any of < > & \" '", in_quotes(text), longest);
}

std::string one_of(std::string_view words, std::string_view text) {
  if (is_word_of(words, text)) return "";
  std::vector<std::string> names;
  for (std::string_view word : split(words, " ")) names.emplace_back(word);
  return fmt::format("{}, expected {}", in_quotes(text), join_or(names));
}

std::string objection_to_count(std::string_view text) {
  const auto range = range_of(text);
  if (range && range->first == range->second && range->first >= 1) return "";
  return fmt::format("{}, expected a whole number from 1 to 1000000", in_quotes(text));
}

std::string objection_to_speeds(std::string_view text) {
  for (std::string_view each : split(text, ","))
    if (const std::string objection = objection_to_quantity(each, false, "1Gf"); !objection.empty()) return objection;
  return "";
}

}  // namespace

const PlatformElement* find_platform_element(std::string_view name) {
  const auto found = std::ranges::find(elements, name, &PlatformElement::name);
  return found == elements.end() ? nullptr : &*found;
}

bool is_word_of(std::string_view words, std::string_view word) {
  const std::vector<std::string_view> all = split(words, " ");
  return std::ranges::find(all, word) != all.end();
}

std::string objection_to(const PlatformAttribute& attribute, const std::string& value) {
  switch (attribute.value) {
    case Text:
      return "";
    case Version:
      return one_of("4 4.0 4.1", value);
    case Name:
    case Reference:
      return objection_to_name(value);
    case Speed:
      return objection_to_speeds(value);
    case Bandwidth:
      return objection_to_quantity(value, false, "10GBps");
    case Latency:
      return objection_to_quantity(value, true, "1us");
    case Count:
      return objection_to_count(value);
    case Radical:
      return objection_to_radical(value);
    case Topology:
      return objection_to_topology(value);
    case Routing:
      return one_of("Full Floyd Dijkstra DijkstraCache Cluster", value);
    case Choice:
      return one_of(attribute.choices, value);
  }
  return "";
}

std::vector<int> numbers_of_radical(std::string_view radical) {
  std::vector<int> numbers;
  for (std::string_view part : split(radical, ","))
    for (auto [number, last] = *range_of(part); number <= last; ++number) numbers.push_back(number);
  return numbers;
}

}  // namespace dovetail::sim
