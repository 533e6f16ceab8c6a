#include "controller/cli/manual.h"

#include <algorithm>
#include <cctype>
#include <sstream>

namespace stepwatch::cli {
namespace {

std::string Upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

// As text of troff: nothing in it is a request, an escape or a typographic dash.
std::string Escaped(const std::string& text) {
  std::string escaped;
  bool begins_line = true;
  for (const char c : text) {
    if (begins_line && (c == '.' || c == '\'')) escaped += "\\&";
    if (c == '\\')
      escaped += "\\e";
    else if (c == '-')
      escaped += "\\-";
    else if (c == '\'')
      escaped += "\\(aq";
    else if (c == '`')
      escaped += "\\(ga";
    else if (c == '^')
      escaped += "\\(ha";
    else if (c == '~')
      escaped += "\\(ti";
    else
      escaped += c;
    begins_line = c == '\n';
  }
  return escaped;
}

std::string Bold(const std::string& text) {
  return "\\fB" + Escaped(text) + "\\fR";
}
std::string Italic(const std::string& text) {
  return "\\fI" + Escaped(text) + "\\fR";
}

std::string ManualHeader(const std::string& name, const std::string& what, const std::string& version) {
  return ".TH \"" + Escaped(Upper(name)) + "\" 1 \"\" \"stepwatch " + Escaped(version) +
         "\" \"Stepwatch\"\n.nh\n.ad l\n.SH NAME\n" + Escaped(name) + " \\- " + Escaped(what) + "\n";
}

std::string ValueName(const OptionWords& option) {
  using Value = OptionWords::Value;
  switch (option.value) {
    case Value::kNone: return "";
    case Value::kNumber: return "NUMBER";
    case Value::kFile: return "PATH";
    case Value::kJob: return "JOB";
    case Value::kAny:
    case Value::kChoice: break;
  }
  return "TEXT";
}

std::string OptionEntry(const OptionWords& option, bool is_argument) {
  std::string names;
  for (const std::string& name : option.names)
    names += (names.empty() ? "" : ", ") + (is_argument ? Italic(name) : Bold(name));
  if (const std::string value = ValueName(option); !is_argument && !value.empty()) names += " " + Italic(value);
  std::string text = ".TP\n" + names + "\n" + Escaped(option.what) + "\n";
  std::string notes;
  for (const std::string& choice : option.choices) notes += (notes.empty() ? "One of " : ", ") + choice;
  if (!option.fallback.empty()) notes += (notes.empty() ? "Default: " : "; default: ") + option.fallback;
  if (!notes.empty()) text += ".br\n" + Escaped(notes) + ".\n";
  return text;
}

std::string OptionsSection(const std::vector<OptionWords>& arguments, const std::vector<OptionWords>& options) {
  std::string text;
  for (const OptionWords& argument : arguments) text += OptionEntry(argument, true);
  for (const OptionWords& option : options) text += OptionEntry(option, false);
  return text.empty() ? text : ".SH OPTIONS\n" + text;
}

// The lines as they stand: examples, keys and exit codes.
std::string NotesSection(const std::string& footer) {
  if (footer.empty()) return footer;
  std::istringstream lines(footer);
  std::string text = ".SH NOTES\n.nf\n";
  for (std::string line; std::getline(lines, line);) text += line.empty() ? ".sp\n" : Escaped(line) + "\n";
  return text + ".fi\n";
}

}  // namespace

std::string ManualOfApp(const AppWords& app, const std::string& version) {
  std::string text = ManualHeader(app.name, app.what, version) + ".SH SYNOPSIS\n" + Bold(app.name) + " " +
                     Italic("VERB") + " [" + Italic("OPTIONS") + "]\n.SH VERBS\n";
  for (const VerbWords& verb : app.verbs)
    text += ".TP\n" + Bold(verb.name) + "\n" + Escaped(verb.what) + ".\n.br\nSee " + Bold(app.name + "-" + verb.name) +
            "(1).\n";
  return text + OptionsSection({}, app.options) + NotesSection(app.footer);
}

std::string ManualOfVerb(const AppWords& app, const VerbWords& verb, const std::string& version) {
  std::string text = ManualHeader(app.name + "-" + verb.name, verb.what, version) + ".SH SYNOPSIS\n" +
                     Bold(app.name + " " + verb.name) + " [" + Italic("OPTIONS") + "]";
  for (const OptionWords& argument : verb.arguments)
    text += argument.is_required ? " " + Italic(argument.names.front()) : " [" + Italic(argument.names.front()) + "]";
  return text + "\n" + OptionsSection(verb.arguments, verb.options) + NotesSection(verb.footer) + ".SH SEE ALSO\n" +
         Bold(app.name) + "(1)\n";
}

}  // namespace stepwatch::cli
