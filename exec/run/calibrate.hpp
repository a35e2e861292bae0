// SPDX-License-Identifier: Apache-2.0
// Measures what operations cost on a device, alone and beside each other, and fits a calibration to it.
#pragma once
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exec/run/measure.hpp"
#include "exec/run/meter.hpp"
#include "models/price/calibration.hpp"

namespace dovetail::exec {

// The probes to measure. Each cost is fitted to its probes.
struct CalibrationGrid {
  std::vector<std::vector<Probe>> gemms;  // of one number format each
  std::vector<Probe> memory, strided, copies;
  std::vector<std::vector<Probe>> collectives;             // of one collective each; none: not measured
  std::vector<std::pair<InterferenceClass, Probe>> kinds;  // of which each pair is measured; none: no pairs
  // Measured for their points alone. Together: two, or three after each two of them.
  std::vector<Probe> more;
  std::vector<std::vector<Probe>> together;

  int points() const;  // fits, pairs and the others together
};

// Default: sizes of small MoE layers on a CPU. Quick: fewer of them, fp32 only. Fsmoe: the sizes of the FSMoE paper
// (collectives of 2^18 to 24 x 2^18 floats; GEMMs of 2^19 to 12 x 2^19 elements on the left, by a 1024 x 1024 matrix,
// which is our reading of it). Gpu, GpuQuick: layers that fill a large GPU, bf16 and some fp32, without collectives,
// which one GPU cannot measure. GpuFirst: a dozen points that tell whether a GPU does what all the others need.
enum class GridName { Default, Quick, Fsmoe, Gpu, GpuQuick, GpuFirst };
inline constexpr Names<GridName, 3> gpu_grid_names{
    {{"default", GridName::Gpu}, {"quick", GridName::GpuQuick}, {"first_light", GridName::GpuFirst}}};
CalibrationGrid calibration_grid(GridName name, int ranks);

struct CalibrateOptions {
  MeasureSettings measure{.warm_up = 1,
                          .min_samples = 5,
                          .min_time = Seconds(.01),
                          .deviation = .02,
                          .limit = Seconds(.5),
                          .least_samples = 5};
  Seconds shortest{.001};     // a sample repeats its op for about so long
  double longer_pairs = 20;   // and works beside each other so much longer: threads that share a core take turns of ms
  Seconds warm_up;            // so long the first probe runs before anything counts
  std::string where;          // goes into every source: host, date, tool
  std::vector<Probe> shapes;  // measured too, for their points alone
  std::function<void(const std::string& what)> begin = [](const std::string&) {};  // before each fit, pair or point
  std::function<void(const DevicePoint&)> point = [](const DevicePoint&) {};  // of each size but those of collectives
};

// Collectives within a process use no network: the same costs are given for links inside and between nodes. Costs and
// pairs for which ops shared cores are marked as disturbed; pairs in which something else stands for an exchange as
// assumed. Throws DeviceError where GEMMs do not take longer the larger they are.
Calibration calibrate(Meter& meter, const CalibrationGrid& grid, const CalibrateOptions& options);

// Adds costs that `measured` lacks: collectives and messages (of a meter without them), GEMMs in other
// formats, other pairs. Each keeps its provenance. The base also says what a fit does not of sizes that were not
// measured. No costs of kernels: those are multiples of the base's own rates.
void add_unmeasured(Calibration& measured, const Calibration& base);

// The time of a probe by a calibration; none: it has no cost of such work by itself.
std::optional<Seconds> prediction(const Probe& probe, const Calibration& fitted);

// Two pieces of work that take `alone` seconds each begin together and end after `together` seconds: which share of its
// own speed each kept while both ran. The one that ends last is at full speed after the other has ended.
std::pair<double, double> speeds_beside(std::pair<Seconds, Seconds> alone, std::pair<Seconds, Seconds> together);

// The same of three; `beside(i, j)`: which share of its speed i keeps while only j runs too.
std::array<double, 3> speeds_of_three(const std::array<Seconds, 3>& alone, const std::array<Seconds, 3>& together,
                                      const std::function<double(std::size_t, std::size_t)>& beside);

// Speeds as a calibration may have them: in (0, 1], and so large that both together are not slower than one after the
// other. True if that made them larger.
bool raise_to_one(std::pair<double, double>& speeds);

}  // namespace dovetail::exec
