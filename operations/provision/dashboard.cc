#include "operations/provision/dashboard.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace stepwatch::operations {
namespace {

constexpr int kSchemaVersion = 42;

const char* NameOf(PanelType type) {
  switch (type) {
    case PanelType::kTimeSeries: return "timeseries";
    case PanelType::kStat: return "stat";
    case PanelType::kHeatmap: return "heatmap";
    case PanelType::kStateTimeline: return "state-timeline";
    case PanelType::kTable: return "table";
  }
  return "";
}

Json Datasource() {
  return {{"type", "prometheus"}, {"uid", "${datasource}"}};
}

// A, B, …, Z, A1, B1, …
std::string RefId(size_t index) {
  std::string id(1, static_cast<char>('A' + index % 26));
  return index < 26 ? id : id + std::to_string(index / 26);
}

Json TargetsOf(const Panel& panel) {
  Json targets = Json::array();
  const bool is_instant = panel.type == PanelType::kTable;
  for (const PanelQuery& query : panel.queries)
    targets.push_back({{"refId", RefId(targets.size())},
                       {"datasource", Datasource()},
                       {"expr", query.expression},
                       {"legendFormat", query.legend},
                       {"instant", is_instant},
                       {"range", !is_instant},
                       {"format", is_instant ? "table" : "time_series"}});
  return targets;
}

Json OptionsOf(const Panel& panel) {
  switch (panel.type) {
    case PanelType::kTimeSeries:
      return {{"legend", {{"displayMode", "list"}, {"placement", "bottom"}, {"showLegend", true}}},
              {"tooltip", {{"mode", "multi"}, {"sort", "desc"}}}};
    case PanelType::kStat:
      return {{"reduceOptions", {{"calcs", {"lastNotNull"}}, {"fields", ""}, {"values", false}}},
              {"colorMode", "value"},
              {"graphMode", "area"}};
    case PanelType::kHeatmap:
      return {{"calculate", false},
              {"cellGap", 1},
              {"color", {{"mode", "scheme"}, {"scheme", "Oranges"}, {"steps", 64}}},
              {"yAxis", {{"unit", "short"}}},
              {"tooltip", {{"mode", "single"}}}};
    case PanelType::kStateTimeline: return {{"mergeValues", true}, {"showValue", "never"}, {"rowHeight", 0.9}};
    case PanelType::kTable: return {{"showHeader", true}};
  }
  return Json::object();
}

Json PanelJson(const Panel& panel, int id, int x, int y) {
  Json custom = Json::object();
  if (panel.type == PanelType::kTimeSeries)
    custom = {{"lineWidth", 1}, {"fillOpacity", 5}, {"showPoints", "never"}, {"spanNulls", false}};
  if (panel.is_logarithmic) custom["scaleDistribution"] = {{"type", "log"}, {"log", 10}};
  return {{"id", id},
          {"type", NameOf(panel.type)},
          {"title", panel.title},
          {"description", panel.description},
          {"datasource", Datasource()},
          {"gridPos", {{"h", panel.height}, {"w", panel.width}, {"x", x}, {"y", y}}},
          {"fieldConfig", {{"defaults", {{"unit", panel.unit}, {"custom", custom}}}, {"overrides", Json::array()}}},
          {"options", OptionsOf(panel)},
          {"targets", TargetsOf(panel)}};
}

Json PanelsOf(const Dashboard& dashboard) {
  Json panels = Json::array();
  const auto next_id = [&] { return static_cast<int>(panels.size()) + 1; };
  int y = 0;
  for (const PanelRow& row : dashboard.rows) {
    panels.push_back({{"id", next_id()},
                      {"type", "row"},
                      {"title", row.title},
                      {"collapsed", false},
                      {"gridPos", {{"h", 1}, {"w", kGridColumns}, {"x", 0}, {"y", y}}},
                      {"panels", Json::array()}});
    ++y;
    int x = 0;
    int height = 0;  // of this line
    for (const Panel& panel : row.panels) {
      if (x + panel.width > kGridColumns) {
        y += height;
        x = height = 0;
      }
      panels.push_back(PanelJson(panel, next_id(), x, y));
      x += panel.width;
      height = std::max(height, panel.height);
    }
    y += height;
  }
  return panels;
}

Json VariablesOf(const Dashboard& dashboard) {
  Json variables = Json::array();
  variables.push_back({{"name", "datasource"},
                       {"label", "Data source"},
                       {"type", "datasource"},
                       {"query", "prometheus"},
                       {"refresh", 1},
                       {"hide", 0}});
  for (const DashboardVariable& variable : dashboard.variables)
    variables.push_back({{"name", variable.name},
                         {"label", variable.name},
                         {"type", "query"},
                         {"datasource", Datasource()},
                         {"query", {{"query", variable.query}, {"refId", "variable"}}},
                         {"definition", variable.query},
                         {"refresh", 2},
                         {"sort", 1},
                         {"includeAll", true},
                         {"allValue", ".*"},
                         {"multi", true},
                         {"current", {{"text", {"All"}}, {"value", {"$__all"}}}}});
  return variables;
}

Json MarksOf(const Dashboard& dashboard) {
  Json marks = Json::array();
  for (const DashboardMark& mark : dashboard.marks)
    marks.push_back({{"name", mark.name},
                     {"datasource", Datasource()},
                     {"enable", true},
                     {"expr", mark.expression},
                     {"iconColor", mark.colour},
                     {"titleFormat", "{{alertname}}"},
                     {"textFormat", "{{run}}"},
                     {"step", "30s"}});
  return marks;
}

Json LinksOf(const Dashboard& dashboard) {
  Json links = Json::array();
  links.push_back({{"type", "dashboards"},
                   {"title", "Stepwatch"},
                   {"tags", {"stepwatch"}},
                   {"asDropdown", false},
                   {"includeVars", true},
                   {"keepTime", true}});
  if (!dashboard.runbook.empty())
    links.push_back({{"type", "link"}, {"title", "Runbook"}, {"url", dashboard.runbook}, {"targetBlank", true}});
  return links;
}

}  // namespace

Json DashboardJson(const Dashboard& dashboard) {
  return {{"id", nullptr},
          {"uid", dashboard.uid},
          {"title", dashboard.title},
          {"tags", {"stepwatch"}},
          {"schemaVersion", kSchemaVersion},
          {"version", 1},
          {"editable", false},
          {"graphTooltip", 1},
          {"refresh", "30s"},
          {"time", {{"from", "now-3h"}, {"to", "now"}}},
          {"timezone", "browser"},
          {"links", LinksOf(dashboard)},
          {"templating", {{"list", VariablesOf(dashboard)}}},
          {"annotations", {{"list", MarksOf(dashboard)}}},
          {"panels", PanelsOf(dashboard)}};
}

}  // namespace stepwatch::operations
