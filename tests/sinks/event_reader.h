// Reads event files back: whole records with good checksums, or a failed test.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/sinks/event.pb.h"
#include "src/sinks/event_record.h"
#include "tests/catch.h"
#include "tests/sinks/sink_fixture.h"

namespace stepwatch::sinks::test {

struct Point {
  int64_t step = 0;
  std::string tag;
  float value = 0;
  double wall_time = 0;
};

struct ImagePoint {
  int64_t step = 0;
  std::string tag;
  int width = 0;
  int height = 0;
  int colorspace = 0;
  std::string png;
};

template <class Number>
Number LittleEndian(std::string_view bytes) {
  Number number = 0;
  for (size_t i = 0; i < sizeof number; ++i)
    number |= static_cast<Number>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return number;
}

// The events of the file; its first record must be the version.
inline std::vector<wire::Event> ReadEvents(const std::string& path) {
  std::vector<wire::Event> events;
  const std::string text = Contents(path);
  std::string_view rest = text;
  for (int number = 0; !rest.empty(); ++number) {
    REQUIRE(rest.size() >= 16);
    const auto length = LittleEndian<uint64_t>(rest);
    REQUIRE(LittleEndian<uint32_t>(rest.substr(8)) == MaskedCrc32c(rest.substr(0, 8)));
    REQUIRE(rest.size() >= 16 + length);
    const std::string_view payload = rest.substr(12, length);
    REQUIRE(LittleEndian<uint32_t>(rest.substr(12 + length)) == MaskedCrc32c(payload));
    rest.remove_prefix(16 + length);
    wire::Event event;
    REQUIRE(event.ParseFromString(std::string(payload)));
    REQUIRE((number == 0) == (event.file_version() == "brain.Event:2"));
    events.push_back(std::move(event));
  }
  return events;
}

inline std::vector<Point> ReadPoints(const std::string& path) {
  std::vector<Point> points;
  for (const wire::Event& event : ReadEvents(path))
    for (const auto& value : event.summary().value())
      if (!value.has_image()) points.push_back({event.step(), value.tag(), value.simple_value(), event.wall_time()});
  return points;
}

inline std::vector<ImagePoint> ReadImages(const std::string& path) {
  std::vector<ImagePoint> images;
  for (const wire::Event& event : ReadEvents(path))
    for (const auto& value : event.summary().value())
      if (value.has_image())
        images.push_back({event.step(), value.tag(), value.image().width(), value.image().height(),
                          value.image().colorspace(), value.image().encoded_image_string()});
  return images;
}

// "step tag value" a line.
inline std::string PointsText(const std::vector<Point>& points) {
  std::string text;
  for (const Point& point : points)
    text += std::to_string(point.step) + " " + point.tag + " " + std::to_string(point.value) + "\n";
  return text;
}

inline std::vector<std::string> EventFiles(const std::string& directory) {
  std::vector<std::string> files;
  if (!std::filesystem::exists(directory)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    if (entry.path().filename().string().find("tfevents") != std::string::npos) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace stepwatch::sinks::test
