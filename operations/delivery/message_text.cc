#include "operations/delivery/message_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

#include "operations/delivery/escape.h"
#include "src/base/text.h"
#include "src/base/time_text.h"

namespace stepwatch::operations::delivery {
namespace {

struct Words {
  std::array<std::string_view, 3> severities;  // of opened incidents
  std::string_view acknowledged, resolved;
  std::string_view run, rank, step, host, owner, time, open_for, by;
  std::string_view advice, show, acknowledge, silence;
  std::string_view repeated, shortened, between, more_ranks;
  std::string_view changes, opened_count, acknowledged_count, resolved_count, more;
  std::string_view hours, minutes, seconds;
};

constexpr Words kEnglish = {
    .severities = {"info", "warning", "critical"},
    .acknowledged = "acknowledged",
    .resolved = "resolved",
    .run = "Run",
    .rank = "Rank",
    .step = "Step",
    .host = "Host",
    .owner = "Owner",
    .time = "Time",
    .open_for = "Open for",
    .by = "By",
    .advice = "Look first",
    .show = "Show incident",
    .acknowledge = "Acknowledge",
    .silence = "Silence",
    .repeated = "Repeated: this message was perhaps sent before a restart of stepwatchd.",
    .shortened = "Shortened: the whole text exceeds the limit of this receiver.",
    .between = ": ",
    .more_ranks = " and more",
    .changes = "{} changes of incidents",
    .opened_count = "{} opened",
    .acknowledged_count = "{} acknowledged",
    .resolved_count = "{} resolved",
    .more = "{} more, the first: {}",
    .hours = "{} h {} min",
    .minutes = "{} min",
    .seconds = "{} s",
};

constexpr Words kChinese = {
    .severities = {"提示", "警告", "严重"},
    .acknowledged = "已确认",
    .resolved = "已恢复",
    .run = "训练",
    .rank = "Rank",
    .step = "Step",
    .host = "主机",
    .owner = "负责人",
    .time = "时间",
    .open_for = "持续",
    .by = "确认人",
    .advice = "先看",
    .show = "查看事件",
    .acknowledge = "确认",
    .silence = "静默",
    .repeated = "重复：stepwatchd 重启前可能已发送过这条消息。",
    .shortened = "已截断：全文超出此接收端的长度限制。",
    .between = "：",
    .more_ranks = " 等",
    .changes = "{} 个事件变化",
    .opened_count = "{} 个新增",
    .acknowledged_count = "{} 个已确认",
    .resolved_count = "{} 个已恢复",
    .more = "另有 {} 个，第一个：{}",
    .hours = "{} 小时 {} 分钟",
    .minutes = "{} 分钟",
    .seconds = "{} 秒",
};

const Words& WordsOf(std::string_view language) {
  return language == "zh" ? kChinese : kEnglish;
}

std::string Filled(std::string_view format, auto&&... values) {
  return fmt::format(fmt::runtime(fmt::string_view(format.data(), format.size())), values...);
}

// Seconds from 0 to the end of the year 9999.
double DateOf(double t) {
  return std::isnan(t) ? 0 : std::clamp(t, 0.0, 253402300799.0);
}

std::string DurationText(double seconds, const Words& words) {
  const auto whole = static_cast<int64_t>(DateOf(seconds));
  if (whole < 120) return Filled(words.seconds, whole);
  if (whole < 7200) return Filled(words.minutes, whole / 60);
  return Filled(words.hours, whole / 3600, whole / 60 % 60);
}

std::string_view TitleOf(const Notice& notice, std::string_view language) {
  const std::string& title = language == "zh" && !notice.title_zh.empty() ? notice.title_zh : notice.title;
  return title.empty() ? std::string_view(notice.kind) : std::string_view(title);
}

std::string RanksText(const Notice& notice, const Words& words) {
  std::string text;
  for (size_t i = 0; i < notice.ranks.size() && i < Notice::kRanksMax; ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(notice.ranks[i]);
  if (notice.ranks.size() > Notice::kRanksMax) text += words.more_ranks;
  return text;
}

Colour ColourOf(const Notice& notice) {
  if (notice.state == NoticeState::kResolved) return Colour::kGreen;
  if (notice.state == NoticeState::kAcknowledged) return Colour::kGrey;
  if (notice.severity == Severity::kCritical) return Colour::kRed;
  return notice.severity == Severity::kWarning ? Colour::kOrange : Colour::kBlue;
}

void WriteFull(const Notice& notice, std::string_view language, const Fit& fit, MessageText* text) {
  const Words& words = WordsOf(language);
  const auto field = [&](std::string_view name, std::string value) {
    if (!value.empty())
      text->fields.emplace_back(name, Plain(value, std::min(fit.text_bytes_max, Notice::kNameBytesMax)));
  };
  field(words.run, notice.run);
  field(words.rank, RanksText(notice, words));
  if (notice.step) field(words.step, std::to_string(*notice.step));
  field(words.host, notice.host);
  field(words.owner, notice.owner);
  field(words.time, TimeText(notice.t));
  if (notice.state != NoticeState::kOpened && notice.opened_t > 0 && notice.t > notice.opened_t)
    field(words.open_for, DurationText(notice.t - notice.opened_t, words));
  field(words.by, notice.by);

  for (const auto& [name, value] : notice.evidence) {
    if (text->evidence.size() >= fit.evidence_max) break;
    text->evidence.emplace_back(Plain(name, 80), Plain(value, fit.text_bytes_max));
  }
  // The person on call needs no advice for a fault that is over.
  if (notice.state != NoticeState::kResolved) {
    text->advice_label = words.advice;
    text->advice =
        Plain(language == "zh" && !notice.advice_zh.empty() ? notice.advice_zh : notice.advice, fit.text_bytes_max);
  }
  const auto link = [&](std::string_view name, const std::string& address) {
    if (IsWebAddress(address) && address.size() <= fit.link_bytes_max) text->links.emplace_back(name, address);
  };
  link(words.show, notice.link);
  if (notice.state == NoticeState::kOpened) {
    link(words.acknowledge, notice.acknowledge_link);
    link(words.silence, notice.silence_link);
  }
}

void WriteDigest(std::span<const Notice> notices, size_t more, std::string_view language, const Fit& fit,
                 MessageText* text) {
  const Words& words = WordsOf(language);
  std::array<size_t, 3> counts = {};
  for (const Notice& notice : notices) ++counts[static_cast<size_t>(notice.state)];
  std::vector<std::string> parts;
  const std::array<std::string_view, 3> formats = {words.opened_count, words.acknowledged_count, words.resolved_count};
  for (size_t i = 0; i < counts.size(); ++i)
    if (counts[i] > 0) parts.push_back(Filled(formats[i], counts[i]));
  text->headline = Filled(words.changes, notices.size() + more);
  // Those that are not listed have an unknown state.
  if (more == 0) text->headline += std::string(words.between) + base::Joined(parts, ", ");

  const size_t line_bytes_max = std::min<size_t>(fit.text_bytes_max, 300);
  const size_t listed = std::min(notices.size(), fit.digest_lines_max);
  for (size_t i = 0; i < listed; ++i) {
    std::string line = HeadlineOf(notices[i], language, line_bytes_max);
    if (const std::string ranks = RanksText(notices[i], words); !ranks.empty())
      line += fmt::format(", {} {}", words.rank, ranks);
    if (notices[i].step) line += fmt::format(", {} {}", words.step, *notices[i].step);
    text->lines.push_back(std::move(line));
  }
  const size_t unlisted = notices.size() - listed + more;
  if (unlisted == 0) return;
  // Only the first one that was passed can be named.
  if (listed < notices.size())
    text->lines.push_back(Filled(words.more, unlisted, HeadlineOf(notices[listed], language, line_bytes_max)));
  else
    text->lines.push_back(Filled(language == "zh" ? "另有 {} 个" : "{} more", unlisted));
}

}  // namespace

std::string TimeText(double t, bool has_milliseconds) {
  const auto milliseconds = static_cast<int64_t>(1e3 * DateOf(t));
  if (!has_milliseconds) return base::UtcText(static_cast<std::time_t>(milliseconds / 1000));
  return base::UtcText(static_cast<std::time_t>(milliseconds / 1000), "%Y-%m-%dT%H:%M:%S") +
         fmt::format(".{:03}Z", milliseconds % 1000);
}

std::string HeadlineOf(const Notice& notice, std::string_view language, size_t bytes_max) {
  const Words& words = WordsOf(language);
  const std::string_view state = notice.state == NoticeState::kResolved ? words.resolved
                                 : notice.state == NoticeState::kAcknowledged
                                     ? words.acknowledged
                                     : words.severities[static_cast<size_t>(notice.severity)];
  std::string line = fmt::format("[{}] ", state);
  if (!notice.run.empty()) line += fmt::format("{}{}", notice.run, words.between);
  line += TitleOf(notice, language);
  return Plain(line, bytes_max);
}

MessageText TextOf(std::span<const Notice> notices, size_t more, std::string_view language, const Fit& fit) {
  const Words& words = WordsOf(language);
  MessageText text;
  if (notices.empty()) return text;
  if (notices.size() == 1 && more == 0) {
    text.headline = HeadlineOf(notices.front(), language, std::min<size_t>(fit.text_bytes_max, 500));
    WriteFull(notices.front(), language, fit, &text);
  } else {
    WriteDigest(notices, more, language, fit, &text);
  }
  text.colour = ColourOf(notices.front());
  for (const Notice& notice : notices)
    if (ColourOf(notice) != text.colour) text.colour = Colour::kOrange;
  if (std::any_of(notices.begin(), notices.end(), [](const Notice& notice) { return notice.is_repeated; }))
    text.remarks.emplace_back(words.repeated);
  if (!fit.is_first) text.remarks.emplace_back(words.shortened);
  return text;
}

std::string Fitted(size_t bytes_max, const std::function<std::string(const Fit&)>& write) {
  constexpr std::array<Fit, 6> kFits = {{
      {},
      {600, 16, 10, 1500, false},
      {300, 12, 10, 1000, false},
      {200, 8, 8, 600, false},
      {120, 4, 5, 300, false},
      {80, 0, 3, 200, false},
  }};
  std::string text;
  for (const Fit& fit : kFits) {
    text = write(fit);
    if (text.size() <= bytes_max) break;
  }
  return text;
}

}  // namespace stepwatch::operations::delivery
