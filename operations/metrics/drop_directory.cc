#include "operations/metrics/drop_directory.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "operations/metrics/parse_exposition.h"
#include "src/base/file.h"
#include "src/base/found_file.h"
#include "src/base/text.h"

namespace stepwatch::operations {
namespace {

constexpr std::string_view kEnd = ".prom";
// A file from later than this would never become old.
constexpr double kAheadSecondsMax = 60;

bool IsName(const std::string& name) {
  return name.ends_with(kEnd) && !name.starts_with('.');
}

// Prometheus stores a sample with a time once, and an old one not at all.
bool HasTime(const ExpositionFamily& family) {
  return std::any_of(family.samples.begin(), family.samples.end(),
                     [](const ExpositionSample& sample) { return sample.value.find(' ') != std::string::npos; });
}

bool IsValid(const std::string& text) {
  if (!text.empty() && !text.ends_with('\n')) return false;
  const ParsedExposition parsed = ParseExposition(text);
  return parsed.samples_bad == 0 && parsed.families_bad == 0 &&
         std::none_of(parsed.families.begin(), parsed.families.end(), HasTime);
}

bool IsOld(double changed_t, double now, const DropLimits& limits) {
  return now - changed_t > limits.seconds_max;
}

// Reads one file, or counts why it is left out.
std::optional<DropFile> ReadOne(const std::string& path, const std::string& name, const DropLimits& limits, double now,
                                base::FileSystem& files, DropFiles* found) {
  const auto leave_out = [](size_t* count) {
    ++*count;
    return std::nullopt;
  };
  const Result<base::UniqueFd> fd = base::OpenFound(base::JoinPath(path, name), O_RDONLY, std::nullopt, files);
  struct stat about {};
  if (!fd.ok() || files.Fstat(fd.value().get(), &about) != 0) return leave_out(&found->bad);
  DropFile file;
  file.name = name;
  file.changed_t = static_cast<double>(about.st_mtim.tv_sec) + static_cast<double>(about.st_mtim.tv_nsec) * 1e-9;
  if (IsOld(file.changed_t, now, limits)) return leave_out(&found->old);
  if (file.changed_t > now + kAheadSecondsMax) return leave_out(&found->bad);
  Result<std::string> text = base::ReadAll(fd.value().get(), limits.file_bytes, files);
  if (!text.ok()) return leave_out(text.status().code() == StatusCode::kExhausted ? &found->beyond : &found->bad);
  file.text = std::move(text).value();
  if (!IsValid(file.text)) return leave_out(&found->bad);
  return file;
}

}  // namespace

DropFiles ReadDropDirectory(const std::string& path, const DropLimits& limits, double now, base::FileSystem& files) {
  DropFiles found;
  const Result<std::vector<std::string>> names = base::ListDirectory(path, files);
  if (!names.ok()) {
    ++found.bad;
    return found;
  }
  size_t bytes = 0;
  for (const std::string& name : names.value()) {
    if (!IsName(name)) continue;
    if (found.files.size() == limits.files) {
      ++found.beyond;
      continue;
    }
    std::optional<DropFile> file = ReadOne(path, name, limits, now, files, &found);
    if (!file) continue;
    if (bytes + file->text.size() > limits.bytes) {
      ++found.beyond;
      continue;
    }
    bytes += file->text.size();
    found.files.push_back(std::move(*file));
  }
  return found;
}

struct DropDirectory::Shared {
  DropFiles found;
  bool is_reading = false;
};

DropDirectory::DropDirectory(boost::asio::io_context& loop, std::string path, DropLimits limits)
    : path_(std::move(path)),
      limits_(limits),
      mailbox_(std::make_shared<watch::LoopMailbox>(loop)),
      shared_(std::make_shared<Shared>()) {}

DropDirectory::~DropDirectory() {
  mailbox_->Close();
}

void DropDirectory::Look(double now) {
  if (shared_->is_reading) return;
  shared_->is_reading = thread_.Post([path = path_, limits = limits_, now, mailbox = mailbox_, shared = shared_] {
    DropFiles found;
    try {
      found = ReadDropDirectory(path, limits, now);
    } catch (const std::bad_alloc&) {
      ++found.bad;
    }
    const auto kept = std::make_shared<DropFiles>(std::move(found));
    mailbox->Post([kept, shared] {
      shared->found = std::move(*kept);
      shared->is_reading = false;
    });
  });
}

void DropDirectory::AddPages(double now, std::vector<ExpositionPage>* pages) const {
  for (const DropFile& file : shared_->found.files)
    if (!IsOld(file.changed_t, now, limits_)) pages->push_back({{}, file.text, /*is_of_job=*/false});
}

std::vector<http::MetricFamily> DropDirectory::Families(double now) const {
  const DropFiles& found = shared_->found;
  http::MetricFamily ages{"stepwatchd_file_age_seconds", "gauge", "Time since a file with metrics was written.", {}};
  size_t old = found.old;
  for (const DropFile& file : found.files) {
    if (IsOld(file.changed_t, now, limits_)) {
      ++old;
      continue;
    }
    ages.Add(std::max(0.0, now - file.changed_t), {{"file", base::Printable(file.name, 255)}});
  }
  http::MetricFamily left_out{
      "stepwatchd_files_left_out", "gauge", "Files with metrics that are not on this page.", {}};
  left_out.Add(static_cast<double>(found.bad), {{"reason", "bad"}});
  left_out.Add(static_cast<double>(found.beyond), {{"reason", "limit"}});
  left_out.Add(static_cast<double>(old), {{"reason", "old"}});
  return {std::move(ages), std::move(left_out)};
}

}  // namespace stepwatch::operations
