// SPDX-License-Identifier: Apache-2.0
#include "exec/run/calibrate.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "exec/host/host_meter.hpp"
#include "models/files/calibration_file.hpp"
#include "models/files/load.hpp"
#include "models/price/collective_price.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;
using namespace dovetail::exec;

namespace {

// A device whose costs are known: alpha + n beta of each kind of op, and how two of them slow each other. No clock.
class KnownMeter final : public Meter {
 public:
  static constexpr double gemm_alpha = 20e-6, gemm_beta = 2e-11;   // 50 GFLOP/s
  static constexpr double row_alpha = 3e-6, row_beta = 1e-10;      // 10 GB/s
  static constexpr double link_alpha = 40e-6, link_beta = 2.5e-9;  // 0.4 GB/s
  static constexpr double first_speed = .9, second_speed = .6;     // beside each other
  int cores = 4;
  double without_core = 0;  // share of each sample

  int ranks() const override { return 2; }
  bool oversubscribed(int streams) const override { return 2 * streams > cores; }
  std::vector<Elapsed> run(std::span<const Repeated> work) override {
    std::vector<Elapsed> elapsed(work.size());
    for (std::size_t i = 0; i < work.size(); ++i) elapsed[i].time = Seconds(alone(work[i].probe)) * work[i].times;
    if (work.size() == 2 && work[0].times > 0 && work[1].times > 0) slow_down(elapsed);
    for (Elapsed& e : elapsed) e.without_core = e.time * without_core;
    return elapsed;
  }

 private:
  static double alone(const Probe& p) {
    switch (p.kind) {
      case ProbeKind::Gemm:
        return gemm_alpha + gemm_beta * p.size();
      case ProbeKind::Collective:
        return link_alpha + link_beta * p.size();
      default:
        return row_alpha + row_beta * p.size();
    }
  }
  // Each at its reduced speed until one ends; then the rest of the other at its own.
  static void slow_down(std::vector<Elapsed>& e) {
    const Seconds first = e[0].time / first_speed, second = e[1].time / second_speed;
    if (first < second)
      e = {{first, {}}, {first + (e[1].time - first * second_speed), {}}};
    else
      e = {{second + (e[0].time - second * first_speed), {}}, {second, {}}};
  }
};

CalibrateOptions quickly() {
  CalibrateOptions options;
  options.measure = {.warm_up = 1, .min_samples = 5, .min_time = Seconds(0), .limit = Seconds(1), .least_samples = 5};
  options.where = "test";
  return options;
}

}  // namespace

TEST_CASE("a calibration gives back the costs of a known device") {
  KnownMeter meter;
  std::vector<std::string> begun;
  CalibrateOptions options = quickly();
  options.begin = [&](const std::string& what) { begun.push_back(what); };
  const CalibrationGrid grid = calibration_grid(GridName::Quick, 2);
  const Calibration c = calibrate(meter, grid, options);
  // Fits: GEMM fp32, memory, strided copy, copy, 7 collectives; pairs of 4 kinds: 6.
  CHECK(grid.points() == 4 + 7 + 6);
  CHECK(begun.size() == 17);
  CHECK(find_gemm(c, DType::Fp32).alpha.value() == Approx(20e-6).epsilon(1e-9));
  CHECK(find_gemm(c, DType::Fp32).beta.value() == Approx(2e-11).epsilon(1e-9));
  CHECK(c.memory.alpha.value() == Approx(3e-6).epsilon(1e-9));
  CHECK(c.memory.beta.value() == Approx(1e-10).epsilon(1e-9));
  for (Collective each : {Collective::AllToAll, Collective::AllReduce, Collective::Send})
    for (int nodes : {1, 2}) {
      const CollectivePrice cost = find_cost(c, each, {{2, nodes}, 0, 1});
      CHECK(cost.alpha.value() == Approx(40e-6).epsilon(1e-9));
      CHECK(cost.beta.value() == Approx(2.5e-9).epsilon(1e-9));
      CHECK(cost.provenance.origin == Origin::Measured);
      CHECK_FALSE(cost.provenance.disturbed);
      REQUIRE(cost.provenance.fit);
      CHECK(cost.provenance.fit->points.front().size == 4 * 4096);  // floats
      CHECK(worst_error(*cost.provenance.fit) < 1e-9);
    }
  REQUIRE(c.interference.size() == 6);
  for (const Interference& pair : c.interference) {
    CHECK(pair.a_speed == Approx(.9));
    CHECK(pair.b_speed == Approx(.6));
  }
}

TEST_CASE("a calibration file is read back as it was") {
  KnownMeter meter;
  Calibration c = calibrate(meter, calibration_grid(GridName::Quick, 2), quickly());
  c.name = "known";
  c.messages.push_back(
      {LinkKind::Inter, Protocol::Simple, Seconds(3e-6), 850, BytesPerSecond(2e10), {}, {{}, "made up"}});
  const test::TemporaryFolder folder;
  folder.write("known.json",
               to_calibration_file(c, {{"host", "nowhere"}, {"command_line", {"dovetail", "calibrate"}}}));
  FilesRead files;
  const Calibration read = load_calibration("known.json", files);
  CHECK(read.name == "known");
  REQUIRE(read.collectives.size() == c.collectives.size());
  for (std::size_t i = 0; i < c.collectives.size(); ++i) {
    CHECK(read.collectives[i].collective == c.collectives[i].collective);
    CHECK(read.collectives[i].link == c.collectives[i].link);
    CHECK(read.collectives[i].alpha.value() == Approx(c.collectives[i].alpha.value()).epsilon(1e-8));
    CHECK(read.collectives[i].beta.value() == Approx(c.collectives[i].beta.value()).epsilon(1e-8));
  }
  CHECK(read.gemms.at(0).beta.value() == Approx(2e-11).epsilon(1e-8));
  REQUIRE(read.copy);
  CHECK(read.copy->beta.value() == Approx(1e-10).epsilon(1e-8));
  CHECK(read.messages.at(0).bandwidth.value() == Approx(2e10));
  REQUIRE(read.memory.provenance.fit);
  CHECK(read.memory.provenance.fit->points.size() == 6);  // encode and decode of three sizes
  CHECK(read.memory.provenance.fit->r2 == Approx(1));
  CHECK(read.interference.at(3).b_speed == c.interference.at(3).b_speed);
}

TEST_CASE("what was not measured comes from another calibration, what was does not") {
  const auto named = [](const std::string& source) { return Provenance{Origin::Assumed, source}; };
  Calibration own, base;
  own.gemms.push_back({DType::Bf16, {}, {}, named("own")});
  own.interference.push_back({InterferenceClass::Copy, InterferenceClass::Compute, .9, .9, named("own")});
  base.gemms = {{DType::Bf16, {}, {}, named("base")}, {DType::Fp32, {}, {}, named("base")}};
  base.interference = {{InterferenceClass::Compute, InterferenceClass::Copy, .8, .8, named("base")},
                       {InterferenceClass::Compute, InterferenceClass::Inter, .8, .8, named("base")},
                       {InterferenceClass::Compute, InterferenceClass::Inter, .9, .9, named("base")}};
  base.interference[2].c = KeptSpeed{InterferenceClass::Copy, .9};
  base.collectives.push_back({Collective::AllToAll, LinkKind::Inter, 0, {}, {}, named("base")});
  base.kernels.push_back({OpKind::Gate, Phase::Forward, {}, 2, {}, named("base")});
  add_unmeasured(own, base);
  REQUIRE(own.gemms.size() == 2);
  CHECK(find_gemm(own, DType::Bf16).provenance.source == "own");
  CHECK(find_gemm(own, DType::Fp32).provenance.source == "base");
  REQUIRE(own.interference.size() == 2);  // copy and compute are compute and copy; three kinds go with their pairs
  CHECK(own.interference[0].a_speed == .9);
  CHECK(own.interference[1].b == InterferenceClass::Inter);
  CHECK(own.collectives.size() == 1);
  CHECK(own.kernels.empty());
}

TEST_CASE("costs measured on shared cores are marked") {
  KnownMeter meter;
  meter.cores = 3;  // enough for 2 ranks, not for two streams of each
  const CalibrationGrid grid = calibration_grid(GridName::Quick, 2);
  Calibration c = calibrate(meter, grid, quickly());
  CHECK_FALSE(c.gemms.at(0).provenance.disturbed);
  CHECK(c.interference.at(0).provenance.disturbed);
  meter.cores = 1;
  c = calibrate(meter, grid, quickly());
  CHECK(c.gemms.at(0).provenance.disturbed);
  CHECK(c.collectives.at(0).provenance.disturbed);
  meter.cores = 4;
  meter.without_core = .05;
  c = calibrate(meter, grid, quickly());
  CHECK(c.gemms.at(0).provenance.disturbed);
  meter.without_core = .03;
  c = calibrate(meter, grid, quickly());
  CHECK_FALSE(c.gemms.at(0).provenance.disturbed);
}

TEST_CASE("speeds beside each other follow from when both end") {
  // a needs 8 s alone and ends after 10 s: .8 of its speed. b needs 6 s and ends after 11 s: 1 s alone, so 5 s of its
  // work in the first 10.
  const auto [a, b] = speeds_beside({Seconds(8), Seconds(6)}, {Seconds(10), Seconds(11)});
  CHECK(a == Approx(.8));
  CHECK(b == Approx(.5));
  const auto [second, first] = speeds_beside({Seconds(6), Seconds(8)}, {Seconds(11), Seconds(10)});
  CHECK(first == a);
  CHECK(second == b);
}

TEST_CASE("a prediction is alpha and beta of the work's own cost") {
  Calibration c;
  c.gemms = {{DType::Bf16, Seconds(1), SecondsPerFlop(.5), {}}};
  c.memory = {Seconds(2), SecondsPerByte(.25), {}};
  Probe gemm{ProbeKind::Gemm, DType::Bf16, Collective::None, 2, 3, 4};
  gemm.batch = 5;
  CHECK(prediction(gemm, c) == Seconds(1 + 2 * 2 * 3 * 4 * 5 * .5));
  gemm.dtype = DType::Fp32;
  CHECK_FALSE(prediction(gemm, c));
  CHECK(prediction({ProbeKind::StridedCopy, DType::Fp32, Collective::None, 1, 0, 8}, c) ==
        Seconds(2 + 2 * 8 * 4 * .25));
  const Probe copy{ProbeKind::CopyToHost, DType::Fp32, Collective::None, 1, 0, 8};
  CHECK_FALSE(prediction(copy, c));
  c.copy = MemoryCost{Seconds(3), SecondsPerByte(.125), {}};
  CHECK(prediction(copy, c) == Seconds(3 + 8 * 4 * .125));
}

TEST_CASE("speeds of three follow from when each ends and from what pairs leave each other") {
  // All run for 10 s, the last two for 2 s more, one of them for 1 s more. The first needs 6 s alone: .6 of its speed.
  // Beside the last the second keeps .5, so 1 s of its 4 s is done in those 2 s: 3 s in 10. The last keeps .75 beside
  // it, and does 1.5 s, then 1 s alone: of 7 s 4.5 s are left for the first 10.
  const auto beside = [](std::size_t i, std::size_t j) {
    REQUIRE(i + j == 2);  // the second and the last: 0 and 2
    return i == 0 ? .5 : .75;
  };
  const auto speeds =
      speeds_of_three({Seconds(4), Seconds(6), Seconds(7)}, {Seconds(12), Seconds(10), Seconds(13)}, beside);
  CHECK(speeds[1] == Approx(.6));
  CHECK(speeds[0] == Approx(.3));
  CHECK(speeds[2] == Approx(.45));
}

TEST_CASE("speeds below one after the other are raised to it, those above their own to it") {
  std::pair<double, double> speeds{.3, .5};
  CHECK(raise_to_one(speeds));
  CHECK(speeds.first == Approx(.375));  // .3 / .8
  CHECK(speeds.first + speeds.second == 1);
  speeds = {1.02, .7};
  CHECK_FALSE(raise_to_one(speeds));
  CHECK(speeds == std::pair{1.0, .7});
  speeds = {1.0, -.2};
  CHECK_FALSE(raise_to_one(speeds));
  CHECK(speeds == std::pair{1.0, .01});
}

TEST_CASE("the grid of the FSMoE paper has its sizes") {
  const CalibrationGrid grid = calibration_grid(GridName::Fsmoe, 2);
  REQUIRE(grid.collectives.size() == 7);
  REQUIRE(grid.collectives[0].size() == 24);
  CHECK(grid.collectives[0].front().size() == 4.0 * (1 << 18));
  CHECK(grid.collectives[0].back().size() == 4.0 * 24 * (1 << 18));
  REQUIRE(grid.gemms[0].size() == 12);
  CHECK(grid.gemms[0].front().rows * grid.gemms[0].front().inner == 1 << 19);
  CHECK(grid.gemms[0].back().rows * grid.gemms[0].back().inner == 12 << 19);
  // Over 3 ranks 2^18 elements are rounded up to 262,146.
  CHECK(calibration_grid(GridName::Fsmoe, 3).collectives[0].front().rows == 262146);
}

TEST_CASE("the host runs every probe, alone and beside another") {
  const auto meter = make_host_meter(3);
  CHECK(meter->ranks() == 3);
  CHECK(meter->oversubscribed(100000));
  const CalibrationGrid grid = calibration_grid(GridName::Quick, 3);
  std::vector<Probe> probes{grid.gemms[0][0], grid.memory.front(), grid.memory.back(), grid.strided[0], grid.copies[0]};
  probes.push_back(probes.front());
  probes.back().dtype = DType::Fp64;
  for (const auto& of_one : grid.collectives) probes.push_back(of_one.front());
  for (const Probe& probe : probes) {
    const std::vector<Repeated> two{{probe, 2}, {grid.collectives[0][0], 3}};
    const std::vector<Elapsed> both = meter->run(two);
    CHECK(both.at(0).time > Seconds(0));
    CHECK(both.at(1).time > Seconds(0));
    const std::vector<Repeated> one{{probe, 2}, {grid.collectives[0][0], 0}};
    CHECK(meter->run(one).at(0).time > Seconds(0));
    CHECK(meter->run(one).at(1).time == Seconds(0));
  }
}
