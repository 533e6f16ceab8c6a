#include "operations/log_intake/log_settings.h"

#include <algorithm>

#include "operations/logs/file_pattern.h"
#include "src/base/parse_number.h"

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

Status ReadPaths(const Field& field, const Notes& notes, std::vector<std::string>* out) {
  constexpr std::string_view kAccepted =
      "a list of at most 32 absolute paths, in which {run} stands for the run, {rank} for the rank and * for any "
      "characters of a name";
  if (Status status = config::ReadStrings(field, notes, kAccepted, *out); !status.ok()) return status;
  const bool usable = out->size() <= kLogPatternsMax && std::all_of(out->begin(), out->end(), [](const auto& each) {
                        return WrongPattern(each).empty();
                      });
  return usable ? Status() : notes.Refuse(StatusCode::kOutOfRange, field, kAccepted);
}

Status ReadAddress(const Field& field, const Notes& notes, std::string* out) {
  constexpr std::string_view kAccepted = R"("HOST:PORT" with an IP address or localhost, or "" for none)";
  if (Status status = config::ReadString(field, notes, kAccepted, *out); !status.ok()) return status;
  const size_t colon = out->rfind(':');
  const bool usable = out->empty() || (colon != std::string::npos && colon > 0 &&
                                       base::ParseNumber<uint16_t>(std::string_view(*out).substr(colon + 1)));
  return usable ? Status() : notes.Refuse(StatusCode::kOutOfRange, field, kAccepted);
}

Status ReadJournal(const Field& field, const Notes& notes, std::vector<std::string>* out) {
  constexpr std::string_view kAccepted = "a list of at most 32 names of units, or matches FIELD=VALUE";
  if (Status status = config::ReadStrings(field, notes, kAccepted, *out); !status.ok()) return status;
  const bool usable = out->size() <= kLogPatternsMax && std::none_of(out->begin(), out->end(), [](const auto& each) {
                        return each.empty() || each.starts_with('=');
                      });
  return usable ? Status() : notes.Refuse(StatusCode::kOutOfRange, field, kAccepted);
}

Status ReadDirectory(const Field& field, const Notes& notes, std::string* out) {
  constexpr std::string_view kAccepted = R"(an absolute path, or "" for the journal of this machine)";
  if (Status status = config::ReadString(field, notes, kAccepted, *out); !status.ok()) return status;
  return out->empty() || out->starts_with('/') ? Status() : notes.Refuse(StatusCode::kOutOfRange, field, kAccepted);
}

// A key of SentLogSettings.
template <auto member, auto read>
constexpr KeyRule<LogSettings> Sent(std::string_view key) {
  return {{.key = key},
          [](const Field& field, Notes& notes, LogSettings& out) { return read(field, notes, &(out.sent.*member)); }};
}

constexpr KeyRule<LogSettings> kLogs[] = {
    Sent<&SentLogSettings::paths, ReadPaths>("paths"),
    Sent<&SentLogSettings::syslog, ReadAddress>("syslog"),
    Sent<&SentLogSettings::journal, ReadJournal>("journal"),
    Sent<&SentLogSettings::journal_directory, ReadDirectory>("journal_directory"),
    {{.key = "kmsg"},
     [](const Field& field, Notes& notes, LogSettings& out) { return config::ReadBool(field, notes, out.sent.kmsg); }},
    Sent<&SentLogSettings::nccl_ras, ReadAddress>("nccl_ras"),
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
