// Finished parts of long work, kept in a file while the work goes on, so that it resumes where it was stopped. One
// JSON object a line; the first says what work it is.
#pragma once
#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace dovetail::bench {

class Journal {
 public:
  // Opens or makes the file. `work` tells this work from any other: throws InputError where the file is of another
  // (then nothing is lost: the message says what to remove). A line that was cut off by a crash counts as never
  // written.
  Journal(std::string path, const nlohmann::ordered_json& work);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Those of earlier runs, in order.
  const std::vector<nlohmann::ordered_json>& finished() const { return finished_; }
  void add(const nlohmann::ordered_json& part);  // on the disk when it returns
  void remove();                                 // once the results are kept elsewhere

 private:
  void read(const nlohmann::ordered_json& work);

  std::string path_;
  std::vector<nlohmann::ordered_json> finished_;
  std::FILE* file_ = nullptr;
};

}  // namespace dovetail::bench
