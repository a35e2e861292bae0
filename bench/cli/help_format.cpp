// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/help_format.hpp"

#include <fmt/format.h>

#include "reports/text/format.hpp"

namespace dovetail::bench {
namespace {

constexpr std::size_t width = 118, column = 32;

}  // namespace

HelpFormat::HelpFormat() {
  column_width(column);
  label("SUBCOMMAND", "COMMAND");
}

std::string HelpFormat::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  std::string text = Formatter::make_help(app, std::move(name), mode);
  for (std::size_t gap; (gap = text.find("\n\n\n")) != std::string::npos;) text.erase(gap, 1);
  return text;
}

std::string HelpFormat::make_option(const CLI::Option* option, bool is_positional) const {
  const std::string name = "  " + make_option_name(option, is_positional) + make_option_opts(option);
  if (name.size() + 1 < column)
    return reports::wrapped(fmt::format("{:<{}}{}", name, column, make_option_desc(option)), width, column) + "\n";
  return name + "\n" + reports::wrapped(fmt::format("{:<{}}{}", "", column, make_option_desc(option)), width, column) +
         "\n";
}

// Only what to write after the option: how often it may come is in its description.
std::string HelpFormat::make_option_opts(const CLI::Option* option) const {
  const std::string value = option->get_type_name();
  return value.empty() || option->get_type_size() == 0 ? "" : " " + value;
}

}  // namespace dovetail::bench
