// SPDX-License-Identifier: Apache-2.0
// A result names the parts of its model that its step does not have.
#include <algorithm>
#include <catch2/catch.hpp>

#include "bench/pipeline/notes.hpp"
#include "models/files/load.hpp"

using namespace dovetail;
using namespace dovetail::bench;

namespace {

// The notes on limits of a step of a shipped model.
std::vector<std::string> limits(const std::string& model, const std::string& extent) {
  ExperimentRequest request;
  request.cluster = "dgx-h100";
  request.model = model;
  request.set = {"workload.extent=" + extent, "workload.layers=4"};
  FilesRead files;
  std::vector<std::string> notes;
  Report report;
  report.kind = "simulate";
  report.experiment = load_experiment(request, files, notes);
  add_limits(report);
  return report.notes;
}

bool has(const std::vector<std::string>& notes, const std::string& note) {
  return std::ranges::find(notes, note) != notes.end();
}

constexpr auto whole =
    "the whole model is in time and memory; what CUDA and NCCL take for themselves is not in the memory";

}  // namespace

TEST_CASE("A step of a whole model names the parts that it does not have, one of layers says so of norms") {
  CHECK(has(limits("mixtral-8x7b", "model"), whole));
  CHECK(has(limits("qwen3-30b-a3b", "model"), whole));
  CHECK(has(limits("deepseek-v3", "model"),
            "neither time nor memory has these parts of deepseek-v3: the layer of multi-token prediction"));
  const auto gpt = limits("gpt2-xl-moe", "model");
  CHECK(has(gpt,
            "neither time nor memory has these parts of gpt2-xl-moe: biases; means and biases of layer norms, which "
            "count as RMS norms; learned positions"));
  CHECK_FALSE(has(gpt, whole));
  CHECK(has(limits("qwen1.5-moe-a2.7b", "whole_layers"),
            "neither time nor memory has these parts of qwen1.5-moe-a2.7b: biases; the gate of shared experts"));
  for (const std::string& note : limits("gpt2-xl-moe", "layers")) CHECK(note.find("neither") == std::string::npos);
}
