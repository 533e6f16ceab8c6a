#include "operations/provision/render.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace stepwatch::operations {
namespace {

bool IsNameByte(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '_';
}

std::vector<std::string_view> LinesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1);
    lines.push_back(text.substr(0, end + 1));
    text.remove_prefix(end + 1);
  }
  return lines;
}

struct Directive {
  std::string_view verb;
  std::string_view name;
};

std::optional<Directive> DirectiveOf(std::string_view line) {
  if (line.empty() || line.front() != '%') return std::nullopt;
  line.remove_prefix(1);
  if (line.ends_with('\n')) line.remove_suffix(1);
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return Directive{line, {}};
  return Directive{line.substr(0, space), line.substr(space + 1)};
}

// Renders one template: recursive descent over its lines.
class Renderer {
 public:
  Renderer(std::string_view text, const TemplateValues& values) : lines_(LinesOf(text)), values_(values) {}

  Result<std::string> All() {
    const Directive end = Block(true);
    if (status_.ok() && !end.verb.empty()) Fail(fmt::format("%{} without a beginning", end.verb));
    if (!status_.ok()) return status_;
    return std::move(out_);
  }

 private:
  // Renders lines up to a directive that closes the block, and returns that; empty at the end of the text.
  Directive Block(bool is_kept) {
    while (status_.ok() && at_ < lines_.size()) {
      const std::string_view line = lines_[at_++];
      const std::optional<Directive> directive = DirectiveOf(line);
      if (!directive)
        Line(line, is_kept);
      else if (directive->verb == "if" || directive->verb == "unless")
        Choice(*directive, is_kept);
      else if (directive->verb == "each")
        Loop(directive->name, is_kept);
      else if (directive->verb == "else" || directive->verb == "end")
        return *directive;
      else
        Fail(fmt::format("unknown directive %{}", directive->verb));
    }
    return {};
  }

  void Choice(const Directive& directive, bool is_kept) {
    const auto flag = values_.flags.find(directive.name);
    if (flag == values_.flags.end()) return Fail(fmt::format("unknown flag {}", directive.name));
    const bool is_true = flag->second == (directive.verb == "if");
    Directive end = Block(is_kept && is_true);
    if (end.verb == "else") end = Block(is_kept && !is_true);
    Close(end);
  }

  void Loop(std::string_view name, bool is_kept) {
    const auto list = values_.lists.find(name);
    if (list == values_.lists.end()) return Fail(fmt::format("unknown list {}", name));
    const size_t begin = at_;
    const TemplateTexts* outer = item_;
    for (const TemplateTexts& item : list->second) {
      at_ = begin;
      item_ = &item;
      Close(Block(is_kept));
      if (!status_.ok()) return;
    }
    item_ = outer;
    if (list->second.empty()) Close(Block(false));
  }

  void Close(const Directive& end) {
    if (status_.ok() && end.verb != "end") Fail("%end is missing");
  }

  void Line(std::string_view line, bool is_kept) {
    while (!line.empty()) {
      const size_t begin = line.find('@');
      const size_t end = begin == std::string_view::npos ? begin : line.find('@', begin + 1);
      std::string_view name;
      if (end != std::string_view::npos) name = line.substr(begin + 1, end - begin - 1);
      const bool is_name = !name.empty() && std::all_of(name.begin(), name.end(), IsNameByte);
      if (is_kept) out_ += line.substr(0, is_name ? begin : line.size());
      if (!is_name) return;
      if (is_kept) Text(name);
      line.remove_prefix(end + 1);
    }
  }

  void Text(std::string_view name) {
    if (item_ != nullptr) {
      const auto found = item_->find(name);
      if (found != item_->end()) {
        out_ += found->second;
        return;
      }
    }
    const auto found = values_.texts.find(name);
    if (found == values_.texts.end()) return Fail(fmt::format("unknown text {}", name));
    out_ += found->second;
  }

  void Fail(const std::string& message) {
    if (status_.ok()) status_ = Status(StatusCode::kInternal, fmt::format("line {}: {}", at_, message));
  }

  std::vector<std::string_view> lines_;
  const TemplateValues& values_;
  size_t at_ = 0;
  const TemplateTexts* item_ = nullptr;  // of the innermost loop
  std::string out_;
  Status status_;
};

}  // namespace

Result<std::string> Render(std::string_view text, const TemplateValues& values) {
  return Renderer(text, values).All();
}

}  // namespace stepwatch::operations
