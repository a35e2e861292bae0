// SPDX-License-Identifier: Apache-2.0
// The tables of fields: what a new entry alone brings about, and that the shipped entries are whole.
#include "models/question/fields.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "models/base/json/json_schema.hpp"
#include "models/files/experiment_json.hpp"
#include "models/files/field_text.hpp"
#include "models/files/load.hpp"
#include "models/files/read_fields.hpp"
#include "models/files/read_parts.hpp"
#include "models/question/question_fields.hpp"
#include "tests/support/field_documents.hpp"

using namespace dovetail;
using nlohmann::json;

namespace {

// A workload with two fields that nobody else knows of.
struct Planted {
  int depth = 3;
  std::optional<Seconds> pause;
};

FieldTable planted() {
  return FieldTable::of<Planted>(
      "Planted", "It is planted by a test.",
      {field::whole<&Planted::depth>("depth", 1, 9, "How deep it is planted.").in("layers"),
       field::quantity<&Planted::pause>("pause", "The time that it waits.").else_taken("for good")});
}

Planted read(const std::string& text, FieldForm form = FieldForm::Inputs) {
  const JsonFile file = JsonFile::parse(text, "planted.json");
  Planted object;
  read_fields(JsonReader(file), planted(), &object, form);
  return object;
}

// Every value of an object's own fields, with those of its parts.
void append_values(const FieldTable& table, const void* object, std::vector<FieldValue>& values) {
  for (const Field& field : table.fields) {
    if (const auto* part = std::get_if<PartField>(&field.type)) {
      if (const void* inner = part->find ? part->find(object) : nullptr) append_values(part->table(), inner, values);
    } else if (field.get) {
      values.push_back(field.get(object));
    }
  }
}

template <class T>
std::vector<FieldValue> values_of(const T& object) {
  std::vector<FieldValue> values;
  append_values(fields_of<T>(), &object, values);
  return values;
}

void visit_tables(const FieldTable& table, std::set<const FieldTable*>& seen) {
  if (!seen.insert(&table).second) return;
  for (const Field& field : table.fields) {
    if (const auto* part = std::get_if<PartField>(&field.type)) visit_tables(part->table(), seen);
    if (const auto* list = std::get_if<PartsField>(&field.type)) visit_tables(list->table(), seen);
  }
}

std::set<const FieldTable*> all_tables() {
  std::set<const FieldTable*> seen;
  for (const FieldTable* table : {&fields_of<Workload>(), &fields_of<Model>(), &fields_of<Cluster>(),
                                  &fields_of<Parallelism>(), &fields_of<SpeedEvent>()})
    visit_tables(*table, seen);
  return seen;
}

}  // namespace

TEST_CASE("a planted field is read, and has its default where it is not given") {
  CHECK(read(R"({"depth": 7})").depth == 7);
  CHECK(read("{}").depth == 3);
  CHECK(read(R"({"pause": "2 ms"})").pause == Seconds(2e-3));
  CHECK_FALSE(read("{}").pause.has_value());
}

TEST_CASE("a planted field is refused at its place where its value is wrong") {
  CHECK_THROWS_WITH(read(R"({"depth": 10})"),
                    Catch::Contains("planted.json:1:11: /depth") && Catch::Contains("1 to 9"));
  CHECK_THROWS_WITH(read(R"({"depth": "deep"})"), Catch::Contains("a whole number from 1 to 9"));
  CHECK_THROWS_WITH(read(R"({"pause": 2})"), Catch::Contains("a time with unit"));
  json schema = json::parse(test::field_schema(planted()));
  schema["properties"].erase("pause");  // which refers to another file
  const auto check = [&](const std::string& text) { validate(JsonFile::parse(text, "planted.json"), schema); };
  CHECK_THROWS_WITH(check(R"({"dept": 1})"), Catch::Contains("did you mean \"depth\""));
  CHECK_THROWS_WITH(check(R"({"depth": 0})"), Catch::Contains("/depth"));
  CHECK_NOTHROW(check(R"({"depth": 9})"));
}

TEST_CASE("a planted field is written, and read from a schedule file as it was") {
  const Planted object{5, Seconds(3e-3)};
  const nlohmann::ordered_json written = write_fields(planted(), &object);
  CHECK(written.dump() == R"({"depth":5,"pause_s":0.003})");
  const Planted back = read(written.dump(), FieldForm::Results);  // as read_schedule() reads a workload
  CHECK(back.depth == 5);
  CHECK(back.pause == Seconds(3e-3));
  const Planted open;
  CHECK(write_fields(planted(), &open).dump() == R"({"depth":3})");
}

TEST_CASE("a planted field is documented") {
  const FieldTable table = planted();
  CHECK(test::field_rows(table) ==
        "| field | unit | meaning [default] |\n|---|---|---|\n"
        "| `depth` | layers | How deep it is planted [3] |\n"
        "| `pause` | time | The time that it waits [for good] |\n");
  const json schema = json::parse(test::field_schema(table));
  CHECK(schema["properties"]["depth"]["description"] == "How deep it is planted (layers). Default: 3.");
  CHECK(schema["properties"]["pause"]["$ref"] == "units.schema.json#/definitions/time");
  CHECK(values_text(table.fields[0]) == "1 to 9 layers");
}

TEST_CASE("every field has a name of its own, a sentence, and a default or is required") {
  const std::set<const FieldTable*> tables = all_tables();
  CHECK(tables.size() >= 15);
  for (const FieldTable* table : tables) {
    std::set<std::string> names;
    for (const Field& field : table->fields) {
      INFO(table->title << ": " << field.name);
      if (field.place != FieldPlace::Results) CHECK(names.insert(field.name).second);
      CHECK(field.help.ends_with('.'));
      const bool object =
          std::holds_alternative<PartField>(field.type) || std::holds_alternative<PartsField>(field.type);
      if (!object && field.place != FieldPlace::Results)
        CHECK((field.required || !default_text(field, *table).empty()));
    }
  }
}

TEST_CASE("every shipped model is as it was once it has been written and read as results have it") {
  FilesRead files;
  for (const std::string& name : known_names("models")) {
    INFO(name);
    const Model model = load_model(name, files);
    const JsonFile written = JsonFile::wrap(json(to_json(model)), name);
    const Model back = read_model(JsonReader(written), FieldForm::Results);
    CHECK(values_of(back) == values_of(model));
    CHECK(to_json(back) == to_json(model));
  }
}

TEST_CASE("every shipped cluster is as it was once it has been written and read as results have it") {
  FilesRead files;
  for (const std::string& name : known_names("clusters")) {
    INFO(name);
    WorkloadDefaults defaults;
    const Cluster cluster = load_cluster(name, defaults, files);
    const JsonFile written = JsonFile::wrap(json(to_json(cluster)), name);
    const auto back = fields_from<Cluster>(JsonReader(written), FieldForm::Results);
    CHECK(values_of(back) == values_of(cluster));
    CHECK(to_json(back) == to_json(cluster));
  }
}

TEST_CASE("a workload keeps every field over a schedule file") {
  Workload w;
  w.batch = 3;
  w.layers = 5;
  w.capacity_factor = -1.5;
  w.products = DType::Fp8;
  w.gradients = DType::Fp32;
  w.clip_gradients = .5;
  w.extent = Extent::Model;
  w.mtp_layers = 2;
  w.message_sizes = MessageSizes::Routed;
  w.capacity_rows = 77;
  w.gate = {GateKind::XMoe, 12, 3, true, true};
  w.routing = {RoutingKind::Hot, 1, 4, .25, 9, {}, {}};
  w.router_loads = {{2, 40}, {4, 30}};
  const JsonFile written = JsonFile::wrap(json(to_json(w)), "schedule");
  const auto back = fields_from<Workload>(JsonReader(written), FieldForm::Results);
  CHECK(values_of(back) == values_of(w));
  REQUIRE(back.router_loads.size() == 2);
  CHECK(back.router_loads[1].largest == 30);
}

TEST_CASE("a field that does not apply is refused with the reason") {
  const auto attention = [](const std::string& text) {
    const JsonFile file = JsonFile::parse(text, "attention.json");
    return fields_from<Attention>(JsonReader(file));
  };
  CHECK_THROWS_WITH(attention(R"({"heads": 4, "kv_heads": 4, "head_size": 8, "q_rank": 2})"),
                    Catch::Contains("/q_rank: contradicts kind grouped_query"));
  CHECK_THROWS_WITH(attention(R"({"heads": 4, "kv_heads": 4})"), Catch::Contains("missing key \"head_size\""));
  CHECK_THROWS_WITH(attention(R"({"heads": 4, "kv_heads": 4, "head_size": 8, "windows": "chunks"})"),
                    Catch::Contains("/windows: given, but no layer has a window"));
}

TEST_CASE("paths of fields are those that --set takes") {
  CHECK(path_of_field("dtype") == "workload.dtype");
  CHECK(path_of_field("kv_heads") == "model.attention.kv_heads");
  CHECK(path_of_field("nic_bandwidth") == "cluster.nic_bandwidth");
  CHECK(path_of_field("bandwidth") == "cluster.network.pcie.bandwidth");
  CHECK(path_of_field("nothing").empty());
  CHECK(question_fields().size() > 80);
}

TEST_CASE("defaults name who may give a value") {
  const FieldTable& workload = fields_of<Workload>();
  CHECK(default_text(*workload.find("sequence"), workload) ==
        "the trace's, else the cluster's, else the model's, else 4096");
  CHECK(default_text(*workload.find("dtype"), workload) == "the cluster's, else bf16");
  CHECK(default_text(*workload.find("phases"), workload) == "training");
  CHECK(default_text(*fields_of<Model>().find("layers"), fields_of<Model>()).empty());
}
