// Real processes that serve a small control socket of their own, and a discovery that looks for them.
#pragma once

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "operations/discovery/discovery.h"
#include "tests/eventually.h"
#include "tests/operations/child.h"
#include "tests/operations/fake_job_socket.h"
#include "tests/temporary_directory.h"

namespace stepwatch::testing {

using operations::Discovery;
using operations::DiscoveryOptions;
using operations::Line;

inline std::string StartText(const std::string& run, int rank) {
  return R"({"t":1,"run":")" + run + R"(","rank":)" + std::to_string(rank) +
         R"(,"event":{"kind":"start","world":1,"host":"h1"}})";
}
inline std::string BeatText(const std::string& run, int rank, int step) {
  return R"({"t":2,"run":")" + run + R"(","rank":)" + std::to_string(rank) + R"(,"beat":{"step":)" +
         std::to_string(step) + R"(,"phase":"train"}})";
}

// A process with a control socket at DIRECTORY/PID-1.sock, as soon as there is one.
class ServingJob {
 public:
  ServingJob(const TemporaryDirectory& directory, const std::string& run, int rank)
      : child_([&] {
          const std::vector<std::string> lines = {StartText(run, rank), BeatText(run, rank, 7)};
          ServeAt(ListenAt(PathOf(directory, ::getpid())), [=](const std::string& target) {
            if (target == "/metrics") return HttpOk("# TYPE step gauge\nstep 7\n");
            return Beats(run, rank, lines, SinceOf(target));
          });
        }),
        path_(PathOf(directory, child_.pid())) {
    if (!Eventually([&] { return std::filesystem::exists(path_); })) throw std::runtime_error("no control socket");
  }
  static std::string PathOf(const TemporaryDirectory& directory, pid_t pid) {
    return directory / (std::to_string(pid) + "-1.sock");
  }

  Child child_;
  const std::string path_;
};

struct Watch {
  explicit Watch(const std::string& directory, Discovery::Dependencies dependencies = {},
                 DiscoveryOptions settings = {}, const std::vector<operations::KnownProcess>& known = {}) {
    settings.directories = {directory};
    settings.host = "h1";
    discovery = std::make_unique<Discovery>(
        loop, settings, [this](const Line& line) { lines.push_back(line); }, std::move(dependencies));
    discovery->Remember(known);
    discovery->Start();
  }

  bool Until(const std::function<bool()>& condition) {
    return Eventually([&] {
      loop.poll();
      return condition();
    });
  }
  size_t Count(const std::string& run, const std::string& kind) const {
    return static_cast<size_t>(std::count_if(
        lines.begin(), lines.end(), [&](const Line& line) { return line.run == run && KindOf(line) == kind; }));
  }
  bool Sees(const std::string& run, const std::string& kind) {
    return Until([&] { return Count(run, kind) > 0; });
  }
  std::vector<Line> Of(const std::string& kind) const {
    std::vector<Line> found;
    std::copy_if(lines.begin(), lines.end(), std::back_inserter(found),
                 [&](const Line& line) { return KindOf(line) == kind; });
    return found;
  }
  // Everything that is due soon.
  void RunFor(std::chrono::milliseconds time) { loop.run_for(time); }

  boost::asio::io_context loop;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard{loop.get_executor()};
  std::vector<Line> lines;
  std::unique_ptr<Discovery> discovery;
};

// A job that a discovery has found.
struct FoundJob {
  TemporaryDirectory directory;
  ServingJob job{directory, "r1", 0};
  Watch watch{directory.path()};

  FoundJob() {
    if (!watch.Sees("r1", "beat")) throw std::runtime_error("the job was not found");
  }
};

}  // namespace stepwatch::testing
