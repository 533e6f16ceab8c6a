#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "src/sinks/sink_makers.h"
#include "tests/sinks/weight_rows.h"

namespace stepwatch::sinks {
namespace {

namespace fs = std::filesystem;
using namespace test;

TEST_CASE("the directory and the file appear with the first row") {
  TemporaryDirectory base;
  const std::string directory = base / "a/b/run";
  const std::unique_ptr<Sink> sink = MakeCsvSink({directory});
  CHECK(sink->Write(OneWeight(), StepFrame{}).status.ok());
  CHECK_FALSE(fs::exists(directory));
  const Frame frame(4, {NormRecord(0, 1)});
  const WriteResult result = sink->Write(OneWeight(), frame.view);
  CHECK(result.status.ToString() == "ok");
  CHECK(result.written == 1);
  CHECK(ReadDirectory(directory) == Files{{"param_origin_4-4.csv", kHeader + Row(4)}});
}

TEST_CASE("steps go to absolute buckets") {
  TemporaryDirectory base;
  const std::unique_ptr<Sink> sink = MakeCsvSink({base.path()});
  RecordLayout layout = OneWeight(5);
  for (int64_t step : {-1, 0, 4, 5, 1004, 1005}) CHECK(WriteStep(sink.get(), layout, step).ok());
  CHECK(ReadDirectory(base.path()) == Files{{"param_origin_-5--1.csv", kHeader + Row(-1)},
                                            {"param_origin_0-4.csv", kHeader + Row(0) + Row(4)},
                                            {"param_origin_5-9.csv", kHeader + Row(5)},
                                            {"param_origin_1000-1004.csv", kHeader + Row(1004)},
                                            {"param_origin_1005-1009.csv", kHeader + Row(1005)}});
}

TEST_CASE("each kind has its file and an empty kind has none") {
  TemporaryDirectory base;
  const std::unique_ptr<Sink> sink = MakeCsvSink({base.path()});
  const RecordLayout layout = Layout({Site(SiteKind::kActv, ".input", 0, Port::kInput),
                                      Site(SiteKind::kMgDirection, "w", 0), Site(SiteKind::kExpAvg, "w", 0)});
  const Frame frame(2, {NormRecord(1, 0.5), NormRecord(0, 2), NormRecord(0, 3, 1)});
  CHECK(sink->Write(layout, frame.view).written == 3);
  CHECK(ReadDirectory(base.path()) ==
        Files{{"actv_2-2.csv",
               "vpp_stage,name,step,micro_step,norm,shape,dtype\n"
               "0,.input,2,0,2.0,[2],torch.float32\n0,.input,2,1,3.0,[2],torch.float32\n"},
              {"other_2-2.csv", kHeader + Row(2, "0.5")}});
}

TEST_CASE("the same frame is not written twice") {
  TemporaryDirectory base;
  const std::unique_ptr<Sink> sink = MakeCsvSink({base.path()});
  const Frame frame(1, {NormRecord(0, 1)});
  CHECK(sink->Write(OneWeight(), frame.view).written == 1);
  const WriteResult again = sink->Write(OneWeight(), frame.view);
  CHECK(again.status.ok());
  CHECK(again.written == 0);
  CHECK(Contents(base / "param_origin_1-1.csv") == kHeader + Row(1));
}

TEST_CASE("a file with the same header is appended to, by another sink or after the end of a plan") {
  TemporaryDirectory base;
  RecordLayout layout = OneWeight(10);
  const std::unique_ptr<Sink> first = MakeCsvSink({base.path()});
  CHECK(WriteStep(first.get(), layout, 1).ok());
  first->EndPlan(layout);
  layout.plan_id = 2;
  CHECK(WriteStep(first.get(), layout, 2).ok());
  CHECK(WriteStep(MakeCsvSink({base.path()}).get(), layout, 3).ok());
  CHECK(WriteStep(first.get(), layout, 4).ok());
  CHECK(first->Flush().ok());
  CHECK(ReadDirectory(base.path()) == Files{{"param_origin_0-9.csv", kHeader + Row(1) + Row(2) + Row(3) + Row(4)}});
}

TEST_CASE("a file with another header gets a sibling named by the plan") {
  TemporaryDirectory base;
  RecordLayout layout = OneWeight(10);
  const std::unique_ptr<Sink> sink = MakeCsvSink({base.path()});
  CHECK(WriteStep(sink.get(), layout, 1).ok());
  RecordLayout other = layout;
  other.plan_id = 2;
  other.stats = {Stat::kNorm};
  CHECK(WriteStep(sink.get(), other, 2).ok());
  CHECK(WriteStep(sink.get(), other, 3).ok());
  // Back to the first columns: back to the first file.
  layout.plan_id = 3;
  CHECK(WriteStep(sink.get(), layout, 4).ok());
  CHECK(ReadDirectory(base.path()) ==
        Files{{"param_origin_0-9.csv", kHeader + Row(1) + Row(4)},
              {"param_origin_0-9_p2.csv", "vpp_stage,name,step,norm\n0,w,2,1.0\n0,w,3,1.0\n"}});
}

TEST_CASE("when the sibling has yet another header a number is added") {
  TemporaryDirectory base;
  WriteInPlace(base / "param_origin_1-1.csv", "x\n");
  WriteInPlace(base / "param_origin_1-1_p1.csv", kHeader.substr(0, 12));
  WriteInPlace(base / "param_origin_1-1_p1_2.csv", "vpp_stage,name,step,norm,shape,dtype,plan_id\n");
  const std::unique_ptr<Sink> sink = MakeCsvSink({base.path()});
  CHECK(WriteStep(sink.get(), OneWeight(), 1).ok());
  const Files files = ReadDirectory(base.path());
  CHECK(files.size() == 4);
  CHECK(files.at("param_origin_1-1.csv") == "x\n");
  CHECK(files.at("param_origin_1-1_p1_3.csv") == kHeader + Row(1));
}

TEST_CASE("half a line of a killed writer is cut off, and an empty file gets its header") {
  TemporaryDirectory base;
  const std::string path = base / "param_origin_1-1.csv";
  const std::string whole = kHeader + Row(0);
  const auto [left, kept] = GENERATE_COPY(table<std::string, std::string>({
      {whole + "0,w,1,0.", whole},
      {whole + std::string(10000, 'x'), whole},  // longer than any line
      {whole + std::string(4097, 'x'), whole},   // a block and one byte
      {"", kHeader},
  }));
  WriteInPlace(path, left);
  CHECK(WriteStep(MakeCsvSink({base.path()}).get(), OneWeight(), 1).ok());
  CHECK(Contents(path) == kept + Row(1));
}

TEST_CASE("an entry that cannot be a CSV file is named in a sentence, and other files are written") {
  TemporaryDirectory base;
  const std::string path = base / "param_origin_1-1.csv";
  std::string expected;
  SECTION("a directory") {
    fs::create_directory(path);
    expected = "directory";
  }
  SECTION("a FIFO") {
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    expected = "not a regular file";
  }
  SECTION("a symbolic link to nowhere") {
    fs::create_symlink("nowhere", path);
    expected = "dangling symbolic link";
  }
  SECTION("a symbolic link to itself") {
    fs::create_symlink(path, path);
    expected = "symbolic link";
  }
  const std::unique_ptr<Sink> sink = MakeCsvSink({base.path()});
  const RecordLayout layout = Layout({Site(SiteKind::kParamOrigin, "w", 0), Site(SiteKind::kParamUpdated, "w", 0)});
  const Frame frame(1, {NormRecord(0, 1), NormRecord(1, 1)});
  const WriteResult failed = sink->Write(layout, frame.view);
  CHECK_FALSE(failed.status.ok());
  CHECK(failed.written == 1);
  INFO(failed.status.message());
  CHECK(failed.status.message().find(path) != std::string::npos);
  CHECK(failed.status.message().find(expected) != std::string::npos);

  fs::remove(path);
  const WriteResult retried = sink->Write(layout, frame.view);
  CHECK(retried.status.ok());
  CHECK(retried.written == 1);
  CHECK(ReadDirectory(base.path()) ==
        Files{{"param_origin_1-1.csv", kHeader + Row(1)}, {"param_updated_1-1.csv", kHeader + Row(1)}});
}

TEST_CASE("a symbolic link to a file of ours is followed") {
  TemporaryDirectory base;
  TemporaryDirectory elsewhere;
  WriteInPlace(elsewhere / "w.csv", kHeader);
  fs::create_symlink(elsewhere / "w.csv", base / "param_origin_1-1.csv");
  CHECK(WriteStep(MakeCsvSink({base.path()}).get(), OneWeight(), 1).ok());
  CHECK(Contents(elsewhere / "w.csv") == kHeader + Row(1));
}

TEST_CASE("a directory that cannot be made is reported") {
  TemporaryDirectory base;
  WriteInPlace(base / "file", "");
  const std::unique_ptr<Sink> sink = MakeCsvSink({base / "file/run"});
  const Status status = WriteStep(sink.get(), OneWeight(), 1);
  CHECK_FALSE(status.ok());
  CHECK(status.message().find(base / "file/run") != std::string::npos);
}

TEST_CASE("a directory removed under an open file is reported once and made again") {
  TemporaryDirectory base;
  const std::string directory = base / "run";
  const std::unique_ptr<Sink> sink = MakeCsvSink({directory});
  RecordLayout layout = OneWeight(10);
  CHECK(WriteStep(sink.get(), layout, 1).ok());
  fs::remove_all(directory);
  SECTION("in the same bucket") {
    const Status status = WriteStep(sink.get(), layout, 2);
    CHECK(status.code() == StatusCode::kNotFound);
    CHECK(status.message().find("disappeared") != std::string::npos);
    CHECK(WriteStep(sink.get(), layout, 2).ok());
    CHECK(ReadDirectory(directory) == Files{{"param_origin_0-9.csv", kHeader + Row(2)}});
  }
  SECTION("at a new bucket") {
    CHECK_FALSE(WriteStep(sink.get(), layout, 12).ok());
    CHECK(WriteStep(sink.get(), layout, 12).ok());
    CHECK(ReadDirectory(directory) == Files{{"param_origin_10-19.csv", kHeader + Row(12)}});
  }
}

TEST_CASE("a change of an open file by others is noticed") {
  TemporaryDirectory base;
  const std::string path = base / "param_origin_0-9.csv";
  const std::unique_ptr<Sink> sink = MakeCsvSink({base.path()});
  RecordLayout layout = OneWeight(10);
  CHECK(WriteStep(sink.get(), layout, 1).ok());
  SECTION("moved away: a new file is begun") {
    fs::rename(path, base / "old.csv");
    CHECK_FALSE(WriteStep(sink.get(), layout, 2).ok());
    CHECK(WriteStep(sink.get(), layout, 2).ok());
    CHECK(Contents(base / "old.csv") == kHeader + Row(1));
    CHECK(Contents(path) == kHeader + Row(2));
  }
  SECTION("replaced by a file with the same header: that one grows") {
    WriteInPlace(base / "new.csv", kHeader + Row(7));  // of the same size
    fs::rename(base / "new.csv", path);
    CHECK(WriteStep(sink.get(), layout, 2).ok());
    CHECK(Contents(path) == kHeader + Row(7) + Row(2));
  }
  SECTION("emptied: the header is written again") {
    WriteInPlace(path, "");
    CHECK(WriteStep(sink.get(), layout, 2).ok());
    CHECK(Contents(path) == kHeader + Row(2));
  }
  SECTION("edited to another header: a sibling is begun") {
    WriteInPlace(path, "notes\n");
    CHECK(WriteStep(sink.get(), layout, 2).ok());
    CHECK(Contents(path) == "notes\n");
    CHECK(Contents(base / "param_origin_0-9_p1.csv") == kHeader + Row(2));
  }
}

TEST_CASE("a reader never sees a file without its header") {
  // The name appears by one rename: before it there is only a hidden temporary file.
  TemporaryDirectory base;
  WriteInPlace(base / (".stepwatch-param_origin_1-1.csv." + std::to_string(::getpid())), "left by an earlier try");
  CHECK(WriteStep(MakeCsvSink({base.path()}).get(), OneWeight(), 1).ok());
  CHECK(ReadDirectory(base.path()) == Files{{"param_origin_1-1.csv", kHeader + Row(1)}});
}

TEST_CASE("at most one descriptor is held for each kind, and none after the plan") {
  TemporaryDirectory base;
  const size_t before = testing::EntriesOf("/proc/self/fd");
  const std::unique_ptr<Sink> sink = MakeCsvSink({base.path()});
  const RecordLayout layout = Layout({Site(SiteKind::kParamOrigin, "w", 0), Site(SiteKind::kParamUpdated, "w", 0)});
  for (int64_t step = 0; step < 50; ++step) {
    const Frame frame(step, {NormRecord(0, 1), NormRecord(1, 1)});
    REQUIRE(sink->Write(layout, frame.view).status.ok());
    CHECK(testing::EntriesOf("/proc/self/fd") <= before + 2);
  }
  sink->EndPlan(layout);
  CHECK(testing::EntriesOf("/proc/self/fd") == before);
}

}  // namespace
}  // namespace stepwatch::sinks
