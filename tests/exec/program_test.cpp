// SPDX-License-Identifier: Apache-2.0
#include "exec/run/program.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "exec/run/probe.hpp"
#include "models/files/device_points.hpp"
#include "models/files/load.hpp"
#include "models/files/read_schedule.hpp"
#include "models/price/build_schedule.hpp"
#include "models/price/price.hpp"
#include "tests/exec/exec_support.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using namespace dovetail::exec;
using namespace dovetail::test;

TEST_CASE("dovetail-exec turns a schedule file into a timeline file") {
  SmallExperiment s;
  s.dp = s.mp = s.ep = s.esp = 2;
  const Experiment e = small_experiment(s);
  const auto schedule = std::make_shared<const Schedule>(build_schedule(e, Plan{}));
  const TemporaryFolder folder;
  folder.write("in.json", to_json(ScheduleFile{e, Plan{}, price(schedule, e)}).dump());
  REQUIRE(run_program({"in.json", "-o", "out.json", "--transport", "inproc", "--limit", "0.1"}) == 0);
  const auto [timeline, predicted, work, run, notes] = read_timeline(JsonFile::read("out.json"));
  CHECK(timeline.kind == ResultKind::Measured);
  CHECK(timeline.ops.size() == schedule->ops.size());
  CHECK(predicted.size() == schedule->ops.size());
  CHECK(work.size() == schedule->ops.size());
  REQUIRE(run);
  CHECK(run->numerics_ok);
  CHECK(run->transport == "inproc");
  CHECK(notes.size() == 2);  // neither compute nor communication is held
}

TEST_CASE("dovetail-exec writes what a GPU's operations cost") {
  Cuda cuda;
  cuda.calibrate = [](GridName grid, CalibrateOptions options) {
    Calibration c;
    c.source = name_in(gpu_grid_names, grid);
    c.gemms.push_back({DType::Bf16, Seconds(1e-6), SecondsPerFlop(1e-12), {Origin::Measured, options.where}});
    c.memory = {options.measure.limit, SecondsPerByte(1e-12), {Origin::Measured, "made up"}};
    for (const Probe& probe : options.shapes) {
      DevicePoint point = point_of(probe);
      point.median = Seconds(1);
      options.point(point);
    }
    return c;
  };
  // NOLINTNEXTLINE(performance-unnecessary-value-param): so is the pointer that it becomes
  cuda.run = [](const Experiment&, std::shared_ptr<const PricedSchedule>, const RunOptions&) { return RunResult(); };
  const TemporaryFolder folder;
  REQUIRE(run_program(
              {"--calibrate", "--grid", "quick", "--device", "cuda", "-o", "c.json", "--where", "here", "--limit", "2"},
              nullptr, cuda) == 0);
  FilesRead files;
  const Calibration c = load_calibration("c.json", files);
  CHECK(c.source == "quick");
  CHECK(c.collectives.empty());
  CHECK(c.gemms.at(0).provenance.source == "here");
  CHECK(c.memory.alpha.value() == Approx(2));
  folder.write("b.json",
               R"({"gpu": "none", "versions": {}, "measurements": [{"kind": "copy", "bytes": 64, "median_s": 1,
    "ci95_s": [1, 1], "samples": 3}]})");
  REQUIRE(run_program({"--calibrate", "--device", "cuda", "-o", "c.json", "--points", "p.csv", "--baselines", "b.json"},
                      nullptr, cuda) == 0);
  const std::vector<DevicePoint> points = read_device_points("p.csv", files);
  REQUIRE(points.size() == 1);  // the shape of the file, which was measured too
  CHECK(points[0].what == DeviceWorkKind::Copy);
  CHECK(points[0].columns == 32);  // of two bytes
  CHECK(run_program({"--calibrate", "--device", "cuda", "--points", "b.json", "--baselines", "b.json"}, nullptr,
                    cuda) == 2);
  CHECK(run_program({"a.json", "--points", "p.csv"}) == 2);
  CHECK(run_program({"--calibrate", "--device", "cuda"}) == 4);  // not in this build
}

TEST_CASE("dovetail-exec refuses wrong usage with exit code 2") {
  CHECK(run_program({}) == 2);
  CHECK(run_program({"no-such-file.json"}) == 2);
  CHECK(run_program({"a.json", "--transport", "pigeon"}) == 2);
  CHECK(run_program({"a.json", "--limit", "-1"}) == 2);
  CHECK(run_program({"a.json", "--limit"}) == 2);
  CHECK(run_program({"a.json", "--hold-compute", "maybe"}) == 2);
  CHECK(run_program({"--calibrate"}) == 2);
  CHECK(run_program({"a.json", "--calibrate", "--device", "cuda"}) == 2);
  CHECK(run_program({"a.json", "b.json"}) == 2);
  CHECK(run_program({"a.json", "--exchange-blocks", "4", "--device", "cuda"}) == 2);  // exchanges are real
  CHECK(run_program({"a.json", "--exchange-blocks", "4", "--emulate-links"}) == 2);
  CHECK(run_program({"a.json", "--gemm-multiprocessors", "100"}) == 2);
  CHECK(run_program({"--serve", "-"}) == 2);  // hosts need no resident process
  CHECK(run_program({"a.json", "--serve", "-", "--device", "cuda"}) == 2);
  CHECK(run_program({"--calibrate", "--device", "cuda", "--grid", "fsmoe"}) == 2);
  CHECK(run_program({"a.json", "--transport", "nccl"}) == 2);  // between GPUs
  CHECK(run_program({"a.json", "--transport", "mpi", "--device", "cuda"}) == 2);
  CHECK(run_program({"a.json", "--transport", "nccl", "--device", "cuda", "--emulate-links"}) == 2);
  CHECK(run_program({"a.json", "--transport", "nccl", "--device", "cuda"}) == 4);  // not in this build
}
