// SPDX-License-Identifier: Apache-2.0
#include "exec/device/device_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "exec/transport/rendezvous.hpp"

namespace dovetail::exec {
namespace {

struct OneRank {
  std::unique_ptr<ComputeDevice> device;
  std::unique_ptr<DeviceNetwork> network;
  std::unique_ptr<DeviceExecutor> executor;
};

class GroupExecutor final : public DeviceExecutor {
 public:
  GroupExecutor(const DeviceGroup& group, const Experiment& experiment, const std::shared_ptr<const Schedule>& schedule,
                const ModelData& data, const DeviceSettings& settings, Cancellation& cancellation)
      : between_processes_(group.between_processes),
        cancellation_(cancellation),
        ready_(static_cast<int>(group.ranks)),
        ranks_(group.ranks) {
    try {
      for_each([&](std::size_t local) {
        OneRank& rank = ranks_[local];
        rank.device = group.make_device(local);
        rank.network = group.make_network(local);
        DeviceSettings own = settings;
        own.ranks = DeviceRanks::Own;
        own.network = rank.network.get();
        own.align = [this, local] { align(local); };
        rank.executor = make_device_executor(*rank.device, experiment, schedule, data, std::move(own));
      });
    } catch (...) {
      let_go();
      throw;
    }
  }
  ~GroupExecutor() override { let_go(); }
  GroupExecutor(const GroupExecutor&) = delete;
  GroupExecutor& operator=(const GroupExecutor&) = delete;

  Seconds run_step(Poison poison) override {
    std::vector<double> times(ranks_.size());
    for_each([&](std::size_t local) { times[local] = ranks_[local].executor->run_step(poison).value(); });
    return Seconds(largest(std::ranges::max(times)));
  }

  Seconds train_step(const TrainingStep& training) override {
    std::vector<double> times(ranks_.size());
    for_each([&](std::size_t local) { times[local] = ranks_[local].executor->train_step(training).value(); });
    return Seconds(largest(std::ranges::max(times)));
  }

  std::string capture() override {
    std::vector<std::string> reasons(ranks_.size());
    for_each([&](std::size_t local) { reasons[local] = ranks_[local].executor->capture(); });
    for (const std::string& reason : reasons)
      if (largest(reason.empty() ? 0 : 1) > 0) return reason.empty() ? "another rank could not" : reason;
    return "";
  }

  Timeline stamped_step() override {
    std::vector<Timeline> of_rank(ranks_.size());
    for_each([&](std::size_t local) { of_rank[local] = ranks_[local].executor->run_stamped(); });
    Timeline all = of_rank.front();
    std::vector<double> times(2 * all.ops.size());
    for (const Timeline& one : of_rank)
      for (const OpId i : one.ops.ids()) {
        const auto at = 2 * static_cast<std::size_t>(i);
        times[at] = std::max(times[at], one.ops[i].start.value());
        times[at + 1] = std::max(times[at + 1], one.ops[i].finish.value());
      }
    if (between_processes_ != nullptr) between_processes_->maximum(times);
    for (const OpId i : all.ops.ids()) {
      const auto at = 2 * static_cast<std::size_t>(i);
      all.ops[i] = {Seconds(times[at]), Seconds(times[at + 1])};
    }
    return all;
  }

  long overruns() override { return 0; }
  std::string description() const override {
    const std::string one = ranks_.front().executor->description();
    return ranks_.size() == 1 ? one : fmt::format("{} devices, the first: {}", ranks_.size(), one);
  }
  std::int64_t memory_bytes() const override { return most(&Executor::memory_bytes); }
  std::int64_t scratch_bytes() const override { return most(&Executor::scratch_bytes); }

  std::vector<int> ranks() const override {
    std::vector<int> ranks;
    ranks.reserve(ranks_.size());
    for (const OneRank& rank : ranks_) ranks.push_back(rank.network->rank());
    return ranks;
  }
  Values values(std::size_t local, TensorId id) const override {
    ranks_[local].device->use();
    return ranks_[local].executor->values(0, id);
  }
  void sum(std::span<double> values) const override {
    if (between_processes_ != nullptr) between_processes_->sum(values);
  }

 private:
  // On a thread for each rank. Throws the first failure, which cancels what the others wait for.
  template <class Body>
  void for_each(Body body) {
    std::mutex mutex;
    std::exception_ptr failure;
    std::vector<std::thread> threads;
    const auto failed = [&] {
      const std::scoped_lock lock(mutex);
      if (!failure) failure = std::current_exception();
      cancel();
    };
    for (std::size_t local = 0; local < ranks_.size(); ++local) try {
        threads.emplace_back([&, local] {
          try {
            if (ranks_[local].device) ranks_[local].device->use();
            body(local);
          } catch (const Cancelled&) {
          } catch (...) {
            failed();
          }
        });
      } catch (const std::system_error&) {
        failed();
      }
    for (std::thread& thread : threads) thread.join();
    if (failure) std::rethrow_exception(failure);
  }

  void cancel() {
    cancellation_.request();
    ready_.cancel();
    if (between_processes_ != nullptr) between_processes_->cancel();
  }

  // Communicators end together.
  void let_go() {
    for_each([&](std::size_t local) {
      ranks_[local].executor.reset();
      ranks_[local].network.reset();
      ranks_[local].device.reset();
    });
  }

  void align(std::size_t local) {
    ready_.arrive_and_wait();
    if (between_processes_ == nullptr) return;
    if (local == 0) between_processes_->maximum({});
    ready_.arrive_and_wait();
  }

  double largest(double value) const {
    if (between_processes_ != nullptr) between_processes_->maximum({&value, 1});
    return value;
  }
  std::int64_t most(std::int64_t (Executor::*bytes)() const) const {
    std::int64_t here = 0;
    for (const OneRank& rank : ranks_) here = std::max(here, (*rank.executor.*bytes)());
    return static_cast<std::int64_t>(largest(static_cast<double>(here)));
  }

  Transport* between_processes_;
  Cancellation& cancellation_;
  Rendezvous ready_;
  std::vector<OneRank> ranks_;
};

}  // namespace

std::unique_ptr<DeviceExecutor> make_group_executor(const DeviceGroup& group, const Experiment& experiment,
                                                    const std::shared_ptr<const Schedule>& schedule,
                                                    const ModelData& data, const DeviceSettings& settings,
                                                    Cancellation& cancellation) {
  return std::make_unique<GroupExecutor>(group, experiment, schedule, data, settings, cancellation);
}

}  // namespace dovetail::exec
