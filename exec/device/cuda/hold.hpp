// Ops of a device that last as long as a model says: their deadlines chain from op to op, as Emulation's do on hosts.
// And the kernels of that on a GPU.
#pragma once
#include "exec/device/element.hpp"

namespace dovetail::exec {

// A wait until `until` after the latest of some moments. All times in ns, by the device's clock.
struct Hold {
  // On the device: how many ops overran, when the step began, and by op its virtual finish.
  static constexpr std::int64_t overruns = 0, begin = 1, first_op = 2;
  std::int64_t* moments = nullptr;
  const std::int32_t* before = nullptr;  // which of them; null: the first alone
  std::int64_t count = 0;
  std::int64_t until = 0;
  std::int32_t finish = -1;    // which of them is the op's virtual finish, if this is the op's end
  std::int64_t tolerance = 0;  // how late the end may come without counting as an overrun
};

// When the wait ends that begins `now`: never later than `until` from now on. Leaves the op's virtual finish: its
// deadline or, after an overrun, as much of the delay as successors cannot catch up.
DOVETAIL_BOTH inline std::int64_t deadline(const Hold& hold, std::int64_t now) {
  std::int64_t ready = hold.before == nullptr ? hold.moments[0] : 0;
  for (std::int64_t i = 0; i < (hold.before == nullptr ? 0 : hold.count); ++i) {
    const std::int64_t moment = hold.moments[hold.before[i]];
    ready = moment > ready ? moment : ready;
  }
  const std::int64_t end = (ready < now ? ready : now) + hold.until;
  if (hold.finish < 0) return end;
  const bool late = now > end + hold.tolerance;
  hold.moments[hold.finish] = late ? now - hold.tolerance : end;
  return end;
}
DOVETAIL_BOTH inline bool overruns(const Hold& hold, std::int64_t end, std::int64_t now) {
  return hold.finish >= 0 && now > end + hold.tolerance;
}

// Write the GPU's clock; wait. Both throw DeviceError.
void launch_mark(void* stream, std::int64_t* moment);
void launch_hold(void* stream, const Hold& hold);

}  // namespace dovetail::exec
