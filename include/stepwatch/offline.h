// Tools for the files of a run: TensorBoard files, a SQLite database, a sorted list of alarms.
//
// Each call reads output of Stepwatch or of msProbe's TrainerMon, finished or still growing, and never writes into a
// run's own directory. A result replaces an older one only when it is complete; after an error, a stop or a kill the
// older one remains. Calls block and use worker threads of their own. Any thread may call them.
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
  std::string stage;   // "converting", "scanning", "importing"
  uint64_t done = 0;   // bytes of input read in this stage
  uint64_t total = 0;  // bytes of input of this stage
};

// Called on the caller's thread, about ten times a second. Returning false stops the call, which then returns
// kUnavailable.
using OnProgress = std::function<bool(const Progress&)>;

// Range of the times in names of run directories, which have no year: "Dec03_21-34-40". Both ends are inclusive; an
// empty end is open. A range that ends before it begins spans New Year.
struct TimeRange {
  std::string start;
  std::string end;
};

// Result of a conversion.
struct Conversion {
  std::string output;  // the directory or file written
  uint64_t directories = 0;
  uint64_t files = 0;
  uint64_t rows = 0;
  uint64_t rows_skipped = 0;       // malformed rows; `notes` has the first of each file
  std::vector<std::string> notes;  // one sentence for each omission, with the reason
};

// Returns the directory of each rank under `monitor_path`. If a rank has several runs, the one that started last is
// used, and `notes` names the others. kInvalid for a bad range.
Result<std::map<int, std::string>> FindRunDirectories(const std::string& monitor_path, const TimeRange& range,
                                                      std::vector<std::string>* notes);

struct CsvToTensorBoardOptions {
  std::string monitor_path;
  TimeRange range;
  int process_num = 1;                      // threads, 1 to 128
  std::vector<std::string> data_type_list;  // kinds, i.e. prefixes of files; empty: all
  // Empty: {monitor_path}/{now}-csv2tensorboard_by_step. Each rank{R}/{kind}/ below it has one event file.
  std::string output_dirpath;
};

// Tags are `vp{vpp_stage}:{name}[:micro{micro_step}]/{op}`. kInvalid or kOutOfRange for a bad option, kInvalid for a
// duplicate (tag, step), kNotFound without matching files.
Result<Conversion> CsvToTensorBoard(const CsvToTensorBoardOptions& options, const OnProgress& on_progress = {});

// Kinds that CsvToTensorBoard converts.
const std::vector<std::string>& TensorBoardKinds();

struct CsvToDatabaseOptions {
  std::map<int, std::string> directories;  // rank -> its run directory
  std::string database;                    // file to write; missing directories are created
  int process_num = 1;                     // threads, 1 to 128
  // True: the micro-steps of all steps are numbered consecutively and are the steps of the database. False: real steps,
  // with a target for each micro-step.
  bool micro_step = true;
  std::vector<std::pair<std::string, std::string>> mapping;  // replacements in names, applied in this order
  std::vector<std::string> data_type_list;                   // empty: all
};

// kNotFound if the directories hold no rows, kUnavailable if the database is in use.
Result<Conversion> CsvToDatabase(const CsvToDatabaseOptions& options, const OnProgress& on_progress = {});

struct SortAnomaliesOptions {
  std::string data_path;  // directory "anomaly_detected", with rank{R}/anomaly.json
  std::string out_path;   // existing directory; empty: data_path
  int64_t topk = 8;
  std::vector<int64_t> steps;  // only alarms of these steps; empty: all
};

struct SortedAnomalies {
  std::string output;                 // {out_path}/anomaly_analyse.json
  uint64_t found = 0;                 // alarms in the selected steps
  std::vector<std::string> messages;  // messages of the first topk alarms
};

// Sorts by step, micro-step, then the order within a training step: forward, backward, optimizer.
Result<SortedAnomalies> SortAnomalies(const SortAnomaliesOptions& options);

}  // namespace stepwatch::offline
