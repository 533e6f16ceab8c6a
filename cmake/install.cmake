# `cmake --install BUILD --component cpp`: headers, static libraries and a CMake package, so that another project calls
# find_package(stepwatch) and links stepwatch::stepwatch (the core) or stepwatch::torch (the LibTorch front end).

include(CMakePackageConfigHelpers)

# The executable of the command line is also called stepwatch.
add_library(stepwatch_core INTERFACE)
set_target_properties(stepwatch_core PROPERTIES EXPORT_NAME stepwatch)
target_compile_features(stepwatch_core INTERFACE cxx_std_17)
target_link_libraries(stepwatch_core INTERFACE sw_api sw_offline sw_vocabulary)

# stepwatch_closure(result target …): the project's targets that these link, themselves included.
function(stepwatch_closure result)
  set(open ${ARGN})
  set(closed)
  while(open)
    list(POP_FRONT open target)
    if(target IN_LIST closed)
      continue()
    endif()
    list(APPEND closed ${target})
    get_target_property(links ${target} INTERFACE_LINK_LIBRARIES)
    foreach(link IN LISTS links)
      if(link MATCHES "^(sw|stepwatch)_[a-z_]+$")
        list(APPEND open ${link})
      endif()
    endforeach()
  endwhile()
  set(${result} ${closed} PARENT_SCOPE)
endfunction()

set(stepwatch_package ${CMAKE_INSTALL_LIBDIR}/cmake/stepwatch)
stepwatch_closure(core stepwatch_core)
install(TARGETS ${core} EXPORT stepwatch ARCHIVE COMPONENT cpp LIBRARY COMPONENT cpp)
install(EXPORT stepwatch NAMESPACE stepwatch:: DESTINATION ${stepwatch_package} FILE stepwatchTargets.cmake
  COMPONENT cpp)

if(TARGET stepwatch_torch)
  stepwatch_closure(torch stepwatch_torch)
  list(REMOVE_ITEM torch ${core})
  set_target_properties(stepwatch_torch PROPERTIES EXPORT_NAME torch)
  install(TARGETS ${torch} EXPORT stepwatch_torch ARCHIVE COMPONENT cpp LIBRARY COMPONENT cpp)
  install(EXPORT stepwatch_torch NAMESPACE stepwatch:: DESTINATION ${stepwatch_package} FILE stepwatchTorchTargets.cmake
    COMPONENT cpp)
endif()

install(TARGETS stepwatch stepwatchd RUNTIME COMPONENT cpp)
# The program itself prints manual pages and completion.
install(CODE "
  set(stepwatch_share \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share\")
  execute_process(COMMAND \"$<TARGET_FILE:stepwatch>\" manual --to \"\${stepwatch_share}/man/man1\"
                  COMMAND_ERROR_IS_FATAL ANY)
  foreach(shell_and_file bash=bash-completion/completions/stepwatch zsh=zsh/site-functions/_stepwatch
                         fish=fish/vendor_completions.d/stepwatch.fish)
    string(REPLACE = \";\" shell_and_file \"\${shell_and_file}\")
    list(GET shell_and_file 0 shell)
    list(GET shell_and_file 1 file)
    get_filename_component(folder \"\${stepwatch_share}/\${file}\" DIRECTORY)
    file(MAKE_DIRECTORY \"\${folder}\")
    execute_process(COMMAND \"$<TARGET_FILE:stepwatch>\" completion \"\${shell}\"
                    OUTPUT_FILE \"\${stepwatch_share}/\${file}\" COMMAND_ERROR_IS_FATAL ANY)
  endforeach()" COMPONENT cpp)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/stepwatch DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT cpp)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/stepwatchConfig.cmake.in
  ${PROJECT_BINARY_DIR}/stepwatchConfig.cmake INSTALL_DESTINATION ${stepwatch_package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/stepwatchConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/stepwatchConfig.cmake ${PROJECT_BINARY_DIR}/stepwatchConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/re2.cmake DESTINATION ${stepwatch_package} COMPONENT cpp)
