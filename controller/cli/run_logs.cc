#include "controller/cli/run_logs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "controller/cli/read_json.h"
#include "controller/cli/text/logs_text.h"
#include "controller/cli/text/time_text.h"
#include "src/base/file.h"
#include "src/base/text.h"
#include "src/json/json.h"
#include "src/logs/json_line.h"
#include "src/logs/write_record.h"

namespace stepwatch::cli {
namespace {

constexpr size_t kWindowBytes = size_t{256} << 10;  // the first one; each further one is twice as large
constexpr size_t kLineBytesMax = size_t{1} << 20;   // the rest of a longer line is left out
constexpr size_t kBytesOfRun = size_t{256} << 20;   // read of all its files
constexpr size_t kFilesMax = 2048;
constexpr size_t kKeyBytesMax = 200;

Status ReadFailed(const std::string& path) {
  return Status(StatusCode::kUnavailable,
                "cannot read " + base::Printable(path, 500) + ": " + std::generic_category().message(errno));
}

// The bytes from `from` to the end that the file had; fewer if it became shorter.
Result<std::string> ReadFrom(int fd, const std::string& path, int64_t from, int64_t end) {
  std::string bytes(static_cast<size_t>(end - from), '\0');
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = base::RepeatInterrupted([&] {
      return base::FileSystem::Real().Read(fd, bytes.data() + have, bytes.size() - have,
                                           from + static_cast<int64_t>(have));
    });
    if (got < 0) return ReadFailed(path);
    if (got == 0) break;
    have += static_cast<size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

std::vector<logs::Record> RecordsOf(std::string_view bytes, const TailOptions& options, double changed_t,
                                    const logs::Recogniser& recogniser) {
  std::vector<logs::Record> records;
  logs::Reader reader(recogniser);
  while (!bytes.empty()) {
    const size_t end = std::min(bytes.find('\n'), bytes.size());
    logs::LineIn line;
    line.text = bytes.substr(0, std::min(end, kLineBytesMax));
    line.is_truncated = end > kLineBytesMax;
    line.observed_t = changed_t;
    line.source = options.path;
    line.rank = options.rank;
    reader.Add(line, &records);
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
  }
  reader.Flush(std::numeric_limits<double>::infinity(), &records);
  return records;
}

// A record without a time follows the one before it.
void CarryTimes(std::vector<logs::Record>* records) {
  std::optional<double> last;
  for (logs::Record& each : *records) {
    if (each.t) last = each.t;
    if (last) each.observed_t = *last;
  }
}

std::string KeyOf(const std::string& path, std::optional<double> t, std::string_view message) {
  return fmt::format("{}\n{}\n{}", path, t ? fmt::format("{:.3f}", *t) : "", message.substr(0, kKeyBytesMax));
}

}  // namespace

Result<Tail> ReadTail(const TailOptions& options, const logs::RecordFilter& filter,
                      const logs::Recogniser& recogniser) {
  const Result<base::UniqueFd> file = base::Open(options.path, O_RDONLY | O_NOCTTY | O_NONBLOCK);
  if (!file.ok()) return file.status();
  struct stat about {};
  if (base::FileSystem::Real().Fstat(file.value().get(), &about) != 0) return ReadFailed(options.path);
  if (!S_ISREG(about.st_mode))
    return Status(StatusCode::kInvalid, base::Printable(options.path, 500) + " is not a file");
  const auto changed_t = static_cast<double>(about.st_mtim.tv_sec);
  const auto bytes_max = static_cast<int64_t>(options.bytes_max);
  for (int64_t window = std::min<int64_t>(kWindowBytes, bytes_max);; window = std::min(2 * window, bytes_max)) {
    const int64_t from = std::max<int64_t>(0, about.st_size - window);
    Result<std::string> read = ReadFrom(file.value().get(), options.path, from, about.st_size);
    if (!read.ok()) return read.status();
    std::string_view bytes = read.value();
    if (from > 0) bytes.remove_prefix(std::min(bytes.find('\n'), bytes.size() - 1) + 1);  // of a cut line
    std::vector<logs::Record> records = RecordsOf(bytes, options, changed_t, recogniser);
    const auto timed =
        std::find_if(records.begin(), records.end(), [](const auto& each) { return each.t.has_value(); });
    bool has_all = from == 0 || (options.since_t && timed != records.end() && *timed->t < *options.since_t);
    CarryTimes(&records);
    std::erase_if(records, [&filter](const logs::Record& each) { return !filter.Selects(each); });
    has_all = has_all || records.size() >= options.records_max;
    if (!has_all && window < bytes_max) continue;
    if (records.size() > options.records_max)
      records.erase(records.begin(), records.end() - static_cast<std::ptrdiff_t>(options.records_max));
    return Tail{std::move(records), !has_all};
  }
}

RunLogs ReadRunLogs(const Json& answer_untrusted, const RunLogsOptions& options, const logs::RecordFilter& filter,
                    const logs::Recogniser& recogniser) {
  RunLogs found;
  found.has_more = IsTrue(answer_untrusted, "has_more");
  std::vector<LogLine> kept;
  std::multimap<std::string, size_t> known;  // the kept ones, by what a file shows of them
  for (const Json& event : List(answer_untrusted, "events")) {
    const auto read = logs::ReadJsonLine(json::Dump(event), {});
    if (!read || read->is_envelope) continue;
    const bool has_own_time = event.contains("event.created");
    known.emplace(KeyOf(RawText(event, "log.file.path"), has_own_time ? read->t : std::nullopt, read->record.message),
                  kept.size());
    kept.push_back({read->t.value_or(0), options.json ? json::Dump(event) + "\n" : RecordText(read->record)});
  }
  const Json& files = List(answer_untrusted, "files");
  const size_t count = std::min(files.size(), kFilesMax);
  for (size_t i = 0; i < count; ++i) {
    TailOptions tail_options;
    tail_options.path = RawText(files[i], "path");
    if (const int64_t rank = Whole(files[i], "rank"); rank >= 0) tail_options.rank = rank;
    if (options.rank && tail_options.rank && tail_options.rank != options.rank) continue;
    tail_options.since_t = options.since_t;
    tail_options.records_max = options.limit + 1;
    tail_options.bytes_max = std::clamp(kBytesOfRun / count, kWindowBytes, tail_options.bytes_max);
    const Result<Tail> tail = ReadTail(tail_options, filter, recogniser);
    if (!tail.ok()) {
      found.notes.push_back(tail.status().message());
      continue;
    }
    if (tail.value().is_cut)
      found.notes.push_back(fmt::format("only the last {} MiB of {} were searched", tail_options.bytes_max >> 20,
                                        base::Printable(tail_options.path, 500)));
    for (const logs::Record& record : tail.value().records) {
      if (const auto same = known.find(KeyOf(record.source, record.t, record.message)); same != known.end()) {
        kept[same->second].text.clear();
        known.erase(same);
      }
      found.lines.push_back(
          {logs::TimeOf(record), options.json ? logs::EcsJson(record, {options.run, ""}) + "\n" : RecordText(record)});
    }
    // Lines of other files may be later than all of these, and the room is for the last ones.
    if (found.lines.size() > 2 * (options.limit + 1)) {
      std::stable_sort(found.lines.begin(), found.lines.end(), [](const auto& a, const auto& b) { return a.t < b.t; });
      found.lines.erase(found.lines.begin(), found.lines.end() - static_cast<std::ptrdiff_t>(options.limit + 1));
    }
  }
  if (files.size() > count) found.notes.push_back(fmt::format("{} more files were not read", files.size() - count));
  std::copy_if(std::make_move_iterator(kept.begin()), std::make_move_iterator(kept.end()),
               std::back_inserter(found.lines), [](const LogLine& each) { return !each.text.empty(); });
  std::stable_sort(found.lines.begin(), found.lines.end(), [](const auto& a, const auto& b) { return a.t < b.t; });
  if (found.lines.size() > options.limit) {
    found.has_more = true;
    found.lines.erase(found.lines.begin(), found.lines.end() - static_cast<std::ptrdiff_t>(options.limit));
  }
  return found;
}

}  // namespace stepwatch::cli
