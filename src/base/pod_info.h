// Values from a file of Kubernetes' downward API: the labels or the annotations of a pod, a line KEY="VALUE" each.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace stepwatch::base {

inline constexpr size_t kPodInfoBytesMax = size_t{1} << 20;

// The value of `key`; empty: the key is missing, or its value has a byte that the file escapes, as no label has.
std::string PodValue(std::string_view text_untrusted, std::string_view key);

}  // namespace stepwatch::base
