#include <sqlite3.h>

#include <filesystem>
#include <string>
#include <vector>

#include "src/offline/trend_scan.h"
#include "stepwatch/offline.h"
#include "tests/catch.h"
#include "tests/offline/offline_fixture.h"

namespace stepwatch::offline {
namespace {

using namespace test;

using RowTexts = std::vector<std::string>;

// The rows of a query, cells joined by "|", NULL as "-".
RowTexts Query(const std::string& path, const std::string& sql) {
  sqlite3* handle = nullptr;
  REQUIRE(sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READONLY, nullptr) == SQLITE_OK);
  sqlite3_stmt* statement = nullptr;
  REQUIRE(sqlite3_prepare_v2(handle, sql.c_str(), -1, &statement, nullptr) == SQLITE_OK);
  RowTexts rows;
  while (sqlite3_step(statement) == SQLITE_ROW) {
    std::string row;
    for (int i = 0; i < sqlite3_column_count(statement); ++i) {
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, i));
      row += (i > 0 ? "|" : "") + std::string(text == nullptr ? "-" : text);
    }
    rows.push_back(row);
  }
  sqlite3_finalize(statement);
  sqlite3_close(handle);
  return rows;
}

// Two ranks with different micro-steps, steps with gaps, all sorts of values.
struct Runs {
  TemporaryDirectory base;
  CsvToDatabaseOptions options;

  Runs() {
    options.database = base / "db/monitor_data.trend.db";
    options.directories = {{0, base / "zero"}, {3, base / "three"}};
    Put(base.path(), "zero/actv_0-4.csv",
        "vpp_stage,name,step,micro_step,norm,min,max,shape,dtype\n"
        "0,.input,0,0,1.0,False,True,\"[5, 1]\",torch.bool\n"
        "0,layers.0.fc.input_0,0,0,inf,-inf,2e9,[5],torch.float32\n"
        "0,layers.0.fc.input_0,0,1,nan,nan,nan,nan,nan\n"
        "1,layers.0.fc.output@1,2,0,5,1,2,[5],torch.float32\n"
        "1,layers.0.fc.output@1,2,2,6,1,2,[5],torch.float32\n");
    Put(base.path(), "zero/grad_reduced_0-4.csv",
        "vpp_stage,name,step,norm,shape,dtype\n"
        "0,a.1.2.b,0,1.0,[],torch.float32\n"
        "0,seq.0,2,2.0,[],torch.float32\n"
        "0,seq.0,4,2.5,[],torch.float32\n"
        "all_reduce,1.0,2,3\n");
    Put(base.path(), "zero/attention_hook_0-4.csv",
        "vpp_stage,name,step,micro_step,entropy,softmax_max\n0,att.attention,0,1,1.0,0.5\n");
    Put(base.path(), "zero/other_0-4.csv", "vpp_stage,name,step,norm,entropy\n0,a.1.2.b,0,1.0,7\n");
    Put(base.path(), "three/actv_0-4.csv",
        "vpp_stage,name,step,micro_step,norm,min,max,shape,dtype\n"
        "0,layers.0.fc.input_0,0,2,1,1,1,nan,nan\n"
        "0,layers.0.fc.input_0,3,0,1,1,1,nan,nan\n");
  }
  RowTexts Ask(const std::string& sql) const { return Query(options.database, sql); }
  RowTexts Trend() const {
    return Ask(
        "SELECT rank, step, target_name, vpp_stage, micro_step, metric_name, norm, min, max, entropy FROM trend_data "
        "JOIN monitoring_targets USING (target_id) JOIN monitoring_metrics USING (metric_id) ORDER BY 1, 2, 6, 3, 5");
  }
};

TEST_CASE("micro-steps of all steps are numbered through, NaN is NULL, large values are cut") {
  Runs runs;
  runs.options.process_num = GENERATE(1, 4);
  const Result<Conversion> done = CsvToDatabase(runs.options);
  REQUIRE(done.ok());
  CHECK(done.value().rows == 11);
  CHECK(done.value().rows_skipped == 1);
  CHECK(runs.Trend() == RowTexts{
                            "0|0|.input|0|0|actv|1.0|0.0|1.0|-",
                            "0|0|layers.0.fc.input_0|0|0|actv|1000000001.0|-1000000001.0|1000000000.0|-",
                            "0|0|a.1.2.b|0|0|grad_reduced|1.0|-|-|-",
                            "0|0|a.1.2.b|0|0|other|1.0|-|-|7.0",
                            "0|1|layers.0.fc.input_0|0|0|actv|-|-|-|-",
                            "0|3|layers.0.fc.output@1|1|0|actv|5.0|1.0|2.0|-",
                            "0|3|seq.0|0|0|grad_reduced|2.0|-|-|-",
                            "0|5|layers.0.fc.output@1|1|0|actv|6.0|1.0|2.0|-",
                            "0|7|seq.0|0|0|grad_reduced|2.5|-|-|-",
                            "3|2|layers.0.fc.input_0|0|0|actv|1.0|1.0|1.0|-",
                            "3|6|layers.0.fc.input_0|0|0|actv|1.0|1.0|1.0|-",
                        });
  CHECK(runs.Ask("SELECT min_step, max_step, max_rank, actv, grad_reduced, other FROM global_stats") ==
        RowTexts{"0|7|3|norm,min,max|norm|norm,entropy"});
  CHECK(runs.Ask("SELECT name FROM pragma_table_info('trend_data')") ==
        RowTexts{"rank", "step", "target_id", "metric_id", "norm", "min", "max", "entropy"});
}

TEST_CASE("real steps have a target for each micro-step") {
  Runs runs;
  runs.options.micro_step = false;
  REQUIRE(CsvToDatabase(runs.options).ok());
  CHECK(runs.Trend() == RowTexts{
                            "0|0|.input|0|0|actv|1.0|0.0|1.0|-",
                            "0|0|layers.0.fc.input_0|0|0|actv|1000000001.0|-1000000001.0|1000000000.0|-",
                            "0|0|layers.0.fc.input_0|0|1|actv|-|-|-|-",
                            "0|0|a.1.2.b|0|0|grad_reduced|1.0|-|-|-",
                            "0|0|a.1.2.b|0|0|other|1.0|-|-|7.0",
                            "0|2|layers.0.fc.output@1|1|0|actv|5.0|1.0|2.0|-",
                            "0|2|layers.0.fc.output@1|1|2|actv|6.0|1.0|2.0|-",
                            "0|2|seq.0|0|0|grad_reduced|2.0|-|-|-",
                            "0|4|seq.0|0|0|grad_reduced|2.5|-|-|-",
                            "3|0|layers.0.fc.input_0|0|2|actv|1.0|1.0|1.0|-",
                            "3|3|layers.0.fc.input_0|0|0|actv|1.0|1.0|1.0|-",
                        });
  CHECK(runs.Ask("SELECT min_step, max_step, max_rank FROM global_stats") == RowTexts{"0|4|3"});
}

TEST_CASE("targets are found by the parts of their names") {
  const auto names = [](const std::string& target) {
    std::string text;
    for (const TrendTag& tag : TagsOf(target)) text += tag.name + ":" + tag.category + " ";
    return text;
  };
  CHECK(names("layers.0.fc.weight") == "fc:module layers:module layers.0:layer weight:module ");
  CHECK(names("a.1.2.b") == "a:module a.1:layer b:module ");
  CHECK(names("0.weight") == "weight:module ");
  CHECK(names(".input") == ":module input:module ");
  Runs runs;
  REQUIRE(CsvToDatabase(runs.options).ok());
  CHECK(runs.Ask("SELECT tag_name, category FROM tag_target_mapping JOIN monitoring_tags USING (tag_id) "
                 "JOIN monitoring_targets USING (target_id) JOIN monitoring_metrics USING (metric_id) "
                 "WHERE target_name = 'seq.0' AND metric_name = 'grad_reduced' ORDER BY 1") ==
        RowTexts{"seq|module", "seq.0|layer"});
  CHECK(runs.Ask("PRAGMA foreign_key_check").empty());
}

TEST_CASE("rows of communication operators are targets of the metric other, and msProbe's malformed ones are not") {
  TemporaryDirectory base;
  CsvToDatabaseOptions options;
  options.database = base / "db/monitor_data.trend.db";
  options.directories = {{0, base / "zero"}};
  Put(base.path(), "zero/other_0-0.csv",
      "vpp_stage,name,step,norm,max,shape,dtype\n"
      "0,all_reduce.pre_0,0,1.0,1.0,[2],torch.float32\n"
      "0,all_reduce.post_0,0,5.0,True,nan,nan\n"
      "0,fc.weight,0,1.0,1.0,[],torch.float32\n"
      "all_reduce,1.0,0,2.0,3.0,nan,nan\n");
  const Result<Conversion> done = CsvToDatabase(options);
  REQUIRE(done.ok());
  CHECK((done.value().rows == 3 && done.value().rows_skipped == 1));
  CHECK(Query(options.database,
              "SELECT target_name, vpp_stage, metric_name, norm, max FROM trend_data JOIN monitoring_targets "
              "USING (target_id) JOIN monitoring_metrics USING (metric_id) ORDER BY 1") ==
        RowTexts{"all_reduce.post_0|0|other|5.0|1.0", "all_reduce.pre_0|0|other|1.0|1.0", "fc.weight|0|other|1.0|1.0"});
  CHECK(Query(options.database,
              "SELECT tag_name, category FROM tag_target_mapping JOIN monitoring_tags USING (tag_id) "
              "JOIN monitoring_targets USING (target_id) WHERE target_name = 'all_reduce.post_0' ORDER BY 1") ==
        RowTexts{"all_reduce|module", "post_0|module"});
}

TEST_CASE("the mapping replaces parts of names, in its order") {
  Runs runs;
  runs.options.mapping = {{"layers.0", "first"}, {"first.fc", "x"}, {"", "never"}};
  REQUIRE(CsvToDatabase(runs.options).ok());
  CHECK(runs.Ask("SELECT target_name FROM monitoring_targets ORDER BY 1") ==
        RowTexts{".input", "a.1.2.b", "seq.0", "x.input_0", "x.output@1"});
}

TEST_CASE("rows that are there already are left out, counted and noted") {
  Runs runs;
  const std::string path =
      Put(runs.base.path(), "zero/other_0-4_p2.csv", "vpp_stage,name,step,norm\n0,a.1.2.b,0,9.0\n0,a.1.2.b,2,9.0\n");
  const Result<Conversion> done = CsvToDatabase(runs.options);
  REQUIRE(done.ok());
  CHECK(runs.Ask("SELECT norm FROM trend_data WHERE metric_id = 3") == RowTexts{"1.0", "9.0"});
  const std::string notes = done.value().notes.at(0) + done.value().notes.at(1);
  CHECK(Has(notes, "1 rows were left out"));
  CHECK(Has(notes, path + ", line 2"));
}

TEST_CASE("an older database stays until the new one is whole") {
  Runs runs;
  Put(runs.base.path(), "db/monitor_data.trend.db", "old");
  Put(runs.base.path(), "three/exp_avg_0-4.csv", "no,header\n");
  CHECK(!CsvToDatabase(runs.options).ok());
  CHECK(Contents(runs.options.database) == "old");
  std::filesystem::remove(runs.base / "three/exp_avg_0-4.csv");
  REQUIRE(CsvToDatabase(runs.options).ok());
  CHECK(runs.Ask("PRAGMA integrity_check") == RowTexts{"ok"});
  CHECK(test::ReadTree(runs.base / "db").size() == 1);
}

TEST_CASE("a database whose journal shows that it is in use is not replaced") {
  Runs runs;
  Put(runs.base.path(), "db/monitor_data.trend.db-wal", "frames");
  const Status refused = CsvToDatabase(runs.options).status();
  CHECK(refused.code() == StatusCode::kUnavailable);
  CHECK(Has(refused.message(), "monitor_data.trend.db-wal"));
}

TEST_CASE("an import without rows has another code than an import that cannot be done") {
  Runs runs;
  CsvToDatabaseOptions options = runs.options;
  options.directories = {};
  CHECK(CsvToDatabase(options).status().code() == StatusCode::kNotFound);
  Put(runs.base.path(), "empty/note.txt", "");
  options.directories = {{0, runs.base / "empty"}};
  CHECK(CsvToDatabase(options).status().code() == StatusCode::kNotFound);
  Put(runs.base.path(), "empty/actv_0-0.csv", "vpp_stage,name,step,norm\n");
  CHECK(CsvToDatabase(options).status().code() == StatusCode::kNotFound);
  options.directories = {{0, runs.base / "missing"}};
  CHECK(CsvToDatabase(options).status().code() == StatusCode::kInvalid);
  options = runs.options;
  options.data_type_list = {"attention_hook"};
  CHECK(CsvToDatabase(options).status().code() == StatusCode::kInvalid);
  options = runs.options;
  options.database = runs.base.path();
  CHECK(CsvToDatabase(options).status().code() == StatusCode::kInvalid);
  CHECK(!std::filesystem::exists(runs.base / "db"));
}

}  // namespace
}  // namespace stepwatch::offline
