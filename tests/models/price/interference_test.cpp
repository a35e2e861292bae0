// SPDX-License-Identifier: Apache-2.0
// Entries of interference: which count, and how their kinds share.
#include "models/price/interference.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <random>

#include "models/base/errors.hpp"
#include "models/base/json/json_file.hpp"
#include "models/base/json/json_reader.hpp"
#include "models/files/interference_rules.hpp"
#include "models/files/read_fields.hpp"
#include "models/price/calibration_fields.hpp"
#include "models/price/contention_shares.hpp"
#include "models/price/overlap.hpp"
#include "tests/planners/random_costs.hpp"

using namespace dovetail;
using enum InterferenceClass;

namespace {

Interference three(double compute, double inter, double copy) {
  Interference entry{Compute, Inter, compute, inter, {}};
  entry.c = KeptSpeed{Copy, copy};
  return entry;
}

}  // namespace

TEST_CASE("interference is named by its kinds and by what it is restricted to") {
  Interference entry = three(1, .5, .8);
  CHECK(name_of(entry) == "compute/inter/copy");
  entry.all_to_all = AllToAll::TwoDimensional;
  entry.messages = Protocol::LowLatency;
  CHECK(name_of(entry) == "compute/inter/copy, two_dimensional, low_latency");
  CHECK(same_kinds({Inter, Compute, 1, 1, {}}, {Compute, Inter, .5, .5, {}}));
  CHECK_FALSE(same_kinds({Inter, Compute, 1, 1, {}}, entry));
}

TEST_CASE("the entry with most restrictions that hold counts") {
  std::vector<Interference> all(4, {Compute, Inter, 1, .8, {}});
  all[1].all_to_all = AllToAll::Linear;
  all[2].messages = Protocol::LowLatency;
  all[3] = {Compute, Intra, 1, .8, {}};
  const auto counting = [&](std::optional<Protocol> messages) {
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (counts_for(all[i], all, messages)) indices.push_back(i);
    return indices;
  };
  CHECK(counting({}) == std::vector<std::size_t>{0, 3});  // another collective
  CHECK(counting(Protocol::Simple) == std::vector<std::size_t>{1, 3});
  CHECK(counting(Protocol::LowLatency) == std::vector<std::size_t>{1, 2, 3});  // the slower of equals
  all[1].messages = Protocol::LowLatency;
  CHECK(counting(Protocol::Simple) == std::vector<std::size_t>{0, 3});
  CHECK(counting(Protocol::LowLatency) == std::vector<std::size_t>{1, 3});
  CHECK(of_all_to_alls(all, Protocol::LowLatency).size() == 2);
}

TEST_CASE("interference is read as it was written") {
  Interference entry = three(1, .5, .8);
  entry.all_to_all = AllToAll::TwoDimensional;
  entry.messages = Protocol::LowLatency;
  entry.provenance.source = "here";
  const nlohmann::json written = write_fields(fields_of<Interference>(), &entry, FieldForm::Inputs);
  const JsonFile file = JsonFile::wrap(nlohmann::json::array({written}), "k");
  const auto read = fields_from<Interference>(JsonReader(file).elements()[0]);
  CHECK_NOTHROW(require_interference(JsonReader(file), {read}));
  CHECK(name_of(read) == "compute/inter/copy, two_dimensional, low_latency");
  CHECK(nlohmann::json(write_fields(fields_of<Interference>(), &read, FieldForm::Inputs)) == written);
}

TEST_CASE("three kinds share by their speeds") {
  // 1 : .5 : .8 of 2.3 is nearest to 6 : 3 : 5 of 14. Demands are 6/14 / 1, 3/14 / .5 and 5/14 / .8.
  const auto shares = contention_shares(three(1, .5, .8));
  REQUIRE(shares.size() == 3);
  CHECK(shares[0].flows == 6);
  CHECK(shares[1].flows == 3);
  CHECK(shares[2].flows == 5);
  CHECK(shares[0].demand == Approx(6. / 14));
  CHECK(shares[1].demand == Approx(3. / 14 / .5));
  CHECK(shares[2].demand == Approx(5. / 14 / .8));
  CHECK_THROWS_WITH(contention_shares(three(.3, .3, .3)),
                    "interference of compute/inter/copy: speeds 0.3 and 0.3 and 0.3 add up to less than 1");
}

TEST_CASE("random entries keep their speeds, and three leave their pairs alone") {
  std::mt19937 engine(41);
  for (int i = 0; i < 1000; ++i) {
    const double a = test::real(engine, .3, 1), b = test::real(engine, .3, 1), c = test::real(engine, .4, 1);
    const auto shares = contention_shares(three(a, b, c));
    const double speeds[] = {a, b, c};
    double sum = 0, flows = 0;
    for (const ContentionShare& share : shares) flows += share.flows;
    for (std::size_t k = 0; k < 3; ++k) {
      CHECK(shares[k].flows / flows / shares[k].demand == Approx(speeds[k]));
      sum += speeds[k];
    }
    // Two that keep no more than the three together: the resource is large enough, but for the rounding of shares.
    const double scale = std::min(sum / (a + b), 1 / std::max(a, b));
    CHECK(scale * (a * shares[0].demand + b * shares[1].demand) <= 1.06);
  }
}
