// SPDX-License-Identifier: Apache-2.0
#include "models/base/json/write_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "models/base/errors.hpp"

using namespace dovetail;
namespace fs = std::filesystem;

namespace {

// A directory of its own for one test case.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "dovetail-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  fs::path operator/(const std::string& name) const { return path_ / name; }
  std::ptrdiff_t files() const { return std::distance(fs::directory_iterator(path_), fs::directory_iterator()); }

 private:
  fs::path path_;
};

std::string content_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string refusal_to_write(const fs::path& path) {
  try {
    write_file(path, "x");
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "written";
}

}  // namespace

TEST_CASE("A file is written whole and leaves nothing else") {
  const Folder folder;
  write_file(folder / "a.json", "{}\n");
  CHECK(content_of(folder / "a.json") == "{}\n");
  write_file(folder / "a.json", "[1]", Durability::Flush);
  CHECK(content_of(folder / "a.json") == "[1]");
  CHECK(folder.files() == 1);
}

TEST_CASE("Nothing changes before finish") {
  const Folder folder;
  write_file(folder / "a", "old");
  {
    OutputFile file(folder / "a");
    file.write("new");
    CHECK(content_of(folder / "a") == "old");
  }
  CHECK(content_of(folder / "a") == "old");
  CHECK(folder.files() == 1);
}

TEST_CASE("Pieces arrive in order, two writers do not meet") {
  const Folder folder;
  OutputFile first(folder / "a"), second(folder / "a");
  for (int i = 0; i < 100'000; ++i) first.write("0123456789");
  second.write("second");
  second.finish();
  CHECK(content_of(folder / "a") == "second");
  first.finish();
  CHECK(content_of(folder / "a").size() == 1'000'000);
  CHECK_THROWS_AS(first.write("more"), InternalError);
}

TEST_CASE("Replacing keeps permissions and follows links") {
  const Folder folder;
  write_file(folder / "a", "old");
  fs::permissions(folder / "a", fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("a", folder / "link");
  write_file(folder / "link", "new");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(content_of(folder / "a") == "new");
  CHECK(fs::status(folder / "a").permissions() == (fs::perms::owner_read | fs::perms::owner_write));
}

TEST_CASE("A link to a file that is not there yet makes that file") {
  const Folder folder;
  fs::create_directory(folder / "there");
  fs::create_symlink("there/next", folder / "link");
  fs::create_symlink("b", folder / "there/next");
  write_file(folder / "link", "new");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(fs::is_symlink(folder / "there/next"));
  CHECK(content_of(folder / "there/b") == "new");
  fs::create_symlink("nowhere/b", folder / "lost");
  CHECK(refusal_to_write(folder / "lost") ==
        "cannot write " + (folder / "lost").string() + ": No such file or directory");
  fs::create_symlink("round", folder / "round");
  CHECK(refusal_to_write(folder / "round").ends_with("Too many levels of symbolic links"));
}

TEST_CASE("Files that killed writers left are removed by the next one, those of living ones are not") {
  const Folder folder;
  const auto leave = [&](const std::string& name) {
    std::ofstream(folder / name) << "half";
    return ::open((folder / name).c_str(), O_RDWR);
  };
  ::close(leave(".dovetail.1-0.tmp"));
  ::close(leave(".other.1-0.tmp"));
  const int living = leave(".dovetail.2-0.tmp");
  ::flock(living, LOCK_EX);
  fs::create_symlink(".other.1-0.tmp", folder / ".dovetail.3-0.tmp");
  write_file(folder / "a", "x");
  CHECK_FALSE(fs::exists(folder / ".dovetail.1-0.tmp"));
  for (const char* kept : {".other.1-0.tmp", ".dovetail.2-0.tmp", ".dovetail.3-0.tmp", "a"})
    CHECK(fs::exists(folder / kept));
  ::close(living);
  { const OutputFile file(folder / "a"); }
  CHECK_FALSE(fs::exists(folder / ".dovetail.2-0.tmp"));
  CHECK(folder.files() == 3);
}

TEST_CASE("A path that cannot be written is named with the reason") {
  const Folder folder;
  write_file(folder / "file", "x");
  CHECK(refusal_to_write(folder / "file/below") ==
        "cannot write " + (folder / "file/below").string() + ": Not a directory");
  CHECK(refusal_to_write(folder / "missing/a") ==
        "cannot write " + (folder / "missing/a").string() + ": No such file or directory");
  CHECK(refusal_to_write(folder / "missing/") == "cannot write " + (folder / "missing/").string() + ": Is a directory");
  CHECK(refusal_to_write(fs::path(folder / "x").parent_path()).ends_with(": Is a directory"));
  CHECK(refusal_to_write(folder / std::string(300, 'n')).ends_with(": File name too long"));
  CHECK(refusal_to_write("") == "cannot write \"\": no file name");
  CHECK_THROWS_AS(write_file("/proc/version_of_dovetail", "x"), InputError);
  CHECK(folder.files() == 1);
}

TEST_CASE("A full disk is an error of the device, not of the input") {
  CHECK_THROWS_AS(write_file("/dev/full", "x"), DeviceError);
  CHECK(refusal_to_write("/dev/full") == "cannot write /dev/full: No space left on device (28)");
}

TEST_CASE("Devices and pipes are written, not replaced") {
  write_file("/dev/null", "x");
  CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("A dash is standard output") {
  const Folder folder;
  std::fflush(stdout);
  const int saved = ::dup(STDOUT_FILENO);
  std::FILE* capture = std::fopen((folder / "out").c_str(), "w");
  ::dup2(::fileno(capture), STDOUT_FILENO);
  write_file("-", "{}");
  ::dup2(saved, STDOUT_FILENO);
  ::close(saved);
  std::fclose(capture);
  CHECK(content_of(folder / "out") == "{}");
}
