// SPDX-License-Identifier: Apache-2.0
#include "models/files/calibration_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "models/base/names.hpp"
#include "models/files/read_fields.hpp"
#include "models/price/calibration_fields.hpp"

namespace dovetail {
namespace {

using Json = nlohmann::ordered_json;

double rounded(double share) {
  return std::round(share * 1e4) / 1e4;
}

std::size_t sizes_of(const KernelTable& table) {
  return kernel_size_names(table.kind()).size();
}

// The points have a line each.
std::string table_text(const KernelTable& table) {
  Json law = Json::object(),
       head{{"kernel", name_in(kernel_kind_names, table.kind())}, {"dtype", name_in(dtype_names, table.dtype())}};
  std::size_t parameter = 0;
  for (const LawParameter& p : law_of(table.kind()).parameters) law[std::string(p.name)] = table.law()[parameter++];
  if (table.or_grouped) head["or_grouped"] = true;
  if (table.sustained) head["sustained"] = true;
  head["law"] = std::move(law);
  const HeldBackError& error = table.error;
  if (error.rows > 0)
    head["held_back"] = {{"rows", error.rows},
                         {"mean", rounded(error.mean)},
                         {"ninetieth", rounded(error.ninetieth)},
                         {"worst", rounded(error.worst)},
                         {"covered", rounded(error.covered)},
                         {"worst_shape", std::span(error.worst_shape.size).first(sizes_of(table))}};
  head["provenance"] = write_fields(fields_of<Provenance>(), &table.provenance, FieldForm::Inputs);
  std::string text = head.dump();
  text.back() = ',';
  text += "\n     \"points\": [";
  for (const MeasuredKernel& point : table.points())
    text += fmt::format("{}\"{},{:.6g}\"", &point == table.points().data() ? "" : ",\n      ",
                        fmt::join(std::span(point.shape.size).first(sizes_of(table)), ","), point.time.value() * 1e6);
  return text + "]}";
}

std::string tables_text(const std::vector<KernelTable>& tables) {
  std::string text = "  \"tables\": [";
  for (const KernelTable& table : tables)
    text += fmt::format("{}\n    {}", &table == tables.data() ? "" : ",", table_text(table));
  return text + "\n  ]";
}

// A member of the file's object; the elements of a list have a line each.
std::string member(const std::string& key, const Json& value) {
  std::string lines = fmt::format("  {}: ", Json(key).dump());
  if (!value.is_array() || value.empty()) return lines + value.dump();
  for (std::size_t i = 0; i < value.size(); ++i)
    lines += fmt::format("{}\n    {}", i == 0 ? "[" : ",", value[i].dump());
  return lines + "\n  ]";
}

}  // namespace

std::string to_calibration_file(const Calibration& calibration, const Json& measurement) {
  const Json fields = write_fields(fields_of<Calibration>(), &calibration, FieldForm::Inputs);
  Json json = Json::object();
  for (const auto& [key, value] : fields.items()) {
    if (key == "collectives" && !measurement.empty()) json["measurement"] = measurement;
    json[key] = value;
  }
  std::string file;
  for (const auto& [key, value] : json.items()) file += (file.empty() ? "{\n" : ",\n") + member(key, value);
  if (!calibration.tables.empty()) file += ",\n" + tables_text(calibration.tables);
  return file + "\n}\n";
}

}  // namespace dovetail
