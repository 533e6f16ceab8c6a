// The permissions of the files that a run leaves behind.
#include <sys/stat.h>

#include "tests/api/job.h"

namespace stepwatch::testing {
namespace {

class Umask {
 public:
  explicit Umask(mode_t mask) : before_(::umask(mask)) {}
  ~Umask() { ::umask(before_); }
  Umask(const Umask&) = delete;
  Umask& operator=(const Umask&) = delete;

 private:
  const mode_t before_;
};

TEST_CASE("a umask that keeps others out keeps them out of rows, manifest, history and kept configs") {
  const Umask only_ours(077);
  StartedJob job(ConfigText({.collect_times = 2}, ", \"print_struct\": true"));
  job.TrainSteps(5);
  REQUIRE(job.WaitFor(EventKind::kWroteBack));
  job.Close();
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(job.options.output_dir)) {
    INFO(entry.path());
    struct stat about {};
    REQUIRE(::lstat(entry.path().c_str(), &about) == 0);
    CHECK((about.st_mode & 0077) == 0);
    names.push_back(entry.path().filename());
  }
  for (const char* name : {"manifest.json", "stepwatch_history.jsonl", "stepwatch_configs", "module_struct.json"})
    CHECK(std::count(names.begin(), names.end(), name) == 1);
}

TEST_CASE("whatever the umask, a write-back leaves the config open to those who could read it before") {
  for (const mode_t mode : {0600, 0640, 0664}) {
    const Umask mask(mode == 0600 ? 0 : 077);
    Job job(ConfigText({.collect_times = 1}));
    REQUIRE(::chmod(job.config_path.c_str(), mode) == 0);
    job.Start();
    job.TrainSteps(4);
    REQUIRE(job.WaitFor(EventKind::kWroteBack));
    struct stat about {};
    REQUIRE(::stat(job.config_path.c_str(), &about) == 0);
    CHECK((about.st_mode & 0777) == mode);
    CHECK(Contents(job.config_path) == ConfigText({.dynamic_on = false, .collect_times = 1}));
  }
}

}  // namespace
}  // namespace stepwatch::testing
