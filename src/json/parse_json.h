// Parses untrusted JSON into a value of the JSON library.
//
// The library's parser has no limit, and its copies, comparisons and texts recurse once per level: a value of 120,000
// levels ends the process that prints it. So only this file calls that parser; tools/check_layers.py enforces this.
#pragma once

#include <cstddef>
#include <functional>
#include <istream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "stepwatch/status.h"

namespace stepwatch::bounded {

inline constexpr int kJsonDepthMax = 32;
inline constexpr size_t kJsonBytesMax = size_t{256} << 20;

// `Json` is nlohmann::json or nlohmann::ordered_json. kExhausted: more than kJsonDepthMax levels or kJsonBytesMax
// bytes; kInvalid: not JSON. If a key occurs twice in an object, the last value wins.
template <class Json>
Result<Json> ParseJson(std::string_view text_untrusted);

// Parses a stream incrementally: memory grows only with the parts that `keep` selects. `keep` is the library's
// callback.
template <class Json>
Result<Json> ParseJson(std::istream& stream_untrusted, const typename Json::parser_callback_t& keep);

extern template Result<nlohmann::json> ParseJson(std::string_view);
extern template Result<nlohmann::ordered_json> ParseJson(std::string_view);
extern template Result<nlohmann::ordered_json> ParseJson(std::istream&,
                                                         const nlohmann::ordered_json::parser_callback_t&);

}  // namespace stepwatch::bounded
