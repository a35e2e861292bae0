// SPDX-License-Identifier: Apache-2.0
#include "bench/pipeline/alternation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "models/base/errors.hpp"
#include "models/files/load.hpp"
#include "models/network/schedule_classes.hpp"
#include "models/plan/plan.hpp"
#include "models/price/build_schedule.hpp"

namespace dovetail::bench {
namespace {

constexpr std::string_view option = "--alternate";

// Refusals by the rules of plans have the place of a knob, but not that of the option.
std::shared_ptr<const Schedule> schedule_of(const Experiment& experiment, const Plan& plan,
                                            const std::vector<std::string>& settings) try {
  return std::make_shared<const Schedule>(split_by_class(experiment, build_schedule(experiment, plan)));
} catch (const InputError& error) {
  if (!error.where().file.empty()) throw;
  throw InputError({fmt::format("{} {}", option, fmt::join(settings, " ")), 0, 0, error.where().pointer},
                   error.message());
}

}  // namespace

void require_alternation(const exec::RunRequest& request) {
  if (request.cuda() || request.processes())
    throw InputError(
        fmt::format("{}: only with --device host --transport inproc: plans are alternated by ranks that "
                    "are threads of this process",
                    option));
  if (request.emulate_links)
    throw InputError(fmt::format(
        "{}: not with --emulate-links, because the time of a switch is real and that of links is not", option));
}

exec::SchedulePair alternating_plans(const Experiment& experiment, const SystemResult& chosen,
                                     const std::vector<std::string>& settings) {
  Plan other = chosen.plan;
  set_knobs(settings, option, other);
  if (other == chosen.plan)
    throw InputError(fmt::format("{} {}: the plan has that already, and there is nothing to switch to", option,
                                 fmt::join(settings, " ")));
  exec::SchedulePair plans{chosen.schedule, schedule_of(experiment, other, settings)};
  exec::require_alternating(experiment, plans);
  return plans;
}

}  // namespace dovetail::bench
