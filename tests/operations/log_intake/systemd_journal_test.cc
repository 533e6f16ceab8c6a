// With the real libsystemd, on files that the real systemd-journal-remote writes.
#include "operations/log_intake/systemd_journal.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/catch.h"
#include "tests/has.h"
#include "tests/temporary_directory.h"

namespace stepwatch::operations {
namespace {

using testing::Has;

constexpr const char* kWriter = "/lib/systemd/systemd-journal-remote";

bool HasWriter() {
  const bool has = std::filesystem::exists(kWriter);
  if (!has) WARN("systemd-journal-remote is not installed");
  return has;
}

// A directory with one file of a journal.
class Journal {
 public:
  Journal() {
    options.directory = place_.path();
    options.host = "n1";
  }

  // Appends an entry in the export format of journals.
  void Add(const std::string& fields) {
    ++number_;
    testing::WriteInPlace(place_ / "export",
                          "__REALTIME_TIMESTAMP=" + std::to_string(1'795'856'400'000'000 + number_ * 1'000'000) +
                              "\n__MONOTONIC_TIMESTAMP=" + std::to_string(number_ * 1'000'000) +
                              "\n_BOOT_ID=fdfa7d7a2f304e5c8b4f5e3a3a0a3b10\n_HOSTNAME=n1\n" + fields + "\n\n");
    const std::string command =
        std::string(kWriter) + " -o " + (place_ / "remote.journal") + " " + (place_ / "export") + " >/dev/null 2>&1";
    REQUIRE(std::system(command.c_str()) == 0);
    std::filesystem::remove(place_ / "export");
  }
  std::unique_ptr<SystemdJournal> Open(const std::string& cursor = "") {
    auto opened = SystemdJournal::Open(options, cursor, [this](const std::string& note) { notes.push_back(note); });
    INFO(opened.status().message());
    REQUIRE(opened.ok());
    return std::move(opened).value();
  }

  JournalOptions options{.matches = {"train"}, .directory = {}, .host = {}};
  std::vector<std::string> notes;

 private:
  const testing::TemporaryDirectory place_;
  int number_ = 0;
};

JournalBatch Read(SystemdJournal* journal) {
  Result<JournalBatch> batch = journal->Read(1000);
  INFO(batch.status().message());
  REQUIRE(batch.ok());
  return std::move(batch).value();
}

TEST_CASE("entries of a unit after the first start are read with unit, time, level and process") {
  if (!HasWriter()) return;
  Journal journal;
  journal.Add("MESSAGE=before\n_SYSTEMD_UNIT=train.service");
  const auto opened = journal.Open();
  CHECK(Read(opened.get()).lines.empty());
  journal.Add("MESSAGE=other\n_SYSTEMD_UNIT=other.service");
  journal.Add("MESSAGE=step 3: loss nan\nPRIORITY=3\n_SYSTEMD_UNIT=train.service\nSYSLOG_IDENTIFIER=python3\n_PID=77");
  JournalBatch batch;
  for (int i = 0; i < 100 && batch.lines.empty(); ++i) batch = Read(opened.get());
  REQUIRE(batch.lines.size() == 1);
  const SentLine& line = batch.lines[0];
  CHECK(line.text == "step 3: loss nan");
  CHECK(line.source == "train.service");
  CHECK(line.component == "python3");
  CHECK(line.host == "n1");
  CHECK(line.t == 1'795'856'403.0);
  CHECK(line.level == logs::Level::kError);
  CHECK(line.pid == 77);
  CHECK(line.id.size() == 32);
  CHECK_FALSE(batch.cursor.empty());
}

TEST_CASE("a restart reads on behind the kept entry") {
  if (!HasWriter()) return;
  Journal journal;
  journal.Add("MESSAGE=zero\n_SYSTEMD_UNIT=train.service");
  const auto first = journal.Open();
  journal.Add("MESSAGE=one\n_SYSTEMD_UNIT=train.service");
  JournalBatch batch;
  for (int i = 0; i < 100 && batch.lines.empty(); ++i) batch = Read(first.get());
  journal.Add("MESSAGE=two\n_SYSTEMD_UNIT=train.service");
  const auto second = journal.Open(batch.cursor);
  const JournalBatch after = Read(second.get());
  REQUIRE(after.lines.size() == 1);
  CHECK(after.lines[0].text == "two");
  CHECK(after.lines[0].id != batch.lines[0].id);
  CHECK(journal.notes.empty());
}

TEST_CASE("the journal may be empty at the start") {
  if (!HasWriter()) return;
  Journal journal;
  const auto opened = journal.Open();
  CHECK(Read(opened.get()).lines.empty());
  journal.Add("MESSAGE=one\n_SYSTEMD_UNIT=train.service");
  JournalBatch batch;
  for (int i = 0; i < 100 && batch.lines.empty(); ++i) batch = Read(opened.get());
  REQUIRE(batch.lines.size() == 1);
}

TEST_CASE("matches of fields, entries about a unit, and those of the kernel are read") {
  if (!HasWriter()) return;
  Journal journal;
  journal.options.matches = {"train.service", "_TRANSPORT=kernel"};
  journal.Add("MESSAGE=zero\n_SYSTEMD_UNIT=train.service");
  const auto opened = journal.Open();
  journal.Add("MESSAGE=about\nUNIT=train.service\n_SYSTEMD_UNIT=init.scope");
  journal.Add("MESSAGE=of the kernel\n_TRANSPORT=kernel\nSYSLOG_IDENTIFIER=kernel");
  journal.Add("MESSAGE=none\n_SYSTEMD_UNIT=other.service");
  std::vector<SentLine> lines;
  for (int i = 0; i < 100 && lines.size() < 2; ++i)
    for (SentLine& line : Read(opened.get()).lines) lines.push_back(std::move(line));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].text == "about");
  CHECK_FALSE(lines[0].is_of_kernel);
  CHECK(lines[1].source == "kernel");
  CHECK(lines[1].is_of_kernel);
}

TEST_CASE("a match that is none, and a machine without the library, are reported") {
  if (!HasWriter()) return;
  Journal journal;
  journal.options.matches = {"no field=1"};
  const auto wrong = SystemdJournal::Open(journal.options, "", [](const std::string&) {});
  REQUIRE_FALSE(wrong.ok());
  CHECK(Has(wrong.status().message(), "no field=1"));
  journal.options.library = "libnone.so.9";
  const auto none = SystemdJournal::Open(journal.options, "", [](const std::string&) {});
  REQUIRE_FALSE(none.ok());
  CHECK(none.status().code() == StatusCode::kNotFound);
}

}  // namespace
}  // namespace stepwatch::operations
