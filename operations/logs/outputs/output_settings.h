// Settings of one output of records.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/config/field.h"
#include "stepwatch/status.h"

namespace stepwatch::operations::outputs {

enum class OutputType : uint8_t { kFile, kElasticsearch, kOtlp };

struct OutputSettings {
  std::string name;  // of its spool and its metrics
  OutputType type = OutputType::kFile;
  std::string url;           // elasticsearch, otlp: http://HOST:PORT or https://HOST:PORT, with a path perhaps
  std::string index;         // elasticsearch: an index, or a data stream
  std::string api_key_file;  // elasticsearch: one line, the encoded API key
  std::string headers_file;  // lines "Name: value"
  std::string ca_file;       // certificates to trust instead of those of the system
  int64_t spool_mib = 256;   // elasticsearch, otlp: beyond it the oldest records are dropped
  std::string path;          // file: an absolute path
  int64_t file_mib = 100;    // file: it is rotated before it exceeds this
  int64_t files = 5;         // file: with the rotated ones

  bool operator==(const OutputSettings&) const = default;
};

inline constexpr size_t kOutputsMax = 16;

// The list "outputs".
Status ReadOutputs(const config::Field& field, config::Notes& notes, std::vector<OutputSettings>& out);

}  // namespace stepwatch::operations::outputs
