// Manual pages (troff, of the macros man(7)) from the words of a command line.
#pragma once

#include <string>

#include "controller/cli/app_words.h"

namespace stepwatch::cli {

// stepwatch(1): the verbs and what they have in common.
std::string ManualOfApp(const AppWords& app, const std::string& version);
// stepwatch-top(1)
std::string ManualOfVerb(const AppWords& app, const VerbWords& verb, const std::string& version);

}  // namespace stepwatch::cli
