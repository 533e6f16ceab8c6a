// Patterns over the names of modules and parameters, in "stepwatch": {"sites": ...}.
//
// A glob is matched part by part, a part being the text between two dots: `*` is any text in a part, `?` one character,
// `[abc]`, `[a-z]` and `[!abc]` one character inside or outside of a set, and a part `**` is any number of parts,
// including zero. The text after "re:" is a regular expression of RE2. "1:" before either restricts it to chunk 1. Both
// match whole names: a module by its own, a parameter by its own or that of a module around it.
//
// Matching takes time linear in the name, and bounded memory, for any pattern.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace re2 {
class RE2;
}

namespace stepwatch::config {

inline constexpr size_t kPatternBytesMax = 1000;

// The reason that a pattern is rejected.
struct PatternFault {
  bool too_large = false;  // otherwise it is malformed
  std::string what;        // ends a sentence
  size_t at = 0;           // the byte in the text
};

class NamePattern {
 public:
  // nullopt: `fault` holds the reason.
  static std::optional<NamePattern> Compile(std::string_view text_untrusted, PatternFault* fault);
  NamePattern(NamePattern&&) noexcept;
  NamePattern& operator=(NamePattern&&) noexcept;
  ~NamePattern();

  bool MatchesModule(int chunk, std::string_view name) const;
  bool MatchesParameter(int chunk, std::string_view name) const;

 private:
  NamePattern(int chunk, std::unique_ptr<const re2::RE2> whole_name);

  int chunk_;  // -1: all
  std::unique_ptr<const re2::RE2> whole_name_;
};

// The regular expression of a glob. nullopt: `fault` holds the reason.
std::optional<std::string> RegexOfGlob(std::string_view glob_untrusted, PatternFault* fault);

}  // namespace stepwatch::config
