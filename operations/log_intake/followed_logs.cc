#include "operations/log_intake/followed_logs.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

#include "src/base/file.h"
#include "src/base/parse_number.h"
#include "src/base/process_identity.h"
#include "src/base/sha256.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kBatchBytes = size_t{256} << 10, kBatchLines = 1024;
constexpr size_t kTurnBytes = size_t{128} << 10;

std::string NewIdentity() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

// The offset in an id of FollowedLine::Id.
int64_t OffsetOf(std::string_view id) {
  const size_t colon = id.rfind(':');
  return colon == std::string_view::npos ? 0 : base::ParseNumber<int64_t>(id.substr(colon + 1)).value_or(0);
}

// The lines of several files as they may have been written: each file in its order, and all files at the same speed. A
// step that all ranks have logged then ends for all of them at once.
std::vector<FollowedLine> Interleaved(std::vector<FollowedLine> lines) {
  std::map<std::string_view, double> counts, passed;  // by path
  for (const FollowedLine& each : lines) ++counts[each.source->path];
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string_view path = lines[i].source->path;
    order.emplace_back(passed[path]++ / counts[path], i);
  }
  std::sort(order.begin(), order.end());
  std::vector<FollowedLine> result;
  result.reserve(lines.size());
  for (const auto& [place, i] : order) result.push_back(std::move(lines[i]));
  return result;
}

void AddCounts(const FollowerCounts& more, FollowerCounts* counts) {
  counts->lines += more.lines;
  counts->lines_cut += more.lines_cut;
  counts->truncations += more.truncations;
  counts->texts_lost += more.texts_lost;
  counts->files += more.files;
}

}  // namespace

FollowedLogs::FollowedLogs(std::string state_directory, std::shared_ptr<LazyRecogniser> recogniser,
                           base::FileSystem& files)
    : state_directory_(std::move(state_directory)),
      recogniser_(std::move(recogniser)),
      host_(base::ThisProcess(files).host),
      files_(files),
      writers_(files) {}

FollowedLogs::~FollowedLogs() = default;

void FollowedLogs::Apply(const std::vector<LogFilesSettings>& settings) {
  std::vector<Pattern> before = std::exchange(patterns_, {});
  for (const LogFilesSettings& each : settings) {
    const auto same = std::find_if(before.begin(), before.end(), [&](const Pattern& pattern) {
      return pattern.follower && pattern.settings.path == each.path;
    });
    if (same != before.end()) {
      same->settings = each;
      patterns_.push_back(std::move(*same));
      continue;
    }
    FollowerOptions options;
    options.pattern = each.path;
    options.state_file =
        base::JoinPath(state_directory_, "log_files_" + base::Sha256Hex(each.path).substr(0, 16) + ".json");
    options.batch_bytes = kBatchBytes;
    options.batch_lines = kBatchLines;
    options.turn_bytes = kTurnBytes;
    options.new_identity = NewIdentity;
    patterns_.push_back({each, std::make_unique<FileFollower>(std::move(options), files_), {}});
  }
  for (const Pattern& each : before) {
    if (!each.follower) continue;
    FollowerCounts counts = each.follower->counts();
    counts.files = 0;
    AddCounts(counts, &counts_before_);
  }
}

void FollowedLogs::Commit(const std::vector<LogPlace>& places, double now) {
  for (const Pattern& pattern : patterns_) {
    std::vector<FollowedPlace> own;
    for (const LogPlace& each : places)
      if (each.pattern == pattern.settings.path) own.push_back(each.place);
    if (!own.empty()) pattern.follower->Commit(own, now);
  }
}

FollowerCounts FollowedLogs::counts() const {
  FollowerCounts counts = counts_before_;
  for (const Pattern& each : patterns_) AddCounts(each.follower->counts(), &counts);
  return counts;
}

void FollowedLogs::AddRecords(const Pattern& pattern, const Text& text, std::vector<logs::Record> records,
                              LogBatch* batch) const {
  for (logs::Record& record : records) {
    RecordOrigin origin;
    origin.run = text.source->run.empty() ? pattern.settings.run : text.source->run;
    origin.rank = text.source->rank;
    const int64_t offset = OffsetOf(record.id);
    origin.is_late = offset < text.late_until;
    origin.may_repeat = offset < text.repeat_until;
    batch->records.push_back({std::move(record), std::move(origin)});
  }
}

void FollowedLogs::Add(const FollowedLine& line, double now, Pattern* pattern, LogBatch* batch) {
  Text& text = pattern->texts[line.identity];
  if (!text.reader) text.reader = std::make_unique<logs::Reader>(recogniser_->Get());
  text.source = line.source;
  if (line.is_late) text.late_until = line.end;
  if (line.may_repeat) text.repeat_until = line.end;
  const std::string id = line.Id();
  logs::LineIn in{.text = line.text, .observed_t = now, .id = id, .source = line.source->path};
  in.rank = line.source->rank;
  in.host = host_;
  in.is_truncated = line.ends_inside;
  std::vector<logs::Record> records;
  text.reader->Add(in, &records);
  AddRecords(*pattern, text, std::move(records), batch);
  text.read = {line.identity, line.end, line.ends_inside};
  batch->bytes += line.text.size();
  const std::string& run = line.source->run.empty() ? pattern->settings.run : line.source->run;
  if (!run.empty() && !line.is_late) writers_.Grew(run, line.source->path, now);
}

void FollowedLogs::Flush(double until, Pattern* pattern, Text* text, LogBatch* batch) {
  std::vector<logs::Record> records;
  text->reader->Flush(until, &records);
  AddRecords(*pattern, *text, std::move(records), batch);
  // A text that is held begins with a whole line, and is read again after a kill.
  FollowedPlace place = text->read;
  if (const std::string held = text->reader->HeldId(); !held.empty())
    place = {text->read.identity, OffsetOf(held), false};
  if (place.offset <= text->passed) return;
  text->passed = place.offset;
  batch->places.push_back({pattern->settings.path, std::move(place)});
}

LogBatch FollowedLogs::Read(double now, bool scans) {
  LogBatch batch;
  const size_t count = patterns_.size();
  for (size_t i = 0; i < count; ++i) {
    if (batch.bytes >= kBatchBytes || batch.records.size() >= kBatchLines) {
      batch.has_more = true;
      turn_ += i;
      break;
    }
    Pattern& pattern = patterns_[(turn_ + i) % count];
    FollowedBatch read = pattern.follower->Read(now, scans);
    for (const FollowedLine& line : Interleaved(std::move(read.lines))) Add(line, now, &pattern, &batch);
    for (auto& [identity, text] : pattern.texts) Flush(now, &pattern, &text, &batch);
    for (const std::string& identity : read.ended) {
      const auto text = pattern.texts.find(identity);
      if (text == pattern.texts.end()) continue;
      Flush(std::numeric_limits<double>::infinity(), &pattern, &text->second, &batch);
      pattern.texts.erase(text);
    }
    batch.has_more = batch.has_more || read.has_more;
    std::move(read.notes.begin(), read.notes.end(), std::back_inserter(batch.notes));
    std::move(read.directories.begin(), read.directories.end(), std::back_inserter(batch.directories));
  }
  if (scans && !batch.has_more) batch.runs_over = writers_.Look(now);
  return batch;
}

}  // namespace stepwatch::operations
