// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/option_values.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "models/base/errors.hpp"
#include "models/base/json/json_text.hpp"
#include "models/base/json/nearest.hpp"

namespace dovetail::bench {
namespace {

// "--output" of "-o,--output", "--systems" of "--systems,--system": as messages call an option.
std::string called(const std::string& names) {
  const std::string rest = names.starts_with("--") ? names : names.substr(names.find(',') + 1);
  return rest.substr(0, rest.find(','));
}

// CLI11 takes whatever follows an option as its value, the next option too. A file "-x" can be given as "./-x".
const std::string& present(const std::string& option, const std::string& text) {
  const bool next_option = text.size() > 1 && text[0] == '-' && (text[1] == '-' || std::isalpha(text[1]) != 0);
  if (text.empty() || next_option)
    throw InputError(fmt::format("{}: its value is missing{}", option, text.empty() ? "" : " before " + text));
  return text;
}

template <class T>
T number_in(const std::string& option, const std::string& text, T min, T max, std::string_view what) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= min && value <= max))
    throw InputError(fmt::format("{} {}: expected {} from {} to {}", option, in_quotes(text), what, min, max));
  return value;
}

CLI::Option* show(CLI::Option* option, const Shown& shown) {
  return option->type_name(shown.value)->group(shown.group);
}

}  // namespace

void add_text(CLI::App& app, const Shown& shown, std::string& target) {
  const std::string option = called(shown.names);
  show(app.add_option_function<std::string>(
           shown.names, [option, &target](const std::string& text) { target = present(option, text); }, shown.help),
       shown);
}

void add_integer(CLI::App& app, const Shown& shown, int& target, int min, int max) {
  const std::string option = called(shown.names);
  show(app.add_option_function<std::string>(
           shown.names,
           [=, &target](const std::string& text) {
             target = number_in(option, present(option, text), min, max, "a whole number");
           },
           shown.help),
       shown);
}

void add_number(CLI::App& app, const Shown& shown, double& target, double min, double max) {
  const std::string option = called(shown.names);
  show(app.add_option_function<std::string>(
           shown.names,
           [=, &target](const std::string& text) {
             target = number_in(option, present(option, text), min, max, "a number");
           },
           shown.help),
       shown);
}

void add_flag(CLI::App& app, const Shown& shown, bool& target) {
  app.add_flag(shown.names, target, shown.help)->group(shown.group);
}

void add_repeatable(CLI::App& app, const Shown& shown, std::vector<std::string>& target) {
  add_repeatable(app, shown, [&target](const std::string& text) { target.push_back(text); });
}

void add_repeatable(CLI::App& app, const Shown& shown, const Take& take) {
  const std::string option = called(shown.names);
  const auto take_all = [option, take](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) take(present(option, text));
  };
  show(app.add_option_function<std::vector<std::string>>(shown.names, take_all, shown.help), shown)
      ->allow_extra_args(false);
}

void add_list(CLI::App& app, const Shown& shown, std::vector<std::string>& target) {
  const std::string option = called(shown.names);
  const auto take = [option, &target](const std::vector<std::string>& texts) {
    for (const std::string& text : texts)
      for (const std::string& part : CLI::detail::split(text, ',')) target.push_back(present(option, part));
  };
  show(app.add_option_function<std::vector<std::string>>(shown.names, take, shown.help), shown)
      ->allow_extra_args(false);
}

std::size_t choose(std::string_view option, const std::string& text, const std::vector<std::string>& names) {
  const auto found = std::ranges::find(names, text);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  throw InputError(fmt::format("{} {}: unknown{}; expected {}", option, in_quotes(text), did_you_mean(text, names),
                               fmt::join(names, ", ")));
}

}  // namespace dovetail::bench
