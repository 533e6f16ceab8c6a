#include "operations/log_intake/kernel_records.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "src/base/parse_number.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kRecordBytesMax = 16 << 10;  // a smaller buffer than the record is an error
constexpr int kKernelPriorityMax = 7;         // above: of a facility that is not the kernel
constexpr const char* kBootFile = "/proc/sys/kernel/random/boot_id";

std::string_view TakeUntil(std::string_view* text, char end) {
  const size_t size = std::min(text->find(end), text->size());
  const std::string_view field = text->substr(0, size);
  text->remove_prefix(std::min(size + 1, text->size()));
  return field;
}

int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// The kernel writes bytes that do not print as \xNN.
std::string Unescaped(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '\\' && i + 3 < text.size() && text[i + 1] == 'x' && DigitOf(text[i + 2]) >= 0 &&
                           DigitOf(text[i + 3]) >= 0;
    if (!is_escape) {
      plain += text[i];
      continue;
    }
    plain += static_cast<char>(DigitOf(text[i + 2]) * 16 + DigitOf(text[i + 3]));
    i += 3;
  }
  return plain;
}

}  // namespace

std::optional<KernelRecord> ParseKernelRecord(std::string_view record_untrusted) {
  const size_t head_end = record_untrusted.find(';');
  if (head_end == std::string_view::npos) return std::nullopt;
  std::string_view head = record_untrusted.substr(0, head_end);
  const auto priority = base::ParseNumber<int>(TakeUntil(&head, ','));
  const auto number = base::ParseNumber<int64_t>(TakeUntil(&head, ','));
  const auto us = base::ParseNumber<int64_t>(TakeUntil(&head, ','));
  if (!priority || *priority < 0 || *priority > kKernelPriorityMax || !number || *number < 0 || !us || *us < 0)
    return std::nullopt;
  std::string_view text = record_untrusted.substr(head_end + 1);
  text = text.substr(0, text.find('\n'));  // pairs of a dictionary follow
  return KernelRecord{*number, static_cast<double>(*us) / 1e6, *priority, Unescaped(text)};
}

void KernelRecords::Open() {
  Result<base::UniqueFd> opened = base::Open(kDevice, O_RDONLY | O_NONBLOCK, 0, files_);
  if (!opened.ok()) return;
  device_ = std::move(opened).value();
  const Result<std::string> boot = base::ReadFile(kBootFile, 256, files_);
  boot_ = boot.ok() ? boot.value().substr(0, boot.value().find('\n')) : "unknown";
  std::string_view kept = position_;
  if (TakeUntil(&kept, ' ') == boot_) last_ = base::ParseNumber<int64_t>(kept);
  if (last_ || !position_.empty()) return;
  // Reading began now: older records are of earlier jobs.
  std::array<char, kRecordBytesMax> bytes{};
  for (size_t i = 0; i < (size_t{1} << 20); ++i) {
    const ssize_t size =
        base::RepeatInterrupted([&] { return files_.Read(device_->get(), bytes.data(), bytes.size(), 0); });
    if (size < 0 && errno == EPIPE) continue;
    if (size <= 0) break;
  }
}

KernelBatch KernelRecords::Read(double now, double since_boot) {
  KernelBatch batch;
  if (!device_) Open();
  batch.is_readable = device_.has_value();
  if (!device_) return batch;
  std::array<char, kRecordBytesMax> bytes{};
  for (size_t i = 0; i < kRecordsMax; ++i) {
    const ssize_t size =
        base::RepeatInterrupted([&] { return files_.Read(device_->get(), bytes.data(), bytes.size(), 0); });
    if (size < 0 && errno == EPIPE) {
      ++batch.overruns;
      continue;
    }
    if (size <= 0) break;
    const auto record = ParseKernelRecord(std::string_view(bytes.data(), static_cast<size_t>(size)));
    if (!record || (last_ && record->number <= *last_)) continue;
    last_ = record->number;
    SentLine line;
    line.text = record->text;
    line.source = "kernel";
    line.component = "kernel";
    line.t = now - since_boot + record->seconds;
    line.level = LevelOfSeverity(record->priority);
    line.is_of_kernel = true;
    line.id = SentId(fmt::format("kernel {} {}", boot_, record->number));
    batch.bytes += line.text.size();
    batch.lines.push_back(std::move(line));
  }
  if (last_) batch.position = fmt::format("{} {}", boot_, *last_);
  return batch;
}

}  // namespace stepwatch::operations
