#include "src/offline/metric_file.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "src/offline/kinds.h"
#include "tests/catch.h"
#include "tests/offline/offline_fixture.h"

namespace stepwatch::offline {
namespace {

using namespace test;

MetricFile OpenText(const TemporaryDirectory& base, const std::string& text, std::vector<std::string> wanted = {}) {
  Result<MetricFile> file = MetricFile::Open(Put(base.path(), "actv_0-4.csv", text), wanted);
  REQUIRE(file.ok());
  return std::move(file).value();
}

bool Next(MetricFile* file, MetricRow* row) {
  const Result<bool> got = file->Next(row);
  REQUIRE(got.ok());
  return got.value();
}

TEST_CASE("rows of msProbe's and of our files become numbers") {
  TemporaryDirectory base;
  MetricFile file = OpenText(base,
                             "vpp_stage,name,step,micro_step,norm,min,max,id,shape,dtype,plan_id\n"
                             "1,fc.output@1,7,2,4.5,-inf,inf,nan,\"[5, 4]\",torch.float32,3\n"
                             "0,.input,7,0,1.2e-05,False,True,,[],torch.bool,3\n"
                             "0,.input,7,1,nan,nan,nan,nan,nan,nan,3\n");
  CHECK(file.stats() == std::vector<std::string>{"norm", "min", "max", "id"});
  CHECK(file.has_micro_step());
  MetricRow row;
  REQUIRE(Next(&file, &row));
  CHECK(row.vpp_stage == 1);
  CHECK(row.name == "fc.output@1");
  CHECK(row.step == 7);
  CHECK(row.micro_step == 2);
  CHECK(row.values[0] == 4.5);
  CHECK(row.values[1] == -std::numeric_limits<double>::infinity());
  CHECK(row.values[2] == std::numeric_limits<double>::infinity());
  CHECK(std::isnan(row.values[3]));
  REQUIRE(Next(&file, &row));
  CHECK(row.values[0] == 1.2e-05);
  CHECK(row.values[1] == 0);
  CHECK(row.values[2] == 1);
  CHECK(std::isnan(row.values[3]));
  REQUIRE(Next(&file, &row));
  CHECK(std::isnan(row.values[0]));
  CHECK(!Next(&file, &row));
  CHECK(file.rows() == 3);
  CHECK(file.Note() == "");
}

TEST_CASE("a file without micro_step gives 0, and only the wanted statistics are read, in the wanted order") {
  TemporaryDirectory base;
  MetricFile file = OpenText(base, "vpp_stage,name,step,max,junk,norm\n0,w,1,2.0,?,3.0\n", {"norm", "zeros", "max"});
  CHECK(!file.has_micro_step());
  CHECK(file.stats() == std::vector<std::string>{"norm", "max"});
  MetricRow row;
  REQUIRE(Next(&file, &row));
  CHECK(row.micro_step == 0);
  CHECK(row.values == std::vector<double>{3.0, 2.0});
}

TEST_CASE("malformed rows are skipped, counted, and the first is named") {
  TemporaryDirectory base;
  MetricFile file = OpenText(base,
                             "vpp_stage,name,step,norm\n"
                             "all_reduce,1.0,2,3\n"
                             "0,w,1,5.0\n"
                             "0,w,2,5.0,6.0\n"
                             "0,w,x,5.0\n"
                             "0,w,3,5.0x\n"
                             "0,w\xff,3,5.0\n"
                             "0,w\xc3\xa4,4,1e400\n"
                             "0,w,5,5");
  MetricRow row;
  REQUIRE(Next(&file, &row));
  CHECK(row.step == 1);
  REQUIRE(Next(&file, &row));
  CHECK(row.values[0] == std::numeric_limits<double>::infinity());
  CHECK(!Next(&file, &row));
  CHECK(file.rows() == 2);
  CHECK(file.rows_skipped() == 5);
  CHECK(Has(file.Note(), "5 malformed rows"));
  CHECK(Has(file.Note(), "line 2: vpp_stage \"all_reduce\" is not a number"));
  CHECK(Has(file.Note(), "ends in the middle of line 9"));
}

TEST_CASE("a file without our columns is refused, an empty one has no rows") {
  TemporaryDirectory base;
  const std::vector<std::string> all;
  const auto refused = MetricFile::Open(Put(base.path(), "a.csv", "module_name,stack_info\n"), all);
  CHECK(refused.status().code() == StatusCode::kInvalid);
  CHECK(Has(refused.status().message(), "vpp_stage"));
  MetricFile empty = OpenText(base, "");
  MetricRow row;
  CHECK(!Next(&empty, &row));
}

TEST_CASE("names of metric files hold kind and steps") {
  const std::vector<std::string>& kinds = MainKinds();
  const auto parsed = ParseMetricFileName("actv_grad_10-19.csv", kinds);
  REQUIRE(parsed);
  CHECK(parsed->kind == "actv_grad");
  CHECK(parsed->first_step == 10);
  CHECK(parsed->last_step == 19);
  for (const char* name : {"actv_0-0.csv", "actv_0-4_p2.csv", "exp_avg_sq_0-4_p12_3.csv", "actv_0-4_s2_p1.csv"})
    CHECK(ParseMetricFileName(name, kinds));
  for (const char* name :
       {"actv.csv", "actv_0.csv", "actv_0-4.csv.bak", "actv_0-4_part_1.csv", "actv_a-b.csv", "stack_info.csv",
        ".stepwatch-actv_0-4.csv.12", "actv_-1-4.csv", "exp_avg_sq2_0-4.csv", "actv_0-4_p.csv", "actv_0-4_s.csv", ""})
    CHECK(!ParseMetricFileName(name, kinds));
}

TEST_CASE("files are listed by their first step, parts without a header are noted") {
  TemporaryDirectory base;
  for (const char* name : {"actv_10-19.csv", "actv_0-9_p2.csv", "actv_0-9.csv", "actv_0-9_part_0.csv", "other.txt",
                           "actv_10-19_s10.csv", "actv_10-19_s9.csv"})
    Put(base.path(), name, "x\n");
  const Result<MetricFileList> list = ListMetricFiles(base.path(), MainKinds());
  REQUIRE(list.ok());
  REQUIRE(list.value().files.size() == 5);
  CHECK(list.value().files[3].path == base / "actv_10-19_s9.csv");
  CHECK(list.value().files[4].path == base / "actv_10-19_s10.csv");
  CHECK(list.value().files[0].path == base / "actv_0-9.csv");
  CHECK(list.value().files[1].path == base / "actv_0-9_p2.csv");
  CHECK(list.value().files[2].path == base / "actv_10-19.csv");
  CHECK(list.value().files[0].bytes == 2);
  REQUIRE(list.value().notes.size() == 1);
  CHECK(list.value().notes[0] == base / "actv_0-9_part_0.csv" + " has no header and was left out");
}

}  // namespace
}  // namespace stepwatch::offline
