// SPDX-License-Identifier: Apache-2.0
// The text of the shipped files about fields, made from their tables: tests compare it with the files.
#pragma once
#include <string>
#include <string_view>

#include "models/base/fields.hpp"

namespace dovetail::test {

// The schema of an input file that a table describes, which is called `file`. `definitions` (JSON) are those that the
// file has beside it; empty: none.
std::string field_schema(const FieldTable& table, const std::string& file = "", const std::string& definitions = "");

// data/schemas/question.schema.json: the parts of a question as results have them.
std::string question_schema();

// The rows of data/README.md on the fields of a table, with those of its parts.
std::string field_rows(const FieldTable& table);

// data/README.md with all its tables of fields written anew; each stands between marks that name it.
std::string with_field_tables(const std::string& readme);

}  // namespace dovetail::test
