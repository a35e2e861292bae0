#include "bench/commands.hpp"
#include "models/errors.hpp"
namespace dovetail::bench {
Action declare_run(CLI::App&) {
  return [](const std::vector<std::string>&) -> Exit { throw DeviceError("run", "not built yet"); };
}
}  // namespace dovetail::bench
