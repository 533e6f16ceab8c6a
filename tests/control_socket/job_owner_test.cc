#include "controller/control_socket/job_owner.h"

#include <map>

#include "src/base/file.h"
#include "src/base/pod_info.h"
#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace stepwatch::control_socket {
namespace {

using stepwatch::testing::TemporaryDirectory;

JobOwner Find(std::map<std::string, std::string> variables) {
  return FindJobOwner([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST_CASE("Slurm's variables give owner and partition, and the program's own variables replace them") {
  const JobOwner slurm =
      Find({{"SLURM_JOB_USER", "ada"}, {"SLURM_JOB_PARTITION", "a100"}, {"STEPWATCH_POD_LABELS", "/none"}});
  CHECK(slurm.owner == "ada");
  CHECK(slurm.partition == "a100");
  const JobOwner own =
      Find({{"SLURM_JOB_USER", "ada"}, {"STEPWATCH_OWNER", "team-x"}, {"STEPWATCH_POD_LABELS", "/none"}});
  CHECK(own.owner == "team-x");
  CHECK(own.partition.empty());
}

TEST_CASE("the labels of a pod give what no variable gives, and an absent label is absent") {
  const TemporaryDirectory directory;
  const std::string file = directory / "labels";
  REQUIRE(base::ReplaceFile(file, "app=\"gpt\"\nco-owner=\"eve\"\nowner=\"ada\"\nowner2=\"eve\"").ok());
  const JobOwner pod = Find({{"STEPWATCH_POD_LABELS", file}});
  CHECK(pod.owner == "ada");
  CHECK(pod.partition.empty());
  CHECK(Find({{"STEPWATCH_POD_LABELS", file}, {"SLURM_JOB_USER", "bob"}}).owner == "bob");
  CHECK(Find({{"STEPWATCH_POD_LABELS", directory / "none"}}).owner.empty());
  CHECK(Find({{"STEPWATCH_POD_LABELS", directory.path()}}).owner.empty());
}

TEST_CASE("an owner from outside is bounded and printable") {
  const JobOwner found = Find({{"SLURM_JOB_USER", std::string(100000, 'a')}, {"SLURM_JOB_PARTITION", "a\nb\x1b"}});
  CHECK(found.owner.size() <= JobOwner::kBytesMax + 3);
  CHECK(found.partition == "a\\x0ab\\x1b");
}

TEST_CASE("a value of a pod ends with its line, and one that is escaped or torn is none") {
  CHECK(base::PodValue("a=\"1\"\nb=\"2\"\n", "b") == "2");
  CHECK(base::PodValue("a=\"\"", "a").empty());
  for (const char* text : {"", "a", "a=", "a=\"", "a=\"1", "a=\"1\\n2\"", "\na", "ab=\"1\""}) {
    CAPTURE(text);
    CHECK(base::PodValue(text, "a").empty());
  }
}

}  // namespace
}  // namespace stepwatch::control_socket
