// Lines in, records out: decodes prefixes and puts the lines of an exception together, for one stream of lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/logs/recogniser.h"
#include "src/logs/record.h"

namespace stepwatch::logs {

// The texts are read during the call only.
struct LineIn {
  std::string_view text;  // any bytes, without the line feed
  double observed_t = 0;  // seconds of the wall clock
  std::string_view id = {};
  std::string_view source = {};
  std::optional<int64_t> rank = {};  // known from elsewhere, such as the path; a rank in the line overrides it
  std::string_view host = {};
  bool is_truncated = false;
};

struct ReaderOptions {
  // Times without a zone are in this one.
  int64_t utc_offset_seconds = 0;
  double held_seconds_max = 2;  // Flush emits text that has waited this long
  size_t exception_lines_max = 2000;
  size_t exception_bytes_max = kMessageBytesMax;
  size_t writers_max = 4096;  // ranks and files of one stream whose unfinished exceptions are held
};

// Not thread-safe. One for each stream (file, standard input, unit).
class Reader {
 public:
  // `recogniser` outlives the reader.
  explicit Reader(const Recogniser& recogniser, ReaderOptions options = {});
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Appends complete records. An exception is held back until a line that is not part of it.
  void Add(const LineIn& line, std::vector<Record>* records);
  // Appends held text that has waited long enough, or (`now` = infinity) all.
  void Flush(double now, std::vector<Record>* records);
  // The id of the first line of the oldest held text: lines before it are in records. Empty: no text is held.
  std::string HeldId() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace stepwatch::logs
