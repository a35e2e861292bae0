// SPDX-License-Identifier: Apache-2.0
// The meter of a device on host memory: what a GPU's differs in is speed and the capture.
#include "exec/device/device_meter.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "exec/run/probe.hpp"
#include "models/files/calibration_file.hpp"
#include "models/files/load.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "tests/exec_device/counted_products.hpp"
#include "tests/support/random_plans.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

void shrink(Probe& probe) {
  for (std::int64_t* size : {&probe.rows, &probe.inner, &probe.columns})
    while (*size > 32) *size /= 32;
}

// A GPU's kinds of op, small enough for loops on the host; sizes far enough apart for a busy one.
CalibrationGrid small_grid() {
  CalibrationGrid grid = calibration_grid(GridName::GpuQuick, 1);
  const auto rows = [](std::vector<Probe>& probes) {
    std::int64_t i = 0;
    for (Probe& p : probes) {
      p.rows = std::int64_t{8} << (2 * (i++ % 3));  // 8, 32, 128
      p.inner = p.kind == ProbeKind::Gemm ? 16 : 0;
      p.columns = 32;
    }
  };
  for (std::vector<Probe>& gemms : grid.gemms) rows(gemms);
  for (std::vector<Probe>* probes : {&grid.memory, &grid.strided, &grid.copies}) rows(*probes);
  for (auto& [kind, probe] : grid.kinds) shrink(probe);
  for (Probe& probe : grid.more) shrink(probe);
  for (std::vector<Probe>& probes : grid.together)
    for (Probe& probe : probes) shrink(probe);
  return grid;
}

// The gradient of weights of two experts.
DevicePoint peer_point() {
  DevicePoint p;
  p.layout = ProductLayout::LeftTransposed;
  p.batch = 2;
  p.rows = 8;
  p.inner = 24;
  p.columns = 16;
  return p;
}

CalibrateOptions quickly() {
  CalibrateOptions options;
  options.measure.limit = Seconds(.02);
  options.shortest = Seconds(1e-4);
  options.where = "test";
  return options;
}

}  // namespace

TEST_CASE("A device runs every probe, alone and beside another") {
  const auto device = make_loop_device();
  const auto meter = make_device_meter(*device);
  CHECK(meter->ranks() == 1);
  CHECK_FALSE(meter->oversubscribed(2));
  const CalibrationGrid grid = small_grid();
  std::vector<Probe> probes{grid.gemms[0][0],   grid.gemms[1][0], grid.memory.front(),
                            grid.memory.back(), grid.strided[0],  grid.copies[0]};
  for (DType dtype : {DType::Fp32, DType::Fp64, DType::Fp16}) {
    probes.push_back(grid.memory.front());
    probes.back().dtype = dtype;
  }
  const Probe copy = grid.kinds[1].second;
  for (const Probe& probe : probes) {
    const std::vector<Elapsed> both = meter->run(std::vector<Repeated>{{probe, 2}, {copy, 3}});
    CHECK(both.at(0).time > Seconds(0));
    CHECK(both.at(1).time > both.at(0).time);  // this device does one after the other
    CHECK(meter->run(std::vector<Repeated>{{probe, 0}, {copy, 1}}).at(0).time == Seconds(0));
  }
}

TEST_CASE("Each repetition does the work again, and the wait before they begin does not count") {
  CountingDevice device;
  const auto meter = make_device_meter(device);
  const Probe probe{ProbeKind::Gemm, DType::Fp32, Collective::None, 8, 8, 8};
  const auto least = [&](int times) {
    Seconds time(1e9);
    for (int i = 0; i < 20; ++i) time = std::min(time, meter->run(std::vector<Repeated>{{probe, times}})[0].time);
    return time;
  };
  CHECK(least(1) < Seconds(.0005));  // 512 multiply-adds; the wait is 1 ms
  device.flops = 0;
  meter->run(std::vector<Repeated>{{probe, 100}});
  CHECK(device.flops == 100 * 2 * 512);
}

TEST_CASE("A device alone has no collectives") {
  const auto device = make_loop_device();
  const auto meter = make_device_meter(*device);
  const Probe probe{ProbeKind::Collective, DType::Fp32, Collective::AllToAll, 8, 0, 1};
  CHECK_THROWS_AS(meter->run(std::vector<Repeated>{{probe, 1}}), InternalError);
  CHECK(calibration_grid(GridName::Gpu, 1).collectives.empty());
  const CalibrationGrid grid = calibration_grid(GridName::Gpu, 1);
  // Fits of two formats, memory, strided copies, copies; three pairs of three kinds.
  CHECK(grid.points() == 5 + 3 + static_cast<int>(grid.more.size() + grid.together.size()));
  // Each footprint beside products made for all; three of them beside products made for the rest, and copies; the
  // triple of the usual one; copies of both directions.
  CHECK(grid.together.size() == 4 + 2 * 3 + 1 + 1);
}

TEST_CASE("A device measures attention, products of experts, copies and exchanges for their points") {
  const auto device = make_loop_device();
  std::vector<DevicePoint> points;
  CalibrateOptions options = quickly();
  options.point = [&](const DevicePoint& point) { points.push_back(point); };
  options.shapes = {probe_of(peer_point())};
  const CalibrationGrid grid = small_grid();
  calibrate(*make_device_meter(*device), grid, options);
  std::size_t fitted = grid.memory.size() + grid.strided.size() + grid.copies.size(), beside = 3 * 2;
  for (const auto& gemms : grid.gemms) fitted += gemms.size();
  for (const auto& probes : grid.together) beside += probes.size();
  CHECK(points.size() == fitted + beside + grid.more.size() + 1);
  CHECK(points[fitted].same_work(peer_point()));
  for (const DevicePoint& point : points) {
    CHECK(point.median > Seconds(0));
    CHECK(point.ci95_low <= point.median);
    CHECK(point.per_second() > 0);
    CHECK(point.kept_speed.has_value() == !point.beside.empty());
  }
  const auto kinds = [&](DeviceWorkKind kind) { return std::ranges::count(points, kind, &DevicePoint::what); };
  CHECK(kinds(DeviceWorkKind::AttentionForward) == 1);
  CHECK(kinds(DeviceWorkKind::AttentionBackward) == 1);
  CHECK(kinds(DeviceWorkKind::Copy) == 2);
  CHECK(kinds(DeviceWorkKind::CopyToHost) == 2 + 1);
  // Four footprints by two sizes, and beside both kinds of products and copies; the usual one in the triple too.
  CHECK(kinds(DeviceWorkKind::Exchange) == 4 * (2 + 3) + 1);
}

TEST_CASE("Attention is measured forward, backward and in both passes") {
  CountingDevice device;
  const auto meter = make_device_meter(device);
  Probe probe{ProbeKind::AttentionForward, DType::Fp32, Collective::None, 48, 0, 8};
  probe.batch = 3;
  probe.heads = 4;
  probe.kv_heads = 2;
  CHECK(probe.size() == 2.0 * 3 * 4 * 48 * 48 * 8);  // two products over half of the scores, 2 flops each
  const auto work = [&](int times) {
    device.flops = 0;
    CHECK(meter->run(std::vector<Repeated>{{probe, times}})[0].time > Seconds(0));
    return device.flops;
  };
  const auto flops = [&](ProbeKind kind) {
    probe.kind = kind;
    work(1);  // The first run also warms up, and makes what the backward pass reads.
    return work(1);
  };
  const std::int64_t forward = flops(ProbeKind::AttentionForward), backward = flops(ProbeKind::AttentionBackward);
  CHECK(2 * backward == 5 * forward);  // five products against two
  CHECK(flops(ProbeKind::AttentionBoth) == forward + backward);
}

TEST_CASE("What a device measures, completed by another calibration, prices a schedule") {
  const auto device = make_loop_device();
  Calibration c = calibrate(*make_device_meter(*device), small_grid(), quickly());
  CHECK(c.collectives.empty());
  REQUIRE(c.gemms.size() == 2);
  CHECK(c.gemms[1].dtype == DType::Bf16);
  CHECK(c.gemms[0].provenance.source == "test; products of matrices, one rank");
  REQUIRE(c.interference.size() == 3);
  for (const Interference& pair : c.interference) {
    const bool exchange = pair.a == InterferenceClass::Intra || pair.b == InterferenceClass::Intra;
    CHECK(pair.provenance.origin == (exchange ? Origin::Assumed : Origin::Measured));
  }
  FilesRead files;
  const Calibration base = load_calibration("dgx-h100", files);
  add_unmeasured(c, base);
  CHECK(c.collectives.size() == base.collectives.size());
  CHECK(c.collectives.at(0).provenance.source == base.collectives.at(0).provenance.source);
  CHECK(find_gemm(c, DType::Bf16).provenance.origin == Origin::Measured);
  CHECK(find_gemm(c, DType::Fp16).provenance.source == find_gemm(base, DType::Fp16).provenance.source);
  c.name = "own";
  const TemporaryFolder folder;
  folder.write("own.json", to_calibration_file(c, nlohmann::ordered_json::object()));
  Random random(3);
  Experiment e = random_on_device(random);
  while (e.parallelism.pp > 1 || refusal(Plan(), e)) e = random_on_device(random);
  e.calibration = load_calibration("own.json", files);
  e.workload.dtype = DType::Bf16;
  const auto priced = price_plan(e, Plan());
  Seconds sum;
  for (Seconds time : priced.duration) sum += time;
  CHECK(sum > Seconds(0));
}
