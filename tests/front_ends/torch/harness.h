// A monitor on a config in a fresh directory, whose records and events stay in memory.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "stepwatch/event.h"
#include "stepwatch/options.h"
#include "stepwatch/sink.h"

namespace stepwatch::tests {

struct Row {
  SiteKind kind;
  int chunk;
  std::string name;  // the name cell: "fc.input_1@2"
  Record record;
};

class MemorySink : public Sink {
 public:
  WriteResult Write(const RecordLayout& layout, const StepFrame& frame) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = 0; i < frame.count; ++i) {
      const Record& record = frame.records[i];
      const PlannedSite& site = layout.sites.at(record.site);
      std::string name = site.name;
      if (record.element != kNoElement) name += "_" + std::to_string(record.element);
      if (record.call != 0) name += "@" + std::to_string(record.call);
      rows_.push_back({site.kind, site.chunk, name, record});
    }
    return {Status(), frame.count};
  }
  std::vector<Row> rows() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return rows_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Row> rows_;
};

class Harness {
 public:
  explicit Harness(const std::string& config_text) {
    std::string pattern = (std::filesystem::temp_directory_path() / "stepwatch-torch-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    directory_ = pattern;
    Save(config_text);
    options.config_path = config_path();
    options.output_dir = (directory_ / "out").string();
    options.dynamic = false;
    options.extra_sinks = {sink_};
    options.on_event = [events = events_](const Event& event) {
      const std::lock_guard<std::mutex> lock(events->mutex);
      events->list.push_back(event);
    };
  }
  ~Harness() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  std::string config_path() const { return (directory_ / "config.json").string(); }
  std::filesystem::path output() const { return directory_ / "out"; }
  void Save(const std::string& text) const {
    const std::string fresh = config_path() + ".new";
    std::ofstream(fresh) << text;
    std::filesystem::rename(fresh, config_path());
  }

  std::vector<Row> rows() const { return sink_->rows(); }
  std::vector<Row> RowsOf(SiteKind kind, int64_t step = -1) const {
    std::vector<Row> found;
    for (const Row& row : rows())
      if (row.kind == kind && (step < 0 || row.record.step == step)) found.push_back(row);
    return found;
  }
  // "fc.input:0 fc.output:0 ..." in order, with the micro-step behind the colon and "!" for a missing tensor.
  std::string Names(SiteKind kind, int64_t step = -1) const {
    std::string text;
    for (const Row& row : RowsOf(kind, step))
      text += (text.empty() ? "" : " ") + row.name + ":" + std::to_string(row.record.micro_step) +
              (row.record.missing() ? "!" : "");
    return text;
  }
  std::optional<Record> Find(SiteKind kind, const std::string& name, int64_t step = 0, int micro_step = 0) const {
    for (const Row& row : rows())
      if (row.kind == kind && row.name == name && row.record.step == step && row.record.micro_step == micro_step)
        return row.record;
    return std::nullopt;
  }

  std::vector<Event> events() const {
    const std::lock_guard<std::mutex> lock(events_->mutex);
    return events_->list;
  }
  int CountEvents(EventKind kind, const std::string& part) const {
    int count = 0;
    for (const Event& event : events()) count += event.kind == kind && event.message.find(part) != std::string::npos;
    return count;
  }
  bool LedgersBalance() const {
    for (const Event& event : events())
      if (event.kind == EventKind::kDrained && !event.ledger.balanced()) return false;
    return true;
  }

  Options options;

 private:
  struct Events {
    std::mutex mutex;
    std::vector<Event> list;
  };
  std::filesystem::path directory_;
  std::shared_ptr<MemorySink> sink_ = std::make_shared<MemorySink>();
  std::shared_ptr<Events> events_ = std::make_shared<Events>();
};

// The value of one statistic; NaN if the record has none.
inline double ValueOf(const Record& record, Stat stat) {
  for (int i = 0; i < record.value_count; ++i) {
    const StatValue& value = record.values[static_cast<size_t>(i)];
    if (value.stat == stat) return value.is_integer ? static_cast<double>(value.i64) : value.f64;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace stepwatch::tests
