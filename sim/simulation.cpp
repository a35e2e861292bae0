// SPDX-License-Identifier: Apache-2.0
#include "sim/simulation.hpp"

#include <simgrid/engine.h>  // for version.h, which includes nothing itself
#include <simgrid/version.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <exception>
#include <memory>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

#include "models/base/errors.hpp"

namespace dovetail::sim {
namespace {

namespace s4u = simgrid::s4u;

// An activity is over when less than the product of both is left of it (1 at its start), and a resource is full
// when less than the second of its speed (1) is left. Rounding errors are some 1e-16 a step: far smaller values make
// SimGrid take extra steps of no length, far larger ones end activities early. Both are free of units, so that
// durations of any size come out equally exact.
constexpr double timing_precision = 1e-2;
constexpr double sharing_precision = 1e-12;
#if SIMGRID_VERSION >= 33400
constexpr const char* timing_precision_key = "precision/timing";
constexpr const char* sharing_precision_key = "precision/work-amount";
#else
constexpr const char* timing_precision_key = "surf/precision";
constexpr const char* sharing_precision_key = "maxmin/precision";
#endif

// SimGrid installs handlers that print and exit; they are the program's to choose, not a library's.
class KeepHandlers {
 public:
  KeepHandlers() {
    for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], nullptr, &saved_[i]);
  }
  ~KeepHandlers() {
    std::set_terminate(terminate_);
    for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &saved_[i], nullptr);
  }
  KeepHandlers(const KeepHandlers&) = delete;
  KeepHandlers& operator=(const KeepHandlers&) = delete;

 private:
  static constexpr std::array signals{SIGINT, SIGSEGV, SIGBUS};
  std::array<struct sigaction, signals.size()> saved_;
  std::terminate_handler terminate_ = std::get_terminate();
};

thread_local bool engine_is_of_this_thread = false;

}  // namespace

class Engine {
 public:
  static Engine& instance() {
    static Engine engine;
    return engine;
  }

  void reset(std::size_t resources, bool speeds_change);
  void start(std::int64_t tag, std::span<const Demand> demands);
  void set_speed(int resource, double speed);
  void run(const std::function<void(std::int64_t)>& finished);
  void discard_ended();
  void discard_all();
  double now() const { return now_; }

 private:
  struct Running {
    std::int64_t tag;
    std::vector<Demand> demands;
    double left;  // of them at the start of `activity`
    s4u::Exec* activity;
  };

  Engine();
  void rebuild(std::size_t resources);
  s4u::Exec* start(std::int64_t tag, std::span<const Demand> demands, double left);
  double speed_of(int resource) const { return speeds_.empty() ? 1 : speeds_[static_cast<std::size_t>(resource)]; }

  std::unique_ptr<s4u::Engine> engine_;
  std::vector<s4u::Host*> pool_;
  double now_ = 0;
  const std::function<void(std::int64_t)>* finished_ = nullptr;
  std::vector<s4u::Activity*> ended_;      // SimGrid still uses an activity after its completion callback
  std::vector<s4u::Activity*> cancelled_;  // and such ones until the end
  std::vector<s4u::Host*> hosts_;          // of the activity being started
  std::vector<double> amounts_;
  bool speeds_change_ = false;
  std::vector<Running> running_;  // all activities, where speeds change
  std::vector<double> speeds_;    // by resource; empty: all 1
};

Engine::Engine() {
  // The clock is the sum of SimGrid's steps since reset(). Its own clock goes on from one simulation to the next, so
  // that differences of it would lose digits with every run; the steps themselves do not depend on it.
  s4u::Engine::on_time_advance_cb([this](double step) {
    now_ += step;
    discard_ended();
  });
  auto on_completion = [this](const s4u::Activity& activity) {
    if (activity.get_state() != s4u::Activity::State::FINISHED) return;
    ended_.push_back(const_cast<s4u::Activity*>(&activity));
    std::erase_if(running_, [&](const Running& running) { return running.activity == &activity; });
    (*finished_)(reinterpret_cast<std::intptr_t>(activity.get_data<void>()));
  };
#if SIMGRID_VERSION >= 33400
  s4u::Exec::on_completion_cb(on_completion);
#else
  s4u::Activity::on_completion_cb(on_completion);
#endif
}

void Engine::reset(std::size_t resources, bool speeds_change) {
  // SimGrid never reports the end of an activity that another thread than the engine's started.
  check(!engine_ || engine_is_of_this_thread, "SimGrid was used in another thread before");
  if (resources > pool_.size()) rebuild(std::max({resources, 2 * pool_.size(), std::size_t{256}}));
  now_ = 0;
  speeds_.clear();
  running_.clear();
  speeds_change_ = speeds_change;
}

// A platform that has run takes no more hosts, so a larger pool needs a new engine: 2 ms for 1,000 resources.
void Engine::rebuild(std::size_t resources) {
  const KeepHandlers keep;
  const bool first = !engine_;
  engine_.reset();
  pool_.clear();
  engine_is_of_this_thread = true;
  engine_ = std::make_unique<s4u::Engine>("dovetail");
  if (first) {
    xbt_log_control_set("xbt_cfg.thresh:warning");  // else every setting is announced on stderr
    s4u::Engine::set_config("host/model:ptask_L07");
    s4u::Engine::set_config("host/solver:fairbottleneck");
    s4u::Engine::set_config(timing_precision_key, timing_precision);
    s4u::Engine::set_config(sharing_precision_key, sharing_precision);
  }
#if SIMGRID_VERSION >= 40000
  auto* zone = engine_->get_netzone_root()->add_netzone_star("resources");
  const auto add_host = [zone](const std::string& host) { return zone->add_host(host, 1.0); };
#else
  auto* zone = s4u::create_star_zone("resources");
  const auto add_host = [zone](const std::string& host) { return zone->create_host(host, 1.0); };
#endif
  pool_.reserve(resources);
  for (std::size_t i = 0; i < resources; ++i) pool_.push_back(add_host(std::to_string(i))->seal());
  zone->seal();
}

void Engine::start(std::int64_t tag, std::span<const Demand> demands) {
  s4u::Exec* const activity = start(tag, demands, 1);
  if (speeds_change_) running_.push_back({tag, {demands.begin(), demands.end()}, 1, activity});
}

s4u::Exec* Engine::start(std::int64_t tag, std::span<const Demand> demands, double left) {
  hosts_.clear();
  amounts_.clear();
  for (const Demand& demand : demands) {
    const auto flows = static_cast<std::size_t>(demand.multiplicity);
    hosts_.insert(hosts_.end(), flows, pool_[static_cast<std::size_t>(demand.resource)]);
    const double seconds = left * demand.seconds.value() / speed_of(demand.resource);
    amounts_.insert(amounts_.end(), flows, seconds / demand.multiplicity);
  }
  const s4u::ExecPtr activity = s4u::Exec::init();
  if (hosts_.size() == 1) {
    activity->set_flops_amount(amounts_.front());
    activity->set_host(hosts_.front());
  } else {
    activity->set_flops_amounts(amounts_);
    activity->set_hosts(hosts_);
  }
  activity->set_data(reinterpret_cast<void*>(static_cast<std::intptr_t>(tag)));
  activity->add_ref();  // until discard_ended()
  activity->start();
  return activity.get();
}

// SimGrid holds activities on a host whose speed changes below one whole activity a second. Hosts therefore keep their
// speed, and the rest of an activity begins again with demands that are larger by the same factor.
void Engine::set_speed(int resource, double speed) {
  speeds_.resize(pool_.size(), 1.0);
  speeds_[static_cast<std::size_t>(resource)] = speed;
  for (Running& running : running_) {
    if (std::ranges::none_of(running.demands, [&](const Demand& d) { return d.resource == resource; })) continue;
    running.left *= running.activity->get_remaining_ratio();
    running.activity->suspend();  // else it would still take its share until the cancellation has gone through
    running.activity->cancel();
    cancelled_.push_back(running.activity);
    running.activity = start(running.tag, running.demands, running.left);
  }
}

void Engine::run(const std::function<void(std::int64_t)>& finished) {
  finished_ = &finished;
  engine_->run();
  finished_ = nullptr;
}

void Engine::discard_ended() {
  for (s4u::Activity* activity : ended_) activity->unref();
  ended_.clear();
}

void Engine::discard_all() {
  discard_ended();
  for (s4u::Activity* activity : cancelled_) activity->unref();
  cancelled_.clear();
}

Simulation::Simulation(std::size_t resources, bool speeds_change) : engine_(Engine::instance()) {
  engine_.reset(resources, speeds_change);
}

Simulation::~Simulation() {
  engine_.discard_all();
}

void Simulation::start(std::int64_t tag, std::span<const Demand> demands) {
  engine_.start(tag, demands);
}

void Simulation::set_speed(int resource, double speed) {
  engine_.set_speed(resource, speed);
}

void Simulation::run(const std::function<void(std::int64_t)>& finished) {
  engine_.run(finished);
}

double Simulation::now() const {
  return engine_.now();
}

}  // namespace dovetail::sim
