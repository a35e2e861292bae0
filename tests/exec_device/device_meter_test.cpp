// The meter of a device on host memory: what a GPU's differs in is speed and the capture.
#include "exec/device/device_meter.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "models/files/calibration_file.hpp"
#include "models/files/load.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "tests/support/random_plans.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

namespace {

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
  for (auto& [kind, probe] : grid.kinds) {
    if (probe.kind == ProbeKind::Gemm) probe.rows = probe.inner = probe.columns = 16;
    if (probe.kind == ProbeKind::StridedCopy) probe.columns = 4096;
    if (probe.kind == ProbeKind::HostCopy) probe.rows = 4096;
  }
  return grid;
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
  const auto device = make_host_device();
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

TEST_CASE("Repetitions take longer, and the wait before they begin does not count") {
  const auto device = make_host_device();
  const auto meter = make_device_meter(*device);
  const Probe probe{ProbeKind::Gemm, DType::Fp32, Collective::None, 8, 8, 8};
  const auto least = [&](int times) {
    Seconds time(1e9);
    for (int i = 0; i < 20; ++i) time = std::min(time, meter->run(std::vector<Repeated>{{probe, times}})[0].time);
    return time;
  };
  const Seconds once = least(1);
  CHECK(once < Seconds(.0005));  // 512 multiply-adds; the wait is 1 ms
  CHECK(least(100) > 10 * once);
}

TEST_CASE("A device alone has no collectives") {
  const auto device = make_host_device();
  const auto meter = make_device_meter(*device);
  const Probe probe{ProbeKind::Collective, DType::Fp32, Collective::AllToAll, 8, 0, 1};
  CHECK_THROWS_AS(meter->run(std::vector<Repeated>{{probe, 1}}), InternalError);
  CHECK(calibration_grid(GridName::Gpu, 1).collectives.empty());
  // Fits of two formats, memory, strided copies, copies; three pairs of three kinds.
  CHECK(calibration_grid(GridName::Gpu, 1).points() == 5 + 3);
}

TEST_CASE("What a device measures, completed by another calibration, prices a schedule") {
  const auto device = make_host_device();
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
  Experiment e = random_experiment(random);
  while (e.parallelism.pp > 1 || refusal(Plan(), e)) e = random_experiment(random);
  e.calibration = load_calibration("own.json", files);
  e.workload.dtype = DType::Bf16;
  const auto priced = price_plan(e, Plan());
  Seconds sum;
  for (Seconds time : priced.duration) sum += time;
  CHECK(sum > Seconds(0));
}
