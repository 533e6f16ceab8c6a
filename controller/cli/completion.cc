#include "controller/cli/completion.h"

#include <fmt/format.h>

#include "src/base/text.h"

namespace stepwatch::cli {
namespace {

using OptionValue = OptionWords::Value;

std::string NamesOf(const std::vector<OptionWords>& options) {
  std::string names;
  for (const OptionWords& option : options) names += (names.empty() ? "" : " ") + base::Joined(option.names, " ");
  return names;
}

// Within single quotes of a shell. `escape`: characters that get a backslash besides.
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

std::string BashWords(const OptionWords& option) {
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

std::string BashPattern(const VerbWords& verb, const OptionWords& option) {
  std::string pattern;
  for (const std::string& name : option.names) pattern += (pattern.empty() ? "" : "|") + verb.name + "/" + name;
  return pattern;
}

std::string BashVerb(const VerbWords& verb) {
  std::string text = "    " + verb.name + "/-*) options='" + NamesOf(verb.options) + "' ;;\n";
  return verb.arguments.empty()
             ? text
             : text + "    " + verb.name + "/*) words=$(" + BashWords(verb.arguments.front()) + ") ;;\n";
}

// --- zsh ---

std::string ZshAction(const OptionWords& option) {
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

std::string ZshOption(const OptionWords& option) {
  std::string text;
  const std::string what = Quoted(option.what, "[]:\\");
  for (const std::string& name : option.names) {
    text += " \\\n        '" + name + "[" + what + "]";
    text += option.value == OptionValue::kNone ? "'" : ":value:" + Quoted(ZshAction(option)) + "'";
  }
  return text;
}

// --- fish ---

std::string FishName(const std::string& name) {
  return name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
}

std::string FishValue(const OptionWords& option, const std::string& program) {
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

}  // namespace

std::string BashCompletion(const AppWords& app) {
  std::string verbs, values, by_verb;
  for (const VerbWords& verb : app.verbs) {
    verbs += (verbs.empty() ? "" : " ") + verb.name;
    for (const OptionWords& option : verb.options)
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
                                   {"{verbs}", verbs},
                                   {"{options}", NamesOf(app.options)},
                                   {"{values}", values},
                                   {"{by_verb}", by_verb}})
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + made.size()))
      text.replace(at, mark.size(), made);
  return text;
}

std::string ZshCompletion(const AppWords& app) {
  std::string text = "#compdef " + app.name + "\n# Completes " + app.name +
                     " in zsh.\n_stepwatch_jobs() {\n  local -a jobs=(${(f)\"$(" + app.name + " " + kJobNamesVerb +
                     " 2>/dev/null)\"})\n  compadd -a jobs\n  _files\n}\n\n_stepwatch() {\n  local -a verbs=(\n";
  for (const VerbWords& verb : app.verbs) text += "    '" + verb.name + ":" + Quoted(verb.what, ":\\") + "'\n";
  text +=
      "  )\n  if ((CURRENT == 2)); then\n    _describe verb verbs\n    return\n  fi\n  shift words\n"
      "  ((CURRENT--))\n  case $words[1] in\n";
  for (const VerbWords& verb : app.verbs) {
    text += "    " + verb.name + ")\n      _arguments";
    for (const OptionWords& option : verb.options) text += ZshOption(option);
    for (const OptionWords& argument : verb.arguments)
      text += " \\\n        '" + std::string(argument.is_required ? ":" : "::") + argument.names.front() + ":" +
              Quoted(ZshAction(argument)) + "'";
    text += "\n      ;;\n";
  }
  return text +
         "  esac\n}\n\nif [[ $funcstack[1] == _stepwatch ]]; then\n  _stepwatch \"$@\"\nelse\n  compdef _stepwatch " +
         app.name + "\nfi\n";
}

std::string FishCompletion(const AppWords& app) {
  const std::string no_verb = "__fish_use_subcommand";
  std::string text = "# Completes " + app.name + " in fish.\ncomplete -c " + app.name + " -f\n";
  for (const OptionWords& option : app.options) {
    std::string names;
    for (const std::string& name : option.names) names += FishName(name);
    text += FishLine(app.name, no_verb, names, option.what);
  }
  for (const VerbWords& verb : app.verbs) {
    text += FishLine(app.name, no_verb, " -a " + verb.name, verb.what);
    const std::string in_verb = "__fish_seen_subcommand_from " + verb.name;
    for (const OptionWords& option : verb.options) {
      std::string names;
      for (const std::string& name : option.names) names += FishName(name);
      text += FishLine(app.name, in_verb, names + FishValue(option, app.name), option.what);
    }
    for (const OptionWords& argument : verb.arguments) {
      std::string value = FishValue(argument, app.name);
      if (argument.value == OptionValue::kJob) value += " -F";
      text += FishLine(app.name, in_verb, value, argument.what);
    }
  }
  return text;
}

}  // namespace stepwatch::cli
