// SPDX-License-Identifier: Apache-2.0
// The question: this model, trained this way, on this cluster, with these costs.
#pragma once
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "models/base/shared.hpp"
#include "models/extend/extensions.hpp"
#include "models/question/cluster.hpp"
#include "models/question/framework.hpp"
#include "models/question/model.hpp"
#include "models/question/parallelism.hpp"
#include "models/question/speed_event.hpp"
#include "models/question/workload.hpp"

namespace dovetail {

struct Calibration;  // price/calibration.hpp: only what makes or shows prices looks into it

// Whether ops that run at the same time slow each other as the calibration says, or never do.
enum class Overlap { Interfering, Ideal };
inline constexpr std::array<std::pair<std::string_view, Overlap>, 2> overlap_names{
    {{"interfering", Overlap::Interfering}, {"ideal", Overlap::Ideal}}};

struct Experiment {
  Cluster cluster;
  Model model;
  Shared<Calibration> calibration;
  Workload workload;
  Parallelism parallelism;
  std::vector<SpeedEvent> events = {};
  Overlap overlap = Overlap::Interfering;
  TrainingFramework framework = {};
  Extensions extensions = {};  // sub-modules of the user's own program; no file has them
};

}  // namespace dovetail
