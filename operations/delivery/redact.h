// Removes secrets from texts that others wrote, such as errors and replies.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stepwatch::operations::delivery {

// The parts of an address that may be secret: all behind the host, and each long part of it.
std::vector<std::string> SecretPartsOf(std::string_view url);
// The text with "***" for each occurrence of a secret, the longest first. Secrets of less than three bytes stay.
std::string Redacted(std::string text, const std::vector<std::string>& secrets);

}  // namespace stepwatch::operations::delivery
