// Completion scripts and manual pages, generated from the verbs and options of the command line.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/CLI.hpp>
#include <CLI/Option.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string>

#include "controller/cli/find_job.h"
#include "controller/cli/print_answer.h"
#include "controller/cli/verbs.h"
#include "src/base/file.h"
#include "src/base/print.h"
#include "src/base/text.h"
#include "stepwatch/version.h"

namespace stepwatch::cli {
namespace {

struct OptionModel {
  enum class Value : uint8_t { kNone, kAny, kNumber, kChoice, kFile, kJob };

  std::vector<std::string> names;  // with their dashes: "-k", "--topk"; the one name of an argument: "FILE"
  std::string help;
  std::string fallback;  // as the help shows it; empty: no default
  Value value = Value::kNone;
  std::vector<std::string> choices;  // kChoice
  bool is_required = false;
};

struct VerbModel {
  std::string name;
  std::string help;
  std::string footer;
  std::vector<OptionModel> arguments;
  std::vector<OptionModel> options;
};

struct CliModel {
  std::string name;
  std::string help;
  std::string footer;
  std::vector<OptionModel> options;
  std::vector<VerbModel> verbs;  // without hidden ones
};

// The choices in "TEXT:{csv,api}".
std::vector<std::string> ChoicesIn(const std::string& type) {
  const size_t begin = type.find('{'), end = type.rfind('}');
  std::vector<std::string> choices;
  if (begin == std::string::npos || end == std::string::npos || end < begin) return choices;
  std::istringstream list(type.substr(begin + 1, end - begin - 1));
  for (std::string choice; std::getline(list, choice, ',');) choices.push_back(choice);
  return choices;
}

OptionModel::Value ValueOf(const OptionModel& option, const std::string& type) {
  const std::string& name = option.names.back();
  if (!option.choices.empty()) return OptionModel::Value::kChoice;
  if (name == "JOB" || name == "--job") return OptionModel::Value::kJob;
  if (type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT"))
    return OptionModel::Value::kNumber;
  const bool names_file = name == "FILE" || option.help.find("director") != std::string::npos ||
                          option.help.find("json") != std::string::npos ||
                          option.help.find("file") != std::string::npos;
  return names_file ? OptionModel::Value::kFile : OptionModel::Value::kAny;
}

OptionModel ModelOfOption(const CLI::Option& option) {
  OptionModel model;
  if (option.get_positional()) {
    model.names.push_back(option.get_name(true));
  } else {
    for (const std::string& name : option.get_snames()) model.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) model.names.push_back("--" + name);
  }
  model.help = option.get_description();
  model.fallback = option.get_default_str();
  model.is_required = option.get_required();
  if (option.get_items_expected_max() == 0) return model;
  model.choices = ChoicesIn(option.get_type_name());
  model.value = ValueOf(model, option.get_type_name());
  return model;
}

void AddOptions(const CLI::App& app, std::vector<OptionModel>* arguments, std::vector<OptionModel>* options) {
  for (const CLI::Option* option : app.get_options())
    (option->get_positional() ? arguments : options)->push_back(ModelOfOption(*option));
}

CliModel ModelOf(const CLI::App& app, const std::string& name) {
  CliModel model{name, app.get_description(), app.get_footer(), {}, {}};
  std::vector<OptionModel> none;
  AddOptions(app, &none, &model.options);
  for (const CLI::App* each : app.get_subcommands({})) {
    if (each->get_group().empty()) continue;
    VerbModel verb{each->get_name(), each->get_description(), each->get_footer(), {}, {}};
    AddOptions(*each, &verb.arguments, &verb.options);
    model.verbs.push_back(std::move(verb));
  }
  return model;
}

// --- completion ---

// The verb that prints the names of running jobs for the scripts, one per line.
inline constexpr const char* kJobNamesVerb = "job-names";

using OptionValue = OptionModel::Value;

std::string NamesOf(const std::vector<OptionModel>& options) {
  std::vector<std::string> names;
  for (const OptionModel& option : options) names.insert(names.end(), option.names.begin(), option.names.end());
  return base::Joined(names, " ");
}

// Quotes the text for a shell, in single quotes. `escape`: additional characters that get a backslash.
std::string Quoted(const std::string& text, const std::string& escape = "") {
  std::string quoted;
  for (const char c : text) {
    if (c == '\'')
      quoted += "'\\''";
    else if (escape.find(c) != std::string::npos)
      quoted += std::string("\\") + c;
    else
      quoted += c == '\n' ? ' ' : c;
  }
  return quoted;
}

// --- bash ---

std::string BashWords(const OptionModel& option) {
  const std::string jobs = std::string("$(\"${COMP_WORDS[0]}\" ") + kJobNamesVerb + " 2>/dev/null)";
  switch (option.value) {
    case OptionValue::kChoice: return "compgen -W '" + base::Joined(option.choices, " ") + "' -- \"$cur\"";
    case OptionValue::kJob: return "compgen -W \"" + jobs + "\" -- \"$cur\"; compgen -f -- \"$cur\"";
    case OptionValue::kFile: return "compgen -f -- \"$cur\"";
    case OptionValue::kAny:
    case OptionValue::kNumber:
    case OptionValue::kNone: break;
  }
  return ":";
}

std::string BashPattern(const VerbModel& verb, const OptionModel& option) {
  return fmt::format("{}/{}", verb.name, fmt::join(option.names, "|" + verb.name + "/"));
}

std::string BashVerb(const VerbModel& verb) {
  std::string text = "    " + verb.name + "/-*) options='" + NamesOf(verb.options) + "' ;;\n";
  return verb.arguments.empty()
             ? text
             : text + "    " + verb.name + "/*) words=$(" + BashWords(verb.arguments.front()) + ") ;;\n";
}

// --- zsh ---

std::string ZshAction(const OptionModel& option) {
  switch (option.value) {
    case OptionValue::kChoice: return "(" + base::Joined(option.choices, " ") + ")";
    case OptionValue::kJob: return "_stepwatch_jobs";
    case OptionValue::kFile: return "_files";
    case OptionValue::kAny:
    case OptionValue::kNumber:
    case OptionValue::kNone: break;
  }
  return " ";
}

std::string ZshOption(const OptionModel& option) {
  std::string text;
  const std::string what = Quoted(option.help, "[]:\\");
  for (const std::string& name : option.names) {
    text += " \\\n        '" + name + "[" + what + "]";
    text += option.value == OptionValue::kNone ? "'" : ":value:" + Quoted(ZshAction(option)) + "'";
  }
  return text;
}

// --- fish ---

std::string FishNames(const OptionModel& option) {
  std::string names;
  for (const std::string& name : option.names)
    names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  return names;
}

std::string FishValue(const OptionModel& option, const std::string& program) {
  switch (option.value) {
    case OptionValue::kNone: return "";
    case OptionValue::kChoice: return " -x -a '" + base::Joined(option.choices, " ") + "'";
    case OptionValue::kJob: return " -r -a '(" + program + " " + kJobNamesVerb + " 2>/dev/null)'";
    case OptionValue::kFile: return " -r -F";
    case OptionValue::kAny:
    case OptionValue::kNumber: break;
  }
  return " -x";
}

std::string FishLine(const std::string& program, const std::string& condition, const std::string& rest,
                     const std::string& what) {
  return fmt::format("complete -c {} -n '{}'{} -d '{}'\n", program, condition, rest, Quoted(what, "\\"));
}

std::string BashCompletion(const CliModel& app) {
  std::vector<std::string> verbs;
  std::string values, by_verb;
  for (const VerbModel& verb : app.verbs) {
    verbs.push_back(verb.name);
    for (const OptionModel& option : verb.options)
      if (option.value != OptionValue::kNone)
        values += "    " + BashPattern(verb, option) + ") words=$(" + BashWords(option) + ") ;;\n";
    by_verb += BashVerb(verb);
  }
  std::string text = R"(# Completes {program} in bash.
_stepwatch() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev= verb= words= options= word
  ((COMP_CWORD > 0)) && prev=${COMP_WORDS[COMP_CWORD - 1]}
  # bash takes --option=value for three words.
  if [[ $cur == = ]]; then
    cur=
  elif [[ $prev == = ]]; then
    prev=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ $word == -* ]] && continue
    verb=$word
    break
  done
  COMPREPLY=()
  if [[ -z $verb ]]; then
    mapfile -t COMPREPLY < <(compgen -W '{verbs} {options}' -- "$cur")
    return
  fi
  case $verb/$prev in
{values}    *)
      case $verb/$cur in
{by_verb}      esac
      ;;
  esac
  [[ -n $options ]] && words=$(compgen -W "$options" -- "$cur")
  [[ -n $words ]] && mapfile -t COMPREPLY <<< "$words"
}
complete -o filenames -F _stepwatch {program}
)";
  for (const auto& [mark, made] : {std::pair<std::string, std::string>{"{program}", app.name},
                                   {"{verbs}", base::Joined(verbs, " ")},
                                   {"{options}", NamesOf(app.options)},
                                   {"{values}", values},
                                   {"{by_verb}", by_verb}})
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + made.size()))
      text.replace(at, mark.size(), made);
  return text;
}

std::string ZshCompletion(const CliModel& app) {
  std::string text = "#compdef " + app.name + "\n# Completes " + app.name +
                     " in zsh.\n_stepwatch_jobs() {\n  local -a jobs=(${(f)\"$(" + app.name + " " + kJobNamesVerb +
                     " 2>/dev/null)\"})\n  compadd -a jobs\n  _files\n}\n\n_stepwatch() {\n  local -a verbs=(\n";
  for (const VerbModel& verb : app.verbs) text += "    '" + verb.name + ":" + Quoted(verb.help, ":\\") + "'\n";
  text +=
      "  )\n  if ((CURRENT == 2)); then\n    _describe verb verbs\n    return\n  fi\n  shift words\n"
      "  ((CURRENT--))\n  case $words[1] in\n";
  for (const VerbModel& verb : app.verbs) {
    text += "    " + verb.name + ")\n      _arguments";
    for (const OptionModel& option : verb.options) text += ZshOption(option);
    for (const OptionModel& argument : verb.arguments)
      text += " \\\n        '" + std::string(argument.is_required ? ":" : "::") + argument.names.front() + ":" +
              Quoted(ZshAction(argument)) + "'";
    text += "\n      ;;\n";
  }
  return text +
         "  esac\n}\n\nif [[ $funcstack[1] == _stepwatch ]]; then\n  _stepwatch \"$@\"\nelse\n  compdef _stepwatch " +
         app.name + "\nfi\n";
}

std::string FishCompletion(const CliModel& app) {
  const std::string no_verb = "__fish_use_subcommand";
  std::string text = "# Completes " + app.name + " in fish.\ncomplete -c " + app.name + " -f\n";
  for (const OptionModel& option : app.options) {
    text += FishLine(app.name, no_verb, FishNames(option), option.help);
  }
  for (const VerbModel& verb : app.verbs) {
    text += FishLine(app.name, no_verb, " -a " + verb.name, verb.help);
    const std::string in_verb = "__fish_seen_subcommand_from " + verb.name;
    for (const OptionModel& option : verb.options) {
      text += FishLine(app.name, in_verb, FishNames(option) + FishValue(option, app.name), option.help);
    }
    for (const OptionModel& argument : verb.arguments) {
      std::string value = FishValue(argument, app.name);
      if (argument.value == OptionValue::kJob) value += " -F";
      text += FishLine(app.name, in_verb, value, argument.help);
    }
  }
  return text;
}

// --- manual pages: troff, with the macros of man(7) ---

std::string Upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

// Returns the text as troff, without requests, escapes and typographic dashes.
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

std::string ValueName(const OptionModel& option) {
  using Value = OptionModel::Value;
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

std::string OptionEntry(const OptionModel& option, bool is_argument) {
  std::vector<std::string> marked;
  for (const std::string& name : option.names) marked.push_back(is_argument ? Italic(name) : Bold(name));
  std::string names = base::Joined(marked, ", ");
  if (const std::string value = ValueName(option); !is_argument && !value.empty()) names += " " + Italic(value);
  std::string text = ".TP\n" + names + "\n" + Escaped(option.help) + "\n";
  std::string notes = option.choices.empty() ? "" : "One of " + base::Joined(option.choices, ", ");
  if (!option.fallback.empty()) notes += (notes.empty() ? "Default: " : "; default: ") + option.fallback;
  if (!notes.empty()) text += ".br\n" + Escaped(notes) + ".\n";
  return text;
}

std::string OptionsSection(const std::vector<OptionModel>& arguments, const std::vector<OptionModel>& options) {
  std::string text;
  for (const OptionModel& argument : arguments) text += OptionEntry(argument, true);
  for (const OptionModel& option : options) text += OptionEntry(option, false);
  return text.empty() ? text : ".SH OPTIONS\n" + text;
}

// The lines unchanged: examples, keys and exit codes.
std::string NotesSection(const std::string& footer) {
  if (footer.empty()) return footer;
  std::istringstream lines(footer);
  std::string text = ".SH NOTES\n.nf\n";
  for (std::string line; std::getline(lines, line);) text += line.empty() ? ".sp\n" : Escaped(line) + "\n";
  return text + ".fi\n";
}

std::string ManualOfApp(const CliModel& app, const std::string& version) {
  std::string text = ManualHeader(app.name, app.help, version) + ".SH SYNOPSIS\n" + Bold(app.name) + " " +
                     Italic("VERB") + " [" + Italic("OPTIONS") + "]\n.SH VERBS\n";
  for (const VerbModel& verb : app.verbs)
    text += ".TP\n" + Bold(verb.name) + "\n" + Escaped(verb.help) + ".\n.br\nSee " + Bold(app.name + "-" + verb.name) +
            "(1).\n";
  return text + OptionsSection({}, app.options) + NotesSection(app.footer);
}

std::string ManualOfVerb(const CliModel& app, const VerbModel& verb, const std::string& version) {
  std::string text = ManualHeader(app.name + "-" + verb.name, verb.help, version) + ".SH SYNOPSIS\n" +
                     Bold(app.name + " " + verb.name) + " [" + Italic("OPTIONS") + "]";
  for (const OptionModel& argument : verb.arguments)
    text += argument.is_required ? " " + Italic(argument.names.front()) : " [" + Italic(argument.names.front()) + "]";
  return text + "\n" + OptionsSection(verb.arguments, verb.options) + NotesSection(verb.footer) + ".SH SEE ALSO\n" +
         Bold(app.name) + "(1)\n";
}

// --- the verbs ---

constexpr const char* kProgram = "stepwatch";

std::string CompletionFor(const CLI::App& app, const std::string& shell) {
  const CliModel model = ModelOf(app, kProgram);
  return shell == "bash" ? BashCompletion(model) : shell == "zsh" ? ZshCompletion(model) : FishCompletion(model);
}

int FailWriting(const Status& status) {
  base::Print(stderr, "stepwatch: %s\n", status.message().c_str());
  return kExitDegraded;
}

// stepwatch.1, stepwatch-top.1, ...
int WriteManuals(const CliModel& model, const std::string& directory) {
  Status status = base::MakeDirectories(directory);
  const auto write = [&](const std::string& name, const std::string& text) {
    if (status.ok()) status = base::ReplaceFile(base::JoinPath(directory, name + ".1"), text);
  };
  write(model.name, ManualOfApp(model, kVersion));
  for (const VerbModel& verb : model.verbs) write(model.name + "-" + verb.name, ManualOfVerb(model, verb, kVersion));
  return status.ok() ? kExitDone : FailWriting(status);
}

int PrintManual(const CliModel& model, const std::string& name) {
  if (name.empty()) {
    base::Print(stdout, "%s", ManualOfApp(model, kVersion).c_str());
    return kExitDone;
  }
  for (const VerbModel& verb : model.verbs) {
    if (verb.name != name) continue;
    base::Print(stdout, "%s", ManualOfVerb(model, verb, kVersion).c_str());
    return kExitDone;
  }
  base::Print(stderr, "stepwatch: unknown verb \"%s\"; stepwatch --help lists all verbs\n", name.c_str());
  return kExitInvalid;
}

}  // namespace

void AddTextVerbs(CLI::App* app, int* exit_code) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* completion = app->add_subcommand("completion", "Print the completion script of a shell");
  completion->add_option("SHELL", *shell, "name of the shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->footer(
      "Examples:\n"
      "  source <(stepwatch completion bash)\n"
      "  stepwatch completion zsh > ~/.zfunc/_stepwatch\n"
      "  stepwatch completion fish > ~/.config/fish/completions/stepwatch.fish");
  completion->callback([=] {
    base::Print(stdout, "%s", CompletionFor(*app, *shell).c_str());
    *exit_code = kExitDone;
  });

  const auto verb = std::make_shared<std::string>();
  const auto directory = std::make_shared<std::string>();
  CLI::App* manual = app->add_subcommand("manual", "Print a manual page, or write all of them");
  manual->add_option("VERB", *verb, "verb of the page (default: the page of stepwatch)");
  manual->add_option("--to", *directory, "write the pages of all verbs into this directory instead");
  manual->footer(
      "Examples:\n"
      "  stepwatch manual top | man -l -\n"
      "  stepwatch manual --to ~/.local/share/man/man1");
  manual->callback([=] {
    const CliModel model = ModelOf(*app, kProgram);
    *exit_code = directory->empty() ? PrintManual(model, *verb) : WriteManuals(model, *directory);
  });

  CLI::App* names = app->add_subcommand(kJobNamesVerb, "Print the names of the running jobs, for completion");
  names->group("");
  names->callback([=] {
    for (const control_socket::FoundJob& job : AllJobs()) base::Print(stdout, "%s\n", job.name.c_str());
    *exit_code = kExitDone;
  });
}

}  // namespace stepwatch::cli
