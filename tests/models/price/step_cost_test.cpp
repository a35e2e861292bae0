// SPDX-License-Identifier: Apache-2.0
// Costs of all-to-alls by message, against what Tutel publishes of its measurements on Azure NDv4.
#include "models/price/step_cost.hpp"

#include <catch2/catch.hpp>

#include "models/base/errors.hpp"
#include "models/base/json/json_file.hpp"
#include "models/base/json/json_reader.hpp"
#include "models/files/load.hpp"
#include "models/files/read_parts.hpp"
#include "models/plan/collectives/all_to_all.hpp"

using namespace dovetail;
using Catch::Matchers::Contains;

namespace {

constexpr double mebibyte = 1 << 20;

Calibration calibration(const std::string& messages) {
  const std::string text = R"({"name": "by message", "collectives": [],
    "gemms": [{"dtype": "fp32", "alpha": "1 us", "beta": "1 ps/flop", "provenance": {"origin": "assumed", "source": "-"}}],
    "memory": {"alpha": "0 s", "beta": "1 ps/B", "provenance": {"origin": "assumed", "source": "-"}},
    "strided_copy": {"alpha": "0 s", "beta": "1.66667 ps/B",
                     "provenance": {"origin": "assumed", "source": "0.6 TB/s"}},
    "messages": [)" + messages +
                           "]}";
  const JsonFile file = JsonFile::parse(text, "c.json");
  return read_calibration(JsonReader(file));
}

// Azure NDv4: 8 A100 to a node, an HDR InfiniBand card each. Fitted before these tests to Tutel's 2DH figure.
Calibration ndv4() {
  return calibration(R"(
    {"link": "inter", "per_message": "3 us", "connections": 850, "bandwidth": "22.5 GB/s",
     "peer_bandwidth": "10 GB/s", "provenance": {"origin": "fitted", "source": "Tutel"}},
    {"link": "intra", "per_message": "3 us", "connections": 850, "bandwidth": "196 GB/s",
     "provenance": {"origin": "fitted", "source": "Tutel"}})");
}

ExchangeWork work(std::span<const CollectiveStep> steps, int ranks, double bytes, Protocol protocol) {
  ExchangeWork w;
  w.collective = Collective::AllToAll;
  w.protocol = protocol;
  w.message = Bytes(bytes * static_cast<double>(exchanged_blocks(steps)) / ranks);
  w.copy_traffic = Bytes(2 * bytes * static_cast<double>(copied_blocks(steps)) / ranks);
  return w;
}

double cost_us(const Calibration& c, std::span<const CollectiveStep> steps, int ranks, int per_node, double bytes,
               Protocol protocol = Protocol::Simple) {
  const GroupPlace place{{ranks, ranks / per_node}, per_node, per_node};
  return duration_of(step_cost(c, steps, work(steps, ranks, bytes, protocol), place)).value() * 1e6;
}

// On nodes of 8, in microseconds: one op per step, or all in one.
enum class In { Steps, One };
double ndv4_us(AllToAll algorithm, int ranks, double bytes, In in = In::Steps) {
  const auto steps = all_to_all_steps(algorithm, std::vector{8, ranks / 8});
  if (in == In::One) return cost_us(ndv4(), steps, ranks, 8, bytes);
  double sum = 0;
  for (const CollectiveStep& step : steps) sum += cost_us(ndv4(), {&step, 1}, ranks, 8, bytes);
  return sum;
}

double speed_up(int ranks, double bytes, In in = In::Steps) {
  return ndv4_us(AllToAll::Linear, ranks, bytes) / ndv4_us(AllToAll::TwoDimensional, ranks, bytes, in);
}

}  // namespace

TEST_CASE("a linear all-to-all by message: messages cost more with connections, bandwidth is shared") {
  // 16 ranks, 16 MiB: 8 messages to the other node, 15 connections; 8 MiB at 22.5 GB/s. The 7 inside run beside them.
  const double messages = 8 * 3 * (1 + 15 / 850.0), sent = 8 * mebibyte / 22.5e9 * 1e6;
  CHECK(ndv4_us(AllToAll::Linear, 16, 16 * mebibyte) == Approx(messages + sent));
}

TEST_CASE("2DH by message: two copies, one message to each peer, and a cap on the only connection between nodes") {
  const auto steps = all_to_all_steps(AllToAll::TwoDimensional, std::vector{8, 2});
  const double bytes = 16 * mebibyte;
  const double copy = 2 * bytes * 1.66667e-12 * 1e6;
  const double inside = 7 * 3 * (1 + 7 / 850.0) + bytes * 7 / 8 / 196e9 * 1e6;
  const double between = 3 * (1 + 1 / 850.0) + bytes / 2 / 10e9 * 1e6;  // 10 GB/s, not 22.5
  CHECK(cost_us(ndv4(), {&steps[0], 1}, 16, 8, bytes) == Approx(copy));
  CHECK(ndv4_us(AllToAll::TwoDimensional, 16, bytes) == Approx(2 * copy + inside + between));
  // In one launch the links and the copies work side by side.
  CHECK(ndv4_us(AllToAll::TwoDimensional, 16, bytes, In::One) ==
        Approx(7 * 3 * (1 + 7 / 850.0) + bytes / 2 / 10e9 * 1e6));
}

TEST_CASE("a leader of hierarchical_1d carries its whole node") {
  const auto steps = all_to_all_steps(AllToAll::Hierarchical1d, std::vector{8, 2});
  const double bytes = 16 * mebibyte;
  const double gather = 7 * 3 * (1 + 7 / 850.0) + 7 * bytes / 196e9 * 1e6;
  CHECK(cost_us(ndv4(), {&steps[0], 1}, 16, 8, bytes) == Approx(gather));
  CHECK(cost_us(ndv4(), {&steps[2], 1}, 16, 8, bytes) == Approx(3 * (1 + 1 / 850.0) + 8 * bytes / 2 / 10e9 * 1e6));
  CHECK(ndv4_us(AllToAll::Hierarchical1d, 2048, mebibyte) > ndv4_us(AllToAll::TwoDimensional, 2048, mebibyte));
}

TEST_CASE("Tutel: 2DH is 20.7 times as fast as linear at 2,048 GPUs and 1 MiB") {
  CHECK(speed_up(2048, mebibyte) == Approx(20.7).epsilon(.1));
}

TEST_CASE("Tutel: local aggregation without copies takes 0.6 ms on 8 GPUs and 5 ms on 2,048, for 128 MiB") {
  CHECK(ndv4_us(AllToAll::Linear, 8, 128 * mebibyte) == Approx(600).epsilon(.1));
  const auto naive = all_to_all_steps(AllToAll::NaiveLocal, std::vector{8, 256});
  CHECK(cost_us(ndv4(), {naive.data(), 1}, 2048, 8, 128 * mebibyte) == Approx(5000).epsilon(.25));
}

TEST_CASE("Tutel: at 32 and 256 MiB linear wins on few GPUs and 2DH on many") {
  for (double size : {32., 256.}) {
    CHECK(speed_up(64, size * mebibyte) < 1);
    CHECK(speed_up(2048, size * mebibyte) > 1.5);
    double last = 0;
    for (int ranks = 32; ranks <= 4096; ranks *= 2) {  // from where the cap of one connection does not bind
      CHECK(speed_up(ranks, size * mebibyte) > last);
      last = speed_up(ranks, size * mebibyte);
    }
  }
  // On 64 GPUs and 256 MiB only the fused 2DH beats linear.
  CHECK(speed_up(64, 256 * mebibyte, In::One) > 1);
  CHECK(speed_up(64, 256 * mebibyte, In::Steps) < 1);
}

TEST_CASE("by_size takes the protocol that costs less") {
  const std::string simple = R"({"link": "inter", "per_message": "4 us", "bandwidth": "20 GB/s",
                                 "provenance": {"origin": "assumed", "source": "-"}})";
  const std::string sooner = R"({"link": "inter", "protocol": "low_latency", "per_message": "1 us",
                                 "bandwidth": "10 GB/s", "provenance": {"origin": "assumed", "source": "-"}})";
  const Calibration both = calibration(simple + "," + sooner);
  const CollectiveStep whole = exchange_step({1, 4}, 1, 1);
  const auto us = [&](Protocol protocol, double kilobytes) {
    return cost_us(both, {&whole, 1}, 4, 1, kilobytes * 1e3, protocol);
  };
  // 3 messages, 3/4 of the bytes leave: 12 us + .0375 us/kB or 3 us + .075 us/kB; equal at 240 kB.
  CHECK(us(Protocol::Simple, 200) == Approx(12 + 7.5));
  CHECK(us(Protocol::LowLatency, 200) == Approx(3 + 15));
  CHECK(us(Protocol::BySize, 200) == us(Protocol::LowLatency, 200));
  CHECK(us(Protocol::BySize, 280) == us(Protocol::Simple, 280));
  CHECK_THROWS_WITH(calibration(simple + "," + simple),
                    Contains("a second cost of simple messages on inter links, expected one"));
}

TEST_CASE("without costs by message, steps cost alpha + n beta") {
  Calibration c;
  c.collectives = {{Collective::AllToAll, LinkKind::Inter, 0, Seconds(1e-3), SecondsPerByte(1e-9), {}},
                   {Collective::AllToAll, LinkKind::Intra, 0, Seconds(1e-4), SecondsPerByte(1e-10), {}},
                   {Collective::AllGather, LinkKind::Intra, 0, Seconds(1e-5), SecondsPerByte(1e-11), {}}};
  c.memory = {Seconds(1e-6), SecondsPerByte(1e-12), {}};
  const auto us = [&](AllToAll algorithm, std::size_t step) {
    const auto steps = all_to_all_steps(algorithm, std::vector{2, 4});
    return cost_us(c, {&steps[step], 1}, 8, 2, 8e6);
  };
  CHECK(us(AllToAll::Linear, 0) == Approx(1000 + 8000));
  CHECK(us(AllToAll::TwoDimensional, 0) == Approx(1 + 16));  // copies: read and written, of device memory
  CHECK(us(AllToAll::TwoDimensional, 1) == Approx(100 + 800));
  CHECK(us(AllToAll::TwoDimensional, 3) == Approx(1000 + 8000));
  CHECK(us(AllToAll::NaiveLocal, 0) == Approx(4 * 100 + 800));    // as 4 exchanges of a quarter
  CHECK(us(AllToAll::Hierarchical1d, 0) == Approx(10 + 2 * 80));  // an all-gather of 2 ranks' 8 MB
}

// 1,000 tokens, each with 4 copies of 7 KiB inside the node. On two nodes 900 rows go to the other one and, it is
// taken, 900 to the rank's own. Forwarding these takes multiprocessors as long as 1.3 x 1800 = 2340 copies more.
TEST_CASE("a kernel that sends a token once to each node forwards rows with its multiprocessors") {
  FilesRead files;
  const Calibration c = load_calibration("dgx-h100", files);
  const RelayKernel kernel{KernelKind::Dispatch, 1000, 4000, Bytes(7168), 8};
  ExchangeWork w;
  w.collective = Collective::AllToAll;
  w.message = w.in_node = Bytes(4000. * 7168);
  const auto inside = [&](const ExchangeWork& work, const GroupPlace& place, const RelayKernel& of) {
    return relay_cost(c, work, place, of)[static_cast<std::size_t>(InterferenceClass::Intra)].busy.value();
  };
  const GroupPlace one_node{{8, 1}, 8, 8}, two_nodes{{16, 2}, 8, 8};
  const double alone = inside(w, one_node, kernel);
  RelayKernel more = kernel;
  more.copies = 4000 + 2340;
  const double as_copies = inside(w, one_node, more);
  w.to_nodes = Bytes(900. * 7168);
  CHECK(inside(w, two_nodes, kernel) == Approx(as_copies));
  CHECK(as_copies > 1.3 * alone);
  RelayKernel combine = kernel;
  combine.kind = KernelKind::Combine;
  more.kind = KernelKind::Combine;
  more.copies = 4000 + 4860;  // 2.7 x 1800
  CHECK(inside(w, two_nodes, combine) == Approx(inside(w, one_node, more)));
}
