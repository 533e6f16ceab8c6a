// Each system call of the CSV sink fails once, with each errno: after one retry the files are those of a run without
// faults.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "src/base/file.h"
#include "src/sinks/sink_makers.h"
#include "tests/catch.h"
#include "tests/fault/faulty_files.h"
#include "tests/rounds.h"
#include "tests/sinks/sink_fixture.h"

namespace stepwatch::sinks {
namespace {

using namespace test;
using Files = std::map<std::string, std::string>;

// Two kinds, four steps in files of two, then a plan with other columns in the last bucket; one file has half a line of
// an earlier writer, and the directory is made by the sink.
struct Outcome {
  Files files;
  Journal journal;
  std::string trouble;  // a frame that needed more than one retry, or was counted wrongly
};

void WriteFrame(Sink* sink, const RecordLayout& layout, int64_t step, Outcome* outcome) {
  const Frame frame(step, {NormRecord(0, 1), NormRecord(1, 0.25), NormRecord(0, 3)});
  WriteResult result = sink->Write(layout, frame.view);
  size_t written = result.written;
  if (!result.status.ok()) {
    if (result.status.message().empty()) outcome->trouble += "an error without a sentence; ";
    result = sink->Write(layout, frame.view);
    written += result.written;
  }
  if (!result.status.ok()) outcome->trouble += result.status.message() + "; ";
  if (written != 3) outcome->trouble += "counted " + std::to_string(written) + " of 3 rows; ";
}

Outcome RunScenario(const Fault& fault, bool directory_exists) {
  TemporaryDirectory base;
  const std::string directory = base / "run";
  Outcome outcome;
  RecordLayout layout = Layout({Site(SiteKind::kParamOrigin, "w", 0), Site(SiteKind::kParamUpdated, "w", 0)});
  layout.step_count_per_record = 2;
  if (directory_exists) {
    std::filesystem::create_directory(directory);
    WriteInPlace(directory + "/param_origin_0-1.csv", "vpp_stage,name,step,norm,shape,dtype\n0,w,0,5.0,[2],to");
  }
  {
    FaultyFiles faulty(fault, &outcome.journal);
    const std::unique_ptr<Sink> sink = MakeCsvSink({.directory = directory, .files = faulty});
    for (int64_t step = 0; step < 4; ++step) WriteFrame(sink.get(), layout, step, &outcome);
    sink->EndPlan(layout);
    layout.plan_id = 2;
    layout.stats = {Stat::kNorm};
    WriteFrame(sink.get(), layout, 3, &outcome);
    sink->EndPlan(layout);
    (void)sink->Flush();
  }
  outcome.files = ReadDirectory(directory);
  return outcome;
}

// With each of the errors; under a sanitizer with a few of them, with others at the next call.
void CheckEveryCall(Fault fault, const std::vector<int>& errors) {
  for (bool directory_exists : {false, true}) {
    fault.at = -1;
    const Outcome clean = RunScenario(fault, directory_exists);
    REQUIRE(clean.trouble.empty());
    REQUIRE(clean.files.size() == 6);
    for (size_t at = 0; at < clean.journal.calls.size(); ++at) {
      fault.at = static_cast<int>(at);
      const size_t every = testing::Every(6, errors.size());
      for (size_t i = at % every; i < errors.size(); i += every) {
        fault.error_number = errors[i];
        const Outcome outcome = RunScenario(fault, directory_exists);
        INFO("call " << at << " (" << clean.journal.calls[at] << "), errno " << errors[i] << ", directory "
                     << (directory_exists ? "exists" : "is made"));
        CHECK(outcome.journal.fault_met);
        CHECK(outcome.trouble == "");
        CHECK(outcome.files == clean.files);
      }
    }
  }
}

TEST_CASE("after one failed call and one retry the files are those of a run without faults", "[slow]") {
  CheckEveryCall({}, {EIO, ENOSPC, EDQUOT, EFBIG, EINTR, EAGAIN, EACCES, EPERM, ENOENT, EEXIST, EINVAL, EMFILE, ENFILE,
                      ENOMEM, EROFS, ESTALE, ENOTDIR});
}

TEST_CASE("the same holds on a file system that can only link", "[slow]") {
  Fault fault;
  fault.can_rename = false;
  CheckEveryCall(fault, {EIO, ENOSPC, EACCES, ENOENT, EEXIST, EPERM});
}

TEST_CASE("half a write and then a full disk leave no trace after the retry") {
  Fault fault;
  fault.error_number = ENOSPC;
  fault.half_written = true;
  const auto scenario = [&fault](bool directory_exists, int failures) {
    Fault none = fault;
    none.at = -1;
    const Outcome clean = RunScenario(none, directory_exists);
    fault.failures = failures;
    for (size_t at = 0; at < clean.journal.calls.size(); ++at) {
      if (clean.journal.calls[at] != "write") continue;
      fault.at = static_cast<int>(at) + 1;  // the write that would bring the other half
      const Outcome outcome = RunScenario(fault, directory_exists);
      INFO("after half of call " << at << " fail " << failures << " calls");
      CHECK(outcome.trouble == "");
      CHECK(outcome.files == clean.files);
    }
  };
  for (bool directory_exists : {false, true}) {
    scenario(directory_exists, 1);
    // The call after the failed write is the one that cuts the file back (or removes the temporary file).
    scenario(directory_exists, 2);
  }
}

TEST_CASE("a write that takes only half is completed") {
  Fault fault;
  fault.half_written = true;
  fault.failures = 0;
  const Outcome clean = RunScenario(Fault(), true);
  for (size_t at = 0; at < clean.journal.calls.size(); ++at) {
    fault.at = static_cast<int>(at) + 1;
    const Outcome outcome = RunScenario(fault, true);
    CHECK(outcome.trouble == "");
    CHECK(outcome.files == clean.files);
  }
}

TEST_CASE("a full disk and a file grown too big have a code of their own") {
  TemporaryDirectory base;
  RecordLayout layout = Layout({Site(SiteKind::kParamOrigin, "w", 0)});
  layout.step_count_per_record = 10;
  for (int error_number : {ENOSPC, EDQUOT, EFBIG, EIO}) {
    Journal calls;
    const Frame first(0, {NormRecord(0, 1)});
    const Frame second(1, {NormRecord(0, 1)});
    Journal journal;
    {
      FaultyFiles faulty({}, &calls);
      const auto sink = MakeCsvSink({.directory = base / "probe", .files = faulty});
      REQUIRE(sink->Write(layout, first.view).status.ok());
      REQUIRE(sink->Write(layout, second.view).status.ok());
    }
    std::filesystem::remove_all(base / "probe");
    const auto last_write = std::find(calls.calls.rbegin(), calls.calls.rend(), "write");
    Fault fault;
    fault.at = static_cast<int>(calls.calls.rend() - last_write) - 1;
    fault.error_number = error_number;
    FaultyFiles faulty(fault, &journal);
    const auto sink = MakeCsvSink({.directory = base / "probe", .files = faulty});
    REQUIRE(sink->Write(layout, first.view).status.ok());
    const WriteResult failed = sink->Write(layout, second.view);
    INFO(failed.status.message());
    CHECK(failed.written == 0);
    CHECK(failed.status.code() == (error_number == EIO ? StatusCode::kUnavailable : StatusCode::kExhausted));
    CHECK(failed.status.message().find(base / "probe/param_origin_0-9.csv") != std::string::npos);
    std::filesystem::remove_all(base / "probe");
  }
}

TEST_CASE("an discarded frame leaves no half line and the next frames go on") {
  TemporaryDirectory base;
  RecordLayout layout = Layout({Site(SiteKind::kParamOrigin, "w", 0)});
  layout.step_count_per_record = 10;
  const Frame first(0, {NormRecord(0, 1)});
  const Frame lost(1, {NormRecord(0, 1)});
  const Frame third(2, {NormRecord(0, 1)});
  Journal calls;
  {
    FaultyFiles faulty({}, &calls);
    const auto sink = MakeCsvSink({.directory = base / "clean", .files = faulty});
    REQUIRE(sink->Write(layout, first.view).status.ok());
  }
  Fault fault;
  // Without the close at the end; then stat, half a write, the other half and the cut fail.
  fault.at = static_cast<int>(calls.calls.size()) - 1 + 2;
  fault.failures = 2;
  fault.half_written = true;
  fault.error_number = ENOSPC;
  Journal journal;
  FaultyFiles faulty(fault, &journal);
  const auto sink = MakeCsvSink({.directory = base / "run", .files = faulty});
  REQUIRE(sink->Write(layout, first.view).status.ok());
  CHECK_FALSE(sink->Write(layout, lost.view).status.ok());
  CHECK(ReadDirectory(base / "run").at("param_origin_0-9.csv").back() != '\n');
  sink->Discard(layout, lost.view);
  CHECK(sink->Write(layout, third.view).status.ok());
  CHECK(ReadDirectory(base / "run").at("param_origin_0-9.csv") ==
        "vpp_stage,name,step,norm,shape,dtype\n0,w,0,1.0,[2],torch.float32\n0,w,2,1.0,[2],torch.float32\n");
}

// Another process makes the file just before this one would.
class RacingFiles final : public base::FileSystemWrapper {
 public:
  RacingFiles(std::string text, bool can_rename) : text_(std::move(text)), can_rename_(can_rename) {}

  int RenameNew(const char* from, const char* to) override {
    if (can_rename_) {
      WriteInPlace(to, text_);
      return FileSystemWrapper::RenameNew(from, to);
    }
    errno = EINVAL;
    return -1;
  }
  int Link(const char* from, const char* to) override {
    WriteInPlace(to, text_);
    return FileSystemWrapper::Link(from, to);
  }

 private:
  const std::string text_;
  const bool can_rename_;
};

TEST_CASE("a file that somebody makes at the same moment is never replaced") {
  const RecordLayout layout = Layout({Site(SiteKind::kParamOrigin, "w", 0)});
  const Frame frame(1, {NormRecord(0, 1)});
  const std::string header = "vpp_stage,name,step,norm,shape,dtype\n";
  const std::string row = "0,w,1,1.0,[2],torch.float32\n";
  for (bool can_rename : {true, false}) {
    TemporaryDirectory base;
    RacingFiles racing(header + "0,w,0,0.5,[2],x\n", can_rename);
    const auto sink = MakeCsvSink({.directory = base / "run", .files = racing});
    CHECK(sink->Write(layout, frame.view).status.ToString() == "ok");
    CHECK(ReadDirectory(base / "run") == Files{{"param_origin_1-1.csv", header + "0,w,0,0.5,[2],x\n" + row}});
  }
}

}  // namespace
}  // namespace stepwatch::sinks
