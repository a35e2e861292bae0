// Published tables beside ours: for a terminal, as the public file data/schemas/reproduction.schema.json, as
// comma-separated values, and as a page.
#pragma once
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>

#include "models/results/reproduction.hpp"

namespace dovetail::reports {

inline constexpr const char* reproduction_schema_version = "1.0";

nlohmann::ordered_json to_json(const Reproduction& reproduction);
void write_json(std::ostream& out, const Reproduction& reproduction);
void write_csv(std::ostream& out, const Reproduction& reproduction);
void write_table(std::ostream& out, const Reproduction& reproduction, bool colour);
void write_html(std::ostream& out, const Reproduction& reproduction);

// The cells of a row as people read them.
struct ReproducedCells {
  std::string published, ours, error, target;
};
ReproducedCells cells_of(const ReproducedValue& value);
// "12 of 14 targets met, 6 values shown without one"
std::string describe_verdicts(const Reproduction& reproduction);

}  // namespace dovetail::reports
