// Heat maps on their way through the TensorBoard sink.
#include <cerrno>
#include <utility>
#include <vector>

#include "src/sinks/sink_makers.h"
#include "tests/catch.h"
#include "tests/sinks/event_reader.h"
#include "tests/sinks/picture.h"
#include "tests/sinks/sink_fixture.h"

namespace stepwatch::sinks {
namespace {

using namespace test;

HeatmapColumn FourInBin(SiteId site, size_t bin) {
  HeatmapColumn column;
  column.site = site;
  column.counts[bin] = 4;
  return column;
}

RecordLayout TwoMaps() {
  return Layout({Site(SiteKind::kAdamUpdate, "fc.weight", 0, Port::kNone, 1),
                 Site(SiteKind::kAdamRatio, "fc.weight", 0, Port::kNone, 1), Site(SiteKind::kParamOrigin, "w", 0)});
}

WriteResult Write(Sink* sink, const RecordLayout& layout, int64_t step, const std::vector<HeatmapColumn>& columns,
                  std::vector<Record> records = {}) {
  test::Frame frame(step, std::move(records));
  frame.view.columns = columns.data();
  frame.view.column_count = columns.size();
  return sink->Write(layout, frame.view);
}

// How many columns lie side by side, seen by a bin that only the first of them has something in.
size_t ColumnsIn(const ImagePoint& image, size_t bin_of_first) {
  const Picture picture = ReadPng(image.png);
  const size_t y = (kHeatmapBins - 1 - bin_of_first) * picture.height / kHeatmapBins;
  size_t lit = 0;
  while (lit < picture.width && picture.At(lit, y)[1] == 255) ++lit;
  return lit == 0 ? 0 : (picture.width + lit / 2) / lit;
}

TEST_CASE("each column gives the image of all columns so far, under the tag of its site, beside the step's scalars") {
  TemporaryDirectory base;
  const auto sink = MakeTensorBoardSink({base.path(), 3, [] { return 1700000000.5; }});
  const RecordLayout layout = TwoMaps();
  const WriteResult result = Write(sink.get(), layout, 4, {FourInBin(0, 2), FourInBin(1, 9)}, {NormRecord(2, 1)});
  CHECK(result.status.ok());
  CHECK(result.written == 1);  // columns are no records
  CHECK(Write(sink.get(), layout, 6, {FourInBin(0, 5)}).written == 0);
  REQUIRE(EventFiles(base.path()).size() == 1);
  const std::vector<ImagePoint> images = ReadImages(EventFiles(base.path())[0]);
  REQUIRE(images.size() == 3);
  CHECK((images[0].tag == "1:fc.weight/rank3/adam_update" && images[0].step == 4));
  CHECK((images[1].tag == "1:fc.weight/rank3/adam_ratio" && images[1].step == 4));
  CHECK((images[2].tag == "1:fc.weight/rank3/adam_update" && images[2].step == 6));
  CHECK((images[2].width == 640 && images[2].height == 480 && images[2].colorspace == 3));
  CHECK(ColumnsIn(images[0], 2) == 1);
  CHECK(ColumnsIn(images[1], 9) == 1);
  CHECK(ColumnsIn(images[2], 2) == 2);
  CHECK(ReadPoints(EventFiles(base.path())[0]).size() == 1);
}

TEST_CASE("an image grows across plans, wherever the site stands in them") {
  TemporaryDirectory base;
  const auto sink = MakeTensorBoardSink({base.path(), 0, {}});
  RecordLayout layout = TwoMaps();
  CHECK(Write(sink.get(), layout, 4, {FourInBin(0, 2)}).status.ok());
  sink->EndPlan(layout);
  layout.plan_id = 2;
  std::swap(layout.sites[0], layout.sites[1]);
  CHECK(Write(sink.get(), layout, 4, {FourInBin(1, 7)}).status.ok());
  const std::vector<ImagePoint> images = ReadImages(EventFiles(base.path())[0]);
  REQUIRE(images.size() == 2);
  CHECK(images[0].tag == images[1].tag);
  CHECK(ColumnsIn(images[1], 2) == 2);
}

TEST_CASE("a step that is written again after a failure stands in the image once") {
  struct FullOnce final : base::FileSystemWrapper {
    ssize_t Write(int fd, const void* bytes, size_t count) override {
      if (++writes == 2) return errno = ENOSPC, -1;
      return FileSystemWrapper::Write(fd, bytes, count);
    }
    int writes = 0;
  };
  TemporaryDirectory base;
  FullOnce files;
  const auto sink = MakeTensorBoardSink({base.path(), 0, {}, files});
  CHECK(Write(sink.get(), TwoMaps(), 1, {FourInBin(0, 2)}).status.ok());
  CHECK_FALSE(Write(sink.get(), TwoMaps(), 2, {FourInBin(0, 3)}).status.ok());
  CHECK(Write(sink.get(), TwoMaps(), 2, {FourInBin(0, 3)}).status.ok());
  CHECK(Write(sink.get(), TwoMaps(), 2, {FourInBin(0, 3)}).status.ok());
  const std::vector<ImagePoint> images = ReadImages(EventFiles(base.path())[0]);
  REQUIRE(images.size() == 2);
  CHECK(images[1].step == 2);
  CHECK(ColumnsIn(images[1], 2) == 2);
}

}  // namespace
}  // namespace stepwatch::sinks
