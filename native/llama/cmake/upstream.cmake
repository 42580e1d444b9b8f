# Takes the parts of llama.cpp that are needed through their own CMake files, so that their lists of sources stay
# upstream's. What those files expect from llama.cpp's root is defined here.

# Warnings and sanitizers of llama.cpp's developers.
function(llama_add_compile_flags)
endfunction()

# Collects licence texts for its `--license`; the engine directory carries them as a file.
function(license_add_file)
endfunction()

# ggml's own function of this name also maintains its list of backends. A backend that is loaded at run time is a
# module that exports ggml_backend_init.
function(ggml_add_backend_library name)
  add_library(${name} MODULE ${ARGN})
  target_compile_definitions(${name} PRIVATE GGML_BACKEND_DL GGML_BACKEND_BUILD GGML_BACKEND_SHARED)
  target_include_directories(${name} PRIVATE "${LLAMA_SOURCE_DIR}/ggml/src")
  target_link_libraries(${name} PRIVATE ggml-base Threads::Threads)
  if(WIN32)
    set_target_properties(${name} PROPERTIES PREFIX "")
  endif()
endfunction()

# Between machines RPC goes through tunnels; a dependency on RDMA libraries would only tie the module to this
# machine.
set(RDMA_LIB RDMA_LIB-NOTFOUND CACHE FILEPATH "" FORCE)
set(GGML_RPC_RDMA OFF CACHE BOOL "" FORCE)
# Video would start an ffmpeg found in PATH.
set(MTMD_VIDEO OFF CACHE BOOL "" FORCE)
set(LLAMA_SUBPROCESS ON)
# Models are downloaded by the application.
set(LLAMA_OPENSSL OFF)

foreach(part vendor/hash vendor/miniaudio vendor/nlohmann vendor/sheredom vendor/stb vendor/cpp-httplib
             ggml/src/ggml-rpc tools/rpc tools/mtmd tools/server)
  string(REPLACE "/" "-" binary_part "${part}")
  add_subdirectory("${LLAMA_SOURCE_DIR}/${part}" "llama.cpp/${binary_part}")
endforeach()

# What `--version` and the answers' fingerprint say. It is a static part of llama-common, which exports it on some
# systems only.
set(LLAMA_BUILD_NUMBER 0)
set(LLAMA_BUILD_COMMIT "${LLAMA_SOURCE_COMMIT}")
set(BUILD_COMPILER "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
set(BUILD_TARGET "${CMAKE_SYSTEM_NAME} ${CMAKE_SYSTEM_PROCESSOR}")
configure_file("${LLAMA_SOURCE_DIR}/common/build-info.cpp.in" "${CMAKE_BINARY_DIR}/build-info.cpp" @ONLY)
add_library(llama-common-base STATIC "${CMAKE_BINARY_DIR}/build-info.cpp")
target_include_directories(llama-common-base PUBLIC "${LLAMA_SOURCE_DIR}/common")
target_link_libraries(server-context PUBLIC llama-common-base)

# The web interface, without any file in it: llama.cpp's own generator writes the empty table.
set(ui_directory "${CMAKE_BINARY_DIR}/ui")
file(MAKE_DIRECTORY "${ui_directory}")
add_executable(llama-ui-embed EXCLUDE_FROM_ALL "${LLAMA_SOURCE_DIR}/tools/ui/embed.cpp")
set_target_properties(llama-ui-embed PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${ui_directory}")
add_custom_command(
  OUTPUT "${ui_directory}/ui.cpp" "${ui_directory}/ui.h"
  COMMAND llama-ui-embed "${ui_directory}/ui.cpp" "${ui_directory}/ui.h"
  DEPENDS llama-ui-embed
  VERBATIM)
add_library(llama-ui STATIC "${ui_directory}/ui.cpp" "${ui_directory}/ui.h")
target_include_directories(llama-ui PUBLIC "${ui_directory}")
