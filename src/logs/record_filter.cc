#include "src/logs/record_filter.h"

#include <re2/re2.h>

#include <utility>

#include "src/base/text.h"
#include "src/logs/write_record.h"

namespace stepwatch::logs {
namespace {

constexpr int64_t kPatternMemoryMax = int64_t{512} << 10;  // also bounds the time that a byte of text costs

bool Matches(const re2::RE2& pattern, const std::string& text) {
  return re2::RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), pattern);
}

}  // namespace

Result<RecordFilter> RecordFilter::Make(const Options& options_untrusted) {
  RecordFilter filter(options_untrusted);
  const std::string& text = options_untrusted.pattern;
  if (text.empty()) return filter;
  if (text.size() > kPatternBytesMax)
    return Status(StatusCode::kInvalid, "the pattern has " + std::to_string(text.size()) + " bytes; at most " +
                                            std::to_string(kPatternBytesMax) + " are accepted");
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kPatternMemoryMax);
  auto pattern = std::make_shared<re2::RE2>(re2::StringPiece(text.data(), text.size()), options);
  if (!pattern->ok())
    return Status(StatusCode::kInvalid, "\"" + base::Printable(text) + "\" is not a regular expression of RE2: " +
                                            base::Printable(pattern->error(), 200));
  filter.pattern_ = std::move(pattern);
  return filter;
}

bool RecordFilter::Selects(const Record& record) const {
  if (options_.since_t && TimeOf(record) < *options_.since_t) return false;
  if (options_.rank && record.rank != options_.rank && (record.rank || record.local_rank != options_.rank))
    return false;
  if (options_.level_min != Level::kUnset && EffectiveLevel(record) < options_.level_min) return false;
  if (pattern_ == nullptr) return true;
  return Matches(*pattern_, record.message) || (record.exception && Matches(*pattern_, record.exception->stack));
}

bool RecordFilter::selects_all() const {
  return !options_.rank && !options_.since_t && options_.level_min == Level::kUnset && pattern_ == nullptr;
}

}  // namespace stepwatch::logs
