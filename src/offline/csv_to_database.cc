// CsvToDatabase: reads the files twice, first for their contents in outline, then for their rows.
#include <algorithm>
#include <cmath>

#include "src/base/file.h"
#include "src/base/mutex.h"
#include "src/offline/kinds.h"
#include "src/offline/staging.h"
#include "src/offline/trend_scan.h"
#include "src/offline/trend_tables.h"
#include "src/offline/workers.h"
#include "stepwatch/offline.h"

namespace stepwatch::offline {
namespace {

constexpr size_t kRowsPerBatch = 5000;
// Readers of the database plot these numbers: larger ones are clipped, infinities lie one beyond.
constexpr double kValueMax = 1e9;

// NaN is kept; SQLite stores it as NULL.
double Clipped(double value) {
  if (std::isinf(value)) return std::copysign(kValueMax + 1, value);
  return std::isnan(value) ? value : std::clamp(value, -kValueMax, kValueMax);
}

struct TrendRow {
  int64_t step = 0;
  int64_t target_id = 0;
  int64_t line = 0;
};

// All rows of one insertion have the same statistics; `values` holds them row by row.
struct Batch {
  std::vector<TrendRow> rows;
  std::vector<double> values;
};

// Shared by the threads of the second reading; the mutex guards the database and the count.
struct Import {
  const TrendRules& rules;
  const TargetIds& target_ids;
  const std::unordered_map<int64_t, int64_t>& first_micro_steps;
  Database* database STEPWATCH_PT_GUARDED_BY(mutex);
  uint64_t duplicates STEPWATCH_GUARDED_BY(mutex) = 0;
  std::string first_duplicate STEPWATCH_GUARDED_BY(mutex);
  base::Mutex mutex;
};

Status Insert(const TrendFile& file, int64_t metric_id, const std::vector<std::string>& stats, Batch* batch,
              Import* import) {
  const base::MutexLock lock(&import->mutex);
  Result<Statement> prepared = import->database->Prepare(InsertTrendSql(stats));
  if (!prepared.ok()) return prepared.status();
  Statement& insert = prepared.value();
  insert.Bind(1, static_cast<int64_t>(file.rank));
  insert.Bind(4, metric_id);
  for (size_t i = 0; i < batch->rows.size(); ++i) {
    const TrendRow& row = batch->rows[i];
    insert.Bind(2, row.step);
    insert.Bind(3, row.target_id);
    for (size_t k = 0; k < stats.size(); ++k)
      insert.Bind(static_cast<int>(k) + 5, Clipped(batch->values[i * stats.size() + k]));
    Status inserted = insert.Run();
    if (!inserted.ok()) return inserted;
    if (import->database->changes() > 0) continue;
    if (import->duplicates++ == 0) import->first_duplicate = file.entry.path + ", line " + std::to_string(row.line);
  }
  batch->rows.clear();
  batch->values.clear();
  return Status();
}

// Reads as many rows as the first reading found: a running job's file may have grown since.
Status ImportFile(const TrendFile& trend_file, int64_t metric_id, uint64_t rows, Import* import, WorkState* state) {
  Result<MetricFile> opened = MetricFile::Open(trend_file.entry.path, TrendStats());
  if (!opened.ok()) return opened.status();
  MetricFile file = std::move(opened).value();
  Status changed(StatusCode::kUnavailable, trend_file.entry.path + " changed while it was read; try again");
  ReadMeter meter(state);
  Batch batch;
  MetricRow row;
  while (file.rows() < rows) {
    const Result<bool> got = file.Next(&row);
    if (!got.ok()) return got.status();
    if (!got.value()) return changed;
    const auto target = import->target_ids.find(import->rules.TargetOf(row));
    const auto first = import->first_micro_steps.find(row.step);
    if (target == import->target_ids.end() || first == import->first_micro_steps.end()) return changed;
    const int64_t step = import->rules.micro_step ? first->second + row.micro_step : row.step;
    batch.rows.push_back({step, target->second, file.line()});
    batch.values.insert(batch.values.end(), row.values.begin(), row.values.end());
    Status going = meter.Row(file.bytes_read());
    if (going.ok() && batch.rows.size() >= kRowsPerBatch)
      going = Insert(trend_file, metric_id, file.stats(), &batch, import);
    if (!going.ok()) return going;
  }
  Status inserted = Insert(trend_file, metric_id, file.stats(), &batch, import);
  return inserted.ok() ? meter.End(file.bytes_read()) : inserted;
}

Result<std::vector<TrendFile>> ListTrendFiles(const CsvToDatabaseOptions& options,
                                              const std::vector<std::string>& kinds, Conversion* done) {
  std::vector<TrendFile> files;
  for (const auto& [rank, directory] : options.directories) {
    if (rank < 0) return Status(StatusCode::kOutOfRange, "rank " + std::to_string(rank) + " is negative");
    if (!base::IsDirectory(directory))
      return Status(StatusCode::kInvalid,
                    "the directory of rank " + std::to_string(rank) + ", " + directory + ", does not exist");
    Result<MetricFileList> list = ListMetricFiles(directory, kinds);
    if (!list.ok()) return list.status();
    for (MetricFileEntry& entry : list.value().files) files.push_back({rank, std::move(entry)});
    done->notes.insert(done->notes.end(), list.value().notes.begin(), list.value().notes.end());
  }
  done->directories = options.directories.size();
  return files;
}

uint64_t Bytes(const std::vector<TrendFile>& files) {
  uint64_t bytes = 0;
  for (const TrendFile& file : files) bytes += file.entry.bytes;
  return bytes;
}

Status Scan(const CsvToDatabaseOptions& options, const TrendRules& rules, const std::vector<TrendFile>& files,
            const OnProgress& on_progress, std::vector<TrendScan>* scans) {
  scans->resize(files.size());
  std::vector<Task> tasks;
  for (size_t i = 0; i < files.size(); ++i) {
    tasks.push_back([&rules, file = &files[i], scan = &(*scans)[i]](WorkState* state) {
      Result<TrendScan> scanned = ScanTrendFile(*file, rules, state);
      if (!scanned.ok()) return scanned.status();
      *scan = std::move(scanned).value();
      return Status();
    });
  }
  return RunTasks(options.process_num, tasks, "scanning", Bytes(files), on_progress);
}

// The metrics of `kinds` with rows, in this order.
std::vector<TrendMetric> Merge(const std::vector<std::string>& kinds, const std::vector<TrendFile>& files,
                               const std::vector<TrendScan>& scans) {
  std::vector<TrendMetric> metrics;
  for (const std::string& kind : kinds) {
    TrendMetric metric{kind, {}};
    std::unordered_map<TrendTarget, bool, TrendTargetHash> seen;
    for (size_t i = 0; i < files.size(); ++i) {
      if (files[i].entry.name.kind != kind) continue;
      metric.scan.rows += scans[i].rows;
      metric.scan.stats.insert(scans[i].stats.begin(), scans[i].stats.end());
      for (const TrendTarget& target : scans[i].targets)
        if (seen.try_emplace(target, true).second) metric.scan.targets.push_back(target);
    }
    if (metric.scan.rows > 0) metrics.push_back(std::move(metric));
  }
  return metrics;
}

// Steps of all files: the last micro-step of each, over all ranks and kinds.
std::map<int64_t, int64_t> LastMicroSteps(const std::vector<TrendScan>& scans) {
  std::map<int64_t, int64_t> last_micro_step;
  for (const TrendScan& scan : scans) {
    for (const auto& [step, last] : scan.last_micro_step) {
      int64_t& known = last_micro_step[step];
      known = std::max(known, last);
    }
  }
  return last_micro_step;
}

std::vector<std::string> StatsOf(const std::vector<TrendMetric>& metrics) {
  std::vector<std::string> stats;
  for (const std::string& stat : TrendStats())
    if (std::any_of(metrics.begin(), metrics.end(),
                    [&stat](const TrendMetric& metric) { return metric.scan.stats.count(stat) > 0; }))
      stats.push_back(stat);
  return stats;
}

// A database that another process is writing, or left unfinished, must not be replaced beside its journal.
Status CheckReplaceable(const std::string& path) {
  for (const char* suffix : {"-wal", "-journal"}) {
    const std::string journal = path + suffix;
    struct stat about = {};
    if (base::FileSystem::Real().Stat(journal.c_str(), &about) != 0 || about.st_size == 0) continue;
    std::string message = path + " is in use or was not closed: found ";
    message += journal + "; close it, or remove both, and try again";
    return Status(StatusCode::kUnavailable, std::move(message));
  }
  if (base::IsDirectory(path)) return Status(StatusCode::kInvalid, path + " is a directory; expected a file");
  return Status();
}

Status ImportAll(const CsvToDatabaseOptions& options, const std::vector<std::string>& kinds,
                 const std::vector<TrendFile>& files, const std::vector<TrendScan>& scans,
                 const OnProgress& on_progress, Database* database, Conversion* done) {
  const TrendRules rules{options.micro_step, options.mapping};
  const std::vector<TrendMetric> metrics = Merge(kinds, files, scans);
  if (metrics.empty()) return Status(StatusCode::kNotFound, "the directories contain no metric rows");
  const std::map<int64_t, int64_t> last_micro_step = LastMicroSteps(scans);
  int64_t total = 0;
  const auto first_micro_steps = FirstMicroSteps(last_micro_step, &total);
  TrendBounds bounds{0, total - 1, options.directories.rbegin()->first};
  if (!options.micro_step) bounds = {last_micro_step.begin()->first, last_micro_step.rbegin()->first, bounds.max_rank};
  Status begun = database->Execute("PRAGMA journal_mode = OFF; PRAGMA cache_size = -65536; BEGIN");
  if (!begun.ok()) return begun;
  const Result<TargetIds> target_ids = MakeTrendTables(metrics, StatsOf(metrics), bounds, database);
  if (!target_ids.ok()) return target_ids.status();
  Import import{rules, target_ids.value(), first_micro_steps, database, 0, {}, {}};
  std::vector<Task> tasks;
  for (size_t i = 0; i < files.size(); ++i) {
    if (scans[i].rows == 0) continue;
    const auto metric = std::find_if(metrics.begin(), metrics.end(), [&](const TrendMetric& candidate) {
      return candidate.name == files[i].entry.name.kind;
    });
    const int64_t metric_id = metric - metrics.begin() + 1;
    tasks.push_back([&import, file = &files[i], rows = scans[i].rows, metric_id](WorkState* state) {
      return ImportFile(*file, metric_id, rows, &import, state);
    });
  }
  Status imported = RunTasks(options.process_num, tasks, "importing", Bytes(files), on_progress);
  if (!imported.ok()) return imported;
  const base::MutexLock lock(&import.mutex);
  if (import.duplicates > 0)
    done->notes.push_back(std::to_string(import.duplicates) +
                          " rows were left out because another row has their rank, step, name and kind; one is " +
                          import.first_duplicate);
  Status committed = database->Execute("COMMIT");
  return committed.ok() ? database->Close() : committed;
}

}  // namespace

Result<Conversion> CsvToDatabase(const CsvToDatabaseOptions& options, const OnProgress& on_progress) {
  Status process_num = CheckProcessNum(options.process_num);
  if (!process_num.ok()) return process_num;
  std::vector<std::string> known = MainKinds();
  known.push_back("other");
  const auto kinds = ChooseKinds(options.data_type_list, known);
  if (!kinds.ok()) return kinds.status();
  Status replaceable = CheckReplaceable(options.database);
  if (!replaceable.ok()) return replaceable;
  Conversion done;
  done.output = options.database;
  const Result<std::vector<TrendFile>> files = ListTrendFiles(options, kinds.value(), &done);
  if (!files.ok()) return files.status();
  if (files.value().empty()) return Status(StatusCode::kNotFound, "no metric files to import");
  std::vector<TrendScan> scans;
  Status scanned = Scan(options, {options.micro_step, options.mapping}, files.value(), on_progress, &scans);
  if (!scanned.ok()) return scanned;
  for (const TrendScan& scan : scans) {
    done.files += 1;
    done.rows += scan.rows;
    done.rows_skipped += scan.rows_skipped;
    if (!scan.note.empty()) done.notes.push_back(scan.note);
  }
  Result<StagingDirectory> made = StagingDirectory::Make(base::DirectoryOf(options.database));
  // Not kNotFound, which means that there is nothing to import.
  if (!made.ok()) return Status(StatusCode::kUnavailable, made.status().message());
  StagingDirectory staging = std::move(made).value();
  const std::string name = base::BaseName(options.database);
  Result<Database> database = Database::Create(base::JoinPath(staging.path(), name));
  if (!database.ok()) return database.status();
  Status imported = ImportAll(options, kinds.value(), files.value(), scans, on_progress, &database.value(), &done);
  if (!imported.ok()) return Status(imported.code(), imported.message() + "; the database is unchanged");
  Status published = staging.Publish(name);
  if (!published.ok()) return published;
  return done;
}

}  // namespace stepwatch::offline
