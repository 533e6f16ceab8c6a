// anomaly.json under calls that fail: a reader finds a whole document at any moment, and a retry brings every entry.
#include <cerrno>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "src/output/anomaly_file.h"
#include "tests/catch.h"
#include "tests/fault/faulty_files.h"
#include "tests/rounds.h"
#include "tests/sinks/sink_fixture.h"

namespace stepwatch::output {
namespace {

using namespace sinks::test;

// Looks at the file like a reader, between all calls that could change it.
class WatchedFiles final : public FaultyFiles {
 public:
  WatchedFiles(const Fault& fault, Journal* journal, std::string path, std::string* trouble)
      : FaultyFiles(fault, journal), path_(std::move(path)), trouble_(*trouble) {}

  ssize_t Write(int fd, const void* bytes, size_t count) override {
    const ssize_t put = FaultyFiles::Write(fd, bytes, count);
    Look();
    return put;
  }
  int Rename(const char* from, const char* to) override {
    const int result = FaultyFiles::Rename(from, to);
    Look();
    return result;
  }
  int Link(const char* from, const char* to) override {
    const int result = FaultyFiles::Link(from, to);
    has_links_ = has_links_ && result == 0;
    return result;
  }

 private:
  void Look() {
    const int error_number = errno;
    const bool exists = std::filesystem::exists(path_);
    const bool there_all_along = seen_ && has_links_;
    seen_ = seen_ || exists;
    if ((exists || there_all_along) && !nlohmann::json::accept(Contents(path_)))
      trouble_ += "a reader found half a document; ";
    errno = error_number;
  }

  const std::string path_;
  std::string& trouble_;
  bool seen_ = false;
  bool has_links_ = true;
};

struct Outcome {
  std::map<std::string, std::string> files;
  Journal journal;
  std::string trouble;
};

Outcome RunScenario(const Fault& fault, bool previous) {
  TemporaryDirectory base;
  const std::string directory = base / "anomaly_detected/rank0";
  Outcome outcome;
  if (previous) {
    std::filesystem::create_directories(directory);
    WriteInPlace(directory + "/anomaly.json", "{\n \"old\": {}\n}\n");
  }
  output::AnomalyFile::Time now;
  WatchedFiles files(fault, &outcome.journal, directory + "/anomaly.json", &outcome.trouble);
  output::AnomalyFile file(directory, output::AnomalyFile::kBytesMax, files);
  const auto save = [&] {
    for (int tries = 0; file.unsaved() && tries < 3; ++tries) {
      const Status saved = file.Advance(now, false);
      if (!saved.ok() && saved.message().empty()) outcome.trouble += "an error without a sentence; ";
      now += std::chrono::seconds(2);
    }
    if (file.unsaved()) outcome.trouble += "not saved; ";
  };
  file.EnsureExists();
  save();
  for (const char* entry : {" \"a\": 1", " \"b\": 2"}) {
    if (!file.Add(entry)) outcome.trouble += "not added; ";
    save();
  }
  outcome.files = ReadDirectory(directory);
  return outcome;
}

TEST_CASE("whatever call fails, anomaly.json is whole at any moment and complete after a retry", "[slow]") {
  const int errors[] = {EIO, ENOSPC, EDQUOT, EFBIG, EINTR, EACCES, EPERM, ENOENT, EEXIST, EMFILE, EROFS};
  for (bool previous : {false, true}) {
    const Outcome clean = RunScenario(Fault(), previous);
    REQUIRE(clean.trouble.empty());
    CHECK(clean.files.at("anomaly.json") == "{\n \"a\": 1,\n \"b\": 2\n}\n");
    CHECK(clean.files.size() == (previous ? 2 : 1));
    for (size_t at = 0; at < clean.journal.calls.size(); ++at) {
      const size_t every = testing::Every(6, std::size(errors));
      for (size_t i = at % every; i < std::size(errors); i += every) {
        Fault fault;
        fault.at = static_cast<int>(at);
        fault.error_number = errors[i];
        const Outcome outcome = RunScenario(fault, previous);
        INFO("call " << at << " (" << clean.journal.calls[at] << "), errno " << errors[i]);
        CHECK(outcome.trouble == "");
        CHECK(outcome.files.at("anomaly.json") == clean.files.at("anomaly.json"));
      }
    }
  }
}

TEST_CASE("half a write and a full disk leave the earlier document") {
  const Outcome clean = RunScenario(Fault(), false);
  for (size_t at = 0; at < clean.journal.calls.size(); ++at) {
    if (clean.journal.calls[at] != "write") continue;
    Fault fault;
    fault.at = static_cast<int>(at) + 1;
    fault.error_number = ENOSPC;
    fault.half_written = true;
    const Outcome outcome = RunScenario(fault, false);
    CHECK(outcome.trouble == "");
    CHECK(outcome.files == clean.files);
  }
}

}  // namespace
}  // namespace stepwatch::output
