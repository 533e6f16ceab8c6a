#include "operations/gpu/xid_counts.h"

#include <algorithm>
#include <charconv>

#include "operations/gpu/gpu_sample.h"

namespace stepwatch::operations {
namespace {

constexpr size_t kEntriesMax = 4096, kAloneMax = 1024;
constexpr int64_t kCodeMax = 100'000;
constexpr int kOffTheBus = 79;
constexpr int kKernelPriorityMax = 7;  // larger ones are of programs

std::optional<int64_t> NumberAt(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && number >= 0 && number <= kCodeMax ? std::optional(number) : std::nullopt;
}

// The text after `mark`; empty: it has none.
std::string_view After(std::string_view text, std::string_view mark) {
  const size_t at = text.find(mark);
  return at == std::string_view::npos ? std::string_view() : text.substr(at + mark.size());
}

bool IsOneOf(char c, std::string_view characters) {
  return characters.find(c) != std::string_view::npos;
}

}  // namespace

bool XidCounts::Take(XidSource source, const std::string& uuid, int64_t code, double now) {
  const auto key = std::pair(uuid, code);
  if (entries_.size() >= kEntriesMax && entries_.count(key) == 0) return false;
  Entry& entry = entries_[key];
  for (std::deque<double>& times : entry.alone)
    while (!times.empty() && now - times.front() > kSameSeconds) times.pop_front();
  std::deque<double>& others = entry.alone[source == XidSource::kNvml ? 1 : 0];
  if (!others.empty()) {
    others.pop_front();
    return false;
  }
  std::deque<double>& own = entry.alone[source == XidSource::kNvml ? 0 : 1];
  if (own.size() < kAloneMax) own.push_back(now);
  ++entry.count;
  return true;
}

std::map<std::pair<std::string, int64_t>, int64_t> XidCounts::Counts() const {
  std::map<std::pair<std::string, int64_t>, int64_t> counts;
  for (const auto& [key, entry] : entries_) counts[key] = entry.count;
  return counts;
}

bool IsEitherFatalOrNot(int64_t code) {
  return code >= 144 && code <= 150;  // of an NVLink of version 5
}

std::optional<KernelXid> ParseKernelXid(std::string_view record_untrusted) {
  const size_t head_end = record_untrusted.find(';');
  if (head_end == std::string_view::npos) return std::nullopt;
  const std::optional<int64_t> priority = NumberAt(record_untrusted);
  if (!priority || *priority > kKernelPriorityMax) return std::nullopt;
  std::string_view text = record_untrusted.substr(head_end + 1);
  text = text.substr(0, text.find('\n'));
  if (!text.starts_with("NVRM: ")) return std::nullopt;
  KernelXid xid;
  if (const std::string_view rest = After(text, "Xid ("); !rest.empty()) {
    const size_t address_end = rest.find(')');
    if (address_end == std::string_view::npos) return std::nullopt;
    xid.pci = PciAddress(rest.substr(0, address_end));
    const std::optional<int64_t> code = NumberAt(After(rest.substr(address_end), "): "));
    if (!code || xid.pci.empty()) return std::nullopt;
    xid.code = *code;
    xid.is_harmless = !After(rest, "Nonfatal").empty();
    return xid;
  }
  if (After(text, "fallen off the bus").data() == nullptr) return std::nullopt;
  // "GPU at PCI:…", "GPU 0000:…" and "The NVIDIA GPU 0000:… (PCI ID: …)".
  std::string_view rest = After(text, "GPU ");
  if (rest.starts_with("at ")) rest.remove_prefix(3);
  size_t size = 0;
  while (size < rest.size() && !IsOneOf(rest[size], " ,()")) ++size;
  rest = rest.substr(0, size);
  while (rest.ends_with(':')) rest.remove_suffix(1);
  xid.pci = PciAddress(rest);
  xid.code = kOffTheBus;
  return xid.pci.empty() ? std::nullopt : std::optional(xid);
}

}  // namespace stepwatch::operations
