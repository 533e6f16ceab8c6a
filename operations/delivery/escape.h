// Foreign text for the formats of messages: it never becomes markup, a mention or a header.
#pragma once

#include <string>
#include <string_view>

namespace stepwatch::operations::delivery {

// Printable on one line, valid UTF-8, cut to this many bytes with "…".
std::string Plain(std::string_view untrusted, size_t bytes_max);

// For Slack's mrkdwn: escapes & < >.
std::string SlackText(std::string_view text);
// For Feishu's lark_md: each character of markup becomes an entity.
std::string FeishuText(std::string_view text);
// For the markdown of DingTalk and WeCom, which have no reliable escapes: brackets, angle brackets, asterisks and
// backticks become their full-width forms.
std::string FullWidthText(std::string_view text);
// All bytes but letters, digits and -._~ as %XX.
std::string PercentEncoded(std::string_view text);
// The body of a mail header as RFC 2047 words, folded; plain ASCII stays.
std::string HeaderText(std::string_view text);

// True for an http or https address with a host and without a user, space, quote, or bracket that markup may use.
bool IsWebAddress(std::string_view url);
// True for NAME@HOST of printable ASCII without separators of headers and commands.
bool IsMailAddress(std::string_view address);

}  // namespace stepwatch::operations::delivery
