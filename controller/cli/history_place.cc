#include "controller/cli/history_place.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "controller/cli/find_job.h"
#include "src/json/json.h"
#include "src/output/run_directory.h"

namespace stepwatch::cli {
namespace {

Result<HistoryPlace> At(const std::string& path) {
  auto runs = output::FindHistories(path);
  if (!runs.ok()) return runs.status();
  return HistoryPlace{path, std::move(runs).value()};
}

Result<HistoryPlace> Of(const control_socket::FoundJob& job) {
  const Result<Json> status = json::Parse(job.status);
  if (!status.ok() || !status.value().is_object())
    return Status(StatusCode::kUnavailable, job.name + " does not respond; name the directory of its run");
  const auto directory = status.value().find("output_dir");
  if (directory != status.value().end() && directory->is_string()) return At(directory->get<std::string>());
  return Status(StatusCode::kNotFound, job.name +
                                           " has no history yet: none of its plans has written rows, or its format "
                                           "writes no files");
}

}  // namespace

Result<HistoryPlace> FindHistoryPlace(const std::string& word) {
  if (word.empty()) {
    if (AllJobs().empty()) return At(output::OutputBase(""));
    const Result<control_socket::FoundJob> only = FindJob("");
    return only.ok() ? Of(only.value()) : Result<HistoryPlace>(only.status());
  }
  Result<HistoryPlace> place = At(word);
  if (place.ok()) return place;
  const Result<control_socket::FoundJob> job = FindJob(word);
  return job.ok() ? Of(job.value()) : place;
}

}  // namespace stepwatch::cli
