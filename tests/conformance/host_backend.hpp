// SPDX-License-Identifier: Apache-2.0
// The host executor as a backend: a step really executed on random data.
#pragma once
#include <functional>
#include <memory>

#include "exec/transport/transport.hpp"
#include "models/time/backend.hpp"

namespace dovetail::test {

using MakeTransport = std::function<std::unique_ptr<exec::Transport>(const Schedule&)>;
std::unique_ptr<exec::Transport> inproc_transport_of(const Schedule& schedule);

class HostBackend final : public Backend {
 public:
  HostBackend(Experiment experiment, MakeTransport make) : experiment_(std::move(experiment)), make_(std::move(make)) {}
  std::string_view name() const override { return "host"; }
  Timeline run(const PricedSchedule& priced) override;

 private:
  Experiment experiment_;
  MakeTransport make_;
};

}  // namespace dovetail::test
