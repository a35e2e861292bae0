// SPDX-License-Identifier: Apache-2.0
#include "bench/cli/outputs.hpp"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <memory>
#include <ostream>
#include <streambuf>

#include "bench/cli/interrupt.hpp"
#include "models/base/errors.hpp"
#include "models/base/json/write_file.hpp"
#include "models/files/data_path.hpp"
#include "reports/answer/csv.hpp"
#include "reports/answer/json_report.hpp"
#include "reports/answer/table.hpp"
#include "reports/data/trace.hpp"
#include "reports/page/html.hpp"

namespace dovetail::bench {
namespace {

// Lets the reports' writers, which know streams, fill an OutputFile piece by piece.
class FileBuffer final : public std::streambuf {
 public:
  explicit FileBuffer(OutputFile& file) : file_(file) { setp(buffer_.data(), buffer_.data() + buffer_.size()); }

 protected:
  int_type overflow(int_type c) override {
    sync();
    if (c == traits_type::eof()) return traits_type::not_eof(c);
    *pptr() = traits_type::to_char_type(c);
    pbump(1);
    return c;
  }

  int sync() override {
    Writing::poll();
    file_.write({pbase(), static_cast<std::size_t>(pptr() - pbase())});
    setp(buffer_.data(), buffer_.data() + buffer_.size());
    return 0;
  }

 private:
  OutputFile& file_;
  std::array<char, 1 << 16> buffer_;
};

void fill(OutputFile& file, const Output& output) {
  FileBuffer buffer(file);
  std::ostream stream(&buffer);
  stream.exceptions(std::ios::badbit);  // lets the buffer's own exceptions through
  output.write(stream);
  stream.flush();
}

void require_writable(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  // Opening a pipe and closing it again would be the end of it for its reader.
  if (std::filesystem::exists(status) && std::filesystem::is_other(status)) return;
  const Writing guard;
  { const OutputFile now(path); }
  Writing::poll();
}

// Shipped files go by a name that is the same wherever the data lies.
std::vector<std::string> paths_of(const FilesRead& files, std::vector<std::string> paths) {
  constexpr std::string_view shipped = "data/";
  for (const auto& [name, text] : files) {
    paths.push_back(name);
    if (name.starts_with(shipped)) paths.push_back((data_directory() / name.substr(shipped.size())).string());
  }
  return paths;
}

}  // namespace

Format format_of(const Options& options) {
  if (options.format) return *options.format;
  const std::string ending = std::filesystem::path(options.output).extension().string();
  if (ending == ".html" || ending == ".htm")
    throw InputError(fmt::format("--output {}: for a page use --html {}", options.output, options.output));
  if (options.output.empty() || options.output == "-" || ending == ".txt") return Format::Table;
  return ending == ".csv" ? Format::Csv : Format::Json;
}

bool is_kept(const std::string& output) {
  std::error_code error;
  const auto status = std::filesystem::status(output, error);
  return !output.empty() && output != "-" && (!exists(status) || is_regular_file(status));
}

void require_outputs(const std::vector<NamedFile>& outputs, const FilesRead& inputs,
                     const std::vector<std::string>& also_read) {
  require_apart(outputs, paths_of(inputs, also_read));
  for (const NamedFile& output : outputs)
    if (!output.path.empty()) require_writable(output.path);
}

Outputs::Outputs(const Options& options, const FilesRead& inputs, OtherFiles others)
    : options_(options), inputs_(inputs), others_(std::move(others)), format_(format_of(options)) {
  std::vector<NamedFile> written{{"--output", options.output}, {"--html", options.html}, {"--trace", options.trace}};
  written.insert(written.end(), others_.written.begin(), others_.written.end());
  others_.written = std::move(written);
  others_.read.push_back(options.platform);
  require_outputs(others_.written, inputs_, others_.read);
}

void Outputs::write(const Report& report, const std::function<void(std::ostream&, bool)>& text,
                    const std::vector<Output>& more) const {
  Writers writers;
  writers.table = text ? text : [&](std::ostream& out, bool colour) {
    reports::write_table(out, report, colour, options_.verbose);
  };
  writers.json = [&](std::ostream& out) { reports::write_json(out, report); };
  writers.csv = [&](std::ostream& out) { reports::write_csv(out, report); };
  writers.html = [&](std::ostream& out) { reports::write_html(out, report); };
  writers.trace = [&](std::ostream& out) { reports::write_trace(out, report); };
  write(writers, more);
}

void Outputs::write(const Writers& writers, const std::vector<Output>& more) const {
  require_apart(others_.written, paths_of(inputs_, others_.read));
  std::vector<Output> outputs;
  for (const Output& output : more)
    if (!output.path.empty()) outputs.push_back(output);
  if (!options_.html.empty()) outputs.push_back({options_.html, writers.html});
  if (!options_.trace.empty()) outputs.push_back({options_.trace, writers.trace});
  const bool to_stdout = options_.output.empty() || options_.output == "-";
  const bool free_stdout = options_.html != "-" && options_.trace != "-";
  const auto table = [&](bool colour) { return [&, colour](std::ostream& out) { writers.table(out, colour); }; };
  if (!options_.output.empty() || free_stdout)
    outputs.push_back({to_stdout ? "-" : options_.output, format_ == Format::Json ? writers.json
                                                          : format_ == Format::Csv
                                                              ? writers.csv
                                                              : table(to_stdout && use_colour(options_.colour))});
  const bool shown = !options_.quiet || options_.framework;  // with -q the framework's arguments alone
  if (!to_stdout && free_stdout && shown) outputs.push_back({"-", table(use_colour(options_.colour))});
  write_all(outputs);
}

void write_all(const std::vector<Output>& outputs) {
  const Writing guard;
  std::vector<std::unique_ptr<OutputFile>> files;
  for (const Output& output : outputs) files.push_back(std::make_unique<OutputFile>(output.path));
  for (std::size_t i = 0; i < outputs.size(); ++i) fill(*files[i], outputs[i]);
  for (const auto& file : files) file->finish();
}

}  // namespace dovetail::bench
