#include "src/vocabulary/pulse_page.h"

#include <algorithm>
#include <charconv>
#include <thread>

#include "src/base/text.h"

namespace stepwatch::vocabulary {
namespace {

constexpr int kPhaseShift = 56;
constexpr uint64_t kTimeMask = (uint64_t{1} << kPhaseShift) - 1;

// Bit layout of a module word, from the lowest bit: module, micro-batch, generation, entered, known.
constexpr int kMicroBatchShift = 24, kGenerationShift = 40, kEnteredShift = 60, kKnownShift = 61;

constexpr int kLooks = 1000;
constexpr size_t kWordBytesMax = 8192;

}  // namespace

uint64_t PackPhase(PhaseMark phase) {
  const auto time = static_cast<uint64_t>(std::max<int64_t>(phase.expires_ms, 0));
  return static_cast<uint64_t>(phase.phase) << kPhaseShift | std::min(time, kTimeMask);
}

PhaseMark UnpackPhase(uint64_t word) {
  const auto phase = std::min<uint64_t>(word >> kPhaseShift, kPhaseCount - 1);
  return {static_cast<Phase>(phase), static_cast<int64_t>(word & kTimeMask)};
}

uint64_t PackModule(const PulseModule& module) {
  const auto micro = static_cast<uint64_t>(std::clamp(module.micro_batch, 0, kMicroBatchesMax - 1));
  return uint64_t{std::min(module.module, kPulseModulesMax - 1)} | micro << kMicroBatchShift |
         uint64_t{module.generation & kGenerationMask} << kGenerationShift | uint64_t{module.entered} << kEnteredShift |
         uint64_t{1} << kKnownShift;
}

std::optional<PulseModule> UnpackModule(uint64_t word) {
  if ((word >> kKnownShift & 1) == 0) return std::nullopt;
  PulseModule module;
  module.module = static_cast<uint32_t>(word & (kPulseModulesMax - 1));
  module.micro_batch = static_cast<int32_t>(word >> kMicroBatchShift & (kMicroBatchesMax - 1));
  module.generation = static_cast<uint32_t>(word >> kGenerationShift & kGenerationMask);
  module.entered = (word >> kEnteredShift & 1) != 0;
  return module;
}

Result<Pulse> ReadPulse(const PulsePage& page_untrusted, size_t bytes) {
  const PulsePage& page = page_untrusted;
  if (bytes < sizeof(PulsePage) || page.magic.load(std::memory_order_acquire) != kPulseMagic)
    return Status(StatusCode::kInvalid, "not a pulse");
  const uint32_t layout = page.layout.load(std::memory_order_relaxed);
  if (layout != kPulseLayout)
    return Status(StatusCode::kUnsupported, "the pulse has layout " + std::to_string(layout) +
                                                "; this release reads layout " + std::to_string(kPulseLayout));
  Pulse pulse;
  bool is_whole = false;
  for (int look = 0; look < kLooks && !is_whole; ++look) {
    const uint64_t before = page.sequence.load(std::memory_order_acquire);
    pulse.step = page.step.load(std::memory_order_acquire);
    pulse.boundary_ns = page.boundary_ns.load(std::memory_order_acquire);
    pulse.collecting = page.collecting.load(std::memory_order_acquire) != 0;
    is_whole = before % 2 == 0 && page.sequence.load(std::memory_order_relaxed) == before;
    if (!is_whole && look > kLooks / 2) std::this_thread::yield();
  }
  const auto run_id = page.run_id.Read();
  const auto boot_id = page.boot_id.Read();
  const auto host = page.host.Read();
  if (!is_whole || !run_id || !boot_id || !host)
    return Status(StatusCode::kUnavailable, "the pulse was being written at every attempt to read it");
  pulse.process = {base::ValidUtf8(*host), base::ValidUtf8(*boot_id), "", page.pid.load(std::memory_order_relaxed),
                   page.started.load(std::memory_order_relaxed)};
  pulse.pid_namespace_inode = page.pid_namespace.load(std::memory_order_relaxed);
  if (pulse.pid_namespace_inode != 0)
    pulse.process.pid_namespace = "pid:[" + std::to_string(pulse.pid_namespace_inode) + "]";
  pulse.run_id = base::ValidUtf8(*run_id);
  pulse.rank = page.rank.load(std::memory_order_relaxed);
  pulse.world = page.world.load(std::memory_order_relaxed);
  pulse.wall_offset_ns = page.wall_offset_ns.load(std::memory_order_relaxed);
  pulse.phase = UnpackPhase(page.phase.load(std::memory_order_relaxed));
  pulse.module = UnpackModule(page.module.load(std::memory_order_relaxed));
  const uint64_t signal = page.signal.load(std::memory_order_relaxed);
  pulse.signal = static_cast<int>(signal >> kPhaseShift);
  pulse.signal_ms = static_cast<int64_t>(signal & kTimeMask);
  pulse.signals = page.signals.load(std::memory_order_relaxed);
  const uint32_t end = page.end.load(std::memory_order_acquire);
  pulse.end = end <= static_cast<uint32_t>(PulseEnd::kSignal) ? static_cast<PulseEnd>(end) : PulseEnd::kRuns;
  pulse.names_generation = page.names_generation.load(std::memory_order_acquire);
  pulse.numbers_dropped = page.numbers_dropped.load(std::memory_order_relaxed);
  pulse.words_dropped = page.words_dropped.load(std::memory_order_relaxed);
  return pulse;
}

std::vector<LastWord> ReadLastWords(const PulsePage& page_untrusted) {
  const size_t bytes =
      std::min<size_t>(page_untrusted.words_bytes.load(std::memory_order_acquire), PulsePage::kWordsBytes);
  // Copied first: a misbehaving writer may change the page at any time.
  const std::string text(page_untrusted.words, bytes);
  std::vector<LastWord> words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    const std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    LastWord word;
    const auto [after, error] = std::from_chars(line.data(), line.data() + line.size(), word.number);
    const auto used = static_cast<size_t>(after - line.data());
    if (error != std::errc() || used + 1 >= line.size() || line[used] != ' ' || line.size() > kWordBytesMax) continue;
    word.line = base::ValidUtf8(line.substr(used + 1));
    words.push_back(std::move(word));
  }
  return words;
}

std::string PulseNames(const std::vector<std::string>& names) {
  std::string bytes;
  for (const std::string& name : names) {
    if (bytes.size() + name.size() + 1 > kPulseNamesBytesMax) break;
    bytes += name.substr(0, name.find('\0'));
    bytes += '\0';
  }
  return bytes;
}

std::vector<std::string> ReadPulseNames(std::string_view bytes_untrusted) {
  std::vector<std::string> names;
  while (!bytes_untrusted.empty() && names.size() < kPulseModulesMax) {
    const size_t end = bytes_untrusted.find('\0');
    if (end == std::string_view::npos) break;
    names.push_back(base::ValidUtf8(bytes_untrusted.substr(0, end)));
    bytes_untrusted.remove_prefix(end + 1);
  }
  return names;
}

}  // namespace stepwatch::vocabulary
