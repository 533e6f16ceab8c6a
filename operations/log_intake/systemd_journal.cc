#include "operations/log_intake/systemd_journal.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "src/base/parse_number.h"
#include "src/base/text.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kEntriesMax = 4096, kBytesMax = size_t{1} << 20;  // of one batch
constexpr size_t kFieldBytesMax = size_t{1} << 20;                 // libsystemd returns no more of one field
constexpr int kLocalOnly = 1;                                      // SD_JOURNAL_LOCAL_ONLY

Status Failed(const char* what, int code) {
  return Status(StatusCode::kUnavailable, fmt::format("{} of the journal failed: {}", what, std::strerror(-code)));
}

}  // namespace

// As in systemd/sd-journal.h, whose interface is stable.
struct SystemdJournal::Functions {
  void* library = nullptr;
  void* journal = nullptr;
  int (*open)(void** journal, int flags) = nullptr;
  int (*open_directory)(void** journal, const char* path, int flags) = nullptr;
  void (*close)(void* journal) = nullptr;
  int (*add_match)(void* journal, const void* data, size_t size) = nullptr;
  int (*add_disjunction)(void* journal) = nullptr;
  int (*seek_head)(void* journal) = nullptr;
  int (*seek_tail)(void* journal) = nullptr;
  int (*seek_cursor)(void* journal, const char* cursor) = nullptr;
  int (*test_cursor)(void* journal, const char* cursor) = nullptr;
  int (*get_cursor)(void* journal, char** cursor) = nullptr;
  int (*next)(void* journal) = nullptr;
  int (*previous)(void* journal) = nullptr;
  int (*wait)(void* journal, uint64_t timeout_us) = nullptr;
  int (*get_realtime)(void* journal, uint64_t* us) = nullptr;
  int (*get_data)(void* journal, const char* field, const void** data, size_t* size) = nullptr;
  int (*set_threshold)(void* journal, size_t size) = nullptr;

  ~Functions() {
    if (journal != nullptr) close(journal);
    if (library != nullptr) (void)::dlclose(library);
  }

  template <class Function>
  bool Load(const char* name, Function* function) const {
    *function = reinterpret_cast<Function>(::dlsym(library, name));
    return *function != nullptr;
  }

  bool LoadAll() {
    return Load("sd_journal_open", &open) && Load("sd_journal_open_directory", &open_directory) &&
           Load("sd_journal_close", &close) && Load("sd_journal_add_match", &add_match) &&
           Load("sd_journal_add_disjunction", &add_disjunction) && Load("sd_journal_seek_head", &seek_head) &&
           Load("sd_journal_seek_tail", &seek_tail) && Load("sd_journal_seek_cursor", &seek_cursor) &&
           Load("sd_journal_test_cursor", &test_cursor) && Load("sd_journal_get_cursor", &get_cursor) &&
           Load("sd_journal_next", &next) && Load("sd_journal_previous", &previous) && Load("sd_journal_wait", &wait) &&
           Load("sd_journal_get_realtime_usec", &get_realtime) && Load("sd_journal_get_data", &get_data) &&
           Load("sd_journal_set_data_threshold", &set_threshold);
  }
};

SystemdJournal::SystemdJournal() : functions_(std::make_unique<Functions>()) {}
SystemdJournal::~SystemdJournal() = default;

Result<std::unique_ptr<SystemdJournal>> SystemdJournal::Open(const JournalOptions& options, const std::string& cursor,
                                                             const std::function<void(const std::string& note)>& note) {
  std::unique_ptr<SystemdJournal> opened(new SystemdJournal());
  Functions& f = *opened->functions_;
  f.library = ::dlopen(options.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (f.library == nullptr || !f.LoadAll())
    return Status(StatusCode::kNotFound, "the journal needs " + options.library + ", which is not there or is too old");
  const int code = options.directory.empty() ? f.open(&f.journal, kLocalOnly)
                                             : f.open_directory(&f.journal, options.directory.c_str(), 0);
  if (code < 0) {
    f.journal = nullptr;
    return Failed("the opening", code);
  }
  opened->host_ = options.host;
  (void)f.set_threshold(f.journal, kFieldBytesMax);
  if (Status status = opened->AddMatches(options.matches); !status.ok()) return status;
  if (Status status = opened->Seek(cursor, note); !status.ok()) return status;
  return opened;
}

Status SystemdJournal::AddMatches(const std::vector<std::string>& matches) {
  Functions& f = *functions_;
  const auto add = [&f](const std::string& match) {
    int code = f.add_match(f.journal, match.data(), match.size());
    if (code >= 0) code = f.add_disjunction(f.journal);
    return code;
  };
  for (const std::string& each : matches) {
    int code = 0;
    if (each.find('=') != std::string::npos) {
      code = add(each);
    } else {
      // The lines of the unit itself, and those of systemd about it, such as that the kernel killed a process.
      const std::string unit = each.find('.') == std::string::npos ? each + ".service" : each;
      code = add("_SYSTEMD_UNIT=" + unit);
      if (code >= 0) code = add("UNIT=" + unit);
    }
    if (code < 0) return Failed(("the match " + base::Printable(each)).c_str(), code);
  }
  return Status();
}

Status SystemdJournal::Seek(const std::string& cursor, const std::function<void(const std::string& note)>& note) {
  Functions& f = *functions_;
  if (!cursor.empty() && f.seek_cursor(f.journal, cursor.c_str()) >= 0) {
    const int code = f.next(f.journal);
    if (code < 0) return Failed("the first entry", code);
    const bool is_there = code > 0 && f.test_cursor(f.journal, cursor.c_str()) > 0;
    has_entry_ = code > 0 && !is_there;
    if (has_entry_) note("the last entry of the journal that was read is no longer there: reading goes on behind it");
    return Status();
  }
  int code = f.seek_tail(f.journal);
  if (code >= 0) code = f.previous(f.journal);
  if (code == 0) code = f.seek_head(f.journal);  // the journal is empty
  return code < 0 ? Failed("the search of its end", code) : Status();
}

std::string SystemdJournal::Field(const char* name) {
  const void* data = nullptr;
  size_t size = 0;
  if (functions_->get_data(functions_->journal, name, &data, &size) < 0) return "";
  const std::string_view text(static_cast<const char*>(data), size);
  const size_t equals = text.find('=');
  return equals == std::string_view::npos ? "" : std::string(text.substr(equals + 1));
}

SentLine SystemdJournal::Entry() {
  SentLine line;
  line.text = Field("MESSAGE");
  line.host = SentName(Field("_HOSTNAME"));
  line.component = SentName(Field("SYSLOG_IDENTIFIER"));
  line.source = SentName(Field("_SYSTEMD_UNIT"));
  if (line.source.empty()) line.source = line.component;
  line.level = LevelOfSeverity(base::ParseNumber<int>(Field("PRIORITY")).value_or(-1));
  uint64_t us = 0;
  if (functions_->get_realtime(functions_->journal, &us) >= 0) line.t = static_cast<double>(us) / 1e6;
  if (!host_.empty() && line.host == host_) {
    line.pid = base::ParseNumber<int64_t>(Field("_PID"));
    line.is_of_kernel = Field("_TRANSPORT") == "kernel";
  }
  return line;
}

Result<JournalBatch> SystemdJournal::Read(uint64_t wait_us) {
  Functions& f = *functions_;
  JournalBatch batch;
  bool has_waited = false;
  while (batch.lines.size() < kEntriesMax && batch.bytes < kBytesMax) {
    const int code = has_entry_ ? 1 : f.next(f.journal);
    has_entry_ = false;
    if (code < 0) return Failed("the reading", code);
    if (code == 0) {
      if (has_waited || !batch.lines.empty()) break;
      has_waited = true;
      (void)f.wait(f.journal, wait_us);
      continue;
    }
    char* cursor = nullptr;
    if (f.get_cursor(f.journal, &cursor) < 0 || cursor == nullptr) continue;
    batch.cursor = cursor;
    std::free(cursor);
    SentLine line = Entry();
    // Its own lines would be read for ever.
    if (line.text.empty() || line.pid == ::getpid()) continue;
    line.id = SentId(batch.cursor);
    batch.bytes += line.text.size();
    batch.lines.push_back(std::move(line));
  }
  return batch;
}

}  // namespace stepwatch::operations
