#include <cmath>
#include <filesystem>
#include <limits>
#include <string>

#include "src/sinks/format_sink.h"
#include "src/sinks/sink_makers.h"
#include "tests/catch.h"
#include "tests/sinks/event_reader.h"
#include "tests/sinks/sink_fixture.h"

namespace stepwatch::sinks {
namespace {

using namespace test;

std::unique_ptr<Sink> SinkAt(const std::string& directory, int rank = 0) {
  return MakeTensorBoardSink({directory, rank, [] { return 1700000000.5; }});
}

std::vector<test::Point> OnlyFile(const std::string& directory) {
  const std::vector<std::string> files = EventFiles(directory);
  REQUIRE(files.size() == 1);
  return ReadPoints(files[0]);
}

TEST_CASE("each number is a scalar with the tag of its record and statistic, at its step") {
  TemporaryDirectory base;
  const auto sink = SinkAt(base / "a/run", 3);
  const RecordLayout layout =
      Layout({Site(SiteKind::kActv, "fc.input", 0, Port::kInput, 1), Site(SiteKind::kGradReduced, "fc.weight", 0)});
  Record gradient = NormRecord(1, 0.5);
  AddValue(&gradient, Integer(Stat::kNans, 2));
  const Frame frame(7, {NormRecord(0, 2, 1), gradient});
  const WriteResult result = sink->Write(layout, frame.view);
  CHECK(result.status.ToString() == "ok");
  CHECK(result.written == 2);
  const auto points = OnlyFile(base / "a/run");
  CHECK(PointsText(points) ==
        "7 1:fc.input:1/rank3/actv_norm 2.000000\n"
        "7 0:fc.weight/rank3/post_grad_norm 0.500000\n"
        "7 0:fc.weight/rank3/post_grad_nans 2.000000\n");
  CHECK(points[0].wall_time == 1700000000.5);
}

TEST_CASE("nothing appears before the first scalar") {
  TemporaryDirectory base;
  const auto sink = SinkAt(base / "run");
  Record missing = NormRecord(0, 1);
  missing.flags = Record::kMissing;
  const Frame frame(0, {missing});
  CHECK(sink->Write(Layout({Site(SiteKind::kParamOrigin, "w", 0)}), frame.view).written == 1);
  CHECK_FALSE(std::filesystem::exists(base / "run"));
}

TEST_CASE("missing tensors, shape, dtype and the id of anything but a scalar have no point") {
  TemporaryDirectory base;
  const auto sink = SinkAt(base.path());
  const RecordLayout layout = Layout({Site(SiteKind::kParamOrigin, "w", 0), Site(SiteKind::kParamOrigin, "s", 1)});
  Record missing = NormRecord(0, 1);
  missing.flags = Record::kMissing;
  Record tensor;
  SetShape(&tensor, {3});
  AddValue(&tensor, Real(Stat::kId, std::numeric_limits<double>::quiet_NaN()));
  Record scalar;
  scalar.site = 1;
  AddValue(&scalar, Real(Stat::kId, 4));
  const Frame frame(0, {missing, tensor, scalar});
  CHECK(sink->Write(layout, frame.view).written == 3);
  CHECK(PointsText(OnlyFile(base.path())) == "0 0:s/rank0/param_origin_id 4.000000\n");
}

TEST_CASE("NaN and infinities are points") {
  TemporaryDirectory base;
  const auto sink = SinkAt(base.path());
  const Frame frame(0, {NormRecord(0, std::numeric_limits<double>::quiet_NaN()),
                        NormRecord(0, -std::numeric_limits<double>::infinity()), NormRecord(0, 1e300)});
  CHECK(sink->Write(Layout({Site(SiteKind::kParamOrigin, "w", 0)}), frame.view).written == 3);
  const auto points = OnlyFile(base.path());
  REQUIRE(points.size() == 3);
  CHECK(std::isnan(points[0].value));
  CHECK(points[1].value == -std::numeric_limits<float>::infinity());
  CHECK(points[2].value == std::numeric_limits<float>::infinity());
}

TEST_CASE("steps and plans go to one file, and the same frame not twice") {
  TemporaryDirectory base;
  const auto sink = SinkAt(base.path());
  RecordLayout layout = Layout({Site(SiteKind::kParamOrigin, "w", 0)});
  for (int64_t step : {1, 2, 2}) {
    const Frame frame(step, {NormRecord(0, 1)});
    CHECK(sink->Write(layout, frame.view).status.ok());
  }
  sink->EndPlan(layout);
  layout.plan_id = 2;
  const Frame frame(5, {NormRecord(0, 2)});
  CHECK(sink->Write(layout, frame.view).written == 1);
  CHECK(PointsText(OnlyFile(base.path())) ==
        "1 0:w/rank0/param_origin_norm 1.000000\n"
        "2 0:w/rank0/param_origin_norm 1.000000\n"
        "5 0:w/rank0/param_origin_norm 2.000000\n");
}

TEST_CASE("a name that is not UTF-8 leaves the file readable") {
  TemporaryDirectory base;
  const auto sink = SinkAt(base.path());
  const Frame frame(0, {NormRecord(0, 1)});
  CHECK(sink->Write(Layout({Site(SiteKind::kParamOrigin, "caf\xe9", 0)}), frame.view).written == 1);
  CHECK(OnlyFile(base.path())[0].tag == "0:caf\xef\xbf\xbd/rank0/param_origin_norm");
}

TEST_CASE("a killed writer's half record stays in its own file") {
  TemporaryDirectory base;
  const RecordLayout layout = Layout({Site(SiteKind::kParamOrigin, "w", 0)});
  const Frame frame(1, {NormRecord(0, 1)});
  CHECK(SinkAt(base.path())->Write(layout, frame.view).status.ok());
  const std::string first = EventFiles(base.path())[0];
  std::filesystem::resize_file(first, std::filesystem::file_size(first) - 5);
  const std::string torn = Contents(first);
  CHECK(SinkAt(base.path())->Write(layout, frame.view).status.ok());
  CHECK(Contents(first) == torn);
  CHECK(ReadPoints(first + ".1").size() == 1);
}

TEST_CASE("the rows of each plan go to the files of its format, and all of them count as written") {
  TemporaryDirectory base;
  FormatSink sink(0);
  RecordLayout layout = Layout({Site(SiteKind::kParamOrigin, "w", 0)});
  const auto write = [&](OutputFormat format, int64_t step) {
    layout.format = format;
    ++layout.plan_id;
    const Frame frame(step, {NormRecord(0, 1), NormRecord(0, 2)});
    CHECK(sink.Write(layout, frame.view).written == 2);
    sink.EndPlan(layout);
    CHECK(sink.Flush().ok());
  };
  sink.EndPlan(layout);  // of a plan that had no frame
  write(OutputFormat::kApi, 0);
  CHECK(ReadDirectory(base.path()).empty());
  sink.SetDirectory(base / "run");
  write(OutputFormat::kApi, 1);
  CHECK_FALSE(std::filesystem::exists(base / "run"));
  write(OutputFormat::kTensorBoard, 2);
  CHECK(ReadDirectory(base / "run").size() == 1);
  write(OutputFormat::kCsv, 3);
  write(OutputFormat::kTensorBoard, 4);
  CHECK(ReadDirectory(base / "run").size() == 2);
  CHECK(ReadDirectory(base / "run").count("param_origin_3-3.csv") == 1);
  CHECK(OnlyFile(base / "run").size() == 4);
}

}  // namespace
}  // namespace stepwatch::sinks
