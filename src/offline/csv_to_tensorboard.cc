// CsvToTensorBoard: one event file for each rank and kind; all are staged, then moved into place.
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "src/base/file.h"
#include "src/base/run_time.h"
#include "src/offline/kinds.h"
#include "src/offline/scalar_series.h"
#include "src/offline/staging.h"
#include "src/offline/workers.h"
#include "src/sinks/event_file.h"
#include "stepwatch/offline.h"

namespace stepwatch::offline {
namespace {

constexpr size_t kEventsPerWrite = 64;

// One kind of one rank.
struct Job {
  std::string place;  // "rank0/actv", below the output
  std::vector<MetricFileEntry> files;
  Conversion done;
};

std::string HostName() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "host";
}

// The files [begin, result) overlap in their steps; later files do not overlap them.
size_t EndOfOverlap(const std::vector<MetricFileEntry>& files, size_t begin) {
  int64_t last = files[begin].name.last_step;
  size_t end = begin + 1;
  for (; end < files.size() && files[end].name.first_step <= last; ++end)
    last = std::max(last, files[end].name.last_step);
  return end;
}

Status ReadFile(const MetricFileEntry& entry, ScalarSeries* series, Conversion* done, WorkState* state) {
  Result<MetricFile> opened = MetricFile::Open(entry.path, {});
  if (!opened.ok()) return opened.status();
  MetricFile file = std::move(opened).value();
  Status added = series->Add(entry, &file, state);
  if (!added.ok()) return added;
  done->files += 1;
  done->rows += file.rows();
  done->rows_skipped += file.rows_skipped();
  if (const std::string note = file.Note(); !note.empty()) done->notes.push_back(note);
  return Status();
}

Status Convert(const std::string& staging, std::time_t now, Job* job, WorkState* state) {
  sinks::EventFile file(base::JoinPath(staging, job->place), sinks::EventFileName(now, HostName(), ::getpid()));
  std::vector<sinks::SummaryEvent> waiting;
  const auto flush = [&] {
    Status written = file.Append(waiting);
    waiting.clear();
    return written;
  };
  for (size_t begin = 0; begin < job->files.size();) {
    const size_t end = EndOfOverlap(job->files, begin);
    ScalarSeries series;
    for (; begin < end; ++begin) {
      Status read = ReadFile(job->files[begin], &series, &job->done, state);
      if (!read.ok()) return read;
    }
    Status emitted = series.Emit(static_cast<double>(now), [&](const sinks::SummaryEvent& event) {
      waiting.push_back(event);
      return waiting.size() < kEventsPerWrite ? Status() : flush();
    });
    if (!emitted.ok()) return emitted;
  }
  Status flushed = flush();
  return flushed.ok() ? file.Close() : flushed;
}

Result<std::vector<Job>> MakeJobs(const CsvToTensorBoardOptions& options, const std::vector<std::string>& kinds,
                                  Conversion* done) {
  const auto directories = FindRunDirectories(options.monitor_path, options.range, &done->notes);
  if (!directories.ok()) return directories.status();
  std::vector<Job> jobs;
  for (const auto& [rank, directory] : directories.value()) {
    const Result<MetricFileList> list = ListMetricFiles(directory, kinds);
    if (!list.ok()) return list.status();
    done->notes.insert(done->notes.end(), list.value().notes.begin(), list.value().notes.end());
    for (const std::string& kind : kinds) {
      Job job{"rank" + std::to_string(rank) + "/" + kind, {}, {}};
      for (const MetricFileEntry& file : list.value().files)
        if (file.name.kind == kind) job.files.push_back(file);
      if (!job.files.empty()) jobs.push_back(std::move(job));
    }
  }
  done->directories = directories.value().size();
  if (jobs.empty())
    return Status(StatusCode::kNotFound,
                  directories.value().empty()
                      ? "no run directories (Dec03_21-34-40-rank0-…) of that time in " + options.monitor_path
                      : "no files of these kinds in the run directories in " + options.monitor_path);
  return jobs;
}

Status Publish(std::vector<Job>* jobs, StagingDirectory* staging, Conversion* done) {
  for (Job& job : *jobs) {
    done->files += job.done.files;
    done->rows += job.done.rows;
    done->rows_skipped += job.done.rows_skipped;
    done->notes.insert(done->notes.end(), job.done.notes.begin(), job.done.notes.end());
    if (job.done.rows == 0) continue;
    Status published = staging->Publish(job.place);
    if (!published.ok()) return published;
  }
  return Status();
}

}  // namespace

const std::vector<std::string>& TensorBoardKinds() {
  static const std::vector<std::string> kinds = [] {
    std::vector<std::string> all = MainKinds();
    all.push_back("other");
    all.insert(all.end(), FeatureKinds().begin(), FeatureKinds().end());
    return all;
  }();
  return kinds;
}

Result<Conversion> CsvToTensorBoard(const CsvToTensorBoardOptions& options, const OnProgress& on_progress) {
  Status process_num = CheckProcessNum(options.process_num);
  if (!process_num.ok()) return process_num;
  const auto kinds = ChooseKinds(options.data_type_list, TensorBoardKinds());
  if (!kinds.ok()) return kinds.status();
  const std::time_t now = std::time(nullptr);
  Conversion done;
  done.output = options.output_dirpath;
  if (done.output.empty())
    done.output = base::JoinPath(options.monitor_path, base::RunTimeText(now) + "-csv2tensorboard_by_step");
  Result<std::vector<Job>> jobs = MakeJobs(options, kinds.value(), &done);
  if (!jobs.ok()) return jobs.status();
  Result<StagingDirectory> made = StagingDirectory::Make(done.output);
  if (!made.ok()) return made.status();
  StagingDirectory staging = std::move(made).value();
  std::vector<Task> tasks;
  uint64_t bytes = 0;
  for (Job& job : jobs.value()) {
    for (const MetricFileEntry& file : job.files) bytes += file.bytes;
    tasks.push_back([&staging, &job, now](WorkState* state) { return Convert(staging.path(), now, &job, state); });
  }
  Status converted = RunTasks(options.process_num, tasks, "converting", bytes, on_progress);
  if (!converted.ok()) return Status(converted.code(), converted.message() + "; no file was written");
  Status published = Publish(&jobs.value(), &staging, &done);
  if (!published.ok()) return published;
  return done;
}

}  // namespace stepwatch::offline
