#include "controller/api/limits_in_force.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/byte_count.h"
#include "src/base/file.h"
#include "src/base/parse_number.h"
#include "src/base/text.h"
#include "stepwatch/record_layout.h"

namespace stepwatch::api {
namespace {

constexpr const char* kOutputRoot = "STEPWATCH_OUTPUT_ROOT";
constexpr const char* kBytesMax = "STEPWATCH_BYTES_MAX";
constexpr const char* kRowsPerStepMax = "STEPWATCH_ROWS_PER_STEP_MAX";
constexpr const char* kQueueBytesMax = "STEPWATCH_QUEUE_BYTES_MAX";
constexpr const char* kFormats = "STEPWATCH_FORMATS";

Status Unusable(const char* name, std::string_view text, const std::string& accepted) {
  return Status(StatusCode::kInvalid, std::string("the limit ") + name + "=" + base::Printable(text) +
                                          " is invalid; accepted: " + accepted + ", or unset");
}

// An empty variable counts as unset, as for every other variable.
std::string_view TextOf(const LimitSources& sources, const char* name) {
  const char* value = sources.variable(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

// 0 in a limit means that there is none; the smaller of two limits applies.
template <class Number>
Number Stricter(Number a, Number b) {
  return a <= 0 ? b : b <= 0 ? a : std::min(a, b);
}

Status Tighten(const LimitSources& sources, const char* name, uint64_t* limit) {
  const std::string_view text = TextOf(sources, name);
  if (text.empty()) return Status();
  const std::optional<uint64_t> bytes = base::ParseByteCount(text);
  if (!bytes || *bytes == 0) return Unusable(name, text, "a number of bytes above 0, such as 500M or 20G");
  *limit = Stricter(*limit, *bytes);
  return Status();
}

Status TightenRows(const LimitSources& sources, int64_t* limit) {
  const std::string_view text = TextOf(sources, kRowsPerStepMax);
  if (text.empty()) return Status();
  const int64_t rows = base::ParseNumber<int64_t>(text).value_or(0);
  if (rows <= 0) return Unusable(kRowsPerStepMax, text, "a whole number of rows above 0");
  *limit = Stricter(*limit, rows);
  return Status();
}

std::string FormatNames() {
  std::string names;
  for (const OutputFormatTraits& traits : kOutputFormats)
    names += (names.empty() ? "" : ", ") + std::string(traits.name);
  return names;
}

Result<std::vector<OutputFormat>> ParseFormats(std::string_view text) {
  std::vector<OutputFormat> formats;
  std::string_view rest = text;
  for (bool is_last = false; !is_last;) {
    const size_t comma = rest.find(',');
    is_last = comma == std::string_view::npos;
    const std::string_view name = rest.substr(0, comma);
    const auto* const found = std::find_if(std::begin(kOutputFormats), std::end(kOutputFormats),
                                           [&](const OutputFormatTraits& traits) { return name == traits.name; });
    if (found == std::end(kOutputFormats))
      return Unusable(kFormats, text, "a comma-separated list of formats out of " + FormatNames());
    formats.push_back(found->format);
    if (!is_last) rest.remove_prefix(comma + 1);
  }
  return formats;
}

Status TightenFormats(const LimitSources& sources, std::optional<std::vector<OutputFormat>>* limit) {
  const std::string_view text = TextOf(sources, kFormats);
  if (!text.empty()) {
    Result<std::vector<OutputFormat>> allowed = ParseFormats(text);
    if (!allowed.ok()) return allowed.status();
    if (!*limit)
      *limit = std::move(allowed).value();
    else
      std::erase_if(**limit, [&](OutputFormat format) {
        return std::find(allowed.value().begin(), allowed.value().end(), format) == allowed.value().end();
      });
  }
  if (*limit && (*limit)->empty())
    return Status(StatusCode::kInvalid, std::string("no format is allowed by both Options::limits and ") + kFormats +
                                            "; name at least one of " + FormatNames() + " in both");
  return Status();
}

bool IsBelow(const std::string& path, const std::string& root) {
  return path == root || (path.compare(0, root.size(), root) == 0 && (root == "/" || path[root.size()] == '/'));
}

// Keeps the inner one of two roots.
Status TightenRoot(const LimitSources& sources, std::string* limit) {
  const std::string other(TextOf(sources, kOutputRoot));
  if (other.empty()) return Status();
  if (limit->empty()) return *limit = other, Status();
  const Result<std::string> own_path = sources.resolve(*limit), other_path = sources.resolve(other);
  for (const Result<std::string>* path : {&own_path, &other_path})
    if (!path->ok()) return Status(path->status().code(), "an output root cannot be used: " + path->status().message());
  if (IsBelow(other_path.value(), own_path.value()))
    *limit = other;
  else if (!IsBelow(own_path.value(), other_path.value()))
    return Status(StatusCode::kInvalid, "the output roots of Options::limits, " + *limit + ", and of " + kOutputRoot +
                                            ", " + other + ", do not overlap; put one of them below the other");
  return Status();
}

}  // namespace

Result<Limits> LimitsInForce(const Limits& of_program, const LimitSources& sources) {
  Limits limits = of_program;
  for (const Status& status :
       {TightenRoot(sources, &limits.output_root), Tighten(sources, kBytesMax, &limits.bytes_max),
        TightenRows(sources, &limits.rows_per_step_max), Tighten(sources, kQueueBytesMax, &limits.queue_bytes_max),
        TightenFormats(sources, &limits.formats)})
    if (!status.ok()) return status;
  return limits;
}

LimitSources SystemLimitSources(base::FileSystem& files) {
  return {std::getenv, [&files](const std::string& path) -> Result<std::string> {
            Status made = base::MakeDirectories(path, files);
            if (!made.ok()) return made;
            std::string resolved;
            if (files.RealPath(path.c_str(), &resolved) != 0) return base::ErrnoStatus("cannot resolve", path, errno);
            return resolved;
          }};
}

}  // namespace stepwatch::api
