#include "operations/log_intake/sent_line_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <deque>
#include <limits>
#include <map>
#include <string_view>

#include "operations/log_intake/repeats.h"
#include "operations/logs/file_pattern.h"
#include "src/base/ignore_exceptions.h"
#include "src/base/mutex.h"
#include "src/base/parse_number.h"
#include "src/logs/prefixes.h"
#include "src/logs/reader.h"

namespace stepwatch::operations {
namespace {

constexpr double kLateSeconds = 60;
constexpr size_t kRunsMax = 64;  // whose unfinished records are held
constexpr size_t kRecordsAtOnce = 500;
// More seconds than a record waits for its last line.
constexpr int kFlushes = 10;
constexpr char kBetween = '\x1e';

// The id of a line stays with its record, so what the reader does not know travels in it.
std::string LineTag(const SentLine& line) {
  return fmt::format("{}{}{}{}{}{}{}{}{}{}{}", line.id, kBetween, line.t ? fmt::format("{:.6f}", *line.t) : "",
                     kBetween, static_cast<int>(line.level), kBetween, line.pid.value_or(0), kBetween,
                     line.is_of_kernel ? 1 : 0, kBetween, line.component);
}

std::string_view TakePart(std::string_view* text) {
  const size_t end = std::min(text->find(kBetween), text->size());
  const std::string_view part = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return part;
}

struct Tag {
  std::string id;
  std::optional<double> t;
  logs::Level level = logs::Level::kUnset;
  int64_t pid = 0;
  bool is_of_kernel = false;
  std::string component;
};

Tag ReadTag(std::string_view text) {
  Tag tag;
  tag.id = TakePart(&text);
  tag.t = base::ParseNumber<double>(TakePart(&text));
  tag.level = static_cast<logs::Level>(base::ParseNumber<int>(TakePart(&text)).value_or(0));
  tag.pid = base::ParseNumber<int64_t>(TakePart(&text)).value_or(0);
  tag.is_of_kernel = TakePart(&text) == "1";
  tag.component = text;
  return tag;
}

bool MatchesPath(std::string_view pattern, std::string_view path, PatternMatch* found) {
  while (true) {
    const size_t of_pattern = std::min(pattern.find('/'), pattern.size());
    const size_t of_path = std::min(path.find('/'), path.size());
    if (!MatchesPart(pattern.substr(0, of_pattern), path.substr(0, of_path), found)) return false;
    if (of_pattern == pattern.size() || of_path == path.size())
      return of_pattern == pattern.size() && of_path == path.size();
    pattern.remove_prefix(of_pattern + 1);
    path.remove_prefix(of_path + 1);
  }
}

int64_t LocalOffset(double now) {
  const auto seconds = static_cast<std::time_t>(now);
  std::tm local{};
  return ::localtime_r(&seconds, &local) == nullptr ? 0 : local.tm_gmtoff;
}

bool IsOld(double t, double now) {
  return now - t > kLateSeconds;
}

std::optional<int64_t> NumberBehind(std::string_view text, std::string_view word) {
  const size_t at = text.find(word);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + word.size());
  if (text.starts_with('\'')) text.remove_prefix(1);
  const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  return base::ParseNumber<int64_t>(text.substr(0, end));
}

}  // namespace

std::optional<int64_t> ProcessInKernelText(std::string_view message) {
  for (const std::string_view word : {"Killed process ", "Kill process ", "reaped process ", ", pid=", ",pid="})
    if (const auto pid = NumberBehind(message, word)) return pid;
  return std::nullopt;
}

// On the thread of the reader.
class SentLineReader::State {
 public:
  State(std::shared_ptr<LazyRecogniser> recogniser, std::function<double()> wall, std::vector<std::string> paths)
      : recogniser_(std::move(recogniser)), wall_(std::move(wall)), paths_(std::move(paths)) {}

  // In pieces, of which the loop takes one at a time.
  std::vector<Read> ReadLines(std::vector<SentLine> lines) {
    std::vector<Read> reads(1);
    const double now = wall_();
    for (SentLine& line : lines) {
      if (reads.back().records.size() >= kRecordsAtOnce) reads.emplace_back();
      Read& read = reads.back();
      ++read.lines;
      if (!line.id.empty() && repeats_.IsRepeated(line.id)) {
        ++read.repeated;
        continue;
      }
      AddNamesOfPath(&line);
      Stream& stream = StreamOf(line.run, now, &read);
      std::vector<logs::Record> records;
      const std::string tag = LineTag(line);
      stream.reader->Add({.text = line.text,
                          .observed_t = now,
                          .id = tag,
                          .source = line.source,
                          .rank = line.rank,
                          .host = line.host,
                          .is_truncated = line.is_truncated},
                         &records);
      Finish(line.run, now, &records, &read);
    }
    return reads;
  }

  std::vector<Read> Flush(double now) {
    std::vector<Read> reads;
    for (auto& [run, stream] : streams_) {
      std::vector<logs::Record> records;
      stream.reader->Flush(now, &records);
      if (!records.empty()) Finish(run, now, &records, &reads.emplace_back());
    }
    return reads;
  }
  std::vector<Read> Flush() { return Flush(wall_()); }

 private:
  struct Stream {
    std::unique_ptr<logs::Reader> reader;
    double used_t = 0;
  };

  void AddNamesOfPath(SentLine* line) const {
    if (line->source.empty()) return;
    for (const std::string& pattern : paths_) {
      PatternMatch match;
      if (!MatchesPath(pattern, line->source, &match)) continue;
      if (line->run.empty()) line->run = match.run;
      if (!line->rank) line->rank = match.rank;
      break;
    }
    if (!line->rank) line->rank = logs::RankOfPath(line->source).rank;
  }

  Stream& StreamOf(const std::string& run, double now, Read* read) {
    const auto known = streams_.find(run);
    if (known == streams_.end() && streams_.size() >= kRunsMax) {
      const auto oldest = std::min_element(streams_.begin(), streams_.end(), [](const auto& a, const auto& b) {
        return a.second.used_t < b.second.used_t;
      });
      std::vector<logs::Record> records;
      oldest->second.reader->Flush(std::numeric_limits<double>::infinity(), &records);
      Finish(oldest->first, now, &records, read);
      streams_.erase(oldest);
    }
    Stream& stream = known == streams_.end() ? streams_[run] : known->second;
    if (!stream.reader) {
      logs::ReaderOptions options;
      options.utc_offset_seconds = offset_ = LocalOffset(now);
      stream.reader = std::make_unique<logs::Reader>(recogniser_->Get(), options);
    }
    stream.used_t = now;
    return stream;
  }

  // A time without a zone may be in that of the machine, or in UTC as in most containers.
  bool IsLate(const logs::Record& record, const std::optional<double>& sent_t, double now) const {
    if (sent_t && IsOld(*sent_t, now)) return true;
    if (!record.t || !IsOld(*record.t, now)) return false;
    const double otherwise = *record.t + static_cast<double>(offset_);
    return IsOld(otherwise, now) || otherwise > now + kLateSeconds;
  }

  void Finish(const std::string& run, double now, std::vector<logs::Record>* records, Read* read) const {
    for (logs::Record& record : *records) {
      Tag tag = ReadTag(record.id);
      record.id = std::move(tag.id);
      RecordOrigin origin;
      origin.run = run;
      origin.is_late = IsLate(record, tag.t, now);
      if (!record.t) record.t = tag.t;
      if (record.level == logs::Level::kUnset) record.level = tag.level;
      if (record.component.empty()) record.component = std::move(tag.component);
      if (tag.is_of_kernel) tag.pid = ProcessInKernelText(record.message).value_or(0);
      // By its sign the loop knows records of the kernel.
      read->pids.push_back(tag.is_of_kernel ? -tag.pid : tag.pid);
      read->records.push_back({std::move(record), std::move(origin)});
    }
    records->clear();
  }

  const std::shared_ptr<LazyRecogniser> recogniser_;
  const std::function<double()> wall_;
  const std::vector<std::string> paths_;
  Repeats repeats_;
  std::map<std::string, Stream> streams_;  // by run
  int64_t offset_ = 0;
};

struct SentLineReader::Results {
  base::Mutex mutex;
  std::deque<std::function<void()>> waiting STEPWATCH_GUARDED_BY(mutex);
};

SentLineReader::SentLineReader(boost::asio::io_context& loop, SentLineReaderOptions options)
    : options_(std::move(options)),
      state_(std::make_shared<State>(options_.recogniser, options_.wall, options_.paths)),
      results_(std::make_shared<Results>()),
      mailbox_(std::make_shared<watch::LoopMailbox>(loop)) {}

bool SentLineReader::Post(std::function<std::vector<Read>()> work, Work rest) {
  const std::function<void()> take = [this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) TakeResult();
  };
  const auto on_read = [this](const std::shared_ptr<Read>& read, const Work* last) {
    OnRead(read.get(), last == nullptr ? 0 : last->bytes, last == nullptr ? nullptr : last->then);
    if (last != nullptr && last->on_read) last->on_read();
  };
  return thread_.Post([results = results_, mailbox = mailbox_, work = std::move(work),
                       rest = std::make_shared<Work>(std::move(rest)), take, on_read] {
    std::vector<Read> reads;
    base::IgnoreExceptions([&] { reads = work(); });  // without memory for it, there are no lines
    if (reads.empty()) reads.emplace_back();
    for (size_t i = 0; i < reads.size(); ++i) {
      const bool is_last = i + 1 == reads.size();
      const base::MutexLock lock(&results->mutex);
      results->waiting.push_back([on_read, read = std::make_shared<Read>(std::move(reads[i])), rest, is_last] {
        on_read(read, is_last ? rest.get() : nullptr);
      });
      if (results->waiting.size() == 1) mailbox->Post(take);
    }
  });
}

bool SentLineReader::TakeResult() {
  std::function<void()> result;
  {
    const base::MutexLock lock(&results_->mutex);
    if (results_->waiting.empty()) return false;
    result = std::move(results_->waiting.front());
  }
  result();
  const base::MutexLock lock(&results_->mutex);
  results_->waiting.pop_front();
  // Requests and ticks come in between.
  if (!results_->waiting.empty())
    mailbox_->Post([this, alive = std::weak_ptr(alive_)] {
      if (!alive.expired()) TakeResult();
    });
  return true;
}

bool SentLineReader::Take(Work work) {
  if (is_stopped_ || is_full()) return false;
  const size_t bytes = work.bytes;
  const auto lines = std::exchange(work.lines, nullptr);
  const bool is_posted = Post([state = state_, lines] { return state->ReadLines(lines()); }, std::move(work));
  if (is_posted) bytes_ += bytes;
  flushes_left_ = kFlushes;
  return is_posted;
}

void SentLineReader::Tick() {
  if (is_stopped_ || is_flushing_ || flushes_left_ == 0) return;
  --flushes_left_;
  Work rest;
  rest.on_read = [this] { is_flushing_ = false; };
  is_flushing_ = Post([state = state_] { return state->Flush(); }, std::move(rest));
}

void SentLineReader::OnRead(Read* read, size_t bytes, std::function<void()> then) {
  lines_ += read->lines;
  repeated_ += read->repeated;
  if (read->records.empty() && bytes == 0 && !then) return;
  std::optional<ProcessesOfRuns> processes;
  for (size_t i = 0; i < read->records.size(); ++i) {
    auto& [record, origin] = read->records[i];
    const int64_t pid = std::abs(read->pids[i]);
    if (pid == 0 || !origin.run.empty() || !options_.processes) continue;
    const bool has_xid = std::any_of(record.anomalies.begin(), record.anomalies.end(), [](const auto& anomaly) {
      return std::any_of(anomaly.facts.begin(), anomaly.facts.end(),
                         [](const auto& fact) { return fact.first == "xid"; });
    });
    if (read->pids[i] < 0 && has_xid && !options_.reports_xids()) continue;
    if (!processes) processes = options_.processes();
    if (const auto process = processes->find(pid); process != processes->end()) {
      origin.run = process->second.first;
      origin.rank = process->second.second;
    }
  }
  options_.take(std::move(read->records), [this, bytes, then = std::move(then), alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    bytes_ -= bytes;
    if (then) then();
  });
}

void SentLineReader::Stop() {
  if (std::exchange(is_stopped_, true)) return;
  constexpr std::chrono::seconds kStopTime{2};
  const bool is_over = thread_.Stop(base::IoThread::Clock::now() + kStopTime);
  mailbox_->Close();
  while (TakeResult()) {
  }
  if (!is_over) return;
  for (Read& read : state_->Flush(std::numeric_limits<double>::infinity())) OnRead(&read, 0, {});
}

}  // namespace stepwatch::operations
