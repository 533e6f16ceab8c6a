// The offline tools as functions of the extension module.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stepwatch/offline.h"

namespace stepwatch::python {

// Adds find_run_directories, csv_to_tensorboard, csv_to_database and sort_anomalies.
void BindOffline(nanobind::module_& m);

namespace {

namespace nb = nanobind;
using namespace nb::literals;

// With the GIL. FileNotFoundError if there is no input, ValueError for errors that the caller can correct, otherwise
// RuntimeError.
[[noreturn]] void RaiseOfflineError(const Status& status) {
  PyObject* type = PyExc_RuntimeError;
  if (status.code() == StatusCode::kNotFound) type = PyExc_FileNotFoundError;
  if (status.code() == StatusCode::kInvalid || status.code() == StatusCode::kOutOfRange ||
      status.code() == StatusCode::kWrongType)
    type = PyExc_ValueError;
  PyErr_SetString(type, status.message().c_str());
  throw nb::python_error();
}

// Runs `call` without the GIL; about ten times a second checks for Ctrl-C and calls `on_progress(stage, done, total)`.
// An exception of either stops the call and is raised here.
template <class Call>
auto RunOutsideGil(const nb::object& on_progress, const Call& call) {
  std::optional<nb::python_error> raised;
  const auto watch = [&](const offline::Progress& progress) {
    nb::gil_scoped_acquire gil;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (!on_progress.is_none()) on_progress(progress.stage, progress.done, progress.total);
      return true;
    } catch (nb::python_error& error) {
      raised.emplace(error);
      return false;
    }
  };
  auto result = [&] {
    nb::gil_scoped_release released;
    return call(offline::OnProgress(watch));
  }();
  if (raised) throw nb::python_error(*raised);
  if (!result.ok()) RaiseOfflineError(result.status());
  return std::move(result).value();
}

nb::dict ToDict(const offline::Conversion& done) {
  nb::dict dict;
  dict["output"] = done.output;
  dict["directories"] = done.directories;
  dict["files"] = done.files;
  dict["rows"] = done.rows;
  dict["rows_skipped"] = done.rows_skipped;
  dict["notes"] = done.notes;
  return dict;
}

nb::tuple FindRunDirectories(const std::string& monitor_path, const std::string& time_start,
                             const std::string& time_end) {
  std::vector<std::string> notes;
  const auto directories = offline::FindRunDirectories(monitor_path, {time_start, time_end}, &notes);
  if (!directories.ok()) RaiseOfflineError(directories.status());
  return nb::make_tuple(directories.value(), notes);
}

nb::dict CsvToTensorBoard(const std::string& monitor_path, const std::string& time_start, const std::string& time_end,
                          int process_num, const std::vector<std::string>& data_type_list,
                          const std::string& output_dirpath, const nb::object& on_progress) {
  const offline::CsvToTensorBoardOptions options{
      monitor_path, {time_start, time_end}, process_num, data_type_list, output_dirpath};
  return ToDict(RunOutsideGil(on_progress, [&options](const offline::OnProgress& progress) {
    return offline::CsvToTensorBoard(options, progress);
  }));
}

nb::dict CsvToDatabase(const std::map<int, std::string>& directories, const std::string& database, int process_num,
                       bool micro_step, const std::vector<std::pair<std::string, std::string>>& mapping,
                       const std::vector<std::string>& data_type_list, const nb::object& on_progress) {
  const offline::CsvToDatabaseOptions options{directories, database, process_num, micro_step, mapping, data_type_list};
  return ToDict(RunOutsideGil(on_progress, [&options](const offline::OnProgress& progress) {
    return offline::CsvToDatabase(options, progress);
  }));
}

nb::dict SortAnomalies(const std::string& data_path, const std::string& out_path, int64_t topk,
                       const std::vector<int64_t>& steps) {
  const offline::SortAnomaliesOptions options{data_path, out_path, topk, steps};
  const offline::SortedAnomalies sorted =
      RunOutsideGil(nb::none(), [&options](const offline::OnProgress&) { return offline::SortAnomalies(options); });
  nb::dict dict;
  dict["output"] = sorted.output;
  dict["found"] = sorted.found;
  dict["messages"] = sorted.messages;
  return dict;
}

}  // namespace

void BindOffline(nb::module_& m) {
  m.def("find_run_directories", &FindRunDirectories, "monitor_path"_a, "time_start"_a = "", "time_end"_a = "",
        "The run directory of each rank under a base, by rank, and notes on what was left out.");
  m.def("csv_to_tensorboard", &CsvToTensorBoard, "monitor_path"_a, "time_start"_a = "", "time_end"_a = "",
        "process_num"_a = 1, "data_type_list"_a = std::vector<std::string>(), "output_dirpath"_a = "",
        "on_progress"_a = nb::none(), "Convert CSV files to TensorBoard files; returns what was done.");
  m.def("csv_to_database", &CsvToDatabase, "directories"_a, "database"_a, "process_num"_a = 1, "micro_step"_a = true,
        "mapping"_a = std::vector<std::pair<std::string, std::string>>(),
        "data_type_list"_a = std::vector<std::string>(), "on_progress"_a = nb::none(),
        "Import CSV files of each rank's directory into a SQLite database; returns what was done.");
  m.def("sort_anomalies", &SortAnomalies, "data_path"_a, "out_path"_a = "", "topk"_a = 8,
        "steps"_a = std::vector<int64_t>(), "Sort the alarms of all ranks and write anomaly_analyse.json.");
  m.attr("TENSORBOARD_KINDS") = offline::TensorBoardKinds();
}

}  // namespace stepwatch::python
