// SPDX-License-Identifier: Apache-2.0
#include "sim/flow_simulation.hpp"

#include <fmt/format.h>
#include <simgrid/engine.h>  // for version.h, which includes nothing itself
#include <simgrid/version.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <iterator>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/kernel/resource/Model.hpp>
#include <simgrid/s4u.hpp>
#include <string>
#include <thread>
#include <unordered_map>

#include "models/base/errors.hpp"

namespace dovetail::sim {
namespace {

namespace kernel = simgrid::kernel;
namespace s4u = simgrid::s4u;

// SimGrid counts whole bytes; on links of our own, so much finer ones.
constexpr double fine = 1 << 20;

// Shares are of SimGrid's flow model as published, without the corrections for TCP that it comes with.
void configure() {
  xbt_log_control_set("xbt_cfg.thresh:warning");
  s4u::Engine::set_config("network/model:CM02");
  s4u::Engine::set_config("network/TCP-gamma:1e30");
  s4u::Engine::set_config("network/weight-S:0");
  s4u::Engine::set_config("network/bandwidth-factor:1");
  s4u::Engine::set_config("network/latency-factor:1");
  s4u::Engine::set_config("network/crosstraffic:0");
  s4u::Engine::set_config("network/optim:Full");  // every flow shares links with most others: none keeps its rate
#if SIMGRID_VERSION >= 33400
  s4u::Engine::set_config("precision/timing:1e-15");
  s4u::Engine::set_config("precision/work-amount:1e-9");
#else
  s4u::Engine::set_config("surf/precision:1e-15");
  s4u::Engine::set_config("maxmin/precision:1e-9");
#endif
}

// SimGrid reads files only: this one is in memory.
class TextAsFile {
 public:
  explicit TextAsFile(std::string_view text) : file_(::memfd_create("platform", MFD_CLOEXEC)) {
    if (file_ < 0 || ::write(file_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      throw DeviceError("simgrid-flow", "no memory for the platform");
  }
  ~TextAsFile() { ::close(file_); }
  TextAsFile(const TextAsFile&) = delete;
  TextAsFile& operator=(const TextAsFile&) = delete;
  std::string path() const { return fmt::format("/proc/self/fd/{}", file_); }

 private:
  int file_;
};

void load_platform(s4u::Engine& engine, const Platform& platform) {
  const TextAsFile file(platform.text);
  try {
    engine.load_platform(file.path());
  } catch (const std::exception& error) {  // mostly "Parse error at FILE:LINE: MESSAGE"
    std::string message = error.what();
    const std::string before_line = file.path() + ":";
    int line = 0, read = 0;
    const std::size_t at = message.find(before_line);
    if (at != std::string::npos && std::sscanf(message.c_str() + at + before_line.size(), "%d: %n", &line, &read) == 1)
      message.erase(0, at + before_line.size() + static_cast<std::size_t>(read));
    throw InputError(Location{platform.file, line, line > 0 ? 1 : 0, ""}, message.substr(0, message.find('\n')));
  }
}

}  // namespace

#if SIMGRID_VERSION >= 33400

// Flows that run, as communications without actors.
class RunningFlows {
 public:
  explicit RunningFlows(std::function<void(std::int64_t)> ended) {
    s4u::Engine::on_time_advance_cb([this](double) {
      for (s4u::Activity* flow : over_) flow->unref();
      over_.clear();
    });
    s4u::Comm::on_completion_cb([this, ended = std::move(ended)](const s4u::Activity& flow) {
      over_.push_back(const_cast<s4u::Activity*>(&flow));
      ended(reinterpret_cast<std::intptr_t>(flow.get_data<void>()));
    });
  }

  void start(std::int64_t tag, s4u::Host* from, s4u::Host* to, double bytes) {
    const s4u::CommPtr flow = s4u::Comm::sendto_init(from, to);
    flow->set_payload_size(static_cast<std::uint64_t>(bytes));
    flow->set_data(reinterpret_cast<void*>(static_cast<std::intptr_t>(tag)));
    flow->add_ref();  // until time advances after its end
    flow->start();
  }

 private:
  std::vector<s4u::Activity*> over_;
};

#else

// Flows that run, as parallel executions that only send, which the network model takes like communications. A
// communication of SimGrid 3.32 walks a list of all others at its end; so does an execution, unless no actor made it.
class RunningFlows {
 public:
  explicit RunningFlows(std::function<void(std::int64_t)> ended) : ended_(std::move(ended)) {
    s4u::Engine::on_time_advance_cb([this](double) { take_finished(); });
  }

  void start(std::int64_t tag, s4u::Host* from, s4u::Host* to, double bytes) {
    if (spare_.empty()) make_spare();
    s4u::ExecPtr flow = std::move(spare_.back());
    spare_.pop_back();
    flow->set_state(s4u::Activity::State::INITED);
    flow->set_hosts({from, to})->set_flops_amounts({0, 0})->set_bytes_amounts({0, bytes, 0, 0})->start();
    auto* const activity = flow->get_impl();
    running_.emplace(activity, Flow{tag, std::move(flow)});
  }

 private:
  struct Flow {
    std::int64_t tag;
    s4u::ExecPtr execution;
  };

  // SimGrid tells actors only. It is done with an execution when time has advanced once more.
  void take_finished() {
    std::move(over_.begin(), over_.end(), std::back_inserter(spare_));
    over_.clear();
    std::vector<std::int64_t> tags;
    for (kernel::resource::Model* model : s4u::Engine::get_instance()->get_all_models())
      for (const kernel::resource::Action& action : *model->get_finished_action_set()) {
        auto flow = running_.extract(action.get_activity());
        tags.push_back(flow.mapped().tag);
        over_.push_back(std::move(flow.mapped().execution));
      }
    for (std::int64_t tag : tags) ended_(tag);
  }

  // In a thread that SimGrid does not know, so that the main thread's actor is not taken for theirs.
  void make_spare() {
    std::thread([this] {
      for (std::size_t i = 0; i <= running_.size(); ++i) spare_.push_back(s4u::Exec::init());
    }).join();
  }

  std::function<void(std::int64_t)> ended_;
  std::unordered_map<kernel::activity::ActivityImpl*, Flow> running_;
  std::vector<s4u::ExecPtr> over_, spare_;
};

#endif

struct FlowSimulation::State {
  explicit State(double bytes_scale) : scale(bytes_scale) {
    check(!s4u::Engine::is_initialized(), "SimGrid is in use already");
    engine = std::make_unique<s4u::Engine>("dovetail");
    configure();
    flows = std::make_unique<RunningFlows>([this](std::int64_t tag) { (*ended)(tag); });
  }

  double scale;
  std::unique_ptr<s4u::Engine> engine;
  std::vector<s4u::Host*> hosts;
  std::unique_ptr<RunningFlows> flows;
  const std::function<void(std::int64_t)>* ended = nullptr;
};

FlowSimulation::FlowSimulation(int hosts, const Network& network) : state_(std::make_unique<State>(fine)) {
#if SIMGRID_VERSION >= 40000
  auto* zone = state_->engine->get_netzone_root()->add_netzone_full("cluster");
  const auto add_link = [&](const Link& link) { return zone->add_link(link.name, link.bandwidth.value() * fine); };
  const auto add_host = [&](int rank) { return zone->add_host(std::to_string(rank), 1.0); };
#else
  auto* zone = s4u::create_full_zone("cluster");
  const auto add_link = [&](const Link& link) { return zone->create_link(link.name, link.bandwidth.value() * fine); };
  const auto add_host = [&](int rank) { return zone->create_host(std::to_string(rank), 1.0); };
#endif
  std::vector<s4u::Link*> links;
  for (const Link& link : network.links()) links.push_back(add_link(link)->set_latency(0.0)->seal());
  for (int rank = 0; rank < hosts; ++rank) state_->hosts.push_back(add_host(rank)->seal());
  std::vector<int> route;
  for (int from = 0; from < hosts; ++from)
    for (int to = 0; to < hosts; ++to) {
      if (from == to) continue;
      route.clear();
      network.route(from, to, route);
      std::vector<s4u::LinkInRoute> used;
      for (int link : route) used.emplace_back(links[static_cast<std::size_t>(link)]);
      zone->add_route(state_->hosts[static_cast<std::size_t>(from)]->get_netpoint(),
                      state_->hosts[static_cast<std::size_t>(to)]->get_netpoint(), nullptr, nullptr, used, false);
    }
  zone->seal();
}

FlowSimulation::FlowSimulation(int hosts, const Platform& platform) : state_(std::make_unique<State>(1)) {
  if (platform.hosts.size() < static_cast<std::size_t>(hosts))
    throw InputError(Location{platform.file, 1, 1, ""},
                     fmt::format("{} hosts, expected {} or more, one for each GPU", platform.hosts.size(), hosts));
  load_platform(*state_->engine, platform);
  for (int rank = 0; rank < hosts; ++rank)
    state_->hosts.push_back(state_->engine->host_by_name(platform.hosts[static_cast<std::size_t>(rank)]));
}

FlowSimulation::~FlowSimulation() = default;

void FlowSimulation::start_flow(std::int64_t tag, int from, int to, Bytes bytes) {
  state_->flows->start(tag, state_->hosts[static_cast<std::size_t>(from)], state_->hosts[static_cast<std::size_t>(to)],
                       std::round(bytes.value() * state_->scale));
}

void FlowSimulation::start_delay(std::int64_t tag, Seconds time) {
  kernel::timer::Timer::set(now().value() + time.value(), [this, tag] { (*state_->ended)(tag); });
}

void FlowSimulation::run(const std::function<void(std::int64_t)>& ended) {
  state_->ended = &ended;
  state_->engine->run();
  state_->ended = nullptr;
}

Seconds FlowSimulation::now() const {
  return Seconds(s4u::Engine::get_clock());
}

}  // namespace dovetail::sim
