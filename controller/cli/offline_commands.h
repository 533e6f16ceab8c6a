// `stepwatch csv2tb`, `csv2db` and `anomaly`: what is done with the files of a run afterwards.
#pragma once

#include <string>

#include "stepwatch/offline.h"

namespace stepwatch::cli {

struct CsvToDatabaseArguments {
  std::string data;  // the base with the run directories
  std::string db;    // directory of the database
  std::string format = "auto";
  std::string mapping;  // a JSON file; empty: none
  offline::CsvToDatabaseOptions options;
};

struct AnomalyArguments {
  std::string steps = "[]";  // as a Python list
  offline::SortAnomaliesOptions options;
};

// 0: done; 2: an option or an input is unusable; 5: the result could not be written; 130: interrupted.
int RunCsvToTensorBoard(const offline::CsvToTensorBoardOptions& options);
int RunCsvToDatabase(const CsvToDatabaseArguments& arguments);
int RunAnomaly(const AnomalyArguments& arguments);

// "[3, 7]" as Python prints a list of integers.
Result<std::vector<int64_t>> ParseSteps(const std::string& text);

}  // namespace stepwatch::cli
