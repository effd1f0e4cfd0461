# Text files as string literals of a C++ source: cmake -DFILES=a;b -DNAMESPACE=n -DOUTPUT=x.cc -P EmbedText.cmake
# The file page.css becomes `const std::string_view page_css`.
set(_source "#include <string_view>\n\nnamespace ${NAMESPACE} {\n\n")
foreach(_file IN LISTS FILES)
  get_filename_component(_name ${_file} NAME)
  string(MAKE_C_IDENTIFIER ${_name} _name)
  file(READ ${_file} _text)
  string(FIND "${_text}" ")embedded\"" _end)
  if(NOT _end EQUAL -1)
    message(FATAL_ERROR "${_file}: holds the end of a C++ string literal")
  endif()
  string(APPEND _source "extern const std::string_view ${_name};\n"
    "const std::string_view ${_name} = R\"embedded(${_text})embedded\";\n\n")
endforeach()
file(WRITE ${OUTPUT} "${_source}}  // namespace ${NAMESPACE}\n")
