#include "operations/gpu/gpu_lines.h"

#include <cmath>
#include <optional>

#include "operations/gpu/nvml_abi.h"

namespace stepwatch::operations {
namespace {

constexpr double kWarmCelsius = 80;  // from here on every sample is of interest
constexpr double kCelsiusDifferenceMin = 5;

Line LineOf(const std::string& uuid, const GpuUser& user, const std::string& field, double value, double now) {
  const std::optional<int64_t> rank = user.rank < 0 ? std::nullopt : std::optional(user.rank);
  return Line{now, user.run, rank, Event(GpuEvent{uuid, field, value})};
}

bool IsToSend(const std::string& field, double value, const std::map<std::string, double>& sent) {
  const auto before = sent.find(field);
  if (before == sent.end()) return true;
  if (field == "utilization") return true;
  if (field == "temperature_celsius")
    return value >= kWarmCelsius || std::abs(value - before->second) >= kCelsiusDifferenceMin;
  const bool is_counted = field == "nvlink_down" || field == "hw_slowdown";
  return value != before->second || (is_counted && value > 0);
}

}  // namespace

std::map<std::string, double> GpuLines::ValuesOf(const GpuReading& reading, double now) {
  std::map<std::string, double> values;
  const auto add = [&](const char* name, GpuField field, double factor = 1) {
    if (reading[field]) values[name] = *reading[field] * factor;
  };
  values["lost"] = reading.is_lost ? 1 : 0;
  add("temperature_celsius", GpuField::kTemperature);
  add("ecc_corrected_total", GpuField::kEccCorrected);
  add("ecc_uncorrected_total", GpuField::kEccUncorrected);
  add("row_remap_failure", GpuField::kRowRemapFailure);
  add("utilization", GpuField::kUtilization, 100);
  if (reading[GpuField::kThrottle]) {
    const auto reasons = static_cast<uint64_t>(*reading[GpuField::kThrottle]);
    const uint64_t hardware = nvml::kHardwareSlowdown | nvml::kHardwareThermal | nvml::kPowerBrake;
    values["hw_slowdown"] = (reasons & hardware) != 0 ? 1 : 0;
  }
  if (!reading.links.empty()) {
    std::set<unsigned>& seen = links_seen_[reading.uuid];
    double down = 0;
    for (const auto& [link, is_up] : reading.links) {
      if (is_up) seen.insert(link);
      if (!is_up && seen.count(link) > 0) ++down;
    }
    values["nvlink_down"] = down;
  }
  if (const auto xid = xids_.find(reading.uuid); xid != xids_.end() && now - xid->second.at >= kXidSeconds)
    xids_.erase(xid);
  const auto xid = xids_.find(reading.uuid);
  values["xid"] = xid == xids_.end() ? 0 : xid->second.code;
  return values;
}

std::vector<Line> GpuLines::OnSample(const GpuSample& sample, const GpuUsers& users, double now) {
  std::vector<Line> lines;
  std::map<Key, std::map<std::string, double>> kept;
  for (const GpuReading& reading : sample.gpus) {
    if (!reading.parent.empty()) continue;  // faults are those of the whole GPU
    const std::map<std::string, double> values = ValuesOf(reading, now);
    for (const GpuUser& user : users.OfWhole(reading.uuid)) {
      const Key key(reading.uuid, user);
      const bool is_new = sent_.count(key) == 0;
      std::map<std::string, double>& sent = kept[key] = sent_[key];
      for (auto [field, value] : values) {
        // An Xid from before the rank's time is not its fault.
        if (is_new && field == "xid") value = 0;
        if (field == "xid" && value != 0) continue;  // sent when it came
        if (!IsToSend(field, value, sent)) continue;
        sent[field] = value;
        lines.push_back(LineOf(reading.uuid, user, field, value, now));
      }
    }
  }
  sent_ = std::move(kept);
  std::erase_if(links_seen_, [&](const auto& each) {
    for (const GpuReading& reading : sample.gpus)
      if (reading.uuid == each.first) return false;
    return true;
  });
  return lines;
}

std::vector<Line> GpuLines::OnXid(const std::string& uuid, int64_t code, const GpuUsers& users, double now) {
  std::vector<Line> lines;
  const auto value = static_cast<double>(code);
  xids_[uuid] = {value, now};
  for (const GpuUser& user : users.OfWhole(uuid)) {
    std::map<std::string, double>& sent = sent_[Key(uuid, user)];
    // A repeated code is a new fault, an unchanged value is not.
    if (sent.count("xid") == 0 || sent["xid"] == value) lines.push_back(LineOf(uuid, user, "xid", 0, now));
    sent["xid"] = value;
    lines.push_back(LineOf(uuid, user, "xid", value, now));
  }
  return lines;
}

}  // namespace stepwatch::operations
