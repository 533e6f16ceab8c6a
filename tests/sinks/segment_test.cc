// A new segment: the files of the one before are left alone, and none of the new ones is one of them.
#include <filesystem>
#include <string>

#include "src/sinks/format_sink.h"
#include "src/sinks/sink_makers.h"
#include "tests/sinks/event_reader.h"
#include "tests/sinks/weight_rows.h"

namespace stepwatch::sinks {
namespace {

using namespace test;

void WriteOneStep(Sink* sink, int64_t step, const RecordLayout& layout = OneWeight(10)) {
  CHECK(WriteStep(sink, layout, step).ToString() == "ok");
}

TEST_CASE("rows behind a cut go to a file of the segment, in the same range of steps") {
  TemporaryDirectory base;
  const std::unique_ptr<Sink> sink = MakeCsvSink({base.path()});
  WriteOneStep(sink.get(), 1);
  CHECK(sink->BeginSegment(2) == std::vector<std::string>{base / "param_origin_0-9.csv"});
  CHECK(sink->Flush().ok());
  WriteOneStep(sink.get(), 2);
  WriteOneStep(sink.get(), 3);
  WriteOneStep(sink.get(), 11);
  CHECK(sink->BeginSegment(3) == std::vector<std::string>{base / "param_origin_10-19_s2.csv"});
  WriteOneStep(sink.get(), 12);
  CHECK(ReadDirectory(base.path()) == Files{{"param_origin_0-9.csv", kHeader + Row(1)},
                                            {"param_origin_0-9_s2.csv", kHeader + Row(2) + Row(3)},
                                            {"param_origin_10-19_s2.csv", kHeader + Row(11)},
                                            {"param_origin_10-19_s3.csv", kHeader + Row(12)}});
}

TEST_CASE("a cut without an open file names none, and the next file is one of the new segment") {
  TemporaryDirectory base;
  const std::unique_ptr<Sink> sink = MakeCsvSink({base.path()});
  CHECK(sink->BeginSegment(2).empty());
  WriteOneStep(sink.get(), 1);
  CHECK(ReadDirectory(base.path()) == Files{{"param_origin_0-9_s2.csv", kHeader + Row(1)}});
}

TEST_CASE("a file of that name from another run is left alone, and found again after the end of a plan it is not") {
  TemporaryDirectory base;
  const std::string old_file = base / "param_origin_0-9_s2.csv";
  WriteInPlace(old_file, kHeader + Row(0));
  const std::unique_ptr<Sink> sink = MakeCsvSink({base.path()});
  (void)sink->BeginSegment(2);
  WriteOneStep(sink.get(), 1);
  sink->EndPlan(OneWeight(10));
  WriteOneStep(sink.get(), 2, OneWeight(10, 4));
  CHECK(ReadDirectory(base.path()) == Files{{"param_origin_0-9_s2.csv", kHeader + Row(0)},
                                            {"param_origin_0-9_s2_p1.csv", kHeader + Row(1)},
                                            {"param_origin_0-9_s2_p4.csv", kHeader + Row(2)}});
}

TEST_CASE("a file of a segment that others change stays the file of its segment") {
  TemporaryDirectory base;
  const std::unique_ptr<Sink> sink = MakeCsvSink({base.path()});
  (void)sink->BeginSegment(2);
  WriteOneStep(sink.get(), 1);
  WriteInPlace(base / "param_origin_0-9_s2.csv", kHeader);  // emptied
  WriteOneStep(sink.get(), 2);
  CHECK(ReadDirectory(base.path()) == Files{{"param_origin_0-9_s2.csv", kHeader + Row(2)}});
}

TEST_CASE("an event file ends with its segment, and the next one has another name") {
  TemporaryDirectory base;
  const std::unique_ptr<Sink> sink = MakeTensorBoardSink({base.path(), 0, [] { return 1700000000.5; }});
  CHECK(sink->BeginSegment(2).empty());
  WriteOneStep(sink.get(), 1);
  const std::vector<std::string> closed = sink->BeginSegment(3);
  REQUIRE(closed.size() == 1);
  const std::string whole = Contents(closed[0]);
  WriteOneStep(sink.get(), 2);
  const std::vector<std::string> files = EventFiles(base.path());
  REQUIRE(files.size() == 2);
  CHECK(files[0] == closed[0]);
  CHECK(Contents(files[0]) == whole);
  CHECK(PointsText(ReadPoints(files[1])) == "2 0:w/rank0/param_origin_norm 1.000000\n");
}

TEST_CASE("all formats of a run begin a segment") {
  TemporaryDirectory base;
  FormatSink sink(0);
  CHECK(sink.BeginSegment(2).empty());
  sink.SetDirectory(base.path());
  WriteOneStep(&sink, 1);
  RecordLayout events = OneWeight(10, 2);
  events.format = OutputFormat::kTensorBoard;
  WriteOneStep(&sink, 2, events);
  CHECK(sink.BeginSegment(3).size() == 2);
}

}  // namespace
}  // namespace stepwatch::sinks
