// A small model's layout, with records and frames of it, for the tests of sinks.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "stepwatch/sink.h"
#include "tests/temporary_directory.h"

namespace stepwatch::sinks::test {

using testing::Contents;
using testing::TemporaryDirectory;
using testing::WriteInPlace;

// Name -> content of every entry; hidden ones included.
inline std::map<std::string, std::string> ReadDirectory(const std::string& path) {
  std::map<std::string, std::string> files;
  if (!std::filesystem::exists(path)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    files[entry.path().filename().string()] = Contents(entry.path().string());
  return files;
}

inline StatValue Real(Stat stat, double value) {
  StatValue pair;
  pair.stat = stat;
  pair.f64 = value;
  return pair;
}

inline StatValue Integer(Stat stat, int64_t value) {
  StatValue pair;
  pair.stat = stat;
  pair.is_integer = true;
  pair.i64 = value;
  return pair;
}

inline void AddValue(Record* record, StatValue value) {
  record->values[record->value_count++] = value;
}

inline void SetShape(Record* record, std::vector<int64_t> dims) {
  record->ndim = static_cast<uint8_t>(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) record->dims[i] = dims[i];
}

inline PlannedSite Site(SiteKind kind, std::string name, uint32_t owner, Port port = Port::kNone, int chunk = 0) {
  PlannedSite site;
  site.kind = kind;
  site.port = port;
  site.owner = owner;
  site.chunk = chunk;
  site.name = std::move(name);
  return site;
}

// Columns norm, shape, dtype over the given sites.
inline RecordLayout Layout(std::vector<PlannedSite> sites) {
  RecordLayout layout;
  layout.plan_id = 1;
  layout.sites = std::move(sites);
  layout.stats = {Stat::kNorm, Stat::kShape, Stat::kDtype};
  return layout;
}

inline Record NormRecord(SiteId site, double norm, int32_t micro_step = 0) {
  Record record;
  record.plan_id = 1;
  record.site = site;
  record.micro_step = micro_step;
  SetShape(&record, {2});
  AddValue(&record, Real(Stat::kNorm, norm));
  return record;
}

// Owns the records that a StepFrame points to.
struct Frame {
  StepFrame view;
  std::vector<Record> records;

  Frame(int64_t step, std::vector<Record> list) : records(std::move(list)) {
    for (Record& record : records) record.step = step;
    view.step = step;
    view.records = records.data();
    view.count = records.size();
  }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
};

}  // namespace stepwatch::sinks::test
