#include "controller/cli/edit_target.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "src/json/json.h"
#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace stepwatch::cli {
namespace {

control_socket::FoundJob JobOf(const std::string& name, const std::string& config, int rank = 0, bool dynamic = true) {
  return {name, "/run/" + name + ".sock", 0,
          Json({{"config_path", config}, {"dynamic", dynamic}, {"rank", rank}, {"run_id", name}}).dump(), ""};
}

TEST_CASE("a config is changed through the job that watches just that file") {
  const testing::TemporaryDirectory directory;
  const std::string config = directory / "config.json";
  testing::WriteByRename(config, "{}");
  std::filesystem::create_symlink(config, directory / "link.json");
  const std::vector<control_socket::FoundJob> jobs = {JobOf("1-1", directory / "other.json"), JobOf("2-1", config, 1),
                                                      JobOf("3-1", config, 0), JobOf("4-1", config, 2)};
  const std::string here = directory / ".";
  for (const std::string& word : {config, std::string("config.json"), std::string("link.json")}) {
    const EditTarget target = ChooseTarget(jobs, word, here).value();
    CHECK(target.config == word);
    REQUIRE(target.job);
    CHECK(target.job->name == "3-1");  // rank 0
  }
  CHECK_FALSE(ChooseTarget({JobOf("5-1", config, 0, false)}, config, here).value().job);  // static: it does not look
  CHECK_FALSE(ChooseTarget({}, config, here).value().job);
}

TEST_CASE("a config is named by its job as well, and the only job need not be named") {
  const testing::TemporaryDirectory directory;
  const std::vector<control_socket::FoundJob> jobs = {JobOf("1-1", "/a.json"), JobOf("2-1", "/b.json")};
  CHECK(ChooseTarget(jobs, "2-1", "/").value().config == "/b.json");
  CHECK(ChooseTarget({jobs[0]}, "", "/").value().job->name == "1-1");
  CHECK(ChooseTarget(jobs, "", "/").status().code() == StatusCode::kInvalid);
  CHECK(ChooseTarget({}, "", "/").status().code() == StatusCode::kUnavailable);
  const EditTarget missing = ChooseTarget(jobs, "missing.json", directory / ".").value();
  CHECK(missing.config == "missing.json");
  CHECK_FALSE(missing.job);
}

}  // namespace
}  // namespace stepwatch::cli
