// SPDX-License-Identifier: Apache-2.0
// Setting a part of a calibration changes that part: a value set to what it is changes nothing, and tables of measured
// shapes go only where the setting contradicts them.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "models/base/json/json_file.hpp"
#include "models/files/calibration_file.hpp"
#include "models/files/data_path.hpp"
#include "models/files/load.hpp"
#include "models/price/calibration.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dovetail;

namespace {

Calibration with(const std::string& calibration, std::vector<std::string> set) {
  ExperimentRequest request;
  request.cluster = "dgx-h100";
  request.model = "mixtral-8x7b";
  request.calibration = calibration;
  request.set = std::move(set);
  FilesRead files;
  return *load_parts(request, files).calibration;
}

std::string text_of(const Calibration& calibration) {
  std::string text = to_calibration_file(calibration, {});
  for (const std::string& line : calibration.adapted) text += line + "\n";
  return text;
}

// A shipped calibration with two shapes of each table, which load fast.
nlohmann::json shortened(const std::string& name) {
  nlohmann::json json = nlohmann::json::parse(JsonFile::read_text(data_directory() / "calibrations" / (name + ".json")),
                                              nullptr, true, true);
  if (json.contains("tables"))
    for (nlohmann::json& table : json["tables"])
      table["points"] = nlohmann::json::array({table["points"].front(), table["points"].back()});
  return json;
}

// "memory.beta" and "\"0.4 ps/B\"" for each value that is no list and no object.
void add_leaves(const nlohmann::json& json, const std::string& path,
                std::vector<std::pair<std::string, std::string>>& leaves) {
  if (!json.is_structured()) {
    leaves.emplace_back(path, json.dump());
    return;
  }
  for (const auto& [key, value] : json.items()) add_leaves(value, path.empty() ? key : path + "." + key, leaves);
}

bool has_table(const Calibration& c, KernelKind kind, DType dtype) {
  const KernelTable* table = find_table(c.tables, kind, dtype);
  return table != nullptr && table->dtype() == dtype;
}

}  // namespace

TEST_CASE("every value of a shipped calibration may be set to what it is, on its hardware and on other") {
  const test::TemporaryFolder folder;
  for (const std::string& name : known_names("calibrations")) {
    const nlohmann::json json = shortened(name);
    folder.write("c.json", json.dump());
    const std::string before = text_of(with("./c.json", {}));
    std::vector<std::pair<std::string, std::string>> leaves;
    add_leaves(json, "", leaves);
    CHECK(leaves.size() > 20);
    std::vector<std::string> all;
    for (const auto& [path, value] : leaves) {
      all.push_back(fmt::format("calibration.{}={}", path, value));
      if (name != "dgx-h100") continue;  // the others at once
      INFO(all.back());
      CHECK(text_of(with("./c.json", {all.back()})) == before);
    }
    INFO(name);
    CHECK(text_of(with("./c.json", all)) == before);
  }
}

TEST_CASE("a field of a cost that a setting changes leaves its rate to follow the hardware") {
  // fsmoe-testbed-b was made for other cards than a DGX H100 has.
  const auto beta = [](const std::vector<std::string>& set) {
    return with("fsmoe-testbed-b", set).collectives[0].beta;
  };
  CHECK(beta({"calibration.collectives.0.gpus=4"}) == beta({}));
  CHECK(beta({"calibration.collectives.0.members_per_node=2"}) == beta({}));
  CHECK(beta({"calibration.collectives.0.beta=1 ps/B"}).value() == Approx(1e-12));
}

TEST_CASE("a factor of an op's kernels keeps the tables, which follow the hardware") {
  const std::string faster = "cluster.device.peak.bf16=2000 TFLOP/s";
  const std::string kernels =
      R"(calibration.kernels=[{"op": "expert", "phase": "forward", "alpha": "0 us", "factor": 1,
      "provenance": {"origin": "assumed", "source": "a test"}}])";
  for (const std::vector<std::string>& other : {std::vector<std::string>{}, {faster}}) {
    std::vector<std::string> set = other;
    set.push_back(kernels);
    Calibration with_kernels = with("", set);
    CHECK(with_kernels.kernels.size() == 1);
    with_kernels.kernels.clear();
    CHECK(text_of(with_kernels) == text_of(with("", other)));
  }
}

TEST_CASE("costs of links contradict the tables of the same collective inside a node, and no others") {
  const Calibration before = with("", {});
  std::size_t inter = 0, intra = 0;
  const auto is = [&](std::size_t i, Collective collective, LinkKind link) {
    return before.collectives[i].collective == collective && before.collectives[i].link == link;
  };
  while (!is(inter, Collective::AllGather, LinkKind::Inter)) ++inter;
  while (!is(intra, Collective::AllGather, LinkKind::Intra)) ++intra;
  const Calibration between = with("", {fmt::format("calibration.collectives.{}.beta=40 ps/B", inter)});
  CHECK(between.tables.size() == before.tables.size());
  CHECK(between.adapted.empty());
  const Calibration inside = with("", {fmt::format("calibration.collectives.{}.beta=4 ps/B", intra)});
  CHECK(inside.tables.size() + 1 == before.tables.size());
  CHECK_FALSE(has_table(inside, KernelKind::AllGather, DType::Fp16));
  REQUIRE(inside.adapted.size() == 1);
  CHECK(inside.adapted[0] ==
        "calibration.collectives sets all_gather inside a node: its table of measured sizes no longer counts");
  CHECK(with("", {"calibration.memory.beta=1 ps/B"}).tables.size() == before.tables.size());
}

TEST_CASE("a rate of products contradicts the tables in its format alone") {
  const Calibration c = with("", {"calibration.gemms.1.beta=2 fs/flop"});
  for (const auto& [name, kind] : computing_kernels) CHECK_FALSE(has_table(c, kind, DType::Bf16));
  CHECK(has_table(c, KernelKind::Gemm, DType::Fp8));
  CHECK(has_table(c, KernelKind::AllGather, DType::Fp16));
}

TEST_CASE("a rate that is set stays, and all others follow the hardware") {
  const std::string other = "cluster.node_bandwidth=900 GB/s";
  const Calibration usual = with("", {}), faster = with("", {other});
  for (std::size_t i = 0; i < usual.collectives.size(); ++i) {
    if (usual.collectives[i].link != LinkKind::Intra) continue;
    const auto set = [&](const std::string& value) {
      return with("", {other, fmt::format("calibration.collectives.{}.{}", i, value)});
    };
    const Calibration rate = set("beta=7 ps/B"), latency = set("alpha=1 ms");
    CHECK(rate.collectives[i].beta.value() == Approx(7e-12));
    CHECK(latency.collectives[i].beta == faster.collectives[i].beta);
    CHECK(latency.collectives[i].alpha.value() == Approx(1e-3));
    for (std::size_t j = 0; j < usual.collectives.size(); ++j)
      if (j != i) CHECK(rate.collectives[j].beta == faster.collectives[j].beta);
  }
}
