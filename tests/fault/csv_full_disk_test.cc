// A disk that is really full: a tiny tmpfs, where one may be mounted.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

#include "src/sinks/sink_makers.h"
#include "tests/catch.h"
#include "tests/sinks/sink_fixture.h"

namespace stepwatch::sinks {
namespace {

using namespace test;

const std::string kNotPossible = "not possible here";

// Runs `work` in a child process, whose mounts end with it, and returns its answer: empty if all was well.
std::string InChild(const std::function<std::string()>& work) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    const std::string answer = work();
    const ssize_t put = ::write(ends[1], answer.data(), answer.size());
    ::_exit(put == static_cast<ssize_t>(answer.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string answer;
  char block[4096];
  for (ssize_t got; (got = ::read(ends[0], block, sizeof block)) > 0;) answer.append(block, static_cast<size_t>(got));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? answer : "the child ended with status " + std::to_string(status);
}

RecordLayout TwoKinds() {
  RecordLayout layout = Layout({Site(SiteKind::kParamOrigin, "w", 0), Site(SiteKind::kParamUpdated, "w", 0)});
  layout.step_count_per_record = 1000;
  return layout;
}

std::string ExpectedText(int64_t steps) {
  std::string text = "vpp_stage,name,step,norm,shape,dtype\n";
  for (int64_t step = 0; step < steps; ++step)
    for (int row = 0; row < 7; ++row) text += "0,w," + std::to_string(step) + ",0.1,[2],torch.float32\n";
  return text;
}

// Writes steps until one fails, frees space, goes on to the last step.
std::string WriteThroughFullDisk(const std::string& directory, const std::function<void()>& free_space) {
  constexpr int64_t kSteps = 400;
  const std::unique_ptr<Sink> sink = MakeCsvSink({directory});
  const RecordLayout layout = TwoKinds();
  std::vector<Record> records(14, NormRecord(0, 0.1));
  for (size_t i = 7; i < 14; ++i) records[i].site = 1;
  bool failed = false;
  for (int64_t step = 0; step < kSteps; ++step) {
    const Frame frame(step, records);
    WriteResult result = sink->Write(layout, frame.view);
    size_t written = result.written;
    if (!result.status.ok() && !failed) {
      failed = true;
      if (result.status.code() != StatusCode::kExhausted) return "wrong code: " + result.status.message();
      for (const auto& [name, text] : ReadDirectory(directory))
        if (name.rfind("param", 0) == 0 && text.back() != '\n') return name + " ends with half a line";
      for (int i = 0; i < 3; ++i) written += sink->Write(layout, frame.view).written;  // still full: nothing changes
      free_space();
      result = sink->Write(layout, frame.view);
      written += result.written;
    }
    if (!result.status.ok()) return "step " + std::to_string(step) + ": " + result.status.message();
    if (written != 14) return "counted " + std::to_string(written) + " of 14 rows";
  }
  if (!failed) return "the disk never was full";
  for (const char* name : {"param_origin_0-999.csv", "param_updated_0-999.csv"})
    if (Contents(directory + "/" + name) != ExpectedText(kSteps)) return std::string(name) + " is not whole";
  return "";
}

TEST_CASE("a full disk is survived and nothing is lost once there is space") {
  TemporaryDirectory base;
  const std::string answer = InChild([&base]() -> std::string {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", base.path().c_str(), "tmpfs", 0, "size=256k") != 0)
      return kNotPossible;
    test::WriteInPlace(base / "ballast", std::string(200 << 10, 'x'));
    return WriteThroughFullDisk(base / "run", [&base] { std::filesystem::resize_file(base / "ballast", 0); });
  });
  if (answer == kNotPossible) {
    WARN("this user may not mount a tmpfs: the disk was not full");
    return;
  }
  CHECK(answer == "");
}

}  // namespace
}  // namespace stepwatch::sinks
