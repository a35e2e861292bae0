// SPDX-License-Identifier: Apache-2.0
// The layout of --help: lines of at most 118 characters, one blank line between groups.
#pragma once
#include <CLI/App.hpp>
#include <CLI/Formatter.hpp>
#include <string>

namespace dovetail::bench {

class HelpFormat final : public CLI::Formatter {
 public:
  HelpFormat();
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
};

}  // namespace dovetail::bench
