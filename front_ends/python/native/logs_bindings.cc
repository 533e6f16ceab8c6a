// The reader of logs as a class of the extension module; stepwatch.logs makes objects of its dictionaries.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/logs/reader.h"
#include "src/logs/write_record.h"

namespace stepwatch::python {

// Adds LogReader.
void BindLogs(nanobind::module_& m);

namespace {

namespace nb = nanobind;
using namespace nb::literals;

nb::object AnomalyDict(const logs::Anomaly& anomaly) {
  constexpr const char* kSeverities[] = {"info", "warning", "critical"};
  constexpr const char* kRoles[] = {"root", "cascade", "symptom", "notice"};
  nb::dict dict;
  dict["name"] = std::string(anomaly.name);
  dict["severity"] = kSeverities[static_cast<size_t>(anomaly.severity)];
  dict["role"] = kRoles[static_cast<size_t>(anomaly.role)];
  dict["culprit_rank"] = anomaly.culprit_rank;
  dict["facts"] = anomaly.facts;
  return dict;
}

nb::dict RecordDict(const logs::Record& record) {
  nb::dict dict;
  dict["message"] = record.message;
  dict["t"] = record.t;
  dict["host"] = record.host;
  dict["rank"] = record.rank;
  dict["local_rank"] = record.local_rank;
  dict["level"] = std::string(logs::LevelName(record.level));
  dict["component"] = record.component;
  dict["is_truncated"] = record.is_truncated;
  if (record.progress) {
    nb::dict progress;
    progress["step"] = record.progress->step;
    progress["is_evaluation"] = record.progress->is_evaluation;
    progress["numbers"] = record.progress->numbers;
    dict["progress"] = progress;
  }
  if (record.exception) {
    nb::dict exception;
    exception["type"] = record.exception->type;
    exception["message"] = record.exception->message;
    exception["stack"] = record.exception->stack;
    dict["exception"] = exception;
  }
  nb::list anomalies;
  for (const logs::Anomaly& anomaly : record.anomalies) anomalies.append(AnomalyDict(anomaly));
  dict["anomalies"] = anomalies;
  dict["attributes"] = record.attributes;
  return dict;
}

class LogReader {
 public:
  explicit LogReader(int64_t utc_offset_seconds) : reader_(recogniser_, OptionsOf(utc_offset_seconds)) {}

  // The records that the line completes.
  nb::list Add(const nb::bytes& line, double observed_t, std::optional<int64_t> rank) {
    std::vector<logs::Record> records;
    logs::LineIn in;
    in.text = {line.c_str(), line.size()};
    in.observed_t = observed_t;
    in.rank = rank;
    reader_.Add(in, &records);
    return ListOf(records);
  }

  nb::list Flush() {
    std::vector<logs::Record> records;
    reader_.Flush(std::numeric_limits<double>::infinity(), &records);
    return ListOf(records);
  }

 private:
  static logs::ReaderOptions OptionsOf(int64_t utc_offset_seconds) {
    logs::ReaderOptions options;
    options.utc_offset_seconds = utc_offset_seconds;
    return options;
  }

  static nb::list ListOf(const std::vector<logs::Record>& records) {
    nb::list list;
    for (const logs::Record& record : records) list.append(RecordDict(record));
    return list;
  }

  const logs::Recogniser recogniser_;
  logs::Reader reader_;
};

}  // namespace

void BindLogs(nb::module_& m) {
  nb::class_<LogReader>(m, "LogReader", "Reads the lines of one log; stepwatch.logs makes records of its dictionaries.")
      .def(nb::init<int64_t>(), "utc_offset_seconds"_a = 0)
      .def("add", &LogReader::Add, "line"_a, "observed_t"_a, "rank"_a = nb::none(),
           "The records that this line completes, as dictionaries.")
      .def("flush", &LogReader::Flush, "The records that are held back, as dictionaries.");
}

}  // namespace stepwatch::python
