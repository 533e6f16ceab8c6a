#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/offline/anomaly_file.h"
#include "stepwatch/offline.h"
#include "tests/catch.h"
#include "tests/offline/offline_fixture.h"

namespace stepwatch::offline {
namespace {

using namespace test;
using Json = nlohmann::ordered_json;

Json Entry(int rank, int step, int pp, int vpp, int call, const std::string& tag, const std::string& message) {
  return {{"rank", rank},    {"step", step},    {"micro_step", 0},    {"pp_stage", pp},       {"vpp_stage", vpp},
          {"call_id", call}, {"tag_name", tag}, {"message", message}, {"group_mates", {0, 1}}};
}

// A directory anomaly_detected with two ranks.
struct Alarms {
  TemporaryDirectory base;
  SortAnomaliesOptions options;
  Json rank0 = Json::object();
  Json rank1 = Json::object();

  Alarms() {
    options.data_path = base / "anomaly_detected";
    Add(&rank0, Entry(0, 2, 0, 0, 5, "0:fc.output:0/rank0/actv", "later step"));
    Add(&rank0, Entry(0, 1, 0, 0, 9, "0:fc.input:0/rank0/actv_grad", "backward, first stage"));
    Add(&rank0, Entry(0, 1, 0, 1, 3, "1:fc.weight/rank0/exp_avg", "optimizer, second chunk"));
    Add(&rank0, Entry(0, 1, 0, 0, 1, "0:fc.weight/rank0/exp_avg", "optimizer, first chunk"));
    Add(&rank0, Entry(0, 1, 0, 0, -1, "0:fc.weight/rank0/param_origin", "no stage"));
    Add(&rank1, Entry(1, 1, 1, 0, 9, "0:fc.input:0/rank1/actv_grad", "backward, last stage"));
    Add(&rank1, Entry(1, 1, 1, 0, 4, "0:fc.input:0/rank1/actv", "forward, later call"));
    Add(&rank1, Entry(1, 1, 1, 0, 2, "0:fc.output:0/rank1/actv", "forward, earlier call"));
    Write();
  }
  void Add(Json* file, const Json& entry) {
    const std::string key = entry["tag_name"].get<std::string>() + "_step_" + std::to_string(entry["step"].get<int>()) +
                            "_call_" + std::to_string(entry["call_id"].get<int>());
    (*file)[key] = entry;
  }
  void Write() {
    Put(options.data_path, "rank0/anomaly.json", rank0.dump(1));
    Put(options.data_path, "rank1/anomaly.json", rank1.dump(1));
  }
  SortedAnomalies Sort() const {
    const Result<SortedAnomalies> sorted = SortAnomalies(options);
    REQUIRE(sorted.ok());
    return sorted.value();
  }
};

TEST_CASE("alarms of all ranks are sorted as a training step goes") {
  Alarms alarms;
  alarms.options.topk = 100;
  const SortedAnomalies sorted = alarms.Sort();
  CHECK(sorted.found == 8);
  CHECK(sorted.messages == std::vector<std::string>{"no stage", "forward, earlier call", "forward, later call",
                                                    "backward, last stage", "backward, first stage",
                                                    "optimizer, second chunk", "optimizer, first chunk", "later step"});
}

TEST_CASE("the result holds the first k entries as they were, in order") {
  Alarms alarms;
  alarms.options.topk = 3;
  const SortedAnomalies sorted = alarms.Sort();
  CHECK(sorted.output == alarms.options.data_path + "/anomaly_analyse.json");
  CHECK(sorted.found == 8);
  const Json written = Json::parse(Contents(sorted.output));
  std::vector<std::string> keys;
  for (const auto& [key, entry] : written.items()) keys.push_back(key);
  CHECK(keys == std::vector<std::string>{"0:fc.weight/rank0/param_origin_step_1_call_-1",
                                         "0:fc.output:0/rank1/actv_step_1_call_2",
                                         "0:fc.input:0/rank1/actv_step_1_call_4"});
  CHECK(written.at(keys[1]) == alarms.rank1.at(keys[1]));
}

TEST_CASE("only the chosen steps are looked at") {
  Alarms alarms;
  alarms.options.steps = {2, 77};
  CHECK(alarms.Sort().messages == std::vector<std::string>{"later step"});
  alarms.options.steps = {77};
  CHECK(alarms.Sort().messages.empty());
  CHECK(Json::parse(Contents(alarms.options.data_path + "/anomaly_analyse.json")) == Json::object());
}

TEST_CASE("two alarms of one tag whose keys carry the statistic are both kept, fields of ours too") {
  Alarms alarms;
  alarms.rank0 = Json::object();
  alarms.rank1 = Json::object();
  Json entry = Entry(0, 1, 0, 0, 2, "0:fc.output:0/rank0/actv", "norm");
  entry["op"] = "norm";
  alarms.rank0["0:fc.output:0/rank0/actv_norm_step_1_call_2"] = entry;
  entry["message"] = entry["op"] = "mean";
  alarms.rank0["0:fc.output:0/rank0/actv_mean_step_1_call_2"] = entry;
  alarms.Write();
  const SortedAnomalies sorted = alarms.Sort();
  CHECK(sorted.messages == std::vector<std::string>{"norm", "mean"});
  CHECK(Json::parse(Contents(sorted.output)).at("0:fc.output:0/rank0/actv_mean_step_1_call_2").at("op") == "mean");
}

TEST_CASE("two files with one key lose nothing") {
  Alarms alarms;
  alarms.rank0 = {{"k", Entry(0, 1, 0, 0, 2, "0:a/actv", "zero")}};
  alarms.rank1 = {{"k", Entry(1, 1, 0, 0, 2, "0:a/actv", "one")}};
  alarms.Write();
  const Json written = Json::parse(Contents(alarms.Sort().output));
  CHECK(written.at("k").at("message") == "zero");
  CHECK(written.at("k_rank1").at("message") == "one");
}

TEST_CASE("a file that cannot be sorted gives its place and reason, and no output") {
  Alarms alarms;
  const auto refused = [&alarms] { return SortAnomalies(alarms.options).status(); };
  alarms.options.topk = 0;
  CHECK(refused().message() == "The top k number must be greater than 0.");
  alarms.options.topk = 8;
  alarms.options.out_path = alarms.base / "missing";
  CHECK(refused().code() == StatusCode::kNotFound);
  alarms.options.out_path.clear();
  const std::string path = Put(alarms.options.data_path, "rank1/anomaly.json", "{\"k\": {\"step\": 1");
  CHECK(Has(refused().message(), path));
  Put(alarms.options.data_path, "rank1/anomaly.json", "{\"k\": {\"step\": \"1\", \"tag_name\": \"t\"}}");
  CHECK(Has(refused().message(), path + ": \"k\" is not an alarm"));
  CHECK(!std::filesystem::exists(alarms.options.data_path + "/anomaly_analyse.json"));
  alarms.options.data_path = alarms.base.path();
  CHECK(Has(refused().message(), "anomaly_detected exists; use that directory"));
  alarms.options.out_path = alarms.base.path();
  alarms.options.data_path = alarms.base / "missing";
  CHECK(refused().code() == StatusCode::kNotFound);
  alarms.options.out_path = path;
  CHECK(refused().message() == path + " is not a directory");
}

TEST_CASE("a directory without files of alarms is not the one that was meant") {
  Alarms alarms;
  alarms.options.data_path = alarms.base / "other";
  Put(alarms.options.data_path, "config.json", "{}");
  const Status refused = SortAnomalies(alarms.options).status();
  CHECK(refused.code() == StatusCode::kNotFound);
  CHECK(Has(refused.message(), "no rank*/anomaly.json in " + alarms.options.data_path));
  CHECK(!std::filesystem::exists(alarms.options.data_path + "/anomaly_analyse.json"));
}

TEST_CASE("alarms are read from regular files, without waiting for anything else") {
  Alarms alarms;
  const std::string path = alarms.options.data_path + "/rank0/anomaly.json";
  std::filesystem::remove(path);
  SECTION("a FIFO") {
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  }
  SECTION("an endless device") {
    std::filesystem::create_symlink("/dev/zero", path);
  }
  const Status refused = SortAnomalies(alarms.options).status();
  CHECK(refused.code() == StatusCode::kInvalid);
  CHECK(Has(refused.message(), "only a regular file is accepted"));
}

TEST_CASE("an empty file is one without alarms") {
  Alarms alarms;
  Put(alarms.options.data_path, "rank0/anomaly.json", "");
  CHECK(alarms.Sort().found == 3);
}

}  // namespace
}  // namespace stepwatch::offline
