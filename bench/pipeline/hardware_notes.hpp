// SPDX-License-Identifier: Apache-2.0
// The values of the described hardware to which costs were adapted, and those that they do not follow: where a
// calibration does not know its hardware, its costs are those of one cluster, and a value that differs from that
// cluster's would otherwise change nothing without a word.
#pragma once
#include <string>
#include <vector>

#include "models/files/load.hpp"
#include "models/question/experiment.hpp"

namespace dovetail::bench {

struct Asked {
  const ExperimentRequest& request;
  const FilesRead& files;       // that it was read from
  std::string backend;          // by its name
  bool other_platform = false;  // in place of the cluster's network, by --platform
};

// A value of the hardware that changes no cost, or only as a bound.
struct HardwareFinding {
  std::string setting;        // "cluster.nic_bandwidth"
  std::string values, usual;  // here; of the cluster that the calibration was made for
  std::string calibration, cluster;
  std::string bound;    // what it bounds; empty: nothing
  std::string instead;  // a setting that counts
  bool links = false;   // of links: a described network knows them
};

// Compares the experiment's cluster, field by field, with the one that its calibration was made for: the shipped
// cluster that names a shipped calibration, else the cluster as its file describes it, without settings.
std::vector<HardwareFinding> hardware_findings(const Experiment& experiment, const Asked& asked);

// Adds more to `findings`; a setting that changes as little as before adds its values to those found before.
void add_findings(const std::vector<HardwareFinding>& more, std::vector<HardwareFinding>& findings);

// A line for all that change nothing, a line for each bound.
std::vector<std::string> sentences(const std::vector<HardwareFinding>& findings);

// The same lines, after one for each cost that was adapted, with one for settings of PCIe switches that no message
// crosses, and one where calibrated costs contradict the network cards
// that are described.
void add_hardware(const Experiment& experiment, const Asked& asked, std::vector<std::string>& notes);

}  // namespace dovetail::bench
