#include "operations/log_intake/journal_reader.h"

#include <atomic>
#include <chrono>
#include <utility>
#include <vector>

#include "src/base/file.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kCursorBytesMax = 4096;
constexpr uint64_t kWaitUs = 300'000;

}  // namespace

// The thread has it while a batch is read, the loop in between.
struct JournalReader::Shared {
  std::unique_ptr<SystemdJournal> journal;  // null: not open
  std::string cursor;                       // to be kept; empty: nothing new
  bool has_read_cursor = false;
  JournalBatch batch;
  std::vector<std::string> notes;
  std::atomic<bool> is_stopping = false;
};

JournalReader::JournalReader(boost::asio::io_context& loop, Options options, SentLineReader* reader)
    : options_(std::move(options)),
      reader_(*reader),
      shared_(std::make_shared<Shared>()),
      mailbox_(std::make_shared<watch::LoopMailbox>(loop)) {
  Read();
}

JournalReader::~JournalReader() {
  constexpr std::chrono::seconds kStopTime{2};
  shared_->is_stopping = true;
  mailbox_->Close();
  (void)thread_.Stop(base::IoThread::Clock::now() + kStopTime);
}

void JournalReader::Tick() {
  if (std::exchange(is_waiting_, false)) return Pass();
  if (!is_busy_) Read();
}

void JournalReader::Read() {
  const auto done = [this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) OnBatch();
  };
  is_busy_ = thread_.Post([shared = shared_, options = options_, mailbox = mailbox_, done] {
    Shared& s = *shared;
    s.batch = {};
    const auto note = [&s](const std::string& text) { s.notes.push_back(text); };
    if (!s.cursor.empty()) {
      const Status kept = base::ReplaceFile(options.cursor_file, std::exchange(s.cursor, {}));
      if (!kept.ok()) note("the position in the journal cannot be kept: " + kept.message());
    }
    if (s.is_stopping) return;
    if (!s.journal) {
      const Result<std::string> cursor = base::ReadFile(options.cursor_file, kCursorBytesMax);
      auto opened = SystemdJournal::Open(options.journal, cursor.ok() ? cursor.value() : "", note);
      if (opened.ok())
        s.journal = std::move(opened).value();
      else
        note("logs.journal: " + opened.status().message() + "; it is retried every second");
    }
    if (s.journal) {
      Result<JournalBatch> batch = s.journal->Read(kWaitUs);
      if (batch.ok()) {
        s.batch = std::move(batch).value();
      } else {
        s.journal.reset();
        note("logs.journal: " + batch.status().message() + "; it is opened again");
      }
    }
    mailbox->Post(done);
  });
}

void JournalReader::OnBatch() {
  for (const std::string& note : std::exchange(shared_->notes, {}))
    if (note != std::exchange(last_note_, note)) options_.log(note);
  if (!shared_->batch.cursor.empty()) return Pass();
  is_busy_ = false;
  if (shared_->journal) Read();
}

void JournalReader::Pass() {
  const std::string cursor = shared_->batch.cursor;
  SentLineReader::Work work;
  work.bytes = shared_->batch.bytes;
  work.lines = [lines = shared_->batch.lines] { return lines; };
  work.then = [this, cursor, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    shared_->cursor = cursor;
    Read();
  };
  if (reader_.Take(std::move(work))) return;
  is_waiting_ = true;  // until there is room
}

}  // namespace stepwatch::operations
