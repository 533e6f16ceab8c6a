// Dashboards of Grafana as values, and their JSON (classic schema, version 42).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/json/json.h"

namespace stepwatch::operations {

inline constexpr int kGridColumns = 24;

enum class PanelType : uint8_t { kTimeSeries, kStat, kHeatmap, kStateTimeline, kTable };

struct PanelQuery {
  std::string expression;
  std::string legend;
};

struct Panel {
  std::string title;
  std::string description;
  std::string unit;  // as Grafana names units: "s", "short", "percentunit", "bytes", "celsius", "watt"
  std::vector<PanelQuery> queries;
  PanelType type = PanelType::kTimeSeries;
  int width = 8;
  int height = 8;
  bool is_logarithmic = false;
};

struct PanelRow {
  std::string title;
  std::vector<Panel> panels;
};

struct DashboardVariable {
  std::string name;
  std::string query;  // such as label_values(up, cluster)
};

// Marks of all panels at the times at which an expression has samples.
struct DashboardMark {
  std::string name;
  std::string expression;
  std::string colour;
};

struct Dashboard {
  std::string uid;
  std::string title;
  std::string runbook;  // URL; empty: no link
  std::vector<DashboardVariable> variables;
  std::vector<DashboardMark> marks;
  std::vector<PanelRow> rows;
};

// Panels of a row stand from left to right; those that do not fit begin a new line. Ids, grid positions and refIds
// follow from the order.
Json DashboardJson(const Dashboard& dashboard);

}  // namespace stepwatch::operations
