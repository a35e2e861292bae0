// Runs one op at a time, in program order: the step without any overlap.
#pragma once
#include "models/time/backend.hpp"

namespace dovetail {

class SerialBackend final : public Backend {
 public:
  std::string_view name() const override { return "serial"; }
  Timeline run(const PricedSchedule& priced) override;
};

}  // namespace dovetail
