#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "src/offline/scalar_series.h"
#include "stepwatch/offline.h"
#include "tests/catch.h"
#include "tests/offline/offline_fixture.h"

namespace stepwatch::offline {
namespace {

using namespace test;

const std::string kHeader = "vpp_stage,name,step,norm\n";

std::vector<sinks::SummaryEvent> Events(const std::vector<MetricFileEntry>& entries) {
  ScalarSeries series;
  WorkState state;
  for (const MetricFileEntry& entry : entries) {
    Result<MetricFile> file = MetricFile::Open(entry.path, {});
    REQUIRE(file.ok());
    REQUIRE(series.Add(entry, &file.value(), &state).ok());
  }
  std::vector<sinks::SummaryEvent> events;
  const Status emitted = series.Emit(1.0, [&events](const sinks::SummaryEvent& event) {
    events.push_back(event);
    return Status();
  });
  REQUIRE(emitted.ok());
  return events;
}

TEST_CASE("rows become events by step, with a tag for each statistic") {
  TemporaryDirectory base;
  const std::string path = Put(base.path(), "actv_0-4.csv",
                               "vpp_stage,name,step,micro_step,norm,nans,shape,dtype\n"
                               "0,fc.input,3,1,2.5,1,\"[5, 4]\",torch.float32\n"
                               "1,.output,2,0,nan,0,[],torch.float32\n"
                               "0,fc.input,2,1,1.5,0,\"[5, 4]\",torch.float32\n");
  const auto events = Events({{{"actv", 0, 4}, path, 0}});
  REQUIRE(events.size() == 2);
  CHECK(events[0].step == 2);
  REQUIRE(events[0].scalars.size() == 4);
  CHECK(events[0].scalars[0].tag == "vp0:fc.input:micro1/norm");
  CHECK(events[0].scalars[0].value == 1.5);
  CHECK(events[0].scalars[1].tag == "vp0:fc.input:micro1/nans");
  CHECK(events[0].scalars[2].tag == "vp1:.output:micro0/norm");
  CHECK(std::isnan(events[0].scalars[2].value));
  CHECK(events[1].step == 3);
  CHECK(events[1].scalars[0].value == 2.5);
}

TEST_CASE("rows of communication operators become events, one for each side and tensor of a step") {
  TemporaryDirectory base;
  const std::string path = Put(base.path(), "other_0-1.csv",
                               "vpp_stage,name,step,norm,shape,dtype\n"
                               "0,all_reduce.pre_0,0,1.0,[2],torch.float32\n"
                               "0,all_reduce.post_0,0,2.0,nan,torch.float32\n"
                               "0,all_reduce.post_0,1,3.0,nan,nan\n");
  const auto events = Events({{{"other", 0, 1}, path, 0}});
  REQUIRE(events.size() == 2);
  REQUIRE(events[0].scalars.size() == 2);
  CHECK(events[0].scalars[0].tag == "vp0:all_reduce.pre_0/norm");
  CHECK(events[0].scalars[1].tag == "vp0:all_reduce.post_0/norm");
  CHECK(events[1].scalars[0].value == 3.0);
}

TEST_CASE("files of overlapping steps, as after an edit in mid-range, are merged by step") {
  TemporaryDirectory base;
  const std::string first = Put(base.path(), "a.csv", kHeader + "0,w,0,1\n0,w,2,3\n");
  const std::string second = Put(base.path(), "b.csv", "vpp_stage,name,step,max\n0,w,1,2\n0,w,3,4\n");
  const auto events = Events({{{"grad_reduced", 0, 4}, first, 0}, {{"grad_reduced", 0, 4}, second, 0}});
  REQUIRE(events.size() == 4);
  for (int64_t step = 0; step < 4; ++step) {
    CHECK(events[static_cast<size_t>(step)].step == step);
    CHECK(events[static_cast<size_t>(step)].scalars[0].value == static_cast<double>(step + 1));
    CHECK(events[static_cast<size_t>(step)].scalars[0].tag == (step % 2 == 0 ? "vp0:w/norm" : "vp0:w/max"));
  }
}

// A base with one run of one rank.
struct Run {
  TemporaryDirectory base;
  CsvToTensorBoardOptions options;

  Run() {
    options.monitor_path = base / "monitor_output";
    options.output_dirpath = base / "tb";
    std::filesystem::create_directories(options.monitor_path + "/" + kRank0);
  }
  std::string Add(const std::string& name, const std::string& text, const std::string& directory = kRank0) {
    return Put(options.monitor_path + "/" + directory, name, text);
  }
  std::vector<std::string> Places() const {
    std::vector<std::string> places;
    for (const auto& [path, text] : ReadTree(options.output_dirpath))
      places.push_back(std::filesystem::path(path).parent_path().string());
    return places;
  }
};

TEST_CASE("each rank and kind has its directory, kinds without rows have none") {
  Run run;
  run.Add("grad_reduced_0-0.csv", kHeader + "0,w,0,1\n");
  run.Add("grad_reduced_1-1.csv", kHeader + "0,w,1,1\n");
  run.Add("other_0-0.csv", kHeader + "0,w,0,1\n");
  run.Add("param_origin_0-0.csv", kHeader);
  run.Add("attention_hook_0-0.csv", "vpp_stage,name,step,micro_step,entropy,softmax_max\n0,att.attention,0,0,1,2\n",
          "Dec03_21-34-41-rank3-bbbbbbbb");
  run.options.process_num = 3;
  const Result<Conversion> done = CsvToTensorBoard(run.options);
  REQUIRE(done.ok());
  CHECK(run.Places() == std::vector<std::string>{"rank0/grad_reduced", "rank0/other", "rank3/attention_hook"});
  CHECK(done.value().directories == 2);
  CHECK(done.value().files == 5);
  CHECK(done.value().rows == 4);
}

TEST_CASE("chosen kinds and times are all that is converted") {
  Run run;
  run.Add("grad_reduced_0-0.csv", kHeader + "0,w,0,1\n");
  run.Add("param_origin_0-0.csv", kHeader + "0,w,0,1\n");
  run.Add("param_origin_0-0.csv", kHeader + "0,w,0,1\n", "Dec04_21-34-41-rank1-bbbbbbbb");
  run.options.data_type_list = {"param_origin"};
  run.options.range = {"Dec03_00-00-00", "Dec03_23-59-59"};
  REQUIRE(CsvToTensorBoard(run.options).ok());
  CHECK(run.Places() == std::vector<std::string>{"rank0/param_origin"});
}

TEST_CASE("the same step of a tag twice is an error with both places, and leaves nothing") {
  const bool in_one_file = GENERATE(true, false);
  Run run;
  const std::string first = run.Add("grad_reduced_0-4.csv", kHeader + "0,w,0,1\n0,v,0,1\n");
  std::string second;
  if (in_one_file) {
    run.Add("grad_reduced_0-4.csv", kHeader + "0,w,0,1\n0,v,0,1\n0,w,0,2\n");
  } else {
    second = run.Add("grad_reduced_0-4_p2.csv", kHeader + "0,w,0,2\n");
  }
  run.Add("param_origin_0-4.csv", kHeader + "0,w,0,1\n");
  const Result<Conversion> done = CsvToTensorBoard(run.options);
  CHECK(done.status().code() == StatusCode::kInvalid);
  CHECK(Has(done.status().message(),
            (in_one_file ? first + ", line 4" : second + ", line 2") + ": vp0:w has step 0 twice"));
  CHECK(Has(done.status().message(), "first in " + first + ", line 2"));
  CHECK(!std::filesystem::exists(run.options.output_dirpath));
}

TEST_CASE("a row outside the steps of its file is an error with its place") {
  Run run;
  const std::string path = run.Add("grad_reduced_0-4.csv", kHeader + "0,w,5,1\n");
  CHECK(Has(CsvToTensorBoard(run.options).status().message(),
            path + ", line 2: step 5 is outside the steps of the file, 0 to 4"));
}

TEST_CASE("an older result stays until the new one is whole, then goes, and other files stay") {
  Run run;
  run.Add("grad_reduced_0-4.csv", kHeader + "0,w,0,1\n0,w,0,1\n");
  Put(run.options.output_dirpath, "rank0/grad_reduced/events.out.tfevents.1.old.1", "old");
  Put(run.options.output_dirpath, "rank0/actv/events.out.tfevents.1.old.1", "old");
  const auto before = ReadTree(run.options.output_dirpath);
  CHECK(!CsvToTensorBoard(run.options).ok());
  CHECK(ReadTree(run.options.output_dirpath) == before);
  run.Add("grad_reduced_0-4.csv", kHeader + "0,w,0,1\n");
  REQUIRE(CsvToTensorBoard(run.options).ok());
  CHECK(run.Places() == std::vector<std::string>{"rank0/actv", "rank0/grad_reduced"});
  CHECK(ReadTree(run.options.output_dirpath).count("rank0/grad_reduced/events.out.tfevents.1.old.1") == 0);
}

TEST_CASE("a stopped conversion leaves nothing") {
  Run run;
  std::string rows = kHeader;
  for (int i = 0; i < 300000; ++i) rows += "0,w" + std::to_string(i) + ",0,1\n";
  run.Add("grad_reduced_0-4.csv", rows);
  const Result<Conversion> done = CsvToTensorBoard(run.options, [](const Progress&) { return false; });
  CHECK(done.status().code() == StatusCode::kUnavailable);
  CHECK(!std::filesystem::exists(run.options.output_dirpath));
}

TEST_CASE("options that are not usable are refused with the usable ones") {
  Run run;
  run.Add("grad_reduced_0-0.csv", kHeader + "0,w,0,1\n");
  run.options.data_type_list = {"grad"};
  CHECK(Has(CsvToTensorBoard(run.options).status().message(), "data type(grad) is not supported"));
  run.options.data_type_list = {};
  for (int process_num : {0, -1, 129}) {
    run.options.process_num = process_num;
    CHECK(CsvToTensorBoard(run.options).status().code() == StatusCode::kOutOfRange);
  }
  run.options.process_num = 1;
  run.options.range = {"Jan01_00-00-00", "Jan02_00-00-00"};
  CHECK(Has(CsvToTensorBoard(run.options).status().message(), "no run directories"));
  run.options.range = {};
  run.options.data_type_list = {"exp_avg"};
  CHECK(Has(CsvToTensorBoard(run.options).status().message(), "no files of these kinds"));
}

TEST_CASE("without an output directory the result lies beside the runs, under the time") {
  Run run;
  run.Add("grad_reduced_0-0.csv", kHeader + "0,w,0,1\n");
  run.options.output_dirpath.clear();
  const Result<Conversion> done = CsvToTensorBoard(run.options);
  REQUIRE(done.ok());
  CHECK(std::filesystem::exists(done.value().output + "/rank0/grad_reduced"));
  CHECK(Has(done.value().output, run.options.monitor_path + "/"));
  CHECK(Has(done.value().output, "-csv2tensorboard_by_step"));
}

}  // namespace
}  // namespace stepwatch::offline
