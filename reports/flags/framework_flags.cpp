// SPDX-License-Identifier: Apache-2.0
#include "reports/flags/framework_flags.hpp"

#include <ostream>

namespace dovetail::reports {

void write_flags(std::ostream& out, const FrameworkFlags& flags) {
  out << flags.text;
  if (!flags.cannot.empty()) out << "# " << flags.framework << " cannot do all of this plan:\n";
  for (const std::string& sentence : flags.cannot) out << "#   " << sentence << '\n';
  if (!flags.elsewhere.empty()) out << "# set outside of these arguments:\n";
  for (const std::string& sentence : flags.elsewhere) out << "#   " << sentence << '\n';
}

}  // namespace dovetail::reports
