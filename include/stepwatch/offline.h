// What is done with the files of a run afterwards: TensorBoard files, a SQLite database, a sorted list of alarms.
//
// Each call reads finished or still growing output of Stepwatch or of msProbe's TrainerMon, and never writes into a
// run's own directory. A result replaces an older one only when it is whole; after an error, a stop or a kill the older
// one is still there. Calls block, with worker threads of their own; any thread may make them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "stepwatch/status.h"

namespace stepwatch::offline {

struct Progress {
  std::string stage;   // "reading", "importing"
  uint64_t done = 0;   // bytes of input
  uint64_t total = 0;  // of the stage
};

// Called by the thread that made the call, about ten times a second. False stops the call, which then returns
// kUnavailable.
using OnProgress = std::function<bool(const Progress&)>;

// Names of run directories begin with a time without a year, "Dec03_21-34-40". Both ends belong to the range, an empty
// end leaves it open. A range that ends before it begins goes over New Year.
struct TimeRange {
  std::string start;
  std::string end;
};

// What a call did.
struct Conversion {
  std::string output;  // what it wrote: a directory or a file
  uint64_t directories = 0;
  uint64_t files = 0;
  uint64_t rows = 0;
  uint64_t rows_skipped = 0;       // malformed; the first of each file is in `notes`
  std::vector<std::string> notes;  // what was left out and why, a sentence each
};

// The directory of each rank under `monitor_path`. Of several runs of a rank the one that started last is taken, and
// `notes` says which were left out.
Result<std::map<int, std::string>> FindRunDirectories(const std::string& monitor_path, const TimeRange& range,
                                                      std::vector<std::string>* notes);

struct CsvToTensorBoardOptions {
  std::string monitor_path;
  TimeRange range;
  int process_num = 1;                      // threads, 1 to 128
  std::vector<std::string> data_type_list;  // kinds, the prefixes of the files; empty: all
  // Empty: {monitor_path}/{now}-csv2tensorboard_by_step. Below it: rank{R}/{kind}/ with one event file.
  std::string output_dirpath;
};

// Tags are `vp{vpp_stage}:{name}[:micro{micro_step}]/{op}`. kInvalid for a bad option or a (tag, step) that comes
// twice.
Result<Conversion> CsvToTensorBoard(const CsvToTensorBoardOptions& options, const OnProgress& on_progress = {});

// Names of the kinds that CsvToTensorBoard knows.
const std::vector<std::string>& TensorBoardKinds();

struct CsvToDatabaseOptions {
  std::map<int, std::string> directories;  // rank -> its run directory
  std::string database;                    // file to write; its directory must exist
  int process_num = 1;                     // threads, 1 to 128
  // True: the micro-steps of all steps are numbered through and are the steps of the database. False: real steps, a
  // target for each micro-step.
  bool micro_step = true;
  std::vector<std::pair<std::string, std::string>> mapping;  // replacements in names, done in this order
  std::vector<std::string> data_type_list;                   // empty: all
};

// kNotFound when the directories hold no rows.
Result<Conversion> CsvToDatabase(const CsvToDatabaseOptions& options, const OnProgress& on_progress = {});

struct SortAnomaliesOptions {
  std::string data_path;  // the directory "anomaly_detected", with rank{R}/anomaly.json
  std::string out_path;   // an existing directory; empty: data_path
  int64_t topk = 8;
  std::vector<int64_t> steps;  // only alarms of these steps; empty: all
};

struct SortedAnomalies {
  std::string output;                 // {out_path}/anomaly_analyse.json
  uint64_t found = 0;                 // in the chosen steps
  std::vector<std::string> messages;  // of the first topk
};

// Sorts by step, micro-step, then as a training step goes: forward, backward, optimizer.
Result<SortedAnomalies> SortAnomalies(const SortAnomaliesOptions& options);

}  // namespace stepwatch::offline
