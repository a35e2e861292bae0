// SPDX-License-Identifier: Apache-2.0
// The files of reports/page/, embedded at build time by reports/page/embed.cmake.
#pragma once
#include <string_view>

namespace dovetail::reports {

extern const std::string_view page_text;    // the template, with @title@, @css@, @data@ and @script@ once or more
extern const std::string_view style_text;   // page.css
extern const std::string_view script_text;  // all scripts, in the order in which they run

}  // namespace dovetail::reports
