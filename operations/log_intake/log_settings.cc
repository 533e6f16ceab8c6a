#include "operations/log_intake/log_settings.h"

#include <algorithm>

#include "operations/logs/file_pattern.h"

namespace stepwatch::operations {
namespace {

using config::Field;
using config::KeyRule;
using config::Notes;
using config::UnknownKeys;
using Kind = config::JsonValue::Kind;

constexpr KeyRule<LogFilesSettings> kFiles[] = {
    {{.key = "path"},
     [](const Field& field, Notes& notes, LogFilesSettings& out) {
       constexpr std::string_view kAccepted =
           "the absolute path of log files, in which * stands for any characters of a name, {rank} for the rank and "
           "{run} for the run";
       if (Status status = config::ReadString(field, notes, kAccepted, out.path); !status.ok()) return status;
       return WrongPattern(out.path).empty() ? Status() : notes.Refuse(StatusCode::kOutOfRange, field, kAccepted);
     }},
    config::Text<&LogFilesSettings::run, LogFilesSettings>("run"),
};

Status ReadFiles(const Field& field, Notes& notes, std::vector<LogFilesSettings>* out) {
  constexpr std::string_view kAccepted = "a list of at most 32 objects with the key \"path\"";
  if (!field.value.Is(Kind::kArray)) return notes.Refuse(StatusCode::kWrongType, field, kAccepted);
  const size_t count = field.value.children.size();
  if (count > kLogPatternsMax) return notes.Refuse(StatusCode::kOutOfRange, field, kAccepted);
  for (size_t i = 0; i < count; ++i) {
    const Field each = config::ElementOf(field, i);
    if (!each.value.Is(Kind::kObject)) return notes.Refuse(StatusCode::kWrongType, each, kAccepted);
    LogFilesSettings files;
    Status status = config::ReadMembers<LogFilesSettings>(each, kFiles, UnknownKeys::kWarn, notes, files);
    if (!status.ok()) return status;
    if (files.path.empty()) return notes.Refuse(StatusCode::kOutOfRange, each, kAccepted);
    const auto is_same = [&](const LogFilesSettings& other) { return other.path == files.path; };
    if (std::any_of(out->begin(), out->end(), is_same))
      return notes.Refuse(StatusCode::kOutOfRange, each, "a path that is not in the list yet");
    out->push_back(std::move(files));
  }
  return Status();
}

constexpr KeyRule<LogSettings> kLogs[] = {
    {{.key = "files"},
     [](const Field& field, Notes& notes, LogSettings& out) { return ReadFiles(field, notes, &out.files); }},
    {{.key = "outputs"},
     [](const Field& field, Notes& notes, LogSettings& out) {
       return outputs::ReadOutputs(field, notes, out.outputs);
     }},
};

}  // namespace

Status ReadLogs(const Field& field, Notes& notes, LogSettings& out) {
  if (!field.value.Is(Kind::kObject))
    return notes.Refuse(StatusCode::kWrongType, field, config::ObjectWithKeys<LogSettings>(kLogs));
  return config::ReadMembers<LogSettings>(field, kLogs, UnknownKeys::kWarn, notes, out);
}

}  // namespace stepwatch::operations
