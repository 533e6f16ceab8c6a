// Notices for tests of their formats.
#pragma once

#include <string>

#include "operations/delivery/notice.h"

namespace stepwatch::operations::delivery {

inline Notice SpikeNotice() {
  Notice notice;
  notice.key = "llama-7b-1";
  notice.change = "llama-7b-1 opened";
  notice.severity = Severity::kCritical;
  notice.kind = "loss_nonfinite";
  notice.title = "the loss is NaN or infinite";
  notice.title_zh = "loss 为 NaN 或无穷大";
  notice.advice = "Go back to the checkpoint before that step.";
  notice.advice_zh = "回到该 step 之前的检查点。";
  notice.run = "llama-7b";
  notice.host = "node-3";
  notice.owner = "vision";
  notice.ranks = {3, 5};
  notice.step = 1200;
  notice.evidence = {{"loss", "nan"}, {"loss_scale", "0.5"}};
  notice.opened_t = notice.t = 1'790'000'000;
  notice.link = "https://watch.example.org/incidents/llama-7b-1";
  return notice;
}

// Every text holds the marks of all formats, line ends and a secret-looking word.
inline Notice HostileNotice() {
  const std::string marks = "a\r\nBcc: x@y <!channel> <at id=all></at> [l](http://e) `c` *b* & \"q\" \\ @all \x1b[31m";
  Notice notice = SpikeNotice();
  notice.kind = notice.title = notice.title_zh = notice.advice = notice.advice_zh = marks;
  notice.run = notice.host = notice.owner = notice.by = marks;
  notice.evidence = {{marks, marks}};
  notice.labels = {{marks, marks}, {"9-b", "value"}};
  notice.link = "javascript:alert(1)";
  notice.acknowledge_link = "https://x/)<b>";
  return notice;
}

// As long as each member may be.
inline Notice LongNotice() {
  Notice notice = SpikeNotice();
  std::string text;
  while (text.size() + 3 <= Notice::kTextBytesMax) text += "损";
  notice.title = notice.title_zh = notice.advice = notice.advice_zh = text;
  notice.run = notice.host = notice.owner = notice.by = text.substr(0, 198);
  notice.evidence.assign(Notice::kEvidenceMax, {text.substr(0, 198), text});
  notice.ranks.assign(Notice::kRanksMax + 1, 123456);
  notice.link = notice.acknowledge_link = notice.silence_link =
      "https://watch.example.org/" + std::string(Notice::kLinkBytesMax - 40, 'a');
  return notice;
}

}  // namespace stepwatch::operations::delivery
