// SortAnomalies: the first alarms of a run, all ranks together.
#include <algorithm>

#include "src/base/file.h"
#include "src/offline/anomaly_file.h"
#include "stepwatch/offline.h"

namespace stepwatch::offline {
namespace {

// Makes a repeated key unique: two files may share a key when the tag contains no rank.
std::string FreeKey(const Json& json, const Anomaly& anomaly) {
  std::string key = anomaly.key;
  for (int copy = 2; json.contains(key); ++copy)
    key = anomaly.key + "_rank" + std::to_string(anomaly.rank) + (copy > 2 ? "_" + std::to_string(copy) : "");
  return key;
}

}  // namespace

Result<SortedAnomalies> SortAnomalies(const SortAnomaliesOptions& options) {
  if (options.topk <= 0) return Status(StatusCode::kOutOfRange, "The top k number must be greater than 0.");
  const std::string out_path = options.out_path.empty() ? options.data_path : options.out_path;
  if (!base::IsDirectory(out_path))
    return Status(StatusCode::kNotFound, base::Exists(out_path) ? out_path + " is not a directory"
                                                                : "the directory " + out_path + " does not exist");
  Result<std::vector<Anomaly>> read = ReadAnomalies(options.data_path);
  if (!read.ok()) return read.status();
  std::vector<Anomaly>& anomalies = read.value();
  if (!options.steps.empty())
    std::erase_if(anomalies, [&options](const Anomaly& anomaly) {
      return std::find(options.steps.begin(), options.steps.end(), anomaly.step) == options.steps.end();
    });
  SortedAnomalies sorted;
  sorted.found = anomalies.size();
  std::stable_sort(anomalies.begin(), anomalies.end(),
                   [](const Anomaly& a, const Anomaly& b) { return a.OrderKey() < b.OrderKey(); });
  if (anomalies.size() > static_cast<uint64_t>(options.topk))
    anomalies.erase(anomalies.begin() + options.topk, anomalies.end());
  Json json = Json::object();
  for (const Anomaly& anomaly : anomalies) {
    json[FreeKey(json, anomaly)] = anomaly.entry;
    sorted.messages.push_back(anomaly.message);
  }
  sorted.output = base::JoinPath(out_path, "anomaly_analyse.json");
  const std::string text = json.dump(1, ' ', true, Json::error_handler_t::replace);
  Status written = base::ReplaceFile(sorted.output, text);
  if (!written.ok()) return written;
  return sorted;
}

}  // namespace stepwatch::offline
