// Receivers of records as pure functions: lines of the spool in, a request out; its reply in, an outcome out.
//
// A line of the spool is one record: its id (empty: none), a tab, and its JSON on one line. JSON has no raw tab.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operations/delivery/receiver.h"
#include "operations/logs/outputs/output_settings.h"

namespace stepwatch::operations::outputs {

struct EntryView {
  std::string_view id;
  std::string_view json;
};
// The entries of whole lines; a line without a tab, or without its end, is left out.
std::vector<EntryView> EntriesOf(std::string_view lines);
std::string LineOf(std::string_view id, std::string_view json);

enum class Step : uint8_t {
  kGoOn,      // with `again`, if there is any
  kAgain,     // all of it, after a pause
  kSendLess,  // all of it, in smaller requests; one record that fails alone is rejected
};
struct Outcome {
  Step step = Step::kGoOn;
  std::string again;       // lines that the receiver is too busy for
  int64_t accepted = 0;    // records
  int64_t duplicates = 0;  // it has them already
  int64_t rejected = 0;    // it will never accept them
  std::string reason;      // of a fault or a rejection; one printable line
  std::optional<double> retry_after;
};

// The outcome by status alone, for all but 200. `refuses_for_good`: a 400 concerns records, not the settings.
Outcome JudgeStatus(const delivery::Reply& reply, bool refuses_for_good);

// Elasticsearch's _bulk with op_type create: a record with the id of an earlier one is a duplicate.
delivery::Outgoing MakeBulk(const OutputSettings& settings, std::string_view lines);
Outcome JudgeBulk(const delivery::Reply& reply, std::string_view lines);

// OTLP/HTTP with JSON: Loki 3, collectors.
delivery::Outgoing MakeOtlpLogs(const OutputSettings& settings, std::string_view lines);
Outcome JudgeOtlpLogs(const delivery::Reply& reply, std::string_view lines);

}  // namespace stepwatch::operations::outputs
