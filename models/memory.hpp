// Device memory of one rank over a timeline, by tensor lifetimes: from the start of the first op that
// writes a tensor to the end of the last that reads or writes it; persistent tensors live throughout.
#pragma once
#include <vector>

#include "models/timeline.hpp"

namespace dovetail {

struct MemoryUse {
  Bytes peak;
  Bytes persistent;  // weights, gradients, optimizer states
  Seconds peak_at;
};
std::vector<MemoryUse> memory_by_class(const Schedule& schedule, const Timeline& timeline);
MemoryUse memory_use(const Schedule& schedule, const Timeline& timeline);  // of the class that needs most

}  // namespace dovetail
