// SPDX-License-Identifier: Apache-2.0
#include "exec/device/nccl/nccl_network.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <thread>

#include "exec/device/cuda/cuda_check.hpp"
#include "models/base/errors.hpp"

namespace dovetail::exec {
namespace {

constexpr std::chrono::microseconds between_looks{20};

ncclDataType_t nccl_type(Stored stored) {
  switch (stored) {
    case Stored::Double:
      return ncclFloat64;
    case Stored::Float:
      return ncclFloat32;
    case Stored::Bf16:
      return ncclBfloat16;
    case Stored::Fp8:
      break;
  }
  throw InternalError("fp8 is not summed");
}

// Communicators do not block: a call may go on after it has returned, and must be asked for until it is done.
class NcclComm {
 public:
  NcclComm(ncclComm_t comm, const Cancellation& cancellation) : comm_(comm), cancellation_(cancellation) {}
  ~NcclComm() {
    if (comm_ == nullptr) return;
    if (failed_ || cancellation_.requested() || !finalized()) {
      ncclCommAbort(comm_);
      return;
    }
    ncclCommDestroy(comm_);
  }
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  ncclComm_t get() const { return comm_; }

  // The result of a call on this communicator.
  void settle(ncclResult_t result, const char* call) {
    while (result == ncclInProgress) {
      cancellation_.check();
      std::this_thread::sleep_for(between_looks);
      if (const ncclResult_t asked = ncclCommGetAsyncError(comm_, &result); asked != ncclSuccess) result = asked;
    }
    if (result == ncclSuccess) return;
    failed_ = true;
    const char* const words = ncclGetLastError(comm_);
    throw DeviceError(call, words != nullptr && *words != '\0' ? words : ncclGetErrorString(result), result);
  }

  void look() {
    ncclResult_t result = ncclSuccess;
    settle(ncclCommGetAsyncError(comm_, &result), "ncclCommGetAsyncError");
    if (result != ncclInProgress) settle(result, "a transfer of NCCL");
  }

 private:
  bool finalized() {
    try {
      settle(ncclCommFinalize(comm_), "ncclCommFinalize");
      return true;
    } catch (const Cancelled&) {
    } catch (const DeviceError&) {
    }
    return false;
  }

  ncclComm_t comm_;
  const Cancellation& cancellation_;
  bool failed_ = false;
};

class NcclCommunicator final : public DeviceCommunicator {
 public:
  NcclCommunicator(std::shared_ptr<NcclComm> comm, int rank, int size)
      : comm_(std::move(comm)), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void send_receive(Queue& queue, std::span<const DeviceSend> sends, std::span<const DeviceReceive> receives) override {
    ncclResult_t bad = ncclSuccess;
    const char* bad_call = nullptr;
    // Within a group calls may be in progress until it ends; and it must be ended.
    const auto keep = [&](ncclResult_t result, const char* call) {
      if (bad_call != nullptr || result == ncclSuccess || result == ncclInProgress) return;
      bad = result;
      bad_call = call;
    };
    keep(ncclGroupStart(), "ncclGroupStart");
    for (const DeviceSend& s : sends)
      if (s.bytes > 0)
        keep(ncclSend(s.data, size_t(s.bytes), ncclUint8, s.peer, comm_->get(), stream(queue)), "ncclSend");
    for (const DeviceReceive& r : receives)
      if (r.bytes > 0)
        keep(ncclRecv(r.data, size_t(r.bytes), ncclUint8, r.peer, comm_->get(), stream(queue)), "ncclRecv");
    const ncclResult_t ended = ncclGroupEnd();
    settle(bad_call != nullptr ? bad : ended, bad_call != nullptr ? bad_call : "ncclGroupEnd");
  }
  void collective(Queue& queue, const DeviceCollective& c) override {
    const auto bytes = size_t(c.bytes), count = size_t(c.count());
    const ncclDataType_t type = nccl_type(c.stored);
    const ncclComm_t comm = comm_->get();
    const cudaStream_t on = stream(queue);
    switch (c.kind) {
      case Collective::AllGather:
        return settle(ncclAllGather(c.send, c.receive, bytes, ncclUint8, comm, on), "ncclAllGather");
      case Collective::Broadcast:
        return settle(ncclBroadcast(c.send, c.receive, bytes, ncclUint8, c.root, comm, on), "ncclBroadcast");
      case Collective::ReduceScatter:
        return settle(ncclReduceScatter(c.send, c.receive, count, type, ncclSum, comm, on), "ncclReduceScatter");
      case Collective::AllReduce:
        return settle(ncclAllReduce(c.send, c.receive, count, type, ncclSum, comm, on), "ncclAllReduce");
      case Collective::Reduce:
        return settle(ncclReduce(c.send, c.receive, count, type, ncclSum, c.root, comm, on), "ncclReduce");
      default:
        throw InternalError("no native collective between devices");
    }
  }

 private:
  static cudaStream_t stream(const Queue& queue) { return static_cast<cudaStream_t>(queue.stream()); }
  void settle(ncclResult_t result, const char* call) { comm_->settle(result, call); }

  std::shared_ptr<NcclComm> comm_;
  int rank_, size_;
};

class NcclNetwork final : public DeviceNetwork {
 public:
  NcclNetwork(int rank, int size, const std::string& text, const Cancellation& cancellation)
      : rank_(rank), size_(size), cancellation_(cancellation) {
    ncclUniqueId id;
    check_size(text);
    std::memcpy(&id, text.data(), sizeof id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = size == 1 ? 1 : 0;  // one rank waits for nobody
    ncclComm_t& comm = made_.emplace_back(nullptr);
    const ncclResult_t result = ncclCommInitRankConfig(&comm, size, id, rank, &config);
    world_ = std::make_unique<NcclComm>(comm, cancellation);
    world_->settle(result, "ncclCommInitRankConfig");
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<DeviceCommunicator> communicator(std::span<const int> members) override {
    const int color = members.empty() ? NCCL_SPLIT_NOCOLOR : members.front();
    const auto own = static_cast<int>(std::ranges::find(members, rank_) - members.begin());
    ncclComm_t& comm = made_.emplace_back(nullptr);
    world_->settle(ncclCommSplit(world_->get(), color, own, &comm, nullptr), "ncclCommSplit");
    if (members.empty()) return nullptr;
    const auto part = std::make_shared<NcclComm>(comm, cancellation_);
    part->settle(ncclInProgress, "ncclCommSplit");  // until it says that it is not
    parts_.push_back(part);
    return std::make_unique<NcclCommunicator>(part, own, static_cast<int>(members.size()));
  }

  void check() override {
    cancellation_.check();
    for (const auto& part : parts_)
      if (const auto alive = part.lock()) alive->look();
  }

 private:
  static void check_size(const std::string& text) {
    if (text.size() != sizeof(ncclUniqueId)) throw InternalError("an NCCL id of another size");
  }

  int rank_, size_;
  const Cancellation& cancellation_;
  std::deque<ncclComm_t> made_;  // written to by threads of NCCL's, which a cancellation does not wait for
  std::unique_ptr<NcclComm> world_;
  std::vector<std::weak_ptr<NcclComm>> parts_;
};

}  // namespace

std::string make_nccl_id() {
  ncclUniqueId id;
  DOVETAIL_NCCL(ncclGetUniqueId(&id));
  return {reinterpret_cast<const char*>(&id), sizeof id};
}

std::unique_ptr<DeviceNetwork> make_nccl_network(int rank, int size, const std::string& id,
                                                 const Cancellation& cancellation) {
  return std::make_unique<NcclNetwork>(rank, size, id, cancellation);
}

}  // namespace dovetail::exec
