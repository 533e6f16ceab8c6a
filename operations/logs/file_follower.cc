#include "operations/logs/file_follower.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/base/file.h"
#include "src/base/sha256.h"
#include "src/base/text.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kStateBytesMax = size_t{8} << 20;
constexpr size_t kOpenMax = 1024;
constexpr size_t kCompared = size_t{64} << 10;
constexpr size_t kNotesMax = 1000;
// A copy that grows no more is a file of its own.
constexpr double kCopySeconds = 10;
constexpr double kLostSeconds = 600;
constexpr double kKeptSeconds = 7 * 86400.0;
// Shorter than that, so that no text is read again once its position is forgotten.
constexpr double kRotatedSeconds = 6 * 86400.0;
constexpr double kSaveSeconds = 20;

double ChangedAt(const struct stat& about) {
  return static_cast<double>(about.st_mtim.tv_sec) + static_cast<double>(about.st_mtim.tv_nsec) * 1e-9;
}

std::pair<int64_t, int64_t> StampOf(const struct stat& about) {
  return {about.st_size, about.st_ctim.tv_sec * 1'000'000'000 + about.st_ctim.tv_nsec};
}

std::string Digest(std::string_view bytes) {
  return base::Sha256Hex(bytes).substr(0, 32);
}

std::string_view Last(std::string_view bytes, size_t size) {
  return bytes.substr(bytes.size() - std::min(size, bytes.size()));
}

// Whether one of the paths is that of the log of which `path` is a rotated file.
bool IsRotated(const std::string& path, const std::set<std::string>& paths) {
  for (size_t end = path.find_first_of(".-_~", path.rfind('/') + 2); end != std::string::npos;
       end = path.find_first_of(".-_~", end + 1))
    if (paths.contains(path.substr(0, end))) return true;
  return false;
}

}  // namespace

bool AreOfOneLog(const std::string& path, const std::string& other) {
  if (base::DirectoryOf(path) != base::DirectoryOf(other)) return false;
  std::string a = base::BaseName(path), b = base::BaseName(other);
  if (a.size() > b.size()) std::swap(a, b);
  if (a.ends_with(".gz")) a.resize(a.size() - 3);
  if (const size_t dot = a.rfind('.'); dot != std::string::npos && dot > 0) a.resize(dot);
  return b.starts_with(a) && (b.size() == a.size() || std::string_view(".-_~").find(b[a.size()]) != std::string::npos);
}

struct FileFollower::Tracked {
  FilePosition position;  // as committed
  std::shared_ptr<const FollowedSource> source;
  std::optional<FileText> text;  // nullopt: it is not found, or has ended
  bool is_current = false;       // the pattern leads to it
  bool is_ended = false;
  int64_t at = 0;          // read so far
  bool is_inside = false;  // of a line that was cut, at `at`
  int64_t passed = 0;      // the end of the last line that was passed on
  std::string head;        // the first bytes, at most kHeadBytes
  std::string recent;      // bytes before `at`: those not committed, and kTailBytes before them
  double order_t = 0;      // of texts of one log, the oldest first
  double grew_t = 0;
  int64_t late_until = 0;
  int64_t repeat_until = 0;
  int64_t changed_ns = -1;  // of the file, when all of it had been read

  FilePosition Here() const {
    FilePosition here = position;
    here.offset = at;
    here.head_size = static_cast<int64_t>(head.size());
    here.head = Digest(head);
    here.tail = Digest(Last(recent, kTailBytes));
    return here;
  }
  bool HasCopy(FileKey key) const {
    return std::find(position.copies.begin(), position.copies.end(), key) != position.copies.end();
  }
  bool IsCommitted() const { return position.offset >= passed; }
  // Whether the file no longer has the text that was read of it.
  bool HasOtherText() {
    const Result<struct stat> about = text->Look();
    if (!about.ok() || about.value().st_size < at) return true;
    const std::string_view tail = Last(recent, kTailBytes);
    const Result<std::string> begin = text->Read(0, head.size());
    const Result<std::string> end = text->Read(at - static_cast<int64_t>(tail.size()), tail.size());
    return !begin.ok() || begin.value() != head || !end.ok() || end.value() != tail;
  }
};

FileFollower::FileFollower(FollowerOptions options, base::FileSystem& files)
    : options_(std::move(options)), files_(files) {}

FileFollower::~FileFollower() = default;

// --- positions ---

void FileFollower::Load(double now, Batch* batch) {
  if (std::exchange(is_loaded_, true)) return;
  is_new_ = true;
  const Result<std::string> text = base::ReadFile(options_.state_file, kStateBytesMax, files_);
  if (!text.ok()) {
    if (text.status().code() != StatusCode::kNotFound) batch->notes.push_back(text.status().message());
    return;
  }
  Result<FilePositions> positions = ParsePositions(text.value());
  if (!positions.ok()) {
    batch->notes.push_back("the positions in log files, " + options_.state_file + ", are not readable: " +
                           positions.status().message() + "; recent files are read from their beginnings");
    return;
  }
  is_new_ = false;
  followed_since_t_ = positions.value().since_t;
  was_away_ = now - positions.value().t > options_.late_seconds;
  for (FilePosition& each : positions.value().files) {
    auto file = std::make_unique<Tracked>();
    file->source = std::make_shared<FollowedSource>();
    file->at = file->passed = each.offset;
    file->is_inside = each.is_inside;
    file->is_ended = each.is_over;
    file->grew_t = now;
    file->position = std::move(each);
    tracked_.push_back(std::move(file));
  }
}

void FileFollower::Save(double now, Batch* batch) {
  FilePositions positions;
  positions.t = saved_t_ = now;
  positions.since_t = followed_since_t_;
  for (const auto& file : tracked_) positions.files.push_back(file->position);
  const Status saved = base::ReplaceFile(options_.state_file, PositionsText(positions), files_);
  is_changed_ = !saved.ok();
  // Following is more important: without positions, a restart passes lines on twice.
  if (!saved.ok() && batch != nullptr && noted_.insert("save").second)
    batch->notes.push_back("the positions in log files cannot be stored: " + saved.message() +
                           "; after a restart, lines may be read twice");
  if (saved.ok()) noted_.erase("save");
}

void FileFollower::Commit(const std::vector<FollowedPlace>& places, double now) {
  for (const FollowedPlace& place : places) {
    const auto found = std::find_if(tracked_.begin(), tracked_.end(),
                                    [&](const auto& each) { return each->position.identity == place.identity; });
    if (found == tracked_.end()) continue;
    Tracked& file = **found;
    const int64_t begin = file.at - static_cast<int64_t>(file.recent.size());
    if (place.offset <= file.position.offset || place.offset > file.at || place.offset < begin) continue;
    const std::string_view before = std::string_view(file.recent).substr(0, static_cast<size_t>(place.offset - begin));
    file.position.offset = place.offset;
    file.position.is_inside = place.is_inside;
    file.position.head_size = static_cast<int64_t>(file.head.size());
    file.position.head = Digest(file.head);
    file.position.tail = Digest(Last(before, kTailBytes));
    file.position.seen_t = now;
    if (before.size() > kTailBytes) file.recent.erase(0, before.size() - kTailBytes);
    if (file.is_ended && file.IsCommitted()) file.position.is_over = true;
    is_changed_ = true;
  }
  if (is_changed_) Save(now, nullptr);
}

// The positions of texts that ended long ago, and the oldest of too many.
void FileFollower::ForgetOld(double now) {
  const auto is_old = [&](const auto& each) {
    return each->position.is_over && now - each->position.seen_t > kKeptSeconds;
  };
  std::erase_if(tracked_, is_old);
  for (auto each = tracked_.begin(); each != tracked_.end() && tracked_.size() >= kPositionsMax;)
    each = (*each)->position.is_over ? tracked_.erase(each) : each + 1;
}

FollowerCounts FileFollower::counts() const {
  FollowerCounts counts = counts_;
  counts.files =
      std::count_if(tracked_.begin(), tracked_.end(), [](const auto& each) { return each->text.has_value(); });
  return counts;
}

// --- which file has which text ---

FileFollower::Tracked* FileFollower::Add(const PatternMatch& match, FileText text, double now) {
  auto file = std::make_unique<Tracked>();
  file->position.identity = options_.new_identity();
  file->position.path = match.path;
  file->position.copies = {text.key()};
  file->position.seen_t = file->grew_t = file->order_t = now;
  file->source = std::make_shared<FollowedSource>(FollowedSource{match.path, match.run, match.rank});
  // Lines that are passed on before a kill belong to a text that starts so, whatever the name of its file becomes.
  const Result<std::string> head = text.Read(0, kHeadBytes);
  if (head.ok()) file->head = head.value();
  file->position.head_size = static_cast<int64_t>(file->head.size());
  file->position.head = Digest(file->head);
  file->text = std::move(text);
  is_changed_ = true;
  tracked_.push_back(std::move(file));
  return tracked_.back().get();
}

void FileFollower::Attach(Tracked* file, FileText text, double now) {
  std::vector<FileKey>& copies = file->position.copies;
  std::erase(copies, text.key());
  if (copies.size() == kFileCopiesMax) copies.erase(copies.begin());
  copies.push_back(text.key());
  if (file->head.empty() && file->recent.empty()) {
    const int64_t tail = std::min<int64_t>(file->at, kTailBytes);
    Result<std::string> head = text.Read(0, kHeadBytes);
    Result<std::string> recent = text.Read(file->at - tail, static_cast<size_t>(tail));
    if (!head.ok() || !recent.ok()) return;
    file->head = std::move(head).value();
    file->recent = std::move(recent).value();
  }
  if (!is_scanned_) {
    const Result<struct stat> about = text.Look();
    const int64_t size = about.ok() ? about.value().st_size : 0;
    file->repeat_until = size;
    if (was_away_) file->late_until = size;
  }
  file->position.is_over = file->is_ended = false;
  file->changed_ns = -1;
  file->grew_t = file->position.seen_t = now;
  file->text = std::move(text);
  is_changed_ = true;
}

bool FileFollower::FindAgain(Tracked* file, double now) {
  const std::string directory = base::DirectoryOf(file->position.path);
  const Result<std::vector<std::string>> names = base::ListDirectory(directory, files_);
  if (!names.ok()) return false;
  const FilePosition here = file->head.empty() && file->recent.empty() ? file->position : file->Here();
  // The file itself first, then others with the same text.
  for (const bool is_same_file : {true, false}) {
    for (const std::string& name : names.value()) {
      const std::string path = base::JoinPath(directory, name);
      if (!AreOfOneLog(path, file->position.path)) continue;
      struct stat about {};
      if (base::RepeatInterrupted([&] { return files_.Stat(path.c_str(), &about); }) != 0) continue;
      const FileKey key{about.st_dev, about.st_ino};
      if (file->HasCopy(key) != is_same_file) continue;
      if (!is_same_file && here.head_size == 0) continue;
      const bool is_taken = std::any_of(tracked_.begin(), tracked_.end(),
                                        [&](const auto& each) { return each->text && each->text->key() == key; });
      if (is_taken) continue;
      Result<FileText> text = FileText::Open(path, files_);
      if (!text.ok() || !HasTextOf(&text.value(), here)) continue;
      Attach(file, std::move(text).value(), now);
      return true;
    }
  }
  return false;
}

// The known text that this one begins with; the longest of several.
FileFollower::Tracked* FileFollower::OriginalOf(const std::string& path, FileText* text, FileKey key) {
  Tracked* original = nullptr;
  for (const auto& each : tracked_) {
    if (each->text || (each->position.head_size == 0 && !each->HasCopy(key))) continue;
    if (original != nullptr && each->position.offset <= original->position.offset) continue;
    if (!each->HasCopy(key) && !AreOfOneLog(path, each->position.path)) continue;
    if (HasTextOf(text, each->position)) original = each.get();
  }
  return original;
}

bool FileFollower::IsCopy(const std::string& path, FileText* text, const struct stat& about) {
  for (const auto& each : tracked_) {
    // A new file under the old name is none, although it may begin alike.
    if (!each->text || path == each->position.path || !AreOfOneLog(path, each->position.path)) continue;
    // Once that is noticed, its text may be found here.
    if (!each->text->is_compressed() && each->HasOtherText()) return true;
    if (each->text->is_compressed() || text->is_compressed()) {
      // The size of a text is not known before it is decompressed.
      const Result<std::string> here = text->Read(0, kHeadBytes), there = each->text->Read(0, kHeadBytes);
      const size_t size = here.ok() && there.ok() ? std::min(here.value().size(), there.value().size()) : 0;
      if (size > 0 && here.value().substr(0, size) == there.value().substr(0, size) && HasTextOf(text, each->position))
        return true;
      continue;
    }
    const Result<struct stat> original = each->text->Look();
    if (!original.ok() || original.value().st_size < about.st_size) continue;
    const auto size = static_cast<size_t>(std::min<int64_t>(about.st_size, kCompared));
    const Result<std::string> begin = text->Read(0, size), begin_there = each->text->Read(0, size);
    const int64_t last = about.st_size - static_cast<int64_t>(size);
    const Result<std::string> end = text->Read(last, size), end_there = each->text->Read(last, size);
    if (begin.ok() && begin_there.ok() && end.ok() && end_there.ok() && begin.value() == begin_there.value() &&
        end.value() == end_there.value())
      return true;
  }
  return false;
}

// The first bytes of a known text, which is longer: it may be a copy that is being made.
bool FileFollower::IsUnfinishedCopy(const std::string& path, FileText* text, const struct stat& about, double now) {
  if (now - ChangedAt(about) > kCopySeconds) return false;
  // Compressed text shows no byte at first.
  if (text->is_compressed() && !text->is_whole()) return true;
  for (const auto& each : tracked_) {
    if (each->at <= about.st_size || path == each->position.path || !AreOfOneLog(path, each->position.path)) continue;
    const Result<std::string> begin = text->Read(0, kHeadBytes);
    const size_t size = begin.ok() ? std::min(begin.value().size(), each->head.size()) : 0;
    if (size > 0 && begin.value().substr(0, size) == each->head.substr(0, size)) return true;
  }
  return false;
}

void FileFollower::AddRotated(const std::vector<PatternMatch>& matches, double now, std::vector<Unknown>* unknown) {
  const double since = std::max(followed_since_t_, now - kRotatedSeconds);
  std::map<std::string, std::vector<std::string>> directories;
  std::set<std::string> known;
  for (const PatternMatch& match : matches) known.insert(match.path);
  for (const PatternMatch& match : matches) {
    const std::string directory = base::DirectoryOf(match.path), base = base::BaseName(match.path);
    if (!directories.contains(directory)) {
      Result<std::vector<std::string>> names = base::ListDirectory(directory, files_);
      directories[directory] = names.ok() ? std::move(names).value() : std::vector<std::string>();
    }
    const std::vector<std::string>& names = directories[directory];
    for (auto name = std::lower_bound(names.begin(), names.end(), base); name != names.end(); ++name) {
      if (!name->starts_with(base)) break;
      Unknown rotated{base::JoinPath(directory, *name), {}, match};
      if (name->size() == base.size() || std::string_view(".-_~").find((*name)[base.size()]) == std::string::npos ||
          known.contains(rotated.path) ||
          base::RepeatInterrupted([&] { return files_.Stat(rotated.path.c_str(), &rotated.about); }) != 0)
        continue;
      const FileKey key{rotated.about.st_dev, rotated.about.st_ino};
      const bool is_followed = std::any_of(tracked_.begin(), tracked_.end(),
                                           [&](const auto& each) { return each->text && each->text->key() == key; });
      if (!is_followed && ChangedAt(rotated.about) >= since) unknown->push_back(std::move(rotated));
    }
  }
}

void FileFollower::Adopt(const Unknown& unknown, double now, Batch* batch) {
  const auto& [path, about, match] = unknown;
  const FileKey key{about.st_dev, about.st_ino};
  const auto done = done_.find(key);
  if (about.st_size == 0 || (done != done_.end() && done->second == StampOf(about))) return;
  if (static_cast<size_t>(counts().files) >= kOpenMax) {
    if (noted_.insert("open").second)
      batch->notes.push_back(fmt::format("more than {} log files match {}; the others wait until some have ended",
                                         kOpenMax, base::Printable(options_.pattern, 200)));
    return;
  }
  Result<FileText> text = FileText::Open(path, files_);
  if (!text.ok()) {
    if (noted_.size() < kNotesMax && noted_.insert(path).second)
      batch->notes.push_back("a log file cannot be read: " + text.status().message());
    return;
  }
  if (text.value().key() != key) return;  // replaced in the meantime
  if (IsCopy(path, &text.value(), about)) return;
  if (Tracked* original = OriginalOf(path, &text.value(), key)) return Attach(original, std::move(text).value(), now);
  if (IsUnfinishedCopy(path, &text.value(), about, now)) return;
  if (is_new_ && !is_scanned_ && (text.value().is_compressed() || now - ChangedAt(about) > options_.history_seconds)) {
    done_[key] = StampOf(about);
    if (text.value().is_compressed()) return;
    Tracked* old = Add(match, std::move(text).value(), now);
    old->at = old->passed = old->position.offset = about.st_size;
    if (!SetDigests(&*old->text, &old->position).ok()) old->at = old->passed = old->position.offset = 0;
    old->is_inside = old->position.is_inside = old->at > 0;
    FileText same = std::move(*std::exchange(old->text, std::nullopt));
    return Attach(old, std::move(same), now);
  }
  Tracked* file = Add(match, std::move(text).value(), now);
  file->is_current = path == match.path;
  if (!file->is_current) file->order_t = std::min(now, ChangedAt(about));
  if (!is_scanned_ && (is_new_ || was_away_)) file->late_until = about.st_size;
}

void FileFollower::Scan(double now, Batch* batch) {
  ForgetOld(now);
  FoundPaths found = FindPaths(options_.pattern, files_);
  if (found.is_cut && noted_.insert("paths").second)
    batch->notes.push_back("too many log files match " + base::Printable(options_.pattern, 200) +
                           "; some are left out");
  std::set<std::string> paths;
  for (const PatternMatch& match : found.matches) paths.insert(match.path);
  std::erase_if(found.matches, [&](const PatternMatch& match) { return IsRotated(match.path, paths); });
  for (const auto& file : tracked_)
    if (!file->text && !file->is_ended) (void)FindAgain(file.get(), now);
  for (const auto& file : tracked_) file->is_current = false;
  std::vector<Unknown> unknown;
  for (const PatternMatch& match : found.matches) {
    struct stat about {};
    if (base::RepeatInterrupted([&] { return files_.Stat(match.path.c_str(), &about); }) != 0) continue;
    const FileKey key{about.st_dev, about.st_ino};
    const auto known = std::find_if(tracked_.begin(), tracked_.end(),
                                    [&](const auto& each) { return each->text && each->text->key() == key; });
    if (known == tracked_.end()) {
      unknown.push_back({match.path, about, match});
      continue;
    }
    Tracked& file = **known;
    // The first file of the list of copies is its own; in another it ends.
    file.is_current = match.path == file.position.path;
    if (file.source->path.empty())
      file.source = std::make_shared<FollowedSource>(FollowedSource{file.position.path, match.run, match.rank});
  }
  if (!is_new_ || is_scanned_) AddRotated(found.matches, now, &unknown);
  if (followed_since_t_ == 0) followed_since_t_ = now;
  // A log before its rotated files: one of them may be a copy of it that is being made.
  std::stable_sort(unknown.begin(), unknown.end(),
                   [](const Unknown& a, const Unknown& b) { return a.path.size() < b.path.size(); });
  for (const Unknown& each : unknown) Adopt(each, now, batch);
  for (const auto& file : tracked_) {
    if (file->source->path.empty()) {
      PatternMatch match;
      const auto of_path = [&](const PatternMatch& each) { return each.path == file->position.path; };
      const auto same = std::find_if(found.matches.begin(), found.matches.end(), of_path);
      if (same != found.matches.end())
        match = *same;
      else
        (void)MatchesPart(base::BaseName(options_.pattern), base::BaseName(file->position.path), &match);
      file->source = std::make_shared<FollowedSource>(FollowedSource{file->position.path, match.run, match.rank});
    }
    if (file->text || file->is_ended || now - file->grew_t < kLostSeconds) continue;
    file->is_ended = file->position.is_over = is_changed_ = true;
    batch->ended.push_back(file->position.identity);
    if (file->position.head_size == 0) continue;  // it was empty
    ++counts_.texts_lost;
    batch->notes.push_back(fmt::format("{} was removed while no process followed it; what it had after byte {} is lost",
                                       base::Printable(file->position.path, 200), file->at));
  }
  directories_ = std::move(found.directories);
  scanned_t_ = now;
  is_scanned_ = true;
}

// --- lines ---

void FileFollower::Pass(Tracked* file, std::string_view bytes, const SplitLines& split, double now, Batch* batch) {
  for (size_t i = 0; i < split.lines.size(); ++i) {
    const SplitLine& each = split.lines[i];
    FollowedLine line;
    line.source = file->source;
    line.identity = file->position.identity;
    line.offset = file->at + static_cast<int64_t>(each.begin);
    line.end = file->at + static_cast<int64_t>(each.end);
    line.ends_inside = each.is_truncated;
    line.text = each.text;
    line.is_late = line.offset < file->late_until;
    line.may_repeat = line.offset < file->repeat_until;
    file->passed = line.end;
    ++counts_.lines;
    counts_.lines_cut += each.is_truncated ? 1 : 0;
    batch->lines.push_back(std::move(line));
  }
  if (split.consumed == 0) return;
  const std::string_view consumed = bytes.substr(0, split.consumed);
  const auto at = static_cast<size_t>(file->at);
  if (file->head.size() < kHeadBytes && file->head.size() >= at && file->head.size() < at + bytes.size())
    file->head += bytes.substr(file->head.size() - at, kHeadBytes - file->head.size());
  file->recent += consumed;
  // Bytes that no line needs are not committed: they are skipped again after a restart.
  if (file->IsCommitted() && file->recent.size() > kTailBytes) file->recent.erase(0, file->recent.size() - kTailBytes);
  if (file->position.offset == 0 && file->position.head_size != static_cast<int64_t>(file->head.size())) {
    // It was empty when it was found. See Add.
    file->position.head_size = static_cast<int64_t>(file->head.size());
    file->position.head = Digest(file->head);
    is_changed_ = true;
  }
  file->at += static_cast<int64_t>(split.consumed);
  file->is_inside = split.is_inside;
  file->grew_t = now;
}

bool FileFollower::ReadOne(Tracked* file, double now, Batch* batch) {
  const Result<struct stat> about = file->text->Look();
  if (!about.ok()) return true;
  const bool is_plain = !file->text->is_compressed();
  const int64_t changed_ns = about.value().st_mtim.tv_sec * 1'000'000'000 + about.value().st_mtim.tv_nsec;
  if (is_plain && about.value().st_size == file->at && changed_ns == file->changed_ns) return true;
  if (is_plain && file->HasOtherText()) {
    Truncate(file, now, batch);
    return false;
  }
  if (changed_ns != file->changed_ns) file->grew_t = now;
  if (read_t_ > 0 && now - read_t_ > options_.late_seconds) file->late_until = about.value().st_size;
  size_t budget = options_.turn_bytes;
  const size_t tail = is_plain ? std::min(file->recent.size(), kTailBytes) : 0;
  for (;;) {
    Result<std::string> read = file->text->Read(file->at - static_cast<int64_t>(tail), tail + budget);
    if (!read.ok()) {
      if (noted_.size() < kNotesMax && noted_.insert(file->position.identity).second)
        batch->notes.push_back(base::Printable(file->position.path, 200) + ": " + read.status().message() +
                               "; its other lines are lost");
      // A copy that is damaged, such as a compressed file of which a part is missing.
      if (!is_plain) End(file, now, batch);
      return true;
    }
    if (read.value().size() < tail || std::string_view(read.value()).substr(0, tail) != Last(file->recent, tail)) {
      Truncate(file, now, batch);
      return false;
    }
    const std::string_view bytes = std::string_view(read.value()).substr(tail);
    const bool is_at_end = bytes.size() < budget;
    SplitOptions split;
    split.line_bytes_max = options_.line_bytes_max;
    split.lines_max = options_.batch_lines;
    split.is_inside = file->is_inside;
    const SplitLines lines = SplitIntoLines(bytes, split);
    if (lines.consumed == 0 && !is_at_end && budget <= options_.line_bytes_max) {
      budget = options_.line_bytes_max + 2;
      continue;
    }
    const bool is_all = is_at_end && lines.lines.size() < split.lines_max;
    Pass(file, bytes, lines, now, batch);
    file->changed_ns = is_all ? changed_ns : -1;
    return is_all;
  }
}

// The text of the file is gone, or in a copy that was made before; the file has another text now.
void FileFollower::Truncate(Tracked* file, double now, Batch* batch) {
  ++counts_.truncations;
  batch->notes.push_back(base::Printable(file->position.path, 200) +
                         " was truncated: lines that were written between its copy and the truncation are lost; rotate "
                         "it by renaming, without copytruncate");
  const PatternMatch match{file->position.path, file->source->rank, file->source->run};
  FileText text = std::move(*std::exchange(file->text, std::nullopt));
  std::erase(file->position.copies, text.key());
  Add(match, std::move(text), now)->is_current = file->is_current;
  file->is_current = false;
  file->grew_t = now;
  (void)FindAgain(file, now);
}

void FileFollower::End(Tracked* file, double now, Batch* batch) {
  const Result<std::string> rest = file->text->Read(file->at, options_.line_bytes_max + 1);
  if (rest.ok() && !rest.value().empty()) {
    SplitOptions split;
    split.line_bytes_max = options_.line_bytes_max;
    split.is_inside = file->is_inside;
    split.is_all = true;
    Pass(file, rest.value(), SplitIntoLines(rest.value(), split), now, batch);
  }
  const Result<struct stat> about = file->text->Look();
  if (about.ok()) done_[file->text->key()] = StampOf(about.value());
  file->text.reset();
  file->is_ended = is_changed_ = true;
  if (file->IsCommitted()) file->position.is_over = true;
  batch->ended.push_back(file->position.identity);
}

FollowedBatch FileFollower::Read(double now, bool scans) {
  Batch batch;
  Load(now, &batch);
  if (scans || !is_scanned_ || now - scanned_t_ >= options_.scan_seconds) Scan(now, &batch);
  // Texts of one path in their order: a newer one waits until those before it have been read.
  std::map<std::string, std::vector<Tracked*>> logs;
  for (const auto& each : tracked_)
    if (each->text) logs[each->position.path].push_back(each.get());
  std::vector<std::vector<Tracked*>> turns;
  for (auto& [path, list] : logs) {
    std::stable_sort(list.begin(), list.end(),
                     [](const Tracked* a, const Tracked* b) { return a->order_t < b->order_t; });
    turns.push_back(std::move(list));
  }
  size_t bytes = 0;
  for (size_t i = 0; i < turns.size(); ++i) {
    if (bytes >= options_.batch_bytes || batch.lines.size() >= options_.batch_lines) {
      batch.has_more = true;
      turn_ += i;
      break;
    }
    for (Tracked* file : turns[(turn_ + i) % turns.size()]) {
      const size_t before = batch.lines.size();
      const int64_t at = file->at;
      const bool is_all = ReadOne(file, now, &batch);
      bytes += static_cast<size_t>(std::max<int64_t>(0, file->at - at));
      batch.has_more = batch.has_more || !is_all;
      if (!is_all) break;
      if (!file->text || batch.lines.size() > before) continue;
      const bool is_quiet = !file->is_current && now - file->grew_t > options_.rotate_seconds;
      if (is_quiet || file->text->is_whole()) End(file, now, &batch);
    }
  }
  read_t_ = now;
  // The identities of new texts are stored before their lines are passed on: after a kill they get the same ids.
  if (is_changed_ || now - saved_t_ > kSaveSeconds) Save(now, &batch);
  batch.directories = directories_;
  return batch;
}

}  // namespace stepwatch::operations
