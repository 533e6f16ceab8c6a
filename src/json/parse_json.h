// JSON that somebody else may have written, as a value of the JSON library.
//
// The library's parser has no limit, and its copies, comparisons and texts call themselves once for each level: a value
// of 120,000 levels ends the process that prints it. So nobody else calls that parser; tools/check_layers.py sees to
// it.
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
// bytes; kInvalid: no JSON. Of a key that stands twice in an object the last value stays.
template <class Json>
Result<Json> ParseJson(std::string_view text_untrusted);

// Likewise of a stream, in pieces: of a text of any size only what `keep` wants is kept. `keep` is the library's
// callback.
template <class Json>
Result<Json> ParseJson(std::istream& stream_untrusted, const typename Json::parser_callback_t& keep);

extern template Result<nlohmann::json> ParseJson(std::string_view);
extern template Result<nlohmann::ordered_json> ParseJson(std::string_view);
extern template Result<nlohmann::json> ParseJson(std::istream&, const nlohmann::json::parser_callback_t&);
extern template Result<nlohmann::ordered_json> ParseJson(std::istream&,
                                                         const nlohmann::ordered_json::parser_callback_t&);

}  // namespace stepwatch::bounded
