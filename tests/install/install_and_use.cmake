# Installs the build tree BUILD under WORK, and builds and runs the project STRANGER with what was installed. With
# TORCH=ON its program for LibTorch as well, which takes a minute.

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --component cpp --prefix ${WORK}/prefix)
set(prefixes ${WORK}/prefix ${TORCH_PREFIX})
run(${CMAKE_COMMAND} -G Ninja -S ${STRANGER} -B ${WORK}/build "-DCMAKE_PREFIX_PATH=${prefixes}" -DTORCH=${TORCH}
    -DCMAKE_CXX_COMPILER=${COMPILER} "-DCMAKE_CXX_FLAGS=${FLAGS}")
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/core)
