# SPDX-License-Identifier: Apache-2.0
# Run at build time: writes OUTPUT, a C++ source that defines dovetail::reports::<NAME>_text as a string_view of
# FILES (separated by commas), one after the other. As characters, for no compiler limits the length of an array.
string(REPLACE "," ";" files "${FILES}")
set(bytes "")
foreach(file IN LISTS files)
  file(READ "${file}" hex HEX)
  string(APPEND bytes "${hex}")
endforeach()
string(REPEAT "[0-9a-f]" 32 sixteen)
string(REGEX REPLACE "(${sixteen})" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
file(WRITE "${OUTPUT}" "// Made by reports/page/embed.cmake.
#include \"reports/page/page_text.hpp\"

namespace dovetail::reports {
namespace {
constexpr char ${NAME}_bytes[] = {
${bytes}};
}
const std::string_view ${NAME}_text{${NAME}_bytes, sizeof ${NAME}_bytes};
}  // namespace dovetail::reports
")
