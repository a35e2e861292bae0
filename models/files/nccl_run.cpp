// SPDX-License-Identifier: Apache-2.0
#include "models/files/nccl_run.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "models/base/json/json_text.hpp"
#include "models/base/names.hpp"

namespace dovetail {
namespace {

constexpr std::array<std::pair<std::string_view, Collective>, 7> programs{
    {{"alltoall", Collective::AllToAll},
     {"all_gather", Collective::AllGather},
     {"reduce_scatter", Collective::ReduceScatter},
     {"all_reduce", Collective::AllReduce},
     {"broadcast", Collective::Broadcast},
     {"reduce", Collective::Reduce},
     {"sendrecv", Collective::Send}}};

constexpr Names<int, 14> element_bytes{{{"int8", 1},
                                        {"uint8", 1},
                                        {"int32", 4},
                                        {"uint32", 4},
                                        {"int64", 8},
                                        {"uint64", 8},
                                        {"half", 2},
                                        {"bfloat16", 2},
                                        {"float", 4},
                                        {"double", 8},
                                        {"f8e4m3", 1},
                                        {"f8e5m2", 1},
                                        {"fp8_e4m3", 1},
                                        {"fp8_e5m2", 1}}};

std::optional<double> finite_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return {};
  return value;
}

}  // namespace

Collective nccl_collective(const Location& where, std::string_view program) {
  const std::string_view name = program.substr(program.find_last_of('/') + 1);
  const std::string_view test = name.substr(0, name.find("_perf"));
  std::string known;
  for (const auto& [each, collective] : programs) {
    if (each == test) return collective;
    known += fmt::format("{}{}_perf", known.empty() ? "" : ", ", each);
  }
  throw InputError(where, fmt::format("{}: no test of a collective that has costs, expected {}",
                                      in_quotes(std::string(program)), known));
}

int nccl_element_bytes(const Location& where, std::string_view type) {
  for (const auto& [name, bytes] : element_bytes)
    if (name == type) return bytes;
  throw InputError(where, fmt::format("{}: no type of nccl-tests", in_quotes(type)));
}

std::optional<Printed> printed_number(std::string_view text) {
  const std::optional<double> value = finite_number(text);
  if (!value) return {};
  const std::size_t power = std::min(text.find_first_of("eE"), text.size());
  const std::size_t point = std::min(text.find('.'), power);
  const auto decimals = static_cast<double>(point < power ? power - point - 1 : 0);
  double tens = 0;
  if (power < text.size()) tens = finite_number(text.substr(power + (text[power + 1] == '+' ? 2 : 1))).value_or(0);
  return Printed{*value, .5 * std::pow(10, tens - decimals)};
}

}  // namespace dovetail
