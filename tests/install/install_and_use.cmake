# Installs the build tree BUILD under WORK, and builds and runs the project STRANGER with what was installed; with
# TORCH=ON its program for LibTorch as well.

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --component cpp --prefix ${WORK}/prefix)
set(ENV{CMAKE_PREFIX_PATH} ${WORK}/prefix:${TORCH_PREFIX})
run(${CMAKE_COMMAND} -G Ninja -S ${STRANGER} -B ${WORK}/build -DTORCH=${TORCH}
    -DCMAKE_CXX_COMPILER=${COMPILER} "-DCMAKE_CXX_FLAGS=${FLAGS}")
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/core)
foreach(file man/man1/stepwatch.1 man/man1/stepwatch-top.1 bash-completion/completions/stepwatch
             zsh/site-functions/_stepwatch fish/vendor_completions.d/stepwatch.fish)
  if(NOT EXISTS ${WORK}/prefix/share/${file})
    message(FATAL_ERROR "${file} was not installed")
  endif()
endforeach()
if(TORCH)
  file(WRITE ${WORK}/config.json [[{"targets": {}, "wg_distribution": true, "ops": ["norm"]}]])
  run(${WORK}/build/training WORKING_DIRECTORY ${WORK})
  file(GLOB rows ${WORK}/monitor_output/*/grad_reduced_0-0.csv)
  if(NOT rows)
    message(FATAL_ERROR "the program trained, and no rows are below ${WORK}/monitor_output")
  endif()
endif()
