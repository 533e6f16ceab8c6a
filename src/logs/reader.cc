#include "src/logs/reader.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "src/logs/attributes.h"
#include "src/logs/clean_text.h"
#include "src/logs/exception_text.h"
#include "src/logs/json_line.h"
#include "src/logs/line_time.h"
#include "src/logs/prefixes.h"
#include "src/logs/progress.h"
#include "src/logs/scan.h"

namespace stepwatch::logs {
namespace {

// More than a message, so that prefixes do not shorten it.
constexpr size_t kLineBytesMax = kMessageBytesMax + 4096;
// Drafts of one line, between carriage returns, that are no progress bars.
constexpr size_t kDraftsMax = 1000;
constexpr int kNestingMax = 4;  // lines in lines: envelopes, text behind a bar

enum class HeldKind { kException, kBlock, kWithoutStep, kPartial };

// A record that the next lines of its writer may complete.
struct Held {
  HeldKind kind = HeldKind::kPartial;
  Record record;
  std::optional<ExceptionText> exception;
  std::string text;     // kBlock: the lines; kPartial: the parts
  double since = 0;     // the last line was read
  uint64_t number = 0;  // in the order of beginning
};

// The bar of the training in one writer's lines: the one with the largest total.
struct BarState {
  int64_t done = 0, total = 0;
};

}  // namespace

class Reader::State {
 public:
  State(const Recogniser& recogniser, ReaderOptions options) : recogniser_(recogniser), options_(options) {}

  void Add(const LineIn& line, std::vector<Record>* records);
  void Flush(double now, std::vector<Record>* records);
  std::string HeldId() const;

 private:
  using HeldMap = std::map<std::string, Held>;

  void AddDrafts(const LineIn& line, std::vector<Record>* records);
  void AddDraft(const LineIn& line, std::string_view bytes, std::vector<Record>* records);
  void AddText(const LineIn& line, std::string_view text, int nesting, std::vector<Record>* records);
  void AddBar(const LineIn& line, const Prefixes& prefixes, const ProgressBar& bar, std::vector<Record>* records);
  bool AddJson(const LineIn& line, const Prefixes& prefixes, int nesting, std::vector<Record>* records);
  void AddMessage(const LineIn& line, const Prefixes& prefixes, std::vector<Record>* records);
  // True if the held record of this writer takes the line; one that does not is emitted.
  bool GoesToHeld(const LineIn& line, const Prefixes& prefixes, const std::string& writer,
                  std::vector<Record>* records);
  void Hold(std::string writer, Held held, std::vector<Record>* records);
  HeldMap::iterator Emit(HeldMap::iterator held, std::vector<Record>* records);
  void FillRecord(const LineIn& line, const Prefixes& prefixes, Record* record) const;
  Record RecordOf(const LineIn& line, const Prefixes& prefixes) const {
    Record record;
    FillRecord(line, prefixes, &record);
    return record;
  }
  std::string WriterOf(const LineIn& line, const Prefixes& prefixes) const;

  const Recogniser& recogniser_;
  const ReaderOptions options_;
  HeldMap held_;
  std::map<std::string, BarState> bars_;
  uint64_t number_ = 0;
  std::string tailed_file_;  // of the last "==> FILE <=="
  PathRank tailed_rank_;
};

void Reader::State::Add(const LineIn& line, std::vector<Record>* records) {
  std::string_view text = line.text;
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  LineIn shorter = line;
  shorter.text = text;
  if (text.find('\r') != std::string_view::npos)
    AddDrafts(shorter, records);
  else
    AddDraft(shorter, text, records);
}

// A carriage return begins a line anew: only the last bar is of interest, but texts of other writers between bars are.
void Reader::State::AddDrafts(const LineIn& line, std::vector<Record>* records) {
  std::string_view text = line.text, last_bar;
  size_t drafts = 0;
  while (true) {
    const size_t end = text.find('\r');
    const std::string_view draft = text.substr(0, end);
    if (!scan::Trimmed(draft).empty()) {
      const std::string_view start = draft.substr(0, 512);
      const size_t percent = start.find("%|");
      const size_t close = percent == std::string_view::npos ? percent : draft.find(']', percent);
      const bool is_bar = percent != std::string_view::npos &&
                          (close == std::string_view::npos || scan::Trimmed(draft.substr(close + 1)).empty());
      if (is_bar) {
        last_bar = draft;
      } else if (drafts++ < kDraftsMax) {
        if (!last_bar.empty()) AddDraft(line, std::exchange(last_bar, {}), records);
        AddDraft(line, draft, records);
      }
    }
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  if (!last_bar.empty()) AddDraft(line, last_bar, records);
}

void Reader::State::AddDraft(const LineIn& line, std::string_view bytes, std::vector<Record>* records) {
  LineIn bounded = line;
  if (bytes.size() > kLineBytesMax) {
    bytes = bytes.substr(0, kLineBytesMax);
    bounded.is_truncated = true;
  }
  if (IsClean(bytes)) {
    AddText(bounded, bytes, 0, records);
    return;
  }
  const std::string clean = CleanText(bytes);
  AddText(bounded, clean, 0, records);
}

void Reader::State::AddText(const LineIn& line, std::string_view text, int nesting, std::vector<Record>* records) {
  if (text.starts_with("==> ")) {
    if (const std::string_view file = TailedFile(text); !file.empty()) {
      tailed_file_ = file;
      tailed_rank_ = RankOfPath(file);
      return;
    }
  }
  Prefixes prefixes = DecodePrefixes(text, {line.observed_t, options_.utc_offset_seconds});
  if (prefixes.message.find("%|") != std::string_view::npos) {
    if (const auto bar = FindProgressBar(prefixes.message)) {
      AddBar(line, prefixes, *bar, records);
      if (nesting < kNestingMax && !scan::Trimmed(bar->rest).empty()) AddText(line, bar->rest, nesting + 1, records);
      return;
    }
  }
  if (!prefixes.message.empty() && prefixes.message.front() == '{' && prefixes.message.back() == '}')
    if (AddJson(line, prefixes, nesting, records)) return;
  AddMessage(line, prefixes, records);
}

void Reader::State::FillRecord(const LineIn& line, const Prefixes& prefixes, Record* record) const {
  record->id = line.id;
  record->source = line.source.empty() ? std::string_view(tailed_file_) : line.source;
  record->t = prefixes.t;
  record->observed_t = line.observed_t;
  record->host = prefixes.host.empty() ? line.host : prefixes.host;
  record->rank = prefixes.rank ? prefixes.rank : line.rank ? line.rank : tailed_rank_.rank;
  record->local_rank = prefixes.local_rank ? prefixes.local_rank : tailed_rank_.local_rank;
  record->level = prefixes.level;
  record->component = prefixes.component;
  const std::string_view message = CutUtf8(prefixes.message, kMessageBytesMax);
  record->is_truncated = line.is_truncated || message.size() < prefixes.message.size();
  record->message = message;
  if (prefixes.repeated) record->attributes.emplace_back("repeated", std::to_string(*prefixes.repeated));
}

std::string Reader::State::WriterOf(const LineIn& line, const Prefixes& prefixes) const {
  std::string writer(line.source.empty() ? std::string_view(tailed_file_) : line.source);
  const auto add = [&writer](const std::optional<int64_t>& number) {
    writer += '\n';
    if (number) writer += std::to_string(*number);
  };
  // A line of a stack may lack one of two prefixes that its first line has doubled: one rank is enough.
  add(prefixes.rank);
  add(prefixes.rank ? std::nullopt : prefixes.local_rank);
  writer += '\n';
  writer += prefixes.host;
  writer += '\n';
  writer += prefixes.writer;
  return writer;
}

void Reader::State::AddBar(const LineIn& line, const Prefixes& prefixes, const ProgressBar& bar,
                           std::vector<Record>* records) {
  const std::string writer = WriterOf(line, prefixes);
  const auto found = bars_.find(writer);
  if (found == bars_.end() && bars_.size() < options_.writers_max)
    bars_.emplace(writer, BarState{bar.done, bar.total});
  else if (found != bars_.end() && bar.total >= found->second.total)
    found->second = {bar.done, bar.total};
  if (const auto held = held_.find(writer); held != held_.end() && held->second.kind == HeldKind::kWithoutStep)
    Emit(held, records);
  Record& record = records->emplace_back();
  FillRecord(line, prefixes, &record);
  record.message = CutUtf8(prefixes.message.substr(0, prefixes.message.size() - bar.rest.size()), kMessageBytesMax);
  record.progress = ProgressOfBar(bar);
  recogniser_.Recognise(&record);
}

bool Reader::State::AddJson(const LineIn& line, const Prefixes& prefixes, int nesting, std::vector<Record>* records) {
  if (prefixes.message.size() < 8 || prefixes.message[1] != '"') return false;
  auto json = ReadJsonLine(prefixes.message, {line.observed_t, options_.utc_offset_seconds});
  if (!json) return false;
  if (json->is_envelope) {
    if (nesting >= kNestingMax) return false;
    const std::string clean = CleanText(json->text);
    const size_t before = records->size();
    AddText(line, clean, nesting + 1, records);
    for (size_t i = before; i < records->size(); ++i)
      if (!(*records)[i].t) (*records)[i].t = json->t;
    return true;
  }
  const std::string writer = WriterOf(line, prefixes);
  if (const auto held = held_.find(writer); held != held_.end()) Emit(held, records);
  Record record = RecordOf(line, prefixes);
  Record& read = json->record;
  if (read.t) record.t = read.t;
  if (read.rank) record.rank = read.rank;
  if (read.local_rank) record.local_rank = read.local_rank;
  if (!read.host.empty()) record.host = std::move(read.host);
  if (read.level != Level::kUnset) record.level = read.level;
  if (!read.component.empty()) record.component = std::move(read.component);
  record.message = std::move(read.message);
  record.progress = std::move(read.progress);
  record.exception = std::move(read.exception);
  record.attributes = std::move(read.attributes);
  recogniser_.Recognise(&record);
  records->push_back(std::move(record));
  return true;
}

bool Reader::State::GoesToHeld(const LineIn& line, const Prefixes& prefixes, const std::string& writer,
                               std::vector<Record>* records) {
  const auto found = held_.find(writer);
  if (found == held_.end()) return false;
  Held& held = found->second;
  bool belongs = false;
  switch (held.kind) {
    case HeldKind::kException: belongs = held.exception->Add(prefixes.message, prefixes.has_own_header); break;
    case HeldKind::kBlock:
      belongs = !prefixes.has_own_header && prefixes.message.starts_with("    ") &&
                prefixes.message.find('=') != std::string_view::npos && held.text.size() < kMessageBytesMax / 2;
      if (belongs) held.text += "\n" + std::string(prefixes.message.substr(0, 1024));
      break;
    case HeldKind::kPartial:
    case HeldKind::kWithoutStep: break;
  }
  if (belongs) {
    held.since = line.observed_t;
    if (held.kind == HeldKind::kException && held.exception->is_full()) Emit(found, records);
    return true;
  }
  Emit(found, records);
  return false;
}

void Reader::State::AddMessage(const LineIn& line, const Prefixes& prefixes_in, std::vector<Record>* records) {
  Prefixes prefixes = prefixes_in;
  std::string joined;
  if (prefixes.is_partial || !held_.empty()) {
    const std::string writer = WriterOf(line, prefixes);
    const auto held = held_.find(writer);
    const bool has_part = held != held_.end() && held->second.kind == HeldKind::kPartial;
    if (has_part) {
      if (held->second.text.size() < kLineBytesMax) held->second.text += prefixes.message;
      held->second.since = line.observed_t;
      if (prefixes.is_partial) return;
      Held whole = std::move(held->second);
      held_.erase(held);
      joined = std::move(whole.text);
      LineIn again = line;
      again.is_truncated = joined.size() >= kLineBytesMax;
      const size_t before = records->size();
      AddText(again, joined, 1, records);
      for (size_t i = before; i < records->size(); ++i)
        if (!(*records)[i].t) (*records)[i].t = whole.record.t;
      return;
    }
    if (prefixes.is_partial) {
      Held part;
      part.kind = HeldKind::kPartial;
      part.record = RecordOf(line, prefixes);
      part.text = prefixes.message;
      part.since = line.observed_t;
      if (held != held_.end()) Emit(held, records);
      Hold(writer, std::move(part), records);
      return;
    }
    if (GoesToHeld(line, prefixes, writer, records)) return;
  }
  if (prefixes.message.empty()) return;
  if (ExceptionText::Begins(prefixes.message)) {
    Held held;
    held.kind = HeldKind::kException;
    held.record = RecordOf(line, prefixes);
    held.exception.emplace(prefixes.message, options_.exception_lines_max, options_.exception_bytes_max);
    held.since = line.observed_t;
    Hold(WriterOf(line, prefixes), std::move(held), records);
    return;
  }
  // In its place at once: moving a record costs a tenth of recognising it.
  Record& record = records->emplace_back();
  FillRecord(line, prefixes, &record);
  record.progress = FindProgress(record.message);
  if (!record.progress) FindAttributes(record.message, &record.attributes);
  // tqdm draws the bar anew after the text: its count is the step.
  const bool lacks_step =
      record.progress && !record.progress->step && !bars_.empty() && bars_.contains(WriterOf(line, prefixes));
  const bool begins_block = !lacks_step && record.progress && record.message.starts_with("[step=");
  if (!lacks_step && !begins_block) {
    recogniser_.FindAnomalies(&record);
    return;
  }
  Held held;
  held.kind = lacks_step ? HeldKind::kWithoutStep : HeldKind::kBlock;
  if (begins_block) held.text = record.message;
  held.record = std::move(record);
  records->pop_back();
  held.since = line.observed_t;
  Hold(WriterOf(line, prefixes), std::move(held), records);
}

void Reader::State::Hold(std::string writer, Held held, std::vector<Record>* records) {
  if (held_.size() >= options_.writers_max) {
    const auto oldest = std::min_element(
        held_.begin(), held_.end(), [](const auto& a, const auto& b) { return a.second.number < b.second.number; });
    if (oldest != held_.end()) Emit(oldest, records);
  }
  held.number = ++number_;
  held_[std::move(writer)] = std::move(held);
}

Reader::State::HeldMap::iterator Reader::State::Emit(HeldMap::iterator found, std::vector<Record>* records) {
  Held held = std::move(found->second);
  Record& record = held.record;
  switch (held.kind) {
    case HeldKind::kException: {
      std::string message;
      record.exception = held.exception->Finish(&message);
      record.is_truncated = record.is_truncated || held.exception->is_full();
      record.message = CutUtf8(message, kMessageBytesMax);
      if (record.level == Level::kUnset) record.level = Level::kError;
      break;
    }
    case HeldKind::kBlock:
      record.message = CutUtf8(held.text, kMessageBytesMax);
      record.progress = FindProgress(record.message);
      break;
    case HeldKind::kWithoutStep:
      if (const auto bar = bars_.find(found->first); bar != bars_.end() && record.progress)
        record.progress->step = bar->second.done;
      break;
    case HeldKind::kPartial:
      record.message = CutUtf8(held.text, kMessageBytesMax);
      record.is_truncated = true;
      break;
  }
  recogniser_.Recognise(&record);
  records->push_back(std::move(record));
  return held_.erase(found);
}

void Reader::State::Flush(double now, std::vector<Record>* records) {
  std::vector<std::pair<uint64_t, std::string>> due;
  for (const auto& [writer, held] : held_)
    if (std::isinf(now) || now - held.since >= options_.held_seconds_max) due.emplace_back(held.number, writer);
  std::sort(due.begin(), due.end());
  for (const auto& [number, writer] : due)
    if (const auto found = held_.find(writer); found != held_.end()) Emit(found, records);
}

std::string Reader::State::HeldId() const {
  const auto oldest = std::min_element(held_.begin(), held_.end(),
                                       [](const auto& a, const auto& b) { return a.second.number < b.second.number; });
  return oldest == held_.end() ? "" : oldest->second.record.id;
}

Reader::Reader(const Recogniser& recogniser, ReaderOptions options)
    : state_(std::make_unique<State>(recogniser, options)) {}
Reader::~Reader() = default;

void Reader::Add(const LineIn& line, std::vector<Record>* records) {
  state_->Add(line, records);
}

void Reader::Flush(double now, std::vector<Record>* records) {
  state_->Flush(now, records);
}

std::string Reader::HeldId() const {
  return state_->HeldId();
}

}  // namespace stepwatch::logs
