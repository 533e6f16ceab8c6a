// The page of HTML of a performance report.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "controller/cli/read_json.h"
#include "controller/cli/text/performance_text.h"
#include "controller/cli/text/time_text.h"

namespace stepwatch::cli {
namespace {

constexpr double kWidth = 440, kHeight = 190, kLeft = 62, kRight = 12, kTop = 12, kBottom = 34;
constexpr size_t kPlotsMax = 40;
constexpr size_t kPointsMax = 2000;

constexpr const char* kStyle = R"(
:root{color-scheme:light dark;--ink:#1c2330;--dim:#586174;--paper:#fbfbfd;--card:#fff;--edge:#dfe3ea;--line:#1f5fbf;
--band:#1f5fbf33;--good:#2a7f4f;--bad:#b3341f;--c0:#2a7f4f;--c1:#b3341f;--c2:#c77c11;--c3:#7a4fbf;--c4:#2f7f9f;
--c5:#8a6d3b;--c6:#a33d7a;--c7:#5d6b82;--c8:#c2c8d2}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ef;--dim:#9aa5b8;--paper:#12161d;--card:#1a2029;--edge:#2c3542;
--line:#7fb0ff;--band:#7fb0ff33;--good:#62c48c;--bad:#ff8a73;--c0:#4fae79;--c1:#e0684f;--c2:#e0a040;--c3:#a98be6;
--c4:#5fb3d0;--c5:#c0a068;--c6:#d77bb0;--c7:#8f9db5;--c8:#3c4656}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1360px;margin:0 auto;padding:24px}h1{font-size:22px;margin:0;overflow-wrap:anywhere}
h2{font-size:16px;margin:0 0 8px}.dim{color:var(--dim)}p{margin:4px 0}
.grid{display:grid;gap:16px;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));margin-top:16px}
.card,.tile{background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:16px;min-width:0}
.tiles{display:grid;gap:12px;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));margin-top:16px}
.tile b{display:block;font-size:24px;line-height:1.25;font-variant-numeric:tabular-nums}.tile span{color:var(--dim)}
.columns{columns:3 380px;column-gap:16px;margin-top:16px}.columns .card{break-inside:avoid;margin-bottom:16px}
.wide{grid-column:1/-1}.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%}
td,th{text-align:left;padding:4px 12px 4px 0;border-bottom:1px solid var(--edge);vertical-align:top;
font-variant-numeric:tabular-nums}th{font-weight:600;color:var(--dim)}tr:last-child td,tr:last-child th{border-bottom:0}
ul{margin:0;padding-left:20px}li::marker{color:var(--bad)}svg{display:block;width:100%;height:auto}
svg text{fill:var(--dim);font:12px system-ui,sans-serif}.axis{stroke:var(--edge);stroke-width:1}
.line{fill:none;stroke:var(--line);stroke-width:1.8;stroke-linejoin:round}.band{fill:var(--band)}.dot{fill:var(--line)}
.key{display:flex;flex-wrap:wrap;gap:4px 16px;margin-top:8px}.key i{display:inline-block;width:12px;height:12px;
border-radius:3px;margin-right:6px;vertical-align:-1px}
@media print{.card,.tile{break-inside:avoid}}
)";

std::string HtmlText(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&')
      safe += "&amp;";
    else if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (c == '"')
      safe += "&quot;";
    else if (c == '\'')
      safe += "&#39;";
    else
      safe += c;
  }
  return safe;
}

// Steps of 1, 2 or 5 times a power of ten.
double TickStep(double span, int ticks) {
  const double raw = span / ticks, power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (raw <= factor * power) return factor * power;
  return 10 * power;
}

std::string AxisText(double value, const std::string& unit) {
  constexpr std::pair<double, const char*> kPrefixes[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e4, "k"}};
  if (value == 0) return "0" + (unit.empty() ? "" : " " + unit);
  for (const auto& [factor, prefix] : kPrefixes)
    if (std::abs(value) >= factor) {
      const double shown = prefix[0] == 'k' ? value / 1000 : value / factor;
      return fmt::format("{:.4g}{}{}{}", shown, unit.empty() ? "" : " ", prefix, unit);
    }
  return fmt::format("{:.4g}{}{}", value, unit.empty() ? "" : " ", unit);
}

struct PlotData {
  std::string name, unit;
  bool is_time = false;
  std::vector<std::array<double, 4>> points;
};

PlotData DataOf(const Json& plot) {
  PlotData data{Text(plot, "name"), Text(plot, "unit"), Text(plot, "x") == "time", {}};
  for (const Json& each : List(plot, "points")) {
    if (!each.is_array() || each.size() != 4 || data.points.size() == kPointsMax) continue;
    std::array<double, 4> point{};
    bool is_finite = true;
    for (size_t i = 0; i < 4; ++i) {
      point[i] = each[i].is_number() ? each[i].get<double>() : std::numeric_limits<double>::quiet_NaN();
      is_finite = is_finite && std::abs(point[i]) < 1e200;
    }
    if (is_finite) data.points.push_back(point);
  }
  return data;
}

std::string TitleOf(const std::string& name) {
  constexpr std::pair<const char*, const char*> kTitles[] = {{"time.step", "Furthest step"},
                                                             {"time.step_seconds", "Step time"},
                                                             {"loss", "Training loss"},
                                                             {"grad_norm", "Gradient norm"},
                                                             {"lr", "Learning rate"},
                                                             {"time.gpu_utilization", "GPU utilisation"},
                                                             {"time.host_memory", "Host memory, share of the limit"},
                                                             {"cuda_reserved_bytes", "Device memory, reserved"},
                                                             {"cuda_allocated_bytes", "Device memory, allocated"}};
  for (const auto& [known, title] : kTitles)
    if (name == known) return title;
  if (name.starts_with("eval.")) return "Evaluation: " + name.substr(5);
  return name;
}

// Round steps, or a few moments.
std::vector<double> XTicks(double first, double last, bool is_time) {
  std::vector<double> ticks;
  constexpr int kMoments = 3;
  if (is_time)
    for (int i = 0; i <= kMoments; ++i) ticks.push_back(first + (last - first) * i / kMoments);
  const double step = std::max(1.0, TickStep(last - first, 4));
  for (int i = 0; !is_time && i < 12; ++i)
    if (const double tick = (std::ceil(first / step) + i) * step; tick <= last) ticks.push_back(tick);
  return ticks;
}

std::string TimeTickText(double t, double span) {
  constexpr double kDaysShown = 2 * 86400, kSecondsShown = 3600;
  constexpr size_t kYear = 5, kDate = 11;  // bytes left out
  const std::string text = LocalTimeText(t, span < kSecondsShown ? TimeDigits::kSecond : TimeDigits::kMinute);
  return text.substr(std::min(text.size(), span > kDaysShown ? kYear : kDate));
}

// A line of the means in a band from minimum to maximum.
std::string SvgOf(const PlotData& data) {
  double x0 = std::numeric_limits<double>::infinity(), x1 = -x0, y0 = x0, y1 = -x0;
  for (const auto& point : data.points) {
    x0 = std::min(x0, point[0]);
    x1 = std::max(x1, point[0]);
    y0 = std::min(y0, point[1]);
    y1 = std::max(y1, point[3]);
  }
  if (!(x1 > x0)) x1 = x0 + 1;
  if (y0 >= 0 && y0 < 0.3 * y1) y0 = 0;
  if (!(y1 - y0 > 1e-9 * std::max(std::abs(y0), std::abs(y1)))) {
    const double room = y1 == 0 ? 1 : 0.1 * std::abs(y1);
    y0 -= room;
    y1 += room;
  }
  const double y_step = TickStep(y1 - y0, 4);
  y0 = std::floor(y0 / y_step + 1e-9) * y_step;
  y1 = std::ceil(y1 / y_step - 1e-9) * y_step;
  const auto x = [&](double v) { return kLeft + (v - x0) / (x1 - x0) * (kWidth - kLeft - kRight); };
  const auto y = [&](double v) { return kHeight - kBottom - (v - y0) / (y1 - y0) * (kHeight - kTop - kBottom); };
  const std::string title = TitleOf(data.name);
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}: {} points, from {:.5g} to {:.5g}, last {:.5g}\">",
      kWidth, kHeight, HtmlText(title), data.points.size(), data.points.front()[2], data.points.back()[2],
      data.points.back()[2]);
  for (int i = 0; i < 12 && y0 + i * y_step <= y1 + 1e-6 * y_step; ++i) {
    const double value = std::abs(y0 + i * y_step) < 1e-9 * y_step ? 0 : y0 + i * y_step;
    svg += fmt::format(
        "<line class=\"axis\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>",
        kLeft, kWidth - kRight, y(value), kLeft - 8, y(value) + 4, HtmlText(AxisText(value, data.unit)));
  }
  for (const double value : XTicks(x0, x1, data.is_time)) {
    const double share = (value - x0) / (x1 - x0);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"{}\">{}</text>", x(value), kHeight - 12,
                       share < 0.05   ? "start"
                       : share > 0.95 ? "end"
                                      : "middle",
                       HtmlText(data.is_time ? TimeTickText(value, x1 - x0) : AxisText(value, "")));
  }
  std::string upper, lower, line;
  for (const auto& point : data.points) {
    upper += fmt::format("{:.1f},{:.1f} ", x(point[0]), y(point[3]));
    lower = fmt::format("{:.1f},{:.1f} ", x(point[0]), y(point[1])) + lower;
    line += fmt::format("{:.1f},{:.1f} ", x(point[0]), y(point[2]));
  }
  svg += "<polygon class=\"band\" points=\"" + upper + lower + "\"/>";
  svg += "<polyline class=\"line\" points=\"" + line + "\"/>";
  if (data.points.size() <= 40)
    for (const auto& point : data.points)
      svg += fmt::format("<circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\"/>", x(point[0]), y(point[2]));
  return svg + "</svg>";
}

std::string PlotCard(const Json& plot) {
  const PlotData data = DataOf(plot);
  if (data.points.empty()) return "";
  return fmt::format(
      "<figure class=\"card\" style=\"margin:0\"><h2>{}</h2>{}<figcaption class=\"dim\">by {}; the band is "
      "from minimum to maximum</figcaption></figure>",
      HtmlText(TitleOf(data.name)), SvgOf(data), data.is_time ? "time" : "step");
}

std::string TableHtml(const std::vector<const char*>& heading, const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<div class=\"scroll\"><table><thead><tr>";
  for (const char* each : heading) html += fmt::format("<th scope=\"col\">{}</th>", each);
  html += "</tr></thead><tbody>";
  for (const auto& row : rows) {
    html += "<tr>";
    for (const std::string& cell : row) html += "<td>" + HtmlText(cell) + "</td>";
    html += "</tr>";
  }
  return html + "</tbody></table></div>";
}

std::string SectionCard(const PerformanceSection& section) {
  std::string html =
      "<section class=\"card\"><h2>" + HtmlText(section.title) + "</h2><div class=\"scroll\"><table><tbody>";
  for (const PerformanceRow& row : section.rows)
    html += "<tr><th scope=\"row\">" + HtmlText(row.name) + "</th><td>" + HtmlText(row.value) + "</td></tr>";
  return html + "</tbody></table></div></section>";
}

struct TimeShare {
  std::string name;
  double share = 0;
  int colour = 0;
};

// The use of the time as one bar.
std::string TimeBar(const Json& report) {
  const double seconds = Number(report, "seconds");
  if (!(seconds > 0)) return "";
  std::vector<TimeShare> shares{{"steps that counted", Number(report, "counted_seconds") / seconds, 0}};
  int colour = 1;
  for (const auto& [cause, lost] : Part(report, "lost_seconds").items())
    if (lost.is_number() && lost.get<double>() > 0 && shares.size() < 20)
      shares.push_back(
          {json::PrintableText(Json{{"c", cause}}, "c"), lost.get<double>() / seconds, 1 + (colour++ - 1) % 7});
  shares.push_back({"not known", Number(report, "other_seconds") / seconds, 8});
  std::string bar, key;
  double x = 0;
  for (const TimeShare& each : shares) {
    const double width = std::clamp(each.share, 0.0, 1.0) * 1000;
    if (!(width > 0)) continue;
    bar += fmt::format("<rect x=\"{:.2f}\" y=\"0\" width=\"{:.2f}\" height=\"26\" style=\"fill:var(--c{})\"/>", x,
                       std::min(width, 1000 - x), each.colour);
    x = std::min(1000.0, x + width);
    key += fmt::format("<span><i style=\"background:var(--c{})\"></i>{} {:.1f} %</span>", each.colour,
                       HtmlText(each.name), 100 * each.share);
  }
  return "<section class=\"card wide\"><h2>Use of the time</h2><svg viewBox=\"0 0 1000 26\" "
         "preserveAspectRatio=\"none\" "
         "style=\"height:26px;border-radius:6px\" aria-hidden=\"true\">" +
         bar + "</svg><div class=\"key\">" + key + "</div></section>";
}

std::string Tiles(const std::vector<PerformanceSection>& sections) {
  std::string html = "<div class=\"tiles\">";
  for (const char* name : {"goodput", "MFU", "tokens/s", "samples/s", "steps that counted", "GPU utilisation"})
    for (const PerformanceSection& section : sections)
      for (const PerformanceRow& row : section.rows)
        if (row.name == name)
          html += "<div class=\"tile\"><b>" + HtmlText(row.value.substr(0, row.value.find(','))) + "</b><span>" + name +
                  "</span></div>";
  return html + "</div>";
}

}  // namespace

std::string PerformancePage(const Json& report) {
  const std::vector<PerformanceSection> sections = PerformanceSections(report);
  const std::string run = HtmlText(Text(report, "run"));
  std::string html =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\"><meta http-equiv=\"Content-Security-Policy\" "
      "content=\"default-src 'none'; style-src 'unsafe-inline'\"><title>Performance of " +
      run + "</title><style>" + kStyle + "</style></head><body><main><h1>Performance of " + run + "</h1>";
  html += fmt::format("<p class=\"dim\">{} to {} (local time), {}</p>", LocalTimeText(Number(report, "from_t")),
                      LocalTimeText(Number(report, "until_t")), DurationText(Number(report, "seconds")));
  html += Tiles(sections) + "<div class=\"grid\">" + TimeBar(report);
  if (const std::vector<std::string> findings = Texts(report, "findings"); !findings.empty()) {
    html += "<section class=\"card wide\"><h2>Findings</h2><ul>";
    for (const std::string& each : findings) html += "<li>" + HtmlText(each) + "</li>";
    html += "</ul></section>";
  }
  size_t plots = 0;
  for (const Json& plot : List(report, "plots"))
    if (plots++ < kPlotsMax) html += PlotCard(plot);
  html += "</div><div class=\"columns\">";
  for (const PerformanceSection& section : sections) html += SectionCard(section);
  if (const auto rows = EvaluationRows(report); !rows.empty())
    html += "<section class=\"card\"><h2>Evaluations</h2>" +
            TableHtml({"Name", "Last", "Step", "Best", "Step", "Verdict"}, rows) + "</section>";
  html += "</div>";
  if (const auto rows = InterruptionRows(report); !rows.empty())
    html += "<section class=\"card\" style=\"margin-top:16px\"><h2>Interruptions</h2>" +
            TableHtml({"From", "For", "Cause", "Incident"}, rows) + "</section>";
  return html + "</main></body></html>\n";
}

}  // namespace stepwatch::cli
