# Writes the texts of TEMPLATES, files of the directory FROM, as raw strings into the C++ file TO.
set(code "#include \"operations/provision/templates.h\"\n\nnamespace stepwatch::operations {\n\n")
string(APPEND code "const std::vector<Template>& Templates() {\n  static const std::vector<Template> kTemplates = {\n")
foreach(name IN LISTS TEMPLATES)
  file(READ "${FROM}/${name}" text)
  string(APPEND code "      {\"${name}\", R\"text(${text})text\"},\n")
endforeach()
string(APPEND code "  };\n  return kTemplates;\n}\n\n}  // namespace stepwatch::operations\n")
file(WRITE "${TO}" "${code}")
