// SPDX-License-Identifier: Apache-2.0
#include "bench/imports/megatron_settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "bench/imports/config_fields.hpp"
#include "models/base/json/json_text.hpp"
#include "models/base/json/nearest.hpp"

namespace dovetail::bench {
namespace {

std::optional<double> number_in(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size() && std::isfinite(number);
  return whole ? std::optional(number) : std::nullopt;
}

// "4096" and "4096.0", as configurations write it.
std::optional<int> whole_in(const std::string& text) {
  const auto number = number_in(text);
  const bool whole = number && std::trunc(*number) == *number && std::abs(*number) <= 2'000'000'000;
  return whole ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

bool same_value(const std::string& given, std::string_view fallback) {
  if (given == fallback) return true;
  const auto number = number_in(given), other = number_in(std::string(fallback));
  return number && other && *number == *other;
}

std::string values_text(const GivenArgument& argument) {
  std::string text = as_option(argument.name);
  for (const std::string& value : argument.values) text += " " + as_written(value);
  return text;
}

}  // namespace

std::string as_option(std::string_view name) {
  std::string option = "--" + std::string(name);
  std::ranges::replace(option, '_', '-');
  return option;
}

MegatronSettings::MegatronSettings(const GivenRun& run, Unsaid& unsaid) : run_(run), unsaid_(unsaid) {
  unsaid_.notes.insert(unsaid_.notes.end(), run.notes.begin(), run.notes.end());
  for (const GivenArgument& argument : run.arguments) take(argument);
  for (const auto& [name, argument] : values_) {
    const MegatronArgument& row = *find_megatron_argument(name);
    if (row.effect != Effect::Missing) {
      ++unsaid_.set;
      continue;
    }
    const bool as_by_default =
        !row.fallback.empty() && argument.values.size() == 1 && same_value(argument.values.front(), row.fallback);
    if (as_by_default)
      ++unsaid_.silent;
    else
      unsaid_.missing.push_back(fmt::format("{}: {}", values_text(argument), row.what));
  }
}

// The last one of a name counts, as argparse has it.
void MegatronSettings::take(const GivenArgument& argument) {
  const MegatronArgument* const row = find_megatron_argument(argument.name);
  if (row == nullptr) {
    const Location& at = argument.where;
    std::vector<std::string> names = megatron_argument_names();
    for (std::string& name : names) name = as_option(name);
    unsaid_.unknown.push_back(fmt::format("{}:{}:{}: {}{}", at.file, at.line, at.column,
                                          in_quotes(values_text(argument)),
                                          did_you_mean(as_option(argument.name), names)));
    return;
  }
  if (row->effect == Effect::None) {
    ++unsaid_.silent;
    return;
  }
  GivenArgument taken = argument;
  taken.name = std::string(row->name);
  if (row->takes == Takes::Nothing && taken.values.size() == 1 && whole_in(taken.values.front()) == std::nullopt) {
    const std::string& value = taken.values.front();
    if (value == "false" || value == "False") {
      values_.erase(taken.name);
      return;
    }
    if (value == "true" || value == "True") taken.values.clear();
  }
  if (row->takes != Takes::Any && std::ranges::any_of(taken.values, is_open)) {
    unsaid_.notes.push_back(
        fmt::format("{}:{}:{}: {}: its value is not known, so that it counts as not given; --var "
                    "NAME=VALUE gives a variable",
                    argument.where.file, argument.where.line, argument.where.column, values_text(argument)));
    return;
  }
  check_values(taken, *row);
  values_[taken.name] = std::move(taken);
}

void MegatronSettings::check_values(const GivenArgument& argument, const MegatronArgument& row) const {
  const auto refuse = [&](const std::string& message) {
    throw InputError(argument.where, fmt::format("{}: {}", as_option(argument.name), message));
  };
  if (row.takes == Takes::Nothing) {
    if (!argument.values.empty())
      refuse(fmt::format("takes no value, got {}", in_quotes(as_written(argument.values.front()))));
    return;
  }
  if (argument.values.empty()) refuse("expected a value");
  if (row.takes == Takes::Words) return;
  if (argument.values.size() > 1)
    refuse(fmt::format("takes one value, got {}", in_quotes(fmt::format("{}", fmt::join(argument.values, " ")))));
  const std::string& value = argument.values.front();
  if (row.takes == Takes::Whole && !whole_in(value))
    refuse(fmt::format("{}, expected a whole number", in_quotes(value)));
  if (row.takes == Takes::Number && !number_in(value)) refuse(fmt::format("{}, expected a number", in_quotes(value)));
}

const GivenArgument& MegatronSettings::find(std::string_view name) const {
  return values_.find(name)->second;
}

std::string MegatronSettings::text(std::string_view name) const {
  if (!given(name)) return std::string(find_megatron_argument(name)->fallback);
  return find(name).values.empty() ? "" : find(name).values.front();
}

int MegatronSettings::whole(std::string_view name, int least) const {
  const auto value = whole_in(text(name));
  if (!value) return 0;
  if (*value < least && given(name)) fail(name, fmt::format("{}, expected at least {}", *value, least));
  return *value;
}

std::optional<int> MegatronSettings::whole_if_given(std::string_view name, int least) const {
  return given(name) ? std::optional(whole(name, least)) : std::nullopt;
}

int MegatronSettings::required_whole(std::string_view name) const {
  if (!given(name))
    throw InputError(
        {.file = run_.arguments.front().where.file, .line = 0, .column = 0, .pointer = {}},
        fmt::format("{} is not given, so that the model is not known; --model NAME takes a model of data/models "
                    "or a file",
                    as_option(name)));
  return whole(name);
}

double MegatronSettings::number(std::string_view name, double least) const {
  const double value = number_in(text(name)).value_or(0);
  if (value < least && given(name)) fail(name, fmt::format("{}, expected at least {}", value, least));
  return value;
}

std::string MegatronSettings::word(std::string_view name) const {
  return text(name);
}

std::vector<std::string> MegatronSettings::words(std::string_view name) const {
  if (!given(name)) return words_in(text(name));
  std::vector<std::string> all;
  for (const std::string& value : find(name).values)
    for (std::string& each : words_in(value)) all.push_back(std::move(each));
  return all;
}

std::string MegatronSettings::list_text(std::string_view name) const {
  if (!given(name) || find(name).values.size() == 1) return text(name);
  return fmt::format("[{}]", fmt::join(find(name).values, ","));
}

std::string MegatronSettings::choice(std::string_view name, const std::vector<std::string>& choices) const {
  const std::string value = text(name);
  if (given(name) && std::ranges::count(choices, value) == 0)
    fail(name, fmt::format("{}{} expected {}", in_quotes(value), did_you_mean(value, choices), join_or(choices)));
  return value;
}

void MegatronSettings::fail(std::string_view name, std::string_view message) const {
  const Location where = given(name) ? find(name).where : run_.arguments.front().where;
  throw InputError(where, fmt::format("{}: {}", as_option(name), message));
}

void MegatronSettings::unsaid(std::string_view name, std::string_view why) const {
  unsaid_.missing.push_back(fmt::format("{}: {}", given(name) ? values_text(find(name)) : as_option(name), why));
}

}  // namespace dovetail::bench
