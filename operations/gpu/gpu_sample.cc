#include "operations/gpu/gpu_sample.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

namespace stepwatch::operations {
namespace {

// Reads a hexadecimal number with at most `digits_max` digits from the front of the text.
std::optional<unsigned> TakeHex(std::string_view* text, size_t digits_max) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number, 16);
  const auto digits = static_cast<size_t>(end - text->data());
  if (error != std::errc() || digits > digits_max) return std::nullopt;
  text->remove_prefix(digits);
  return number;
}

bool TakeColon(std::string_view* text) {
  if (!text->starts_with(':')) return false;
  text->remove_prefix(1);
  return true;
}

}  // namespace

const char* NameOf(GpuField field) {
  static constexpr const char* kNames[kGpuFields] = {
      "temperature",
      "memory_temperature",
      "slowdown_temperature",
      "power",
      "power_limit",
      "energy",
      "utilization",
      "sm_active",
      "memory_used",
      "memory_total",
      "ecc_corrected",
      "ecc_uncorrected",
      "row_remap_failure",
      "row_remap_pending",
      "throttle",
      "nvlink",
  };
  return kNames[static_cast<size_t>(field)];
}

std::string PciAddress(std::string_view text_untrusted) {
  std::string_view text = text_untrusted;
  if (text.starts_with("PCI:")) text.remove_prefix(4);
  const std::optional<unsigned> domain = TakeHex(&text, 8);
  if (!domain || !TakeColon(&text)) return "";
  const std::optional<unsigned> bus = TakeHex(&text, 2);
  if (!bus || !TakeColon(&text)) return "";
  const std::optional<unsigned> device = TakeHex(&text, 2);
  if (!device || (!text.empty() && text.front() != '.')) return "";
  return fmt::format("{:04x}:{:02x}:{:02x}", *domain, *bus, *device);
}

}  // namespace stepwatch::operations
