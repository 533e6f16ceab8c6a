#include "src/step/pulse_writer.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <new>

namespace stepwatch::step {
namespace {

using vocabulary::PulsePage;

// Kept free for the line that reports the end of the process.
constexpr size_t kEndBytes = 1024;

int64_t NanosOf(PulseWriter::Clock::time_point at) {
  return std::chrono::nanoseconds(at.time_since_epoch()).count();
}

int64_t Now() noexcept {
  return NanosOf(PulseWriter::Clock::now());
}

// Parses "pid:[4026531836]"; 0 for any other text.
uint64_t InodeOf(const std::string& pid_namespace) {
  const size_t begin = pid_namespace.find('[');
  uint64_t inode = 0;
  if (begin != std::string::npos)
    std::from_chars(pid_namespace.data() + begin + 1, pid_namespace.data() + pid_namespace.size(), inode);
  return inode;
}

bool IsUsable(std::string_view name) {
  return !name.empty() && name.size() <= kReportedNameBytesMax && name != "step" && name != "phase" &&
         name != "module" && name.find('\0') == std::string_view::npos;
}

// Judged by the current action, which is read without a lock.
bool EndsProcess(int number) noexcept {
  struct sigaction action {};
  if (::sigaction(number, nullptr, &action) != 0 || (action.sa_flags & SA_SIGINFO) != 0) return false;
  if (action.sa_handler != SIG_DFL) return false;
  return number != SIGCHLD && number != SIGURG && number != SIGWINCH && number != SIGCONT && number != SIGTSTP &&
         number != SIGTTIN && number != SIGTTOU;
}

}  // namespace

PulseWriter::PulseWriter(int64_t first_step) : step_(first_step - 1), parts_(Now()) {}

Status PulseWriter::Open(const Setup& setup) {
  if (setup.has_queue) queue_ = std::make_unique<base::BoundedQueue<ReportEntry>>(kQueuePlaces);
  const size_t unit = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  Result<base::SealedMemory> made =
      base::SealedMemory::Make("stepwatch-pulse", (sizeof(PulsePage) + unit - 1) / unit * unit);
  if (!made.ok()) return made.status();
  memory_ = std::move(made).value();
  auto* const page = new (memory_.mapping.data()) PulsePage;  // leaves the zeroed memory unchanged
  page->layout.store(vocabulary::kPulseLayout, std::memory_order_relaxed);
  page->bytes.store(static_cast<uint32_t>(memory_.bytes), std::memory_order_relaxed);
  page->pid.store(setup.process.pid, std::memory_order_relaxed);
  page->started.store(setup.process.started, std::memory_order_relaxed);
  page->pid_namespace.store(InodeOf(setup.process.pid_namespace), std::memory_order_relaxed);
  page->boot_id.Write(setup.process.boot_id);
  page->host.Write(setup.process.host);
  page->run_id.Write(setup.run_id);
  page->rank.store(setup.rank, std::memory_order_relaxed);
  page->world.store(setup.world, std::memory_order_relaxed);
  page->step.store(step_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  page->boundary_ns.store(Now(), std::memory_order_relaxed);
  page->phase.store(phase_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  page->magic.store(vocabulary::kPulseMagic, std::memory_order_release);
  guard_.pointer().store(page, std::memory_order_release);
  return Status();
}

// Each store of a number is a release, so that a reader who sees it also sees the odd sequence before it.
void PulseWriter::EndStep(int64_t step, Clock::time_point at) noexcept {
  if (!guard_.InOwner()) return;
  const int64_t at_ns = NanosOf(at);
  step_.store(step, std::memory_order_relaxed);
  PhaseMark phase = this->phase();
  const bool begins_training = phase.phase == Phase::kInit;
  if (begins_training) phase = {Phase::kTrain, 0};
  if (PulsePage* page = this->page()) {
    const uint64_t sequence = page->sequence.load(std::memory_order_relaxed);
    page->sequence.store(sequence + 1, std::memory_order_relaxed);
    page->step.store(step, std::memory_order_release);
    page->boundary_ns.store(at_ns, std::memory_order_release);
    page->sequence.store(sequence + 2, std::memory_order_release);
    page->module.store(0, std::memory_order_relaxed);
  }
  if (begins_training) (void)SetPhase(phase);
  if (queue_ == nullptr) return;
  ReportEntry entry;
  entry.phase = phase.phase;
  entry.step = step;
  entry.at_ns = at_ns;
  std::construct_at(&entry.parts, parts_.EndStep(at_ns));
  Push(entry);
}

Status PulseWriter::SetModules(const std::vector<std::string>& names) {
  if (!guard_.InOwner()) return Status();
  const std::string bytes = vocabulary::PulseNames(names);
  Result<base::SealedMemory> made = base::SealedMemory::MakeConstant("stepwatch-modules", bytes);
  const Status status = made.status();
  const uint32_t generation = (generation_.load(std::memory_order_relaxed) + 1) & vocabulary::kGenerationMask;
  std::shared_ptr<const ModuleTable> table;
  if (made.ok()) table = std::make_shared<const ModuleTable>(ModuleTable{std::move(made).value(), generation});
  {
    const base::MutexLock lock(&mutex_);
    std::swap(modules_, table);
  }
  generation_.store(generation, std::memory_order_relaxed);
  if (PulsePage* page = this->page()) {
    page->module.store(0, std::memory_order_relaxed);
    page->names_generation.store(generation, std::memory_order_release);
  }
  return status;
}

std::shared_ptr<const PulseWriter::ModuleTable> PulseWriter::modules() const {
  const base::MutexLock lock(&mutex_);
  return modules_;
}

void PulseWriter::MarkModule(uint32_t module, bool entered, int32_t micro_batch) noexcept {
  if (PulsePage* page = this->page())
    page->module.store(
        vocabulary::PackModule({module, entered, micro_batch, generation_.load(std::memory_order_relaxed)}),
        std::memory_order_relaxed);
}

PhaseMark PulseWriter::SetPhase(PhaseMark phase) noexcept {
  if (!guard_.InOwner()) return {};
  const uint64_t word = vocabulary::PackPhase(phase);
  const uint64_t before = phase_.exchange(word, std::memory_order_relaxed);
  if (PulsePage* page = this->page()) page->phase.store(word, std::memory_order_relaxed);
  if (before != word && queue_ != nullptr) {
    ReportEntry entry;
    entry.kind = ReportEntry::Kind::kPhase;
    entry.phase = phase.phase;
    entry.step = step_.load(std::memory_order_relaxed);
    entry.at_ns = Now();
    if (phase.expires_ms > 0)
      entry.value =
          std::max(1e-3, static_cast<double>(phase.expires_ms) * 1e-3 - static_cast<double>(entry.at_ns) * 1e-9);
    parts_.SetTraining(IsTraining(phase.phase), entry.at_ns);
    Push(entry);
  }
  return vocabulary::UnpackPhase(before);
}

StepPart PulseWriter::EnterPart(StepPart part, Clock::time_point at) noexcept {
  if (!guard_.InOwner() || queue_ == nullptr) return StepPart::kRest;
  return parts_.Enter(part, NanosOf(at));
}

void PulseWriter::Report(ReportEntry::Kind kind, const ReportedNumber* numbers, size_t count, int64_t step) noexcept {
  if (!guard_.InOwner() || queue_ == nullptr) return;
  ReportEntry entry;
  entry.kind = kind;
  entry.phase = phase().phase;
  entry.step = step < 0 ? step_.load(std::memory_order_relaxed) + 1 : step;
  entry.at_ns = Now();
  for (size_t i = 0; i < count; ++i) {
    if (!IsUsable(numbers[i].name)) {
      CountDropped();
      continue;
    }
    entry.value = numbers[i].value;
    entry.name = {};
    std::memcpy(entry.name.data(), numbers[i].name.data(), numbers[i].name.size());
    Push(entry);
  }
}

void PulseWriter::ReportCheckpoint(int64_t step) noexcept {
  if (!guard_.InOwner() || queue_ == nullptr) return;
  ReportEntry entry;
  entry.kind = ReportEntry::Kind::kCheckpoint;
  entry.phase = phase().phase;
  entry.step = step;
  entry.at_ns = Now();
  Push(entry);
}

void PulseWriter::ReportSignal(int number) noexcept {
  if (!guard_.InOwner()) return;
  const int64_t now = Now();
  if (PulsePage* page = this->page()) {
    // Packed like a phase: the number on top, the time below.
    page->signal.store(uint64_t{static_cast<uint8_t>(number)} << 56 | static_cast<uint64_t>(now / 1'000'000),
                       std::memory_order_relaxed);
    page->signals.fetch_add(1, std::memory_order_relaxed);
    if (EndsProcess(number)) SetEnd(vocabulary::PulseEnd::kSignal);
  }
  if (queue_ == nullptr) return;
  ReportEntry entry;
  entry.kind = ReportEntry::Kind::kSignal;
  entry.phase = phase().phase;
  entry.step = step_.load(std::memory_order_relaxed);
  entry.at_ns = now;
  entry.value = number;
  Push(entry);
}

void PulseWriter::Push(const ReportEntry& entry) noexcept {
  if (!queue_->TryPush(entry)) CountDropped();
}

void PulseWriter::CountDropped() noexcept {
  const uint64_t dropped = dropped_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (PulsePage* page = this->page()) page->numbers_dropped.store(dropped, std::memory_order_relaxed);
}

void PulseWriter::SetRunId(std::string_view run_id) noexcept {
  if (PulsePage* page = this->page()) page->run_id.Write(run_id);
}

void PulseWriter::SetWallOffset(std::chrono::nanoseconds offset) noexcept {
  if (PulsePage* page = this->page()) page->wall_offset_ns.store(offset.count(), std::memory_order_relaxed);
}

bool PulseWriter::AddLastWord(uint64_t number, std::string_view line, bool is_end) noexcept {
  PulsePage* const page = this->page();
  if (page == nullptr) return false;
  std::array<char, 24> prefix{};
  const auto [end, error] = std::to_chars(prefix.data(), prefix.data() + prefix.size() - 1, number);
  if (error != std::errc()) return false;
  *end = ' ';
  const auto prefix_bytes = static_cast<size_t>(end + 1 - prefix.data());
  const size_t used = page->words_bytes.load(std::memory_order_relaxed);
  const size_t room = PulsePage::kWordsBytes - (is_end ? 0 : kEndBytes);
  if (used + prefix_bytes + line.size() + 1 > room) {
    page->words_dropped.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  char* to = page->words + used;
  std::memcpy(to, prefix.data(), prefix_bytes);
  std::memcpy(to + prefix_bytes, line.data(), line.size());
  to[prefix_bytes + line.size()] = '\n';
  page->words_bytes.store(static_cast<uint32_t>(used + prefix_bytes + line.size() + 1), std::memory_order_release);
  return true;
}

void PulseWriter::SetEnd(vocabulary::PulseEnd end) noexcept {
  if (PulsePage* page = this->page()) page->end.store(static_cast<uint32_t>(end), std::memory_order_release);
}

}  // namespace stepwatch::step
