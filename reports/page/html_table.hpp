// Rows of tables on a page.
#pragma once
#include <initializer_list>
#include <ostream>
#include <string>
#include <string_view>

namespace dovetail::reports {

// One row of cells of this kind ("td", "th"). Values are HTML already.
void write_row(std::ostream& out, std::string_view cell, std::initializer_list<std::string> values);

}  // namespace dovetail::reports
