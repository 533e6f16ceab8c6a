#include "src/sinks/heatmap.h"

#include "src/sinks/png.h"
#include "tests/catch.h"
#include "tests/sinks/picture.h"

namespace stepwatch::sinks {
namespace {

using namespace test;

constexpr size_t kBinHeight = Heatmap::kHeight / kHeatmapBins;
const Colour kEmpty{11, 0, 0}, kFull{255, 255, 255};

std::array<uint64_t, kHeatmapBins> OneBin(size_t bin, uint64_t count) {
  std::array<uint64_t, kHeatmapBins> counts{};
  counts[bin] = count;
  return counts;
}

// The colour of a bin at a place from left to right.
Colour CellAt(const Picture& picture, size_t bin, size_t x) {
  return picture.At(x, (kHeatmapBins - 1 - bin) * kBinHeight + kBinHeight / 2);
}

TEST_CASE("a picture of numbers comes back pixel by pixel in the palette's colours") {
  Palette palette{};
  palette[1] = {10, 20, 30};
  palette[255] = {255, 254, 253};
  const Picture picture = ReadPng(PngOf({3, 2, {0, 1, 255, 255, 1, 0}}, palette));
  REQUIRE((picture.width == 3 && picture.height == 2));
  CHECK(picture.At(0, 0) == Colour{0, 0, 0});
  CHECK(picture.At(1, 0) == Colour{10, 20, 30});
  CHECK(picture.At(2, 0) == Colour{255, 254, 253});
  CHECK(picture.At(0, 1) == Colour{255, 254, 253});
  CHECK(picture.At(2, 1) == Colour{0, 0, 0});
}

TEST_CASE("the first column fills the picture: its bins lie on each other, the highest on top") {
  Heatmap map;
  map.Add(OneBin(29, 5));
  const Picture picture = ReadPng(map.Png());
  REQUIRE((picture.width == 640 && picture.height == 480));
  for (const size_t x : {0, 320, 639}) {
    CHECK(picture.At(x, 0) == kFull);
    CHECK(picture.At(x, kBinHeight - 1) == kFull);
    CHECK(picture.At(x, kBinHeight) == kEmpty);
    CHECK(picture.At(x, 479) == kEmpty);
  }
}

TEST_CASE("further columns stand to the right, in colours of one scale from black over red and yellow to white") {
  Heatmap map;
  map.Add(OneBin(0, 365079));
  map.Add(OneBin(3, 1000000));
  map.Add(OneBin(3, 746032));
  map.Add(OneBin(29, 182000));
  const Picture picture = ReadPng(map.Png());
  const Colour red = CellAt(picture, 0, 80), yellow = CellAt(picture, 3, 400), dark = CellAt(picture, 29, 639);
  CHECK((red[0] == 255 && red[1] < 3 && red[2] == 0));
  CHECK(CellAt(picture, 3, 160) == kFull);
  CHECK(CellAt(picture, 3, 319) == kFull);
  CHECK((yellow[0] == 255 && yellow[1] > 250 && yellow[2] < 6));
  CHECK((dark[0] > 120 && dark[0] < 145 && dark[1] == 0));
  CHECK(CellAt(picture, 3, 80) == kEmpty);
  CHECK(CellAt(picture, 0, 400) == kEmpty);
}

TEST_CASE("of more columns than pixels the newest are drawn, and the scale is theirs") {
  Heatmap map;
  map.Add(OneBin(7, 1000));
  for (size_t i = 0; i < Heatmap::kColumnsMax; ++i) map.Add(OneBin(i % 2 == 0 ? 1 : 2, 10));
  const Picture picture = ReadPng(map.Png());
  CHECK(CellAt(picture, 7, 0) == kEmpty);
  for (const size_t x : {0, 1, 638, 639}) {
    CHECK(CellAt(picture, 1, x) == (x % 2 == 0 ? kFull : kEmpty));
    CHECK(CellAt(picture, 2, x) == (x % 2 == 0 ? kEmpty : kFull));
  }
}

TEST_CASE("a tensor that has no element in any bin is a dark picture") {
  Heatmap map;
  map.Add({});
  CHECK(CellAt(ReadPng(map.Png()), 15, 0) == kEmpty);
}

}  // namespace
}  // namespace stepwatch::sinks
