#include "src/offline/anomaly_file.h"

#include <fcntl.h>

#include <algorithm>
#include <istream>
#include <map>
#include <optional>
#include <string_view>

#include "src/base/file.h"
#include "src/base/found_file.h"
#include "src/base/parse_number.h"
#include "src/base/text.h"
#include "src/json/members.h"
#include "src/json/parse_json.h"

namespace stepwatch::offline {
namespace {

// "rank12" -> 12
std::optional<int64_t> RankOf(std::string_view name) {
  if (name.substr(0, 4) != "rank") return std::nullopt;
  name.remove_prefix(4);
  const std::optional<int64_t> rank = base::ParseNumber<int64_t>(name);
  return rank && *rank >= 0 ? rank : std::nullopt;
}

Result<Anomaly> FromJson(const std::string& key, const Json& entry, int64_t rank) {
  if (!entry.is_object() || !entry.contains("step") || !entry["step"].is_number_integer() ||
      json::RawText(entry, "tag_name").empty())
    return Status(StatusCode::kInvalid,
                  "\"" + base::Printable(key, 200) +
                      "\" is not an alarm: it must have the fields \"step\", a number, and \"tag_name\"");
  Anomaly anomaly;
  anomaly.key = key;
  anomaly.entry = entry;
  anomaly.rank = json::Whole(entry, "rank", rank);
  anomaly.step = json::Whole(entry, "step", 0);
  anomaly.micro_step = json::Whole(entry, "micro_step", 0);
  anomaly.pp_stage = json::Whole(entry, "pp_stage", 0);
  anomaly.vpp_stage = json::Whole(entry, "vpp_stage", 0);
  anomaly.call_id = json::Whole(entry, "call_id");
  anomaly.tag = json::RawText(entry, "tag_name");
  anomaly.message = json::RawText(entry, "message");
  return anomaly;
}

// Reads the entries one by one: a whole file is never in memory.
Status ReadFile(const std::string& path, int64_t rank, base::FileSystem& files, std::vector<Anomaly>* anomalies) {
  const Result<base::UniqueFd> fd = base::OpenFound(path, O_RDONLY, std::nullopt, files);
  if (!fd.ok()) return fd.status();
  base::FoundStream bytes(fd.value().get(), files);
  std::istream stream(&bytes);
  // An empty file was created for alarms that did not occur.
  if (stream.peek() == std::istream::traits_type::eof() && bytes.status().ok()) return Status();
  std::string key;
  Status failed;
  const auto take = [&](int depth, Json::parse_event_t event, const Json& parsed) {
    using Event = Json::parse_event_t;
    if (depth == 1 && event == Event::key) key = parsed.get<std::string>();
    const bool is_entry =
        depth == 1 && (event == Event::object_end || event == Event::array_end || event == Event::value);
    if (!is_entry) return true;
    Result<Anomaly> anomaly = FromJson(key, parsed, rank);
    if (anomaly.ok())
      anomalies->push_back(std::move(anomaly).value());
    else if (failed.ok())
      failed = Status(anomaly.status().code(), path + ": " + anomaly.status().message());
    return false;
  };
  const Result<Json> json = bounded::ParseJson<Json>(stream, take);
  if (!bytes.status().ok()) return Status(bytes.status().code(), path + ": " + bytes.status().message());
  if (json.status().code() == StatusCode::kExhausted)
    return Status(StatusCode::kInvalid, path + " " + json.status().message());
  if (!json.ok() || !json.value().is_object())
    return Status(StatusCode::kInvalid, path + " is not a JSON object; is it complete?");
  return failed;
}

}  // namespace

TrainStage StageOf(const std::string& tag) {
  const std::string last = tag.substr(tag.find_last_of('/') + 1);  // the whole tag without a "/"
  if (last == "actv") return TrainStage::kForward;
  for (const char* backward : {"actv_grad", "pre_grad", "post_grad", "acc_grad"})
    if (last == backward) return TrainStage::kBackward;
  for (const char* optimizer : {"exp_avg", "exp_avg_sq"})
    if (last == optimizer) return TrainStage::kOptimizer;
  return TrainStage::kUnknown;
}

std::tuple<int64_t, int64_t, int, int64_t, int64_t, int64_t> Anomaly::OrderKey() const {
  const TrainStage stage = StageOf(tag);
  const int64_t sign = stage == TrainStage::kForward ? 1 : -1;
  return {step, micro_step, static_cast<int>(stage), sign * vpp_stage, sign * pp_stage, call_id};
}

Result<std::vector<Anomaly>> ReadAnomalies(const std::string& directory, base::FileSystem& files) {
  std::map<int64_t, std::string> of_ranks;
  const Result<std::vector<std::string>> names = base::ListDirectory(directory, files);
  if (!names.ok()) return names.status();
  for (const std::string& name : names.value()) {
    const auto rank = RankOf(name);
    const std::string path = base::JoinPath(base::JoinPath(directory, name), "anomaly.json");
    if (rank && base::Exists(path, files)) of_ranks[*rank] = path;
  }
  if (of_ranks.empty()) {
    const std::string below = base::JoinPath(directory, "anomaly_detected");
    return Status(
        StatusCode::kNotFound,
        "no rank*/anomaly.json in " + directory +
            (base::Exists(below, files) ? ", but " + below + " exists; use that directory"
                                        : "; a run with \"dump\": true in \"alert\" writes them to the directory "
                                          "anomaly_detected of its output base"));
  }
  std::vector<Anomaly> anomalies;
  for (const auto& [rank, path] : of_ranks) {
    Status read = ReadFile(path, rank, files, &anomalies);
    if (!read.ok()) return read;
  }
  return anomalies;
}

}  // namespace stepwatch::offline
